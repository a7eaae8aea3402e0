"""The partitioners of a method as ExecuTorch's lowering sees them: what one asks for whole, none takes apart.

The lowering asks them one by one and decomposes all that the one at hand does not ask for: the first would leave
``linear`` to the second as a product with a permuted weight, which XNNPACK does not take.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeAlias

from executorch.exir import EdgeProgramManager
from executorch.exir.backend.partitioner import Partitioner, PartitionResult
from torch._ops import OpOverload
from torch.export import ExportedProgram
from torch.fx import Node

from .discoveries import all_nodes
from .kernels import missing_kernel

__all__ = ["asked_for", "delegated"]

Check: TypeAlias = Callable[[Node], bool]

_asked_for: ContextVar[str] = ContextVar("etarena_asked_for", default="")


def asked_for() -> str:
    """The method for which a partitioner is asked just now; "" outside of that."""
    return _asked_for.get()


@contextmanager
def _asking(method: str) -> Iterator[None]:
    token = _asked_for.set(method)
    try:
        yield
    finally:
        _asked_for.reset(token)


def delegated(
    partitioners: Mapping[str, Sequence[Partitioner]],
    lower: Callable[[dict[str, list[Partitioner]]], EdgeProgramManager],
) -> EdgeProgramManager:
    """Lower with the partitioners of all methods.

    What was kept whole for a partitioner that then left it runs on the CPU. Where there is no kernel for it, all is
    lowered once more with that operator taken apart.

    Parameters
    ----------
    partitioners : mapping of str to sequence of Partitioner
        Those of each method, in order.
    lower : callable
        Lowers with the partitioners it is given, those of each method.
    """
    apart: frozenset[OpOverload] = frozenset()
    while True:
        chosen = {
            name: [_Joint(name, one, entries, apart) for one in entries] for name, entries in partitioners.items()
        }
        edge = lower({name: list(entries) for name, entries in chosen.items()})
        asked = {name: {operator for one in entries for operator in one.asked} for name, entries in chosen.items()}
        left = {operator for name in chosen for operator in _left(edge.exported_program(name)) & asked[name]}
        if left <= apart:
            return edge
        apart |= left


def _left(program: ExportedProgram) -> set[Any]:
    """The operators that no delegate took and that have no kernel."""
    targets = {node.target for node in all_nodes(program.graph_module) if node.op == "call_function"}
    return {getattr(target, "_op", target) for target in targets if missing_kernel(target)}


class _Joint(Partitioner):
    """A partitioner that asks for what all of a method ask for, until it has had its turn.

    Parameters
    ----------
    method : str
        The method's name.
    own : Partitioner
        Marks what goes to its backend.
    everyone : sequence of Partitioner
        All of the method, in order; of these the first has operators taken apart, so that it is done once.
    apart : frozenset of OpOverload
        What to take apart whoever asks for it.

    Attributes
    ----------
    asked : list of OpOverload
        What they asked for.
    """

    def __init__(
        self, method: str, own: Partitioner, everyone: Sequence[Partitioner], apart: frozenset[OpOverload]
    ) -> None:
        super().__init__()
        self.asked: list[OpOverload] = []
        self._method, self._own, self._everyone, self._apart = method, own, list(everyone), apart
        self._had_its_turn = False

    def transform_for_pre_decomposition(self, exported_program: ExportedProgram) -> ExportedProgram:
        """What the partitioner itself does before operators are taken apart."""
        return self._own.transform_for_pre_decomposition(exported_program)

    def ops_to_not_decompose(self, ep: ExportedProgram) -> tuple[list[OpOverload], Check | None]:
        """The operators that any of them asks for, and whether one of those accepts a node."""
        if self._had_its_turn:
            return [], None
        asked: list[tuple[list[OpOverload], Check | None]] = [one.ops_to_not_decompose(ep) for one in self._everyone]
        self.asked = list(dict.fromkeys(one for wanted, _ in asked for one in wanted if one not in self._apart))
        if self._own is not self._everyone[0] or all(check is None for _, check in asked):
            return self.asked, None

        def is_wanted(node: Node) -> bool:
            target: Any = node.target
            with _asking(self._method):
                return any(target in wanted and (check is None or check(node)) for wanted, check in asked)

        return self.asked, is_wanted

    def partition(self, exported_program: ExportedProgram) -> PartitionResult:
        """What the partitioner itself marks; told the method if it has ``partition_method``."""
        self._had_its_turn = True
        with _asking(self._method):
            if hasattr(self._own, "partition_method"):
                return self._own.partition_method(self._method, exported_program)
            return self._own.partition(exported_program)
