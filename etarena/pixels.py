"""Rows of pixels that become a picture only to be resized stay as they are: no channels are moved there and back.

Vision transformers keep a picture as [batch, pixels, channels], which is how a convolution of XNNPACK wants it, too.
"""

from collections.abc import Callable
from typing import Any

import torch.utils._pytree as pytree
from executorch.exir.dialects._ops import ops as exir_ops
from torch.fx import GraphModule, Node
from torch.fx.passes.infra.pass_base import PassBase, PassResult

from .ops.resize import RESIZE_PIXELS
from .traced import expression

__all__ = ["ResizePixels"]

_edge = exir_ops.edge
_PERMUTE = _edge.aten.permute_copy.default
_VIEW = _edge.aten.view_copy.default
_CONVOLUTION = _edge.aten.convolution.default
_PASSED = frozenset({_edge.aten.cat.default, _edge.aten.add.Tensor, _edge.aten.mul.Tensor, _edge.aten.relu.default})
_FARTHEST = 4


class ResizePixels(PassBase):
    """Make ``resize2d(view(permute(x)))`` before a convolution a resizing of x itself, with a channels-last result.

    Parameters
    ----------
    is_taken : callable
        Whether a resizing goes to a delegate, as far as is known; then it stays as it is.
    """

    def __init__(self, is_taken: Callable[[Node], bool]) -> None:
        super().__init__()
        self._is_taken = is_taken

    def call(self, graph_module: GraphModule) -> PassResult:
        """Rewrite `graph_module` in place."""
        changed = False
        for node in list(graph_module.graph.nodes):
            if node.target is not _edge.etarena.resize2d.default or self._is_taken(node):
                continue
            if _feeds_convolution(node, _FARTHEST):
                changed |= _rewrite(graph_module, node)
        if changed:
            graph_module.graph.eliminate_dead_code()
            graph_module.recompile()
        return PassResult(graph_module, changed)


def _feeds_convolution(node: Node, farthest: int) -> bool:
    if farthest == 0 or not node.users:
        return False
    return all(
        user.target is _CONVOLUTION or (user.target in _PASSED and _feeds_convolution(user, farthest - 1))
        for user in node.users
    )


def _rewrite(graph_module: GraphModule, resize: Node) -> bool:
    picture = resize.args[0]
    rows = _rows(picture)
    if rows is None:
        return False
    batch, channels, height, width = picture.args[1]
    with graph_module.graph.inserting_before(resize):
        pixels = graph_module.graph.call_function(_VIEW, (rows, [batch, height, width, channels]))
        pixels.meta = {
            **picture.meta,
            "val": rows.meta["val"].new_empty([picture.meta["val"].shape[d] for d in (0, 2, 3, 1)]),
        }
        resized = graph_module.graph.call_function(_edge.etarena.resize2d_pixels.default, (pixels, *resize.args[1:]))
    options = pytree.tree_map_only(Node, lambda node: node.meta["val"], resized.args)
    resized.meta = {**resize.meta, "val": RESIZE_PIXELS(*options)}
    resize.replace_all_uses_with(resized)
    graph_module.graph.erase_node(resize)
    return True


def _rows(picture: Any) -> Any:
    """The [batch, pixels, channels] that a picture is a view of, with the channels moved to the front; else None."""
    if picture.target is not _VIEW or picture.args[0].target is not _PERMUTE:
        return None
    permuted = picture.args[0]
    before, after = permuted.meta["val"].shape, picture.meta["val"].shape
    if list(permuted.args[1]) not in ([0, 2, 1], [0, -1, 1], [0, -1, -2], [0, 2, -2]) or len(after) != 4:
        return None
    same = [expression(size) for size in before[:2]] == [expression(size) for size in after[:2]]
    return permuted.args[0] if same else None
