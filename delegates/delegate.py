"""What an author of a backend writes: `Delegate`, and `Requirement` for what it wants of its arguments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["READ", "WRITE", "Delegate", "Requirement"]

READ = 1
WRITE = 2


@dataclass(frozen=True)
class Requirement:
    """What a delegate wants of one argument. What the plan cannot give, a counted copy gives.

    Parameters
    ----------
    alignment : int
        Of the address, a power of two, bytes; 0 for no wish.
    size_multiple : int
        The memory ends at a multiple of this from its address, bytes; 0 for no wish. Asked of memory of the CPU alone.
    row_pitch : int
        Rows (the innermost dimension) begin at multiples of this from the address, bytes; 0 for no wish.
    devices : int
        Bit ``1 << type`` for each device type below 64 that the delegate takes; 0 for the CPU alone.
    planned : bool
        A tensor on the CPU lies in memory of the plan, the part of the arena that belongs to the running method. Not
        asked for where there is no plan.
    access : int
        ``READ`` (1), ``WRITE`` (2) or both (3, the default): what has to be copied, and where to, if something has to.
    """

    alignment: int = 0
    size_multiple: int = 0
    row_pitch: int = 0
    devices: int = 0
    access: int = READ | WRITE
    planned: bool = False


class Delegate:
    """Base class of backends written in Python: one object for each delegate of each loaded method.

    Derive from it, define `execute`, and make it known with `etarena.register_delegate`. Objects are made without
    arguments. Calls on one object never overlap; those on different objects may come from different threads.
    An exception in a method ends the call of the model with a `RuntimeFailure` whose ``__cause__`` it is.
    """

    def init(self, blob: memoryview, specs: dict[str, bytes]) -> None:
        """Prepare for calls.

        Parameters
        ----------
        blob
            The bytes that the backend's ``preprocess`` made; read-only, valid as long as a view of them is held.
        specs
            The compile specs of the partitioner.
        """

    def scratch_bytes(self, shapes: Sequence[Any]) -> int:
        """Say how many bytes of scratch a call needs; asked when a plan is made. None by default.

        Parameters
        ----------
        shapes
            For each argument, inputs first: a tuple of sizes for a tensor, the number itself for a number.
        """
        return 0

    def output_shapes(self, shapes: Sequence[Any]) -> Sequence[Sequence[int]]:
        """Say the shapes of the outputs, which are the last arguments; optional.

        With a plan they must be the plan's, or planning fails. In files with upper bounds the outputs get these sizes.

        Parameters
        ----------
        shapes
            As for `scratch_bytes`; those of the outputs as they are so far.
        """
        raise NotImplementedError

    def requirements(self, shapes: Sequence[Any]) -> Sequence[Requirement | None]:
        """Say what is wanted of the arguments, in their order; asked once after `init`. Nothing by default.

        Parameters
        ----------
        shapes
            As for `scratch_bytes`; a size that differs from call to call may be -1.
        """
        return ()

    def execute(self, args: Sequence[Any], scratch: memoryview) -> None:
        """Compute the outputs from the inputs.

        Parameters
        ----------
        args
            Inputs, then outputs: tensors (`numpy.asarray` makes an array of one, without a copy) and numbers. Valid
            during the call alone: a view of one that is still held afterwards is an error.
        scratch
            Exactly as many writable bytes as asked for, with garbage in them; valid during the call alone.
        """
        raise NotImplementedError

    def close(self) -> None:
        """Give back what `init` took; the last call."""
