"""Trace sizes without assuming that they are neither 0 nor 1.

Torch normally takes "is this size 1?" for answered by the example and specialises on it. Its setting
``backed_size_oblivious`` stops most of that, but kernels that choose a layout or a path (``linear`` folding its batch,
``matmul``, convolution picking a memory format) still ask, and each question becomes a condition of the program that
the model does not need and that refuses size 1. While a model is captured and lowered here, questions of that kind
that come from torch's own code are answered "more than one" without leaving a condition. Questions of the model's own
code are recorded as ever, except in a function of `transformers` that is known to give the same for a size of 1.

A broadcast needs no condition either: where sizes may be 1, torch also records that they are equal to their partners.
Only ``squeeze`` gives another result at size 1; `conditions` adds that one.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import sympy
import torch
import torch.fx.experimental._config as symbolic_shapes_config
from torch.fx.experimental import symbolic_shapes
from torch.fx.experimental.symbolic_shapes import ShapeEnv, free_unbacked_symbols

from .composites import size_preserving_composites

if TYPE_CHECKING:
    from types import FrameType

__all__ = ["size_oblivious_tracing"]

TORCH_ROOT = os.path.dirname(torch.__file__) + os.sep
# Asks whether position ids must be expanded to the batch, which changes nothing in a batch of 1. Without the answer, no
# decoder that is called with token ids alone would run a batch of 1.
STRIDE_ORDER = os.path.join("exir", "tensor.py")
EXAMPLE_SIZE = 4099
INDIFFERENT = (os.path.join("transformers", "masking_utils.py"), "_preprocess_mask_arguments")


@contextmanager
def size_oblivious_tracing() -> Iterator[None]:
    """Within the block, sizes of any value are traced as described above; torch is as before afterwards.

    The setting is one of the whole process: do not trace other models from another thread meanwhile.
    """
    original = ShapeEnv.evaluate_expr

    def evaluate_expr(self: ShapeEnv, orig_expr: sympy.Basic, *args: Any, **kwargs: Any) -> sympy.Basic:
        if _orders_dimensions():
            orig_expr = _with_example_sizes(orig_expr)
        answer = _more_than_one(orig_expr)
        if (
            answer is not None
            and not _about_data(self, orig_expr)
            and _is_indifferent()
            and self._maybe_evaluate_static(orig_expr) is None
        ):
            return answer
        return original(self, orig_expr, *args, **kwargs)

    # Conditions name the code that asked: let torch skip this function when it looks for that code.
    evaluate_expr.__code__ = evaluate_expr.__code__.replace(co_filename=original.__code__.co_filename)
    ShapeEnv.evaluate_expr = evaluate_expr
    try:
        with symbolic_shapes_config.patch(backed_size_oblivious=True), size_preserving_composites():
            yield
    finally:
        ShapeEnv.evaluate_expr = original


def _more_than_one(expr: sympy.Basic) -> sympy.Basic | None:
    """What a comparison of a size with 1 says about a size of 2 or more; None for any other expression."""
    if not isinstance(expr, sympy.core.relational.Relational):
        return None
    if expr.lhs.is_Integer:
        expr = expr.reversed
    if not expr.rhs.is_Integer:
        return None
    limit = int(expr.rhs)
    # A stride of 4 * n that is compared with 4 asks the same.
    if isinstance(expr, sympy.Eq | sympy.Ne) and limit == expr.lhs.as_coeff_Mul()[0]:
        return sympy.true if isinstance(expr, sympy.Ne) else sympy.false
    if (isinstance(expr, sympy.Gt) and limit == 1) or (isinstance(expr, sympy.Ge) and limit == 2):
        return sympy.true
    if (isinstance(expr, sympy.Le) and limit == 1) or (isinstance(expr, sympy.Lt) and limit == 2):
        return sympy.false
    return None


def _with_example_sizes(expr: sympy.Basic) -> sympy.Basic:
    """Replace sizes that data tells by a number: strides of a dense tensor compare alike for all sizes above 1."""
    return expr.xreplace({symbol: sympy.Integer(EXAMPLE_SIZE) for symbol in free_unbacked_symbols(expr)})


def _orders_dimensions() -> bool:
    """Whether ExecuTorch asks which of two strides is larger, to find the order of a tensor's dimensions."""
    frame = _asking_frame()
    names = ("dim_order_from_stride", "__lt__")
    return frame is not None and frame.f_code.co_name in names and frame.f_code.co_filename.endswith(STRIDE_ORDER)


def _about_data(environment: ShapeEnv, expr: sympy.Basic) -> bool:
    """Whether a number or truth value from a tensor is compared, not a size: a condition of the model's own."""
    return any(free_unbacked_symbols(symbol) and symbol not in environment.size_like for symbol in expr.free_symbols)


def _asking_frame() -> "FrameType | None":
    """The code that asks, past the machinery of symbols."""
    machinery = symbolic_shapes.uninteresting_files() | {__file__}
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename in machinery:
        frame = frame.f_back
    return frame


def _is_indifferent() -> bool:
    """Whether the code that asks, past the machinery of symbols, belongs to torch, or is known to do the same for 1."""
    frame = _asking_frame()
    if frame is None:
        return False
    file, function = INDIFFERENT
    code = frame.f_code
    return code.co_filename.startswith(TORCH_ROOT) or (code.co_filename.endswith(file) and code.co_name == function)
