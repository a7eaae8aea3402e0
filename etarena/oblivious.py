"""Trace sizes without assuming that they are neither 0 nor 1.

Torch normally takes "is this size 1?" for answered by the example and specialises on it. Its setting
``backed_size_oblivious`` stops most of that, but kernels that choose a layout or a path (``linear`` folding its batch,
``matmul``, convolution picking a memory format) still ask, and each question becomes a condition of the program that
the model does not need and that refuses size 1. While a model is captured and lowered here, questions of that kind
that come from torch's own code are answered "more than one" without leaving a condition. Questions of the model's own
code are recorded as ever, except in a function of `transformers` that is known to give the same for a size of 1.

A broadcast needs no condition either: where sizes may be 1, torch also records that they are equal to their partners.
Where ExecuTorch sorts the strides of a tensor, a size that only the run tells
counts as 2. Only ``squeeze`` gives another result at size 1; `conditions` adds that one.
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
from torch.utils._sympy.symbol import SymT, symbol_is_type

if TYPE_CHECKING:
    from types import FrameType

__all__ = ["size_oblivious_tracing"]

STRIDE_SORTER = os.path.join("executorch", "exir", "tensor.py")
TORCH_ROOT = os.path.dirname(torch.__file__) + os.sep
# Asks whether position ids must be expanded to the batch, which changes nothing in a batch of 1. Without the answer, no
# decoder that is called with token ids alone would run a batch of 1.
INDIFFERENT = (os.path.join("transformers", "masking_utils.py"), "_preprocess_mask_arguments")


@contextmanager
def size_oblivious_tracing() -> Iterator[None]:
    """Within the block, sizes of any value are traced as described above; torch is as before afterwards.

    The setting is one of the whole process: do not trace other models from another thread meanwhile.
    """
    original = ShapeEnv.evaluate_expr

    def evaluate_expr(self: ShapeEnv, orig_expr: sympy.Basic, *args: Any, **kwargs: Any) -> sympy.Basic:
        answer = _more_than_one(orig_expr)
        if (
            answer is not None
            and not _about_data(self, orig_expr)
            and _is_indifferent()
            and self._maybe_evaluate_static(orig_expr) is None
        ):
            return answer
        if _compares_unknown_strides(orig_expr):
            return orig_expr.xreplace(dict.fromkeys(orig_expr.free_symbols, sympy.Integer(2)))
        return original(self, orig_expr, *args, **kwargs)

    # Conditions name the code that asked: let torch skip this function when it looks for that code.
    evaluate_expr.__code__ = evaluate_expr.__code__.replace(co_filename=original.__code__.co_filename)
    ShapeEnv.evaluate_expr = evaluate_expr
    try:
        with symbolic_shapes_config.patch(backed_size_oblivious=True):
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


def _compares_unknown_strides(expr: sympy.Basic) -> bool:
    """Whether ExecuTorch sorts strides of which some depend on sizes that only the run tells."""
    if not isinstance(expr, sympy.core.relational.Relational) or not any(
        symbol_is_type(symbol, SymT.UNBACKED_INT) for symbol in expr.free_symbols
    ):
        return False
    return _asking()[0].endswith(STRIDE_SORTER)


def _about_data(environment: ShapeEnv, expr: sympy.Basic) -> bool:
    """Whether a number or truth value from a tensor is compared, not a size: a condition of the model's own."""
    return any(free_unbacked_symbols(symbol) and symbol not in environment.size_like for symbol in expr.free_symbols)


def _is_indifferent() -> bool:
    """Whether the code that asks belongs to torch, or is known to do the same for 1."""
    asking, function = _asking()
    return asking.startswith(TORCH_ROOT) or (asking.endswith(INDIFFERENT[0]) and function == INDIFFERENT[1])


def _asking() -> tuple[str, str]:
    """The file and function that ask, past the machinery of symbols."""
    machinery = symbolic_shapes.uninteresting_files() | {__file__}
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename in machinery:
        frame = frame.f_back
    return (frame.f_code.co_filename, frame.f_code.co_name) if frame is not None else ("", "")
