"""Compiles symbolic sizes (sympy, as torch.export leaves them in shapes) to a `SizeProgram`.

The functions that torch adds to sympy are recognised by the name of their class, so torch is not imported. Integers
stay integers: a rational factor becomes a division that must be exact, or one that rounds where the expression says
floor or ceiling. Where torch computes a size in floating point, so does the program.
"""

import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import reduce
from typing import TYPE_CHECKING, Any

from .errors import PlanError
from .sizes import Opcode, SizeProgram

if TYPE_CHECKING:
    import sympy

__all__ = ["compile_sizes"]

COMMUTATIVE = frozenset({Opcode.ADD, Opcode.MUL, Opcode.MIN, Opcode.MAX, Opcode.EQ, Opcode.NE, Opcode.AND, Opcode.OR})
FLOAT_RESULTS = frozenset(
    {Opcode.FCONST, Opcode.TOFLOAT, Opcode.FADD, Opcode.FSUB, Opcode.FMUL, Opcode.FDIV}
    | {Opcode.FPOW, Opcode.FSQRT, Opcode.FMIN, Opcode.FMAX}
)
FLOAT_TWINS = {
    Opcode.ADD: Opcode.FADD,
    Opcode.SUB: Opcode.FSUB,
    Opcode.MUL: Opcode.FMUL,
    Opcode.POW: Opcode.FPOW,
    Opcode.MIN: Opcode.FMIN,
    Opcode.MAX: Opcode.FMAX,
    Opcode.EQ: Opcode.FEQ,
    Opcode.LT: Opcode.FLT,
    Opcode.LE: Opcode.FLE,
}


def compile_sizes(
    symbols: Sequence["sympy.Symbol"], expressions: Sequence["int | sympy.Expr | sympy.logic.boolalg.Boolean"]
) -> tuple[SizeProgram, list[int]]:
    """Compile expressions over symbols to one program without repeated work.

    Parameters
    ----------
    symbols : sequence of sympy.Symbol
        Register ``i`` of the program holds symbol ``i``.
    expressions : sequence of int, sympy.Expr or sympy Boolean
        Sizes and conditions; a condition gives 0 or 1.

    Returns
    -------
    program : SizeProgram
        The code.
    registers : list of int
        Where it leaves the value of each expression.

    Raises
    ------
    PlanError
        An expression uses an unknown symbol or function, or is not an integer; the message names it.
    """
    compiler = _Compiler(symbols)
    registers = [compiler.result(expression) for expression in expressions]
    return SizeProgram(len(symbols), compiler.code), registers


class _Compiler:
    def __init__(self, symbols: Sequence["sympy.Symbol"]) -> None:
        self.symbols = {symbol: register for register, symbol in enumerate(symbols)}
        self.code: list[tuple[int, int, int, int]] = []
        self.written: dict[tuple[int, int, int, int], int] = {}
        self.compiled: dict[tuple[Any, int | None], int] = {}
        self.floats: set[int] = set()
        self.condition: int | None = None  # register that says whether the value being compiled will be used

    def result(self, expression: Any) -> int:
        import sympy

        whole = sympy.sympify(expression)
        try:
            register = self.compile(whole)
        except RecursionError:
            raise PlanError(f"size expression with {whole.count_ops()} operations is nested too deeply") from None
        except _Unsupported as error:
            raise PlanError(f"size expression {whole}: {error}") from None
        if register in self.floats:
            raise PlanError(f"size expression {whole}: it is not an integer; round it with int(), floor or ceil")
        return register

    def emit(self, opcode: Opcode, a: int = 0, b: int = 0, c: int = 0) -> int:
        """The register that holds the result, written now or before; operands become floats where one is."""
        if opcode in FLOAT_TWINS and (a in self.floats or b in self.floats):
            opcode, a, b = FLOAT_TWINS[opcode], self.as_float(a), self.as_float(b)
        if opcode in COMMUTATIVE and b < a:
            a, b = b, a
        key = (int(opcode), a, b, c)
        if key not in self.written:
            register = len(self.symbols) + len(self.code)
            self.code.append(key)
            self.written[key] = register
            if opcode in FLOAT_RESULTS or (opcode is Opcode.WHERE and a in self.floats):
                self.floats.add(register)
        return self.written[key]

    def constant(self, value: int) -> int:
        if not -(2**63) <= value < 2**63:
            raise _Unsupported(f"{value} does not fit 64 bits")
        return self.emit(Opcode.CONST, value)

    def as_float(self, register: int) -> int:
        if register in self.floats:
            return register
        return self.emit(Opcode.TOFLOAT, register)

    def truth(self, register: int) -> int:
        return self.emit(Opcode.NE, register, self.constant(0))

    def compile(self, expression: Any) -> int:
        key = (expression, self.condition)
        if key not in self.compiled:
            self.compiled[key] = self.dispatch(expression)
        return self.compiled[key]

    def dispatch(self, expression: Any) -> int:
        name = type(expression).__name__
        if expression in self.symbols:
            return self.symbols[expression]
        if expression.is_Symbol:
            raise _Unsupported(f"no input defines the symbol {expression}")
        if expression in (True, False) and expression.is_Boolean:
            return self.constant(int(bool(expression)))
        if expression.is_Integer:
            return self.constant(int(expression))
        if expression.is_Float:
            return self.emit(Opcode.FCONST, _bits(float(expression)))
        if name not in HANDLERS:
            raise _Unsupported(f"{name} is not among the functions that can be computed at run time ({expression})")
        return HANDLERS[name](self, expression)

    @contextmanager
    def only_if(self, condition: int) -> Iterator[None]:
        outer = self.condition
        self.condition = condition if outer is None else self.emit(Opcode.AND, outer, condition)
        yield
        self.condition = outer

    def guarded(self, register: int, harmless: int) -> int:
        """Replace an operand that could fail by a harmless one wherever the result is not used."""
        if self.condition is None:
            return register
        return self.emit(Opcode.WHERE, register, self.constant(harmless), self.condition)

    def divide(self, opcode: Opcode, numerator: Any, denominator: Any) -> int:
        top, bottom = _ratio(numerator, denominator)
        if bottom == 1:
            return self.compile(top)
        dividend, divisor = self.compile(top), self.compile(bottom)
        if dividend in self.floats or divisor in self.floats:
            raise _Unsupported(f"{opcode.name} of a floating-point number ({numerator} by {denominator})")
        if not bottom.is_number:
            divisor = self.guarded(divisor, 1)
        if opcode is Opcode.EXACTDIV:
            dividend = self.guarded(dividend, 0)
        return self.emit(opcode, dividend, divisor)

    def true_divide(self, expression: Any) -> int:
        dividend, divisor = (self.as_float(self.compile(arg)) for arg in expression.args)
        if self.condition is not None:
            one = self.emit(Opcode.FCONST, _bits(1.0))
            divisor = self.emit(Opcode.WHERE, divisor, one, self.condition)
        return self.emit(Opcode.FDIV, dividend, divisor)

    def sum(self, expression: Any) -> int:
        if _is_rational(expression):
            return self.divide(Opcode.EXACTDIV, expression, 1)
        added = [arg for arg in expression.args if not arg.could_extract_minus_sign()]
        removed = [-arg for arg in expression.args if arg.could_extract_minus_sign()]
        total = (
            reduce(lambda a, b: self.emit(Opcode.ADD, a, b), map(self.compile, added)) if added else self.constant(0)
        )
        return reduce(lambda a, b: self.emit(Opcode.SUB, a, b), map(self.compile, removed), total)

    def product(self, expression: Any) -> int:
        if _is_rational(expression):
            return self.divide(Opcode.EXACTDIV, expression, 1)
        factors = list(expression.args)
        negative = factors[0] == -1
        product = reduce(
            lambda a, b: self.emit(Opcode.MUL, a, b), map(self.compile, factors[1:] if negative else factors)
        )
        return self.emit(Opcode.SUB, self.constant(0), product) if negative else product

    def power(self, expression: Any) -> int:
        base, exponent = expression.args
        if exponent.is_Rational and exponent.p == 1 and exponent.q == 2:
            return self.emit(Opcode.FSQRT, self.as_float(self.compile(base)))
        if exponent.is_Integer and exponent < 0:
            return self.divide(Opcode.EXACTDIV, 1, base**-exponent)
        registers = self.compile(base), self.compile(exponent)
        if self.floats.isdisjoint(registers):
            return self.emit(Opcode.POW, registers[0], self.guarded(registers[1], 0))
        return self.emit(Opcode.POW, *registers)

    def float_power(self, expression: Any) -> int:
        base, exponent = (self.as_float(self.compile(arg)) for arg in expression.args)
        return self.emit(Opcode.FPOW, base, exponent)

    def modulo(self, expression: Any) -> int:
        value, modulus = map(self.compile, expression.args)
        if value in self.floats or modulus in self.floats:
            raise _Unsupported(f"remainder of a floating-point number ({expression})")
        return self.emit(Opcode.MOD, value, self.guarded(modulus, 1))

    def modular_indexing(self, expression: Any) -> int:
        base, divisor, modulus = expression.args
        quotient = self.divide(Opcode.FLOORDIV, base, divisor)
        return self.emit(Opcode.MOD, quotient, self.guarded(self.compile(modulus), 1))

    def round(self, expression: Any, integer_opcode: Opcode, float_opcode: Opcode) -> int:
        (number,) = expression.args
        if _is_rational(number):
            return self.divide(integer_opcode, number, 1)
        register = self.compile(number)
        return self.emit(float_opcode, register) if register in self.floats else register

    def truncate(self, expression: Any) -> int:
        (number,) = expression.args
        register = self.compile(number)
        return self.emit(Opcode.TRUNC, register) if register in self.floats else register

    def extremum(self, expression: Any, opcode: Opcode) -> int:
        args = sorted(expression.args, key=lambda arg: arg.sort_key())
        return reduce(lambda a, b: self.emit(opcode, a, b), map(self.compile, args))

    def absolute(self, expression: Any) -> int:
        register = self.compile(expression.args[0])
        negated = self.emit(Opcode.SUB, self.constant(0), register)
        return self.emit(Opcode.MAX, register, negated)

    def relation(self, expression: Any, opcode: Opcode, swapped: bool = False) -> int:
        left, right = expression.args
        if swapped:
            left, right = right, left
        if _is_rational(left) or _is_rational(right):
            top, bottom = _ratio(left - right, 1)
            left, right = (top if bottom.is_positive else top * bottom), 0 * top
        a, b = self.compile(left), self.compile(right)
        if opcode is Opcode.NE and (a in self.floats or b in self.floats):
            return self.emit(Opcode.NOT, self.emit(Opcode.EQ, a, b))
        return self.emit(opcode, a, b)

    def logical(self, expression: Any, opcode: Opcode) -> int:
        args = sorted(expression.args, key=lambda arg: arg.sort_key())
        return reduce(lambda a, b: self.emit(opcode, a, b), map(self.compile, args))

    def choose(self, cases: list[tuple[Any, Any]]) -> int:
        """Value of the first of (value, condition) whose condition holds; the last one needs none."""
        value, condition = cases[0]
        if len(cases) == 1 or condition == True:  # noqa: E712 - sympy's own true
            return self.compile(value)
        holds = self.compile(condition)
        with self.only_if(self.truth(holds)):
            chosen = self.compile(value)
        with self.only_if(self.emit(Opcode.NOT, holds)):
            other = self.choose(cases[1:])
        if chosen in self.floats or other in self.floats:
            chosen, other = self.as_float(chosen), self.as_float(other)
        return self.emit(Opcode.WHERE, chosen, other, holds)

    def where(self, expression: Any) -> int:
        condition, value, other = expression.args
        return self.choose([(value, condition), (other, True)])

    def piecewise(self, expression: Any) -> int:
        return self.choose([(value, condition) for value, condition in expression.args])


class _Unsupported(Exception):
    """Part of an expression that has no instruction; becomes a PlanError that names the whole expression."""


def _bits(value: float) -> int:
    return int(struct.unpack("<q", struct.pack("<d", value))[0])


def _is_rational(expression: Any) -> bool:
    """Whether integer arithmetic needs a division to compute a sum or product."""
    import sympy

    if expression.is_Rational:
        return not expression.is_Integer
    if expression.is_Pow:
        exponent = expression.args[1]
        return bool(exponent.is_Integer and exponent < 0)
    if expression.is_Add or expression.is_Mul:
        return any(_is_rational(arg) for arg in expression.args) and not expression.has(sympy.Float)
    return False


def _ratio(numerator: Any, denominator: Any) -> tuple[Any, Any]:
    """Numerator and denominator without fractions inside them."""
    import sympy

    numerator, denominator = sympy.sympify(numerator), sympy.sympify(denominator)
    if not (_is_rational(numerator) or _is_rational(denominator)):
        return numerator, denominator
    top, bottom = sympy.fraction(sympy.together(numerator / denominator))
    return top, bottom


Handler = Callable[[_Compiler, Any], int]

HANDLERS: dict[str, Handler] = {
    "Add": _Compiler.sum,
    "Mul": _Compiler.product,
    "Pow": _Compiler.power,
    "PowByNatural": _Compiler.power,
    "FloatPow": _Compiler.float_power,
    "Rational": lambda c, e: c.divide(Opcode.EXACTDIV, e, 1),
    "Half": lambda c, e: c.divide(Opcode.EXACTDIV, e, 1),
    "FloorDiv": lambda c, e: c.divide(Opcode.FLOORDIV, *e.args),
    "CeilDiv": lambda c, e: c.divide(Opcode.CEILDIV, *e.args),
    "CleanDiv": lambda c, e: c.divide(Opcode.EXACTDIV, *e.args),
    "floor": lambda c, e: c.round(e, Opcode.FLOORDIV, Opcode.FLOOR),
    "FloorToInt": lambda c, e: c.round(e, Opcode.FLOORDIV, Opcode.FLOOR),
    "ceiling": lambda c, e: c.round(e, Opcode.CEILDIV, Opcode.CEIL),
    "CeilToInt": lambda c, e: c.round(e, Opcode.CEILDIV, Opcode.CEIL),
    "RoundToInt": lambda c, e: c.emit(Opcode.ROUND, c.as_float(c.compile(e.args[0]))),
    "TruncToInt": _Compiler.truncate,
    "TruncToFloat": lambda c, e: c.as_float(c.truncate(e)),
    "ToFloat": lambda c, e: c.as_float(c.compile(e.args[0])),
    "IntTrueDiv": _Compiler.true_divide,
    "FloatTrueDiv": _Compiler.true_divide,
    "OpaqueUnaryFn_sqrt": lambda c, e: c.emit(Opcode.FSQRT, c.as_float(c.compile(e.args[0]))),
    "Mod": _Compiler.modulo,
    "PythonMod": _Compiler.modulo,
    "ModularIndexing": _Compiler.modular_indexing,
    "LShift": lambda c, e: c.compile(e.args[0] * 2 ** e.args[1]),
    "RShift": lambda c, e: c.divide(Opcode.FLOORDIV, e.args[0], 2 ** e.args[1]),
    "Min": lambda c, e: c.extremum(e, Opcode.MIN),
    "Max": lambda c, e: c.extremum(e, Opcode.MAX),
    "Abs": _Compiler.absolute,
    "Identity": lambda c, e: c.compile(e.args[0]),
    "Where": _Compiler.where,
    "ITE": _Compiler.where,
    "Piecewise": _Compiler.piecewise,
    "ExprCondPair": lambda c, e: c.compile(e.args[0]),
    "Equality": lambda c, e: c.relation(e, Opcode.EQ),
    "Unequality": lambda c, e: c.relation(e, Opcode.NE),  # codespell:ignore unequality
    "StrictLessThan": lambda c, e: c.relation(e, Opcode.LT),
    "LessThan": lambda c, e: c.relation(e, Opcode.LE),
    "StrictGreaterThan": lambda c, e: c.relation(e, Opcode.LT, swapped=True),
    "GreaterThan": lambda c, e: c.relation(e, Opcode.LE, swapped=True),
    "And": lambda c, e: c.logical(e, Opcode.AND),
    "Or": lambda c, e: c.logical(e, Opcode.OR),
    "Not": lambda c, e: c.emit(Opcode.NOT, c.compile(e.args[0])),
}
