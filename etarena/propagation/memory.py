"""What a method needs at certain sizes, by device: the answer of every way to predict it."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["MethodMemory", "RegionMemory"]


@dataclass(frozen=True)
class RegionMemory:
    """What a method needs on one device while it runs.

    Attributes
    ----------
    device : str
        Its name.
    peak : int
        Bytes of the activations there: of the planned region of a program, of what is held at one operator in eager
        PyTorch.
    lower_bound : int
        Largest sum of bytes live at one instruction.
    parameter_bytes : int, optional
        Bytes of parameters and buffers there; None for a program, which has them in its file.
    """

    device: str
    peak: int
    lower_bound: int
    parameter_bytes: int | None = None


@dataclass(frozen=True)
class MethodMemory:
    """What one method needs at certain sizes.

    Attributes
    ----------
    method : str
        Its name.
    sizes : dict of str to int
        Number of each symbol.
    regions : tuple of RegionMemory
        One for each device; of a program the arena's activation region first.
    input_bytes : int
        Bytes of inputs.
    output_bytes, state_bytes : int, optional
        Bytes of results and mutable buffers of a program, which lie outside the regions. None for eager PyTorch, where
        results are activations, and mutable buffers count as parameters.
    left_out : tuple of str
        What is not counted, because only the runtime knows it: scratch of delegates.
    """

    method: str
    sizes: dict[str, int]
    regions: tuple[RegionMemory, ...]
    input_bytes: int = 0
    output_bytes: int | None = None
    state_bytes: int | None = None
    left_out: tuple[str, ...] = ()

    @property
    def peak(self) -> int:
        """Bytes of the first region."""
        return self.regions[0].peak if self.regions else 0
