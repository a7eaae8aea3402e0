"""What a captured model needs to be true of its sizes, beyond the range of each symbol."""

from collections.abc import Iterator, Mapping

import sympy
import torch
from torch.export import ExportedProgram
from torch.fx.experimental.symbolic_shapes import ShapeEnv, ShapeGuard
from torch.utils._sympy.value_ranges import ValueRanges, bound_sympy

from .traced import Size, expression, fake_tensors

__all__ = ["conditions_of", "limits_of", "upper_bounds"]

# Programs that were traced without `size_oblivious_tracing` carry conditions with which torch and ExecuTorch chose a
# layout or a path. The function that asked is named by the condition itself.
LAYOUT_FUNCTIONS = frozenset(
    {
        "__lt__",  # dim_order_from_stride compares strides
        "_is_nhwc_tensor",
        "_reshape_view_helper_core_alg",
        "_view_unbacked_meta",
        "check_contiguous_sizes_strides",
        "compute_channels_last_contiguous_2d",
        "compute_channels_last_contiguous_3d",
        "conv",
        "dim_order_from_stride",
        "is_channels_last_contiguous_2d",
        "is_channels_last_contiguous_3d",
        "is_contiguous",
        "is_contiguous_for_memory_format",
        "is_non_overlapping_and_dense",
        "suggest_memory_format",
    }
)

# Matrix products by name, each with the position of its left operand.
MATRIX_PRODUCTS = {"aten.mm": 0, "aten.bmm": 0, "aten.addmm": 1, "aten.linear": 0}


def conditions_of(program: ExportedProgram, ranges: Mapping[sympy.Symbol, tuple[int, int]]) -> dict[sympy.Basic, str]:
    """Conditions, each with its text, without those that always hold within `ranges`.

    Parameters
    ----------
    program : ExportedProgram
        Before lowering, or after it: lowering can add conditions, and loses the ``squeeze`` that one comes from.
    ranges : mapping of sympy.Symbol to (int, int)
        Smallest and largest legal value of each symbol.
    """
    found: dict[sympy.Basic, str] = {}
    environment = shape_environment(program)
    spans = {symbol: ValueRanges(low, high) for symbol, (low, high) in ranges.items()}
    for expr in [*(_recorded(environment) if environment is not None else ()), *_unsqueezed(program)]:
        for part in sympy.And.make_args(environment.replace(expr) if environment is not None else expr):
            if part.free_symbols and part.free_symbols <= set(spans) and not _always(part, spans):
                found.setdefault(part, str(part))
    for part, text in _unwritten_products(program):
        if part.free_symbols <= set(spans) and not _always(part, spans):
            found.setdefault(part, text)
    return found


def limits_of(
    conditions: Mapping[sympy.Basic, str], ranges: Mapping[sympy.Symbol, tuple[int, int]]
) -> tuple[dict[sympy.Basic, str], dict[sympy.Symbol, tuple[int, int]]]:
    """Take conditions such as ``n >= 5`` as limits of the symbol: they make the clearer message.

    Returns
    -------
    conditions : dict
        Those that are left.
    ranges : dict
        `ranges`, narrowed.
    """
    narrowed = dict(ranges)
    for expr in conditions:
        one_sided = isinstance(expr, sympy.Ge | sympy.Gt | sympy.Le | sympy.Lt) and len(expr.free_symbols) == 1
        comparison = expr.reversed if one_sided and expr.lhs.is_Integer else expr
        if not one_sided or not comparison.lhs.is_Symbol or not comparison.rhs.is_Integer:
            continue
        symbol, limit = comparison.lhs, int(comparison.rhs)
        low, high = narrowed.get(symbol, (-(2**63), 2**63 - 1))
        if isinstance(comparison, sympy.Ge | sympy.Gt):
            low = max(low, limit + isinstance(comparison, sympy.Gt))
        else:
            high = min(high, limit - isinstance(comparison, sympy.Lt))
        if low <= high:
            narrowed[symbol] = (low, high)
    spans = {symbol: ValueRanges(low, high) for symbol, (low, high) in narrowed.items()}
    return {expr: text for expr, text in conditions.items() if not _always(expr, spans)}, narrowed


def upper_bounds(
    conditions: Mapping[sympy.Basic, str], ranges: Mapping[sympy.Symbol, tuple[int, int]]
) -> dict[sympy.Symbol, Size]:
    """Upper bounds of symbols: expressions of other symbols where a condition says so, else finite limits."""
    bounds: dict[sympy.Symbol, Size] = {symbol: high for symbol, (_, high) in ranges.items() if high < 2**62}
    for expr in conditions:
        comparison = expr.reversed if isinstance(expr, sympy.Ge | sympy.Gt) else expr
        is_upper = isinstance(comparison, sympy.Le | sympy.Lt) and comparison.lhs.is_Symbol
        if is_upper and comparison.lhs not in comparison.rhs.free_symbols:
            bounds.setdefault(comparison.lhs, comparison.rhs - int(isinstance(comparison, sympy.Lt)))
    return bounds


def shape_environment(program: ExportedProgram) -> ShapeEnv | None:
    """The record of torch's symbols and guards; None if no tensor of the program was traced with one."""
    for node in program.graph.nodes:
        for value in fake_tensors(node):
            if getattr(value, "fake_mode", None) is not None:
                return value.fake_mode.shape_env
    return None


def _recorded(environment: ShapeEnv) -> Iterator[sympy.Basic]:
    """Questions that tracing had to answer, and what the model asserts."""
    for guard in environment.guards:
        if not _is_layout_decision(guard):
            yield guard.expr
    for asserts in environment.deferred_runtime_asserts.values():
        for item in asserts:
            yield item.expr


def _is_layout_decision(guard: ShapeGuard) -> bool:
    location = getattr(guard.sloc, "framework_loc", None)
    return getattr(location, "name", "") in LAYOUT_FUNCTIONS


def _unsqueezed(program: ExportedProgram) -> Iterator[sympy.Basic]:
    """Symbolic sizes that ``squeeze`` was traced to keep: at size 1 it would drop the dimension."""
    for node in program.graph.nodes:
        if getattr(node.target, "overloadpacket", None) not in (torch.ops.aten.squeeze, torch.ops.aten.squeeze_):
            continue
        (source,) = fake_tensors(node.args[0])
        dims = node.args[1] if len(node.args) > 1 else range(source.dim())
        for dim in [dims] if isinstance(dims, int) else dims:
            size: Size = expression(source.shape[dim])
            if not isinstance(size, int):
                yield sympy.Ne(size, 1)


def _unwritten_products(program: ExportedProgram) -> Iterator[tuple[sympy.Basic, str]]:
    """Matrix products over a symbolic inner size: at 0 the stock kernels return without writing their output."""
    for module in program.graph_module.modules():
        for node in module.graph.nodes if isinstance(module, torch.fx.GraphModule) else ():
            operator = getattr(getattr(node.target, "_schema", None), "name", "").replace("::", ".")
            if operator not in MATRIX_PRODUCTS:
                continue
            position = MATRIX_PRODUCTS[operator]
            (left,), (right,) = map(fake_tensors, node.args[position : position + 2])
            inner = expression(left.shape[-1])
            if isinstance(inner, int):
                continue
            columns = right.shape[0] if operator == "aten.linear" else right.shape[-1]
            sizes = [sympy.sympify(expression(size)) for size in (*left.shape[:-1], columns)]
            if any(inner == size or inner in sympy.Mul.make_args(size) for size in sizes):
                continue  # there is nothing to write when the inner size is 0
            # torch declares its symbols positive: sympy must not evaluate comparisons with 0.
            filled = sympy.Ne(inner, 0, evaluate=False)
            empty = [sympy.Eq(size, 0, evaluate=False) for size in sizes if not size.is_number]
            text = f"the inner size {inner} of {operator} must not be 0: the stock kernel leaves the result unwritten"
            yield sympy.Or(filled, *empty, evaluate=False) if empty else filled, text


def _always(expr: sympy.Basic, spans: Mapping[sympy.Symbol, ValueRanges]) -> bool:
    """Whether interval arithmetic proves a condition."""
    try:
        span = bound_sympy(expr, spans)
    except (AssertionError, KeyError, TypeError, ValueError, NotImplementedError):
        return False  # torch's interval arithmetic does not know the function: the condition stays
    return span.lower == sympy.true
