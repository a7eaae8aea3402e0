"""Which nodes XNNPACK's lowering turns into a static reshape, and the rule that at most one of its sizes varies.

A static reshape may infer one size. The stock partitioner checks that for views alone, but the lowering writes the same
reshape for ``unsqueeze`` and around whatever it computes as a convolution over two dimensions though it has one:
convolutions over one dimension, and normalisations of three dimensions. It then refuses the whole program.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from executorch.exir.backend.canonical_partitioners.config_partitioner import PartitionerConfig
from torch._ops import OpOverload
from torch.export import ExportedProgram
from torch.fx import Node

__all__ = ["RESHAPED", "OneVaryingSize", "varying"]


def varying(shape: Sequence[Any]) -> int:
    """How many sizes of a shape vary.

    Parameters
    ----------
    shape : sequence of int or SymInt
        The shape.

    Returns
    -------
    int
        The number of symbolic sizes.
    """
    return sum(not isinstance(size, int) for size in shape)


def _unsqueezed(node: Node) -> list[Any]:
    return [node]


def _convolved(node: Node) -> list[Any]:
    """The operand gets a dimension of size 1 and the result loses it, if there is one dimension to go over."""
    return [node.args[0], node] if _rank(node.args[1]) == 3 else []


def _normalised(node: Node) -> list[Any]:
    """Lowered to a convolution with the operand's rank; two dimensions get a third, of which one alone may vary."""
    return [node.args[0]] if _rank(node.args[0]) == 3 else []


def _rank(node: Any) -> int:
    return len(node.meta["val"].shape)


RESHAPED: Mapping[str, Callable[[Node], list[Any]]] = {
    "unsqueeze_copy.default": _unsqueezed,
    "convolution.default": _convolved,
    "_native_batch_norm_legit_no_training.default": _normalised,
}
"""By a config's target name, the nodes whose values a static reshape makes or takes with all their varying sizes."""


class OneVaryingSize(PartitionerConfig):
    """A config that takes what another takes, unless XNNPACK's lowering would refuse its reshape.

    Parameters
    ----------
    stock : PartitionerConfig
        The config that is asked first and says what else belongs to a node; its target is one of `RESHAPED`.
    """

    target_name = ""

    def __init__(self, stock: PartitionerConfig) -> None:
        super().__init__()
        self._stock = stock
        self.target_name = stock.target_name

    def check_constraints(self, node: Node, ep: ExportedProgram) -> bool:
        """Whether the node can be delegated."""
        if not self._stock.check_constraints(node, ep):
            return False
        return all(varying(value.meta["val"].shape) <= 1 for value in RESHAPED[self.target_name](node))

    def get_original_aten(self) -> OpOverload | None:
        """The operator that must not be decomposed, as the stock config names it."""
        return self._stock.get_original_aten()

    def get_partition(self, node: Node, ep: ExportedProgram) -> list[Node]:
        """The node and what has to be delegated with it, as the stock config finds them."""
        return self._stock.get_partition(node, ep)
