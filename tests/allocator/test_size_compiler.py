import pytest
import sympy
from hypothesis import given, reject, settings
from hypothesis import strategies as st
from torch.utils._sympy import functions as torch_sympy

from etarena.allocator import PlanError, ShapeError, SizeOverflowError
from etarena.allocator.size_compiler import compile_sizes

S, T = sympy.symbols("s t", integer=True, positive=True)
Z = sympy.Symbol("z", integer=True)


def evaluate(expression, **values):
    symbols = [S, T, Z]
    program, (register,) = compile_sizes(symbols, [expression])
    return program.evaluate([values.get(symbol.name, 1) for symbol in symbols])[register]


def oracle(expression, s, t):
    """Sympy's (and torch's) own evaluation."""
    value = sympy.sympify(expression).subs({S: s, T: t}, simultaneous=True).replace(torch_sympy.Identity, lambda x: x)
    return int(bool(value)) if value in (sympy.true, sympy.false) else int(value)


EXPRESSIONS = [
    7,
    True,
    sympy.true,
    S,
    S + 3 * T - 5,
    -S,
    1 - S * T,
    S * T**2,
    (S**2 + S) / 2,
    sympy.floor(S / 2),
    sympy.floor(S / T + sympy.Rational(1, 3)),
    sympy.ceiling((S + T) / 3),
    S // T,
    sympy.Mod(S, 5),
    sympy.Abs(S - T),
    sympy.Max(S, T, 3),
    sympy.Min(7, S),
    torch_sympy.FloorDiv(S + 1, T),
    torch_sympy.FloorDiv(S * T, 2 * T + 1),
    torch_sympy.CeilDiv(S, T),
    torch_sympy.PythonMod(7 * S, T),
    torch_sympy.Mod(S, T + 2),
    torch_sympy.ModularIndexing(S * T, 3, 7),
    torch_sympy.Max(S, T, 3),
    torch_sympy.Min(1, S - T),
    torch_sympy.PowByNatural(2, S),
    torch_sympy.TruncToInt(torch_sympy.IntTrueDiv(S, T)),
    torch_sympy.TruncToInt(2.0 * torch_sympy.ToFloat(S)),
    torch_sympy.FloorToInt(torch_sympy.ToFloat(S) * 0.3),
    torch_sympy.CeilToInt(torch_sympy.IntTrueDiv(3 * S, 2)),
    torch_sympy.RoundToInt(torch_sympy.IntTrueDiv(S, 2)),
    torch_sympy.TruncToInt(torch_sympy.OpaqueUnaryFn_sqrt(torch_sympy.ToFloat(S))),
    torch_sympy.Where(sympy.Ne(S, T), S, 2 * T),
    torch_sympy.Identity(S) + 1,
    sympy.Piecewise((S // T, S > T), (T, sympy.true)),
    sympy.Piecewise((1, S > 20), (2, S > 10), (3, sympy.true)),
    sympy.Eq(S, T),
    sympy.Ne(S, 2 * T),
    S >= T,
    S > T,
    S / 2 > T,
    sympy.Eq(S / 3, T),
    sympy.And(S > 3, T <= 9),
    sympy.Or(S > 3, T <= 9),
    sympy.Not(sympy.Eq(S, 4)),
    sympy.Eq(torch_sympy.Mod(S, 4), 0),
    torch_sympy.OpaqueUnaryFn_sqrt(torch_sympy.ToFloat(S)) < 3.0,
]


@pytest.mark.parametrize("expression", EXPRESSIONS, ids=str)
def test_programs_agree_with_sympy(expression):
    program, (register,) = compile_sizes([S, T], [expression])
    for s in (1, 2, 3, 4, 6, 9, 12, 31):
        for t in (1, 2, 3, 7, 20):
            assert program.evaluate([s, t])[register] == oracle(expression, s, t)


def built(build):
    """Build an expression; draw another one where sympy itself gives up (it recurses for ever on some comparisons)."""

    def build_or_reject(parts):
        try:
            return build(*parts)
        except RecursionError:
            reject()

    return build_or_reject


def combine(children):
    pairs = st.tuples(children, children)
    builders = (
        lambda p, q: p + q,
        lambda p, q: p - q,
        lambda p, q: p * q,
        lambda p, q: torch_sympy.FloorDiv(p, q**2 + 1),
        lambda p, q: torch_sympy.PythonMod(p, q**2 + 2),
        sympy.Max,
        sympy.Min,
        lambda p, q: sympy.floor((p + q) / 3),
        lambda p, q: sympy.Piecewise((p, p > q), (q + 1, True)),
    )
    return st.one_of(*(pairs.map(built(build)) for build in builders))


@given(st.recursive(st.sampled_from([S, T, *map(sympy.Integer, range(-3, 5))]), combine, max_leaves=6))
@settings(max_examples=60, deadline=None)
def test_nested_expressions_agree_with_sympy(expression):
    program, (register,) = compile_sizes([S, T], [expression])
    for s, t in ((1, 1), (2, 5), (7, 3)):
        assert program.evaluate([s, t])[register] == oracle(expression, s, t)


def test_repeated_parts_are_computed_once():
    shared = torch_sympy.FloorDiv(S + 1, 2)
    once, _ = compile_sizes([S], [shared])
    program, registers = compile_sizes([S], [shared, shared * shared, shared, S])
    assert registers[0] == registers[2]
    assert registers[3] == 0
    assert len(program.instructions) == len(once.instructions) + 1


def test_a_division_is_only_checked_where_its_result_is_used():
    expression = torch_sympy.Where(sympy.Eq(Z, 0), 1, torch_sympy.FloorDiv(100, Z))
    assert [evaluate(expression, z=z) for z in (0, 1, 7, -3)] == [1, 100, 14, -34]
    half = sympy.Piecewise((7, Z <= 0), (Z / 2, sympy.Eq(sympy.Mod(Z, 2), 0)), (Z + 1, True))
    assert [evaluate(half, z=z) for z in (-3, 0, 2, 7, 8)] == [7, 7, 1, 8, 4]


def test_a_ratio_that_must_be_whole_is_checked():
    assert evaluate(Z / 32, z=96) == 3
    with pytest.raises(ShapeError, match=r"does not divide evenly: EXACTDIV\(97, 32\)"):
        evaluate(Z / 32, z=97)
    with pytest.raises(ShapeError, match="by zero"):
        evaluate(torch_sympy.FloorDiv(8, Z), z=0)


def test_products_that_wrap_are_refused():
    with pytest.raises(SizeOverflowError):
        evaluate(S * T * 4, s=2**31, t=2**31)


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        (sympy.Symbol("u0"), "size expression u0: no input defines the symbol u0"),
        (sympy.Symbol("s"), "no input defines the symbol s"),  # the same name with other assumptions
        (sympy.sin(S) + 1, r"sin is not among the functions"),
        (1.5 * S, "it is not an integer; round it"),
        (sympy.Integer(2) ** 70, "does not fit 64 bits"),
        (sympy.oo, "Infinity is not among"),
    ],
)
def test_what_cannot_be_computed_is_named(expression, message):
    with pytest.raises(PlanError, match=message):
        compile_sizes([S, T], [expression])


def test_deep_nesting_is_an_error_of_ours():
    expression = S
    for _ in range(250):
        expression = torch_sympy.Identity(expression) + 1
    with pytest.raises(PlanError, match="nested too deeply"):
        compile_sizes([S], [expression])
