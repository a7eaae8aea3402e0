"""From a model to torch's exported program, and what that program says about its symbolic sizes."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import sympy
import torch
import torch.utils._pytree as pytree
from torch.export import ExportedProgram
from torch.export.dynamic_shapes import _combine_args, _tree_map_with_path

from .allocator.errors import ExportError
from .body_results import refuse_writing_bodies
from .decompositions import decompose_missing_kernels
from .oblivious import size_oblivious_tracing
from .told_decompositions import with_told_kernels
from .traced import Size, input_sizes, user_input_names
from .unbacked import data_dependent_tracing, is_unbacked

__all__ = ["Capture", "capture_model", "capture_program", "first_lines"]

INT64_MAX = 2**63 - 1


@dataclass
class Capture:
    """An exported program before lowering.

    Parameters
    ----------
    program : ExportedProgram
        In the ATen dialect.
    ranges : dict
        Smallest and largest legal value of each symbol that an input size defines, inclusive.
    names : dict
        The user's name for a symbol, where there is one.
    input_sizes : dict
        Sizes of each input by its name, in order; of an int input, the one "size".
    """

    program: ExportedProgram
    ranges: dict[sympy.Symbol, tuple[int, int]]
    names: dict[sympy.Symbol, str]
    input_sizes: dict[str, list[Size]]


def capture_model(
    model: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any] | None, dynamic_shapes: Any, strict: bool
) -> Capture:
    """Trace `model` with example inputs; every size that `dynamic_shapes` names becomes a symbol.

    Raises
    ------
    ExportError
        If torch cannot export the model.
    """
    args = pytree.tree_map_only(torch.Tensor, dense, args)
    kwargs = pytree.tree_map_only(torch.Tensor, dense, kwargs or {})
    try:
        program = _traced(model, args, kwargs, dynamic_shapes, strict)
    except Exception as error:
        raise ExportError(f"torch.export failed for {type(model).__name__}: {first_lines(error)}") from error
    program = _with_kernels(program)
    names = _dim_names(model, args, kwargs, dynamic_shapes, program)
    return _capture(program, names, least=0)


def _traced(model: torch.nn.Module, args: Any, kwargs: Any, dynamic_shapes: Any, strict: bool) -> ExportedProgram:
    """Export with torch, once more from a clean slate if what Dynamo remembers of the same code stands in the way.

    Bodies of control flow are traced by Dynamo, which keeps the fixed sizes of an earlier export of the same class,
    or excludes them from later ones.
    """
    with size_oblivious_tracing(), data_dependent_tracing(), torch.no_grad():  # loops with an int have no gradients
        try:
            return torch.export.export(model, args, kwargs, dynamic_shapes=dynamic_shapes, strict=strict)
        except torch._dynamo.exc.UserError as error:
            if not any(reason in str(error) for reason in ("specialized it to be a constant", "Constraints violated")):
                raise
            torch._dynamo.reset()
            return torch.export.export(model, args, kwargs, dynamic_shapes=dynamic_shapes, strict=strict)


def capture_program(program: ExportedProgram) -> Capture:
    """Take a program that was exported elsewhere.

    There, torch usually assumed sizes of at least 2 and says so in the range. Like torch itself, this does not refuse 0
    and 1 then: only a minimum above 2 is a limit.
    """
    return _capture(_with_kernels(program), {}, least=2)


def _with_kernels(program: ExportedProgram) -> ExportedProgram:
    try:
        with size_oblivious_tracing(), data_dependent_tracing():
            return with_told_kernels(decompose_missing_kernels(program))
    except ExportError:
        raise
    except Exception as error:
        raise ExportError(f"an operator without a kernel cannot be replaced: {first_lines(error)}") from error


def dense(tensor: torch.Tensor) -> torch.Tensor:
    """`tensor` in a layout that a program can declare: contiguous, or channels-last where that differs."""
    if tensor.layout is not torch.strided:
        return tensor
    if tensor.is_contiguous():
        is_canonical = tensor.stride() == torch.empty(tensor.shape, device="meta").stride()
        return tensor if is_canonical else tensor.clone(memory_format=torch.contiguous_format)
    is_channels_last = tensor.dim() == 4 and tensor.is_contiguous(memory_format=torch.channels_last)
    return tensor if is_channels_last else tensor.contiguous()


def first_lines(error: Exception, limit: int = 1000, lines: int = 8) -> str:
    """The part of torch's message that a user can act on: the text before its internals."""
    text = str(error).strip() or type(error).__name__
    for internal in ("From user code", "The error above", "For more information", "framework stack", "While executing"):
        text = text.split(f"\n{internal}")[0]
    shown = "\n".join(text.splitlines()[:lines])[:limit].rstrip()
    return shown if shown == text else f"{shown} ..."


def _capture(program: ExportedProgram, names: dict[sympy.Symbol, str], least: int) -> Capture:
    refuse_writing_bodies(program.graph_module)
    _simplify_structures(program)
    ranges = {}
    for symbol, span in program.range_constraints.items():
        if isinstance(symbol, sympy.Symbol) and not is_unbacked(symbol):
            low = _bound(span.lower, 0)
            ranges[symbol] = (0 if low <= least else low, _bound(span.upper, INT64_MAX))
    return Capture(program, ranges, names, input_sizes(program))


def _simplify_structures(program: ExportedProgram) -> None:
    """Make structures that ExecuTorch cannot write into a file (``torch.return_types``, dataclasses) tuples.

    They only say how the flat inputs and outputs of a program belong together.
    """
    signature = program.module_call_graph[0].signature
    if signature is not None:
        signature.in_spec, signature.out_spec = map(_plain, (signature.in_spec, signature.out_spec))


def _plain(spec: pytree.TreeSpec) -> pytree.TreeSpec:
    if spec.is_leaf():
        return spec
    children = [_plain(child) for child in spec.children()]
    if spec.type in (tuple, list, dict):
        return pytree.TreeSpec(spec.type, spec.context, children)
    return pytree.TreeSpec(tuple, None, children)


def _bound(limit: sympy.Expr, infinite: int) -> int:
    number = float(limit) if limit.is_number and limit.is_finite is not False else math.inf
    return int(limit) if math.isfinite(number) and abs(number) < INT64_MAX else infinite


def _dim_names(
    model: torch.nn.Module,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    dynamic_shapes: Any,
    program: ExportedProgram,
) -> dict[sympy.Symbol, str]:
    """Symbols that have a ``Dim`` with a name, found at the size that is just that symbol (or a multiple of it)."""
    if not dynamic_shapes:
        return {}
    declared: list[list[tuple[int, Any]]] = []

    def collect(_path: Any, value: Any, shape: Any = None) -> None:
        if _is_dim(shape):
            shape = (shape,)
        dims = shape.items() if isinstance(shape, Mapping) else enumerate(shape or ())
        declared.append([(dim, size) for dim, size in dims if _is_dim(size)])

    combined = _combine_args(model, args, kwargs)
    if not isinstance(dynamic_shapes, Mapping):
        dynamic_shapes = dict(zip(combined, dynamic_shapes, strict=False))
    try:
        _tree_map_with_path(collect, combined, dict(dynamic_shapes), tree_name="inputs")
    except Exception:  # forms of dynamic_shapes without Dim objects, such as ShapesCollection, have no names
        return {}
    names: dict[sympy.Symbol, str] = {}
    sizes = input_sizes(program)
    for placeholder, dims in zip(user_input_names(program), declared, strict=False):
        for dim, size in dims:
            expr = sizes.get(placeholder, ())
            symbols = getattr(expr[dim] if dim < len(expr) else None, "free_symbols", ())
            if len(symbols) == 1:
                root: Any = getattr(size, "root", size)  # of a derived size such as 2 * d
                names.setdefault(next(iter(symbols)), str(root.__name__))
    return names


def _is_dim(size: Any) -> bool:
    return isinstance(size, torch.export.Dim) and hasattr(size, "__name__")
