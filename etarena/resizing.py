"""Our own operator in place of PyTorch's for resizing pictures.

The stock runtime's kernels for them use one thread and no vector instructions, it has none for bicubic resizing, which
decomposes into sixteen gathers, and XNNPACK resizes to fixed sizes only.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from executorch.exir.backend.partitioner import Partitioner
from torch import Tensor
from torch.export import ExportedProgram
from torch.fx import GraphModule

from .ops.resize import RESIZE, target_size
from .traced import expression

__all__ = ["with_own_resizing"]

aten = torch.ops.aten
DTYPES = (torch.float32, torch.float16, torch.bfloat16)


def with_own_resizing(program: ExportedProgram, partitioners: Sequence[Partitioner]) -> ExportedProgram:
    """`program` itself, or one that is traced again with our operator where no partitioner can take PyTorch's.

    Parameters
    ----------
    program : ExportedProgram
        In the ATen dialect.
    partitioners : sequence of Partitioner
        Those the program will be given to. What they ask to be kept is left to them where all sizes are fixed.

    Returns
    -------
    ExportedProgram
        With the same symbols.
    """
    modules = [module for module in program.graph_module.modules() if isinstance(module, GraphModule)]
    found = {node.target for module in modules for node in module.graph.nodes} & set(TABLE)
    if not found:
        return program
    asked = {operator for partitioner in partitioners for operator in partitioner.ops_to_not_decompose(program)[0]}
    return program.run_decompositions({operator: partial(TABLE[operator], operator in asked) for operator in found})


def _resized(
    is_asked: bool,
    mode: str,
    x: Tensor,
    size: Sequence[int] | None,
    align_corners: bool,
    scales: Sequence[float | None] | None,
) -> Any:
    """The operator, a copy if that is what it is, or NotImplemented: leave it as it is."""
    if x.dtype not in DTYPES or x.dim() != 4:
        return NotImplemented
    scale_h, scale_w = scales or (None, None)
    shape = [*x.shape[:2], *target_size(x, size, scale_h, scale_w)]
    fixed = all(isinstance(length, int) for length in shape)
    copied = mode in ("bilinear", "nearest") and list(map(expression, shape)) == list(map(expression, x.shape))
    if is_asked and (fixed or copied):
        return NotImplemented
    return x.clone() if copied else RESIZE(x, size, scale_h, scale_w, mode, align_corners)


def _aligned_by_list(mode: str) -> Callable[..., Any]:
    def replace(is_asked: bool, x: Tensor, size: Any, align_corners: bool, scales: Any = None) -> Any:
        return _resized(is_asked, mode, x, size, align_corners, scales)

    return replace


def _aligned(mode: str) -> Callable[..., Any]:
    def replace(
        is_asked: bool, x: Tensor, size: Any, align_corners: bool, scales_h: Any = None, scales_w: Any = None
    ) -> Any:
        return _resized(is_asked, mode, x, size, align_corners, (scales_h, scales_w))

    return replace


def _nearest_by_list(mode: str) -> Callable[..., Any]:
    def replace(is_asked: bool, x: Tensor, size: Any, scales: Any = None) -> Any:
        return _resized(is_asked, mode, x, size, False, scales)

    return replace


def _nearest(mode: str) -> Callable[..., Any]:
    def replace(is_asked: bool, x: Tensor, size: Any, scales_h: Any = None, scales_w: Any = None) -> Any:
        return _resized(is_asked, mode, x, size, False, (scales_h, scales_w))

    return replace


TABLE: dict[Any, Callable[..., Any]] = {
    aten._upsample_nearest_exact2d.default: _nearest("nearest-exact"),
    aten._upsample_nearest_exact2d.vec: _nearest_by_list("nearest-exact"),
    aten.upsample_bicubic2d.default: _aligned("bicubic"),
    aten.upsample_bicubic2d.vec: _aligned_by_list("bicubic"),
    aten.upsample_bilinear2d.default: _aligned("bilinear"),
    aten.upsample_bilinear2d.vec: _aligned_by_list("bilinear"),
    aten.upsample_nearest2d.default: _nearest("nearest"),
    aten.upsample_nearest2d.vec: _nearest_by_list("nearest"),
}
