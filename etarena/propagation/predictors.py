"""Ways to predict the memory of a model at sizes nobody has run, by what is known of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from ..allocator.errors import DeviceError, InputError, RuntimeFailure
from .memory import MethodMemory, RegionMemory
from .sections import SectionEstimator, sections_of

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence

    from .result import Propagation

__all__ = ["EagerPredictor", "LoadedPredictor", "Predictor", "program_predictors"]


class Predictor(Protocol):
    """Predicts one method."""

    @property
    def name(self) -> str:
        """The method."""

    @property
    def symbols(self) -> list[str]:
        """Names of the sizes that vary."""

    def sizes_for(self, shapes: Sequence[Any] | Mapping[str, Any]) -> dict[str, int]:
        """Numbers of symbols that shapes of the inputs give."""

    def memory(self, sizes: Mapping[str, int]) -> MethodMemory:
        """What the method needs for numbers of its symbols."""


class LoadedPredictor(SectionEstimator):
    """Predicts a method whose delegates or data have a say, with the plan of the loaded method; nothing is executed.

    Parameters
    ----------
    method : PlannedMethod
        As `Program.method` gives it.
    """

    def __init__(self, method: Any) -> None:
        super().__init__(method.section)
        self._method = method

    def memory(self, sizes: Mapping[str, int]) -> MethodMemory:
        """Plan as a run would; see `SectionEstimator.memory`."""
        alone = super().memory(sizes)
        told = {name: alone.sizes[name] for name in self.told}
        found = self._method.plan_for(self.shapes_for(sizes), told=told or None)
        arena = RegionMemory("cpu", found.peak, found.lower_bound)
        return MethodMemory(
            method=alone.method,
            sizes=alone.sizes,
            regions=(arena, *alone.regions[1:]),
            input_bytes=alone.input_bytes,
            output_bytes=alone.output_bytes,
            state_bytes=alone.state_bytes,
        )


class EagerPredictor:
    """Predicts a model as eager PyTorch runs it, from its propagation.

    Parameters
    ----------
    found : Propagation
        With symbols for the sizes that vary.
    """

    name = "forward"

    def __init__(self, found: Propagation) -> None:
        self._found = found

    @property
    def symbols(self) -> list[str]:
        """Names of the sizes that vary."""
        return list(self._found.symbols)

    def sizes_for(self, shapes: Sequence[Any] | Mapping[str, Any]) -> dict[str, int]:
        """Numbers of symbols that shapes of the inputs give."""
        return self._found.sizes_for(shapes)

    def memory(self, sizes: Mapping[str, int]) -> MethodMemory:
        """What is held on each device; see `Propagation.peak` for errors."""
        found = self._found.peak(sizes)
        regions = [RegionMemory(one.device, one.results, one.results, one.parameters) for one in found.values()]
        regions = regions or [RegionMemory("cpu", 0, 0, 0)]  # a model without tensors
        return MethodMemory(self.name, dict(sizes), tuple(regions), sum(one.inputs for one in found.values()))


def program_predictors(source: str | os.PathLike[str] | bytes) -> list[SectionEstimator]:
    """Predictors of the methods of a ``.pte`` file.

    The plan section is enough for most; the runtime is loaded for methods with delegates or sizes that data tells, if
    the package has it and it has what the file needs.

    Raises
    ------
    PlanError
        The file is no program, or is damaged.
    InputError
        The file has no plan section: its memory was planned ahead of time.
    """
    sections = sections_of(source)
    if not sections:
        raise InputError("the memory of the file was fixed when it was exported, and is the same for all sizes")
    predictors = [SectionEstimator(section) for section in sections]
    if all(one.is_exact for one in predictors):
        return predictors
    try:
        from ..program import load

        program = load(source)
        return [one if one.is_exact else LoadedPredictor(program.method(one.name)) for one in predictors]
    except (DeviceError, ImportError, RuntimeFailure):
        return predictors  # they say what they leave out
