import math
import operator
import struct

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from etarena.allocator import Opcode, PlanError, ShapeError, SizeOverflowError, SizeProgram

LOW, HIGH = -(2**63), 2**63 - 1
integers = st.integers(LOW, HIGH) | st.integers(-20, 20)

# Python's own arithmetic is the oracle: the operator, and None where the program must refuse.
ORACLES = {
    Opcode.ADD: operator.add,
    Opcode.SUB: operator.sub,
    Opcode.MUL: operator.mul,
    Opcode.FLOORDIV: lambda a, b: a // b if b else None,
    Opcode.CEILDIV: lambda a, b: -(-a // b) if b else None,
    Opcode.EXACTDIV: lambda a, b: a // b if b and a % b == 0 else None,
    Opcode.MOD: lambda a, b: a % b if b else None,
    Opcode.MIN: min,
    Opcode.MAX: max,
    Opcode.EQ: operator.eq,
    Opcode.NE: operator.ne,
    Opcode.LT: operator.lt,
    Opcode.LE: operator.le,
    Opcode.AND: lambda a, b: bool(a and b),
    Opcode.OR: lambda a, b: bool(a or b),
}


def run(opcode, a, b):
    return SizeProgram(2, [(opcode, 0, 1, 0)]).evaluate([a, b])[2]


def bits(value):
    return struct.unpack("<q", struct.pack("<d", value))[0]


@pytest.mark.parametrize("opcode", ORACLES)
@given(a=integers, b=integers)
def test_integers_behave_as_in_python_or_are_refused(opcode, a, b):
    expected = ORACLES[opcode](a, b)
    if expected is None:
        with pytest.raises(ShapeError):
            run(opcode, a, b)
    elif not LOW <= expected <= HIGH:
        with pytest.raises(SizeOverflowError):
            run(opcode, a, b)
    else:
        assert run(opcode, a, b) == expected


@given(a=st.integers(-12, 12), b=st.integers(-2, 70))
def test_powers(a, b):
    if b < 0:
        with pytest.raises(ShapeError):
            run(Opcode.POW, a, b)
    elif not LOW <= a**b <= HIGH:
        with pytest.raises(SizeOverflowError):
            run(Opcode.POW, a, b)
    else:
        assert run(Opcode.POW, a, b) == a**b


def test_powers_of_huge_exponents_end():
    assert run(Opcode.POW, -1, HIGH) == -1
    assert run(Opcode.POW, 1, HIGH) == 1
    assert run(Opcode.POW, 0, HIGH) == 0


def test_where_and_not():
    program = SizeProgram(3, [(Opcode.WHERE, 0, 1, 2), (Opcode.NOT, 2, 0, 0)])
    assert program.evaluate([10, 20, 5])[3:] == [10, 0]
    assert program.evaluate([10, 20, 0])[3:] == [20, 1]


@given(st.integers(-(2**53), 2**53), st.integers(-(2**53), 2**53), st.floats(-100, 100))
def test_doubles_behave_as_in_python(a, b, factor):
    assume(b != 0)
    code = [
        (Opcode.TOFLOAT, 0, 0, 0),
        (Opcode.TOFLOAT, 1, 0, 0),
        (Opcode.FDIV, 2, 3, 0),
        (Opcode.FCONST, bits(factor), 0, 0),
        (Opcode.FMUL, 4, 5, 0),
        (Opcode.TRUNC, 6, 0, 0),
        (Opcode.FLOOR, 6, 0, 0),
        (Opcode.CEIL, 6, 0, 0),
        (Opcode.ROUND, 6, 0, 0),
        (Opcode.FLT, 4, 5, 0),
    ]
    product = a / b * factor
    expected = [math.trunc(product), math.floor(product), math.ceil(product), round(product), a / b < factor]
    if all(-(2**62) < value < 2**62 for value in expected):
        assert SizeProgram(2, code).evaluate([a, b])[7:] == expected


def test_integers_that_no_double_holds_are_refused():
    program = SizeProgram(1, [(Opcode.TOFLOAT, 0, 0, 0)])
    program.evaluate([2**53])
    with pytest.raises(SizeOverflowError):
        program.evaluate([2**53 + 1])


@pytest.mark.parametrize("value", [1e19, -1e19, math.inf, math.nan])
def test_doubles_that_no_integer_holds_are_refused(value):
    with pytest.raises(SizeOverflowError):
        SizeProgram(0, [(Opcode.FCONST, bits(value), 0, 0), (Opcode.TRUNC, 0, 0, 0)]).evaluate([])


@pytest.mark.parametrize(
    ("n_symbols", "code", "message"),
    [
        (1, [(99, 0, 0, 0)], r"size_code\[0\]: .* no size instruction"),
        (1, [(-1, 0, 0, 0)], r"size_code\[0\]: .* no size instruction"),
        (1, [(Opcode.ADD, 0, 1, 0)], r"size_code\[0\].b: register 1 is not written yet"),
        (1, [(Opcode.ADD, -1, 0, 0)], r"size_code\[0\].a: register -1"),
        (1, [(Opcode.WHERE, 0, 0, 7)], r"size_code\[0\].c: register 7"),
        (1, [(Opcode.CONST, 2**63, 0, 0)], r"size_code\[0\]: .* does not fit"),
        (1, [(Opcode.CONST, 1, 5, 0)], r"size_code\[0\].b: 5 is no operand of CONST"),
        (1, [(Opcode.NOT, 0, 0, 3)], r"size_code\[0\].c: 3 is no operand of NOT"),
        (1, [(Opcode.TOFLOAT, 0, 0, 0), (Opcode.ADD, 0, 1, 0)], r"size_code\[1\].b: register 1 has type f, expected i"),
        (1, [(Opcode.TOFLOAT, 0, 0, 0), (Opcode.WHERE, 0, 1, 0)], r"size_code\[1\]: both branches"),
        (1, [(Opcode.TRUNC, 0, 0, 0)], r"size_code\[0\].a: register 0 has type i, expected f"),
        (1, [(Opcode.ADD, 0)], r"size_code\[0\]"),
        (1, [None], r"size_code\[0\]"),
        (-1, [], "-1 symbols"),
        (2**31, [], "2147483648 symbols"),
    ],
)
def test_bad_programs_are_refused(n_symbols, code, message):
    with pytest.raises(PlanError, match=message):
        SizeProgram(n_symbols, code)


def test_bad_values_are_refused():
    program = SizeProgram(1, [])
    with pytest.raises(ValueError, match="2 values for 1 symbols"):
        program.evaluate([1, 2])
    with pytest.raises(SizeOverflowError, match="symbol 0"):
        program.evaluate([2**63])


def test_messages_name_the_operation():
    with pytest.raises(SizeOverflowError, match=r"MUL\(4294967296, 4294967296\), instruction 0"):
        run(Opcode.MUL, 2**32, 2**32)
    with pytest.raises(ShapeError, match=r"divides a size by zero: MOD\(7, 0\)"):
        run(Opcode.MOD, 7, 0)
    with pytest.raises(ShapeError, match=r"does not divide evenly: EXACTDIV\(7, 2\)"):
        run(Opcode.EXACTDIV, 7, 2)


def test_code_can_be_read_back():
    code = [(Opcode.CONST, -5, 0, 0), (Opcode.WHERE, 0, 1, 0)]
    program = SizeProgram(1, code)
    assert program.instructions == code
    assert (program.n_symbols, program.n_registers) == (1, 3)
