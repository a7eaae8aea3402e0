"""Bindings of symbols, names, and the text of sizes, from expressions alone."""

import pytest
import sympy

from etarena import ExportError
from etarena.allocator.plan import Binding
from etarena.allocator.size_binding import InputSize, bind_symbols
from etarena.allocator.sizes import SizeProgram
from etarena.symbols import Registers, name_symbols, named_text

n, h, k = sympy.symbols("n h k", integer=True, nonnegative=True)


def test_a_size_that_is_the_symbol_binds_it():
    sizes = [InputSize(0, 0, 3), InputSize(0, 1, n), InputSize(1, 0, n)]
    assert bind_symbols([n], sizes) == [Binding(0, 0, 1, 1, 0)]


def test_the_simplest_size_wins_wherever_it_stands():
    sizes = [InputSize(0, 0, 32 * h), InputSize(0, 1, 8 * h + 1), InputSize(1, 2, h)]
    assert bind_symbols([h], sizes) == [Binding(0, 1, 2, 1, 0)]


def test_a_multiple_with_an_offset_binds_if_there_is_nothing_simpler():
    assert bind_symbols([h], [InputSize(0, 1, 2 * h - 1)]) == [Binding(0, 0, 1, 2, -1)]


def test_several_symbols_bind_in_their_order():
    sizes = [InputSize(0, 0, k), InputSize(0, 1, n), InputSize(1, 0, n + k)]
    assert bind_symbols([n, k], sizes) == [Binding(0, 0, 1, 1, 0), Binding(1, 0, 0, 1, 0)]


def test_an_int_input_binds_with_dimension_minus_one():
    assert bind_symbols([k], [InputSize(2, -1, k)]) == [Binding(0, 2, -1, 1, 0)]


@pytest.mark.parametrize("size", [n + k, n * n, sympy.floor(n / 2), 5 - n])
def test_a_size_that_does_not_determine_its_symbol_is_refused(size):
    with pytest.raises(ExportError, match="do not determine the size n"):
        bind_symbols([n], [InputSize(0, 0, size)])


def test_a_symbol_of_no_input_is_refused():
    with pytest.raises(ExportError, match="no input has it"):
        bind_symbols([n], [InputSize(0, 0, 4)])


def test_names_are_the_users_where_there_are_any_and_unique():
    assert name_symbols([n, h, k], {n: "rows", k: "rows"}) == ["rows", "h", "rows_k"]


def test_registers_evaluate_to_the_expressions():
    registers = Registers([n, h])
    expressions = [7, n, n * h + 3, sympy.Max(n, 4), sympy.Eq(n, h), sympy.Integer(7)]
    for expr in expressions:
        registers.want(expr)
    registers.compile()
    values = SizeProgram(2, registers.code).evaluate([5, 3])
    assert [values[registers[expr]] for expr in expressions] == [7, 5, 18, 5, 0, 7]


def test_a_size_with_an_unknown_function_is_refused():
    registers = Registers([n])
    registers.want(sympy.Function("mystery")(n))
    with pytest.raises(ExportError, match="mystery"):
        registers.compile()


def test_names_go_into_a_text_at_once():
    symbols = sympy.symbols("s7 s77 s27")
    assert named_text("s77*s7 + 4 >= s27", symbols, ["s27", "rows", "s7"]) == "rows*s27 + 4 >= s7"
