"""Size programs: the symbolic sizes of a model as straight-line integer code, run without Python objects.

A program works on registers in single-assignment form: the first hold the symbols, each instruction writes the next
one. Arithmetic is that of Python's integers (division rounds down) as long as every intermediate result fits a signed
64-bit integer; otherwise evaluation stops with an error. A few opcodes work on doubles, because PyTorch computes some
sizes that way; a double's bits are kept in an ordinary register and every operand's type is checked when the program is
built.
"""

from cpython.mem cimport PyMem_Free, PyMem_Malloc
from libc.math cimport ceil, floor, fmax, fmin, isfinite, nearbyint, pow, sqrt, trunc
from libc.stdint cimport int64_t, uint8_t
from libc.string cimport memcpy

from .checked cimport (
    CHECKED_OVERFLOW, CHECKED_ZERO, checked_add, checked_ceildiv, checked_exactdiv, checked_floordiv,
    checked_mod, checked_mul, checked_pow, checked_sub,
)

from enum import IntEnum

from .errors import PlanError, ShapeError, SizeOverflowError

__all__ = ["Opcode", "SizeProgram", "symbols_of_registers"]

cdef enum:
    OP_CONST, OP_ADD, OP_SUB, OP_MUL, OP_FLOORDIV, OP_CEILDIV, OP_EXACTDIV, OP_MOD, OP_MIN, OP_MAX, OP_POW
    OP_EQ, OP_NE, OP_LT, OP_LE, OP_AND, OP_OR, OP_NOT, OP_WHERE
    OP_FCONST, OP_TOFLOAT, OP_FADD, OP_FSUB, OP_FMUL, OP_FDIV, OP_FPOW, OP_FSQRT, OP_FMIN, OP_FMAX
    OP_FEQ, OP_FLT, OP_FLE, OP_TRUNC, OP_FLOOR, OP_CEIL, OP_ROUND

cdef double LARGEST_EXACT = 9007199254740992.0      # 2**53: doubles hold every integer up to here
cdef double TWO_63 = 9223372036854775808.0


class Opcode(IntEnum):
    """What an instruction ``(opcode, a, b, c)`` writes; a, b, c are operand registers unless said otherwise."""

    CONST = OP_CONST           # the integer a itself
    ADD = OP_ADD
    SUB = OP_SUB
    MUL = OP_MUL
    FLOORDIV = OP_FLOORDIV     # a // b
    CEILDIV = OP_CEILDIV       # -(-a // b)
    EXACTDIV = OP_EXACTDIV     # a // b, an error unless b divides a
    MOD = OP_MOD               # a % b, with the sign of b
    MIN = OP_MIN
    MAX = OP_MAX
    POW = OP_POW               # a ** b, b >= 0
    EQ = OP_EQ                 # comparisons give 0 or 1
    NE = OP_NE
    LT = OP_LT
    LE = OP_LE
    AND = OP_AND
    OR = OP_OR
    NOT = OP_NOT
    WHERE = OP_WHERE           # a if c else b
    FCONST = OP_FCONST         # the double whose bits are a
    TOFLOAT = OP_TOFLOAT       # an error beyond 2**53
    FADD = OP_FADD
    FSUB = OP_FSUB
    FMUL = OP_FMUL
    FDIV = OP_FDIV
    FPOW = OP_FPOW
    FSQRT = OP_FSQRT
    FMIN = OP_FMIN
    FMAX = OP_FMAX
    FEQ = OP_FEQ
    FLT = OP_FLT
    FLE = OP_FLE
    TRUNC = OP_TRUNC           # double to integer, towards zero
    FLOOR = OP_FLOOR
    CEIL = OP_CEIL
    ROUND = OP_ROUND           # halves to even


# Types of result, a, b, c: i integer, f double, - not an operand, * integer or double (a and b alike).
SIGNATURES = {
    **dict.fromkeys(("CONST",), "i---"),
    **dict.fromkeys(("FCONST",), "f---"),
    **dict.fromkeys(("ADD", "SUB", "MUL", "FLOORDIV", "CEILDIV", "EXACTDIV", "MOD", "MIN", "MAX", "POW"), "iii-"),
    **dict.fromkeys(("EQ", "NE", "LT", "LE", "AND", "OR"), "iii-"),
    **dict.fromkeys(("NOT",), "ii--"),
    **dict.fromkeys(("WHERE",), "***i"),
    **dict.fromkeys(("TOFLOAT",), "fi--"),
    **dict.fromkeys(("FADD", "FSUB", "FMUL", "FDIV", "FPOW", "FMIN", "FMAX"), "fff-"),
    **dict.fromkeys(("FSQRT",), "ff--"),
    **dict.fromkeys(("FEQ", "FLT", "FLE"), "iff-"),
    **dict.fromkeys(("TRUNC", "FLOOR", "CEIL", "ROUND"), "if--"),
}


def symbols_of_registers(n_symbols: int, instructions: Sequence[tuple[int, int, int, int]]) -> list[int]:
    """Which symbols each register of a valid program depends on: bit ``i`` of its number stands for symbol ``i``."""
    depends = [1 << symbol for symbol in range(n_symbols)]
    for opcode, *operands in instructions:
        bits = 0
        for kind, register in zip(SIGNATURES[Opcode(opcode).name][1:], operands):
            if kind != "-":
                bits |= depends[register]
        depends.append(bits)
    return depends


cdef inline double as_double(int64_t bits) noexcept nogil:
    cdef double value
    memcpy(&value, &bits, sizeof(value))
    return value


cdef inline int64_t as_bits(double value) noexcept nogil:
    cdef int64_t bits
    memcpy(&bits, &value, sizeof(bits))
    return bits


cdef inline int to_integer(double value, int64_t* out) noexcept nogil:
    if not isfinite(value) or value < -TWO_63 or value >= TWO_63:
        return CHECKED_OVERFLOW
    out[0] = <int64_t>value
    return 0


cdef inline int divide_doubles(double a, double b, int64_t* out) noexcept nogil:
    if b == 0:
        return CHECKED_ZERO
    out[0] = as_bits(a / b)
    return 0


cdef inline int to_double(int64_t value, int64_t* out) noexcept nogil:
    if value > <int64_t>LARGEST_EXACT or value < -<int64_t>LARGEST_EXACT:
        return CHECKED_OVERFLOW
    out[0] = as_bits(<double>value)
    return 0


cdef int integer_step(int opcode, int64_t a, int64_t b, int64_t c, int64_t* out) noexcept nogil:
    """Run one instruction on integers; gives a status of checked.pxd."""
    if opcode == OP_ADD:
        return checked_add(a, b, out)
    elif opcode == OP_SUB:
        return checked_sub(a, b, out)
    elif opcode == OP_MUL:
        return checked_mul(a, b, out)
    elif opcode == OP_FLOORDIV:
        return checked_floordiv(a, b, out)
    elif opcode == OP_CEILDIV:
        return checked_ceildiv(a, b, out)
    elif opcode == OP_EXACTDIV:
        return checked_exactdiv(a, b, out)
    elif opcode == OP_MOD:
        return checked_mod(a, b, out)
    elif opcode == OP_POW:
        return checked_pow(a, b, out)
    elif opcode == OP_MIN:
        out[0] = a if a < b else b
    elif opcode == OP_MAX:
        out[0] = a if a > b else b
    elif opcode == OP_EQ:
        out[0] = a == b
    elif opcode == OP_NE:
        out[0] = a != b
    elif opcode == OP_LT:
        out[0] = a < b
    elif opcode == OP_LE:
        out[0] = a <= b
    elif opcode == OP_AND:
        out[0] = a != 0 and b != 0
    elif opcode == OP_OR:
        out[0] = a != 0 or b != 0
    elif opcode == OP_NOT:
        out[0] = a == 0
    elif opcode == OP_WHERE:
        out[0] = a if c != 0 else b
    return 0


cdef int double_step(int opcode, int64_t a, int64_t b, int64_t* out) noexcept nogil:
    """Run one instruction that reads or writes doubles; gives a status of checked.pxd."""
    cdef double x = as_double(a)
    cdef double y = as_double(b)
    if opcode == OP_TOFLOAT:
        return to_double(a, out)
    elif opcode == OP_FADD:
        out[0] = as_bits(x + y)
    elif opcode == OP_FSUB:
        out[0] = as_bits(x - y)
    elif opcode == OP_FMUL:
        out[0] = as_bits(x * y)
    elif opcode == OP_FDIV:
        return divide_doubles(x, y, out)
    elif opcode == OP_FPOW:
        out[0] = as_bits(pow(x, y))
    elif opcode == OP_FSQRT:
        out[0] = as_bits(sqrt(x))
    elif opcode == OP_FMIN:
        out[0] = as_bits(fmin(x, y))
    elif opcode == OP_FMAX:
        out[0] = as_bits(fmax(x, y))
    elif opcode == OP_FEQ:
        out[0] = x == y
    elif opcode == OP_FLT:
        out[0] = x < y
    elif opcode == OP_FLE:
        out[0] = x <= y
    elif opcode == OP_TRUNC:
        return to_integer(trunc(x), out)
    elif opcode == OP_FLOOR:
        return to_integer(floor(x), out)
    elif opcode == OP_CEIL:
        return to_integer(ceil(x), out)
    elif opcode == OP_ROUND:
        return to_integer(nearbyint(x), out)
    return 0


cdef class SizeProgram:
    """Straight-line code that computes the sizes of a model from its symbols.

    Parameters
    ----------
    n_symbols : int
        Registers ``0 .. n_symbols - 1`` hold the symbols.
    instructions : sequence of (opcode, a, b, c)
        Instruction ``i`` writes register ``n_symbols + i``; see `Opcode`. Operands are registers written before.

    Attributes
    ----------
    n_symbols, n_registers : int
        Number of symbols; number of all registers.

    Raises
    ------
    PlanError
        Unknown opcode, an operand that is no earlier register or has the wrong type, a number that does not fit.
    """

    def __cinit__(self, n_symbols: int, instructions: Sequence[tuple[int, int, int, int]]):
        if not 0 <= n_symbols < 2**31 or len(instructions) >= 2**31 - n_symbols:
            raise PlanError(f"size program: {n_symbols} symbols and {len(instructions)} instructions are out of range")
        self.n_symbols = n_symbols
        self.n_instructions = len(instructions)
        self.n_registers = self.n_symbols + self.n_instructions
        self.code = <Instruction*>PyMem_Malloc(max(1, self.n_instructions) * sizeof(Instruction))
        if self.code is NULL:
            raise MemoryError()
        kinds = bytearray(b"i" * self.n_symbols)
        for position, instruction in enumerate(instructions):
            kinds.append(self.store(position, instruction, kinds))

    def __dealloc__(self):
        PyMem_Free(self.code)

    cdef int store(self, int position, instruction, bytearray kinds) except -1:
        """Check one instruction, keep it, and give the type of its result."""
        name = f"size_code[{position}]"
        try:
            opcode, a, b, c = instruction
            signature = SIGNATURES[Opcode(opcode).name]
        except (TypeError, ValueError):
            raise PlanError(f"{name}: {instruction!r} is no size instruction that this etarena knows") from None
        types = []
        for field, operand, kind in zip("abc", (a, b, c), signature[1:]):
            if kind == "-":
                if field != "a" and operand != 0:
                    raise PlanError(f"{name}.{field}: {operand} is no operand of {Opcode(opcode).name} (expected 0)")
                continue
            if not 0 <= operand < len(kinds):
                raise PlanError(f"{name}.{field}: register {operand} is not written yet (expected below {len(kinds)})")
            actual = chr(kinds[operand])
            types.append(actual)
            if kind not in ("*", actual):
                raise PlanError(f"{name}.{field}: register {operand} has type {actual}, expected {kind}")
        if signature[0] == "*" and types[0] != types[1]:
            raise PlanError(f"{name}: both branches must have one type, not {types[0]} and {types[1]}")
        try:
            self.code[position] = Instruction(opcode, c, a, b)
        except (OverflowError, TypeError):
            raise PlanError(f"{name}: {instruction!r} does not fit 64-bit integers") from None
        return ord(types[0] if signature[0] == "*" else signature[0])

    @property
    def instructions(self) -> list[tuple[int, int, int, int]]:
        """The code as ``(opcode, a, b, c)``."""
        cdef int i
        return [(self.code[i].opcode, self.code[i].a, self.code[i].b, self.code[i].c)
                for i in range(self.n_instructions)]

    def evaluate(self, values: Sequence[int]) -> list[int]:
        """Run the program.

        Parameters
        ----------
        values : sequence of int
            One value for each symbol.

        Returns
        -------
        list of int
            All registers, symbols first; a register that holds a double is given as its bits.

        Raises
        ------
        ValueError
            Not one value for each symbol.
        SizeOverflowError
            A value or intermediate result does not fit a signed 64-bit integer.
        ShapeError
            A division by zero, a division that must be exact and is not, a negative exponent.
        """
        cdef int i
        if len(values) != self.n_symbols:
            raise ValueError(f"{len(values)} values for {self.n_symbols} symbols")
        cdef int64_t* registers = <int64_t*>PyMem_Malloc(max(1, self.n_registers) * sizeof(int64_t))
        if registers is NULL:
            raise MemoryError()
        try:
            for i in range(self.n_symbols):
                try:
                    registers[i] = values[i]
                except OverflowError:
                    raise SizeOverflowError(f"the value {values[i]} of symbol {i} does not fit 64 bits") from None
            self.evaluate_into(registers, registers)
            return [registers[i] for i in range(self.n_registers)]
        finally:
            PyMem_Free(registers)

    cdef int evaluate_into(self, const int64_t* symbols, int64_t* registers) except -1 nogil:
        cdef int i
        cdef int status
        cdef int64_t a
        cdef int64_t b
        cdef int64_t* out = registers + self.n_symbols
        cdef Instruction* step = self.code
        if symbols != registers:
            memcpy(registers, symbols, self.n_symbols * sizeof(int64_t))
        for i in range(self.n_instructions):
            if step.opcode == OP_CONST or step.opcode == OP_FCONST:
                out[0] = step.a
            else:
                a = registers[step.a]
                b = registers[step.b]
                if step.opcode < OP_FCONST:
                    status = integer_step(step.opcode, a, b, registers[step.c], out)
                else:
                    status = double_step(step.opcode, a, b, out)
                if status != 0:
                    raise_failure(status, i, step.opcode, a, b)
            out += 1
            step += 1
        return 0

    cdef int evaluate_known(self, int64_t* registers, uint8_t* known) except -1 nogil:
        cdef int i, status, operands
        cdef bint ready
        cdef int64_t* out = registers + self.n_symbols
        cdef Instruction* step = self.code
        for i in range(self.n_symbols):
            if not known[i]:
                registers[i] = 0
        for i in range(self.n_instructions):
            operands = arity(step.opcode)
            ready = operands < 1 or known[step.a]
            if operands == 3:               # the branch that is not chosen need not be known
                ready = known[step.c] and known[step.a if registers[step.c] != 0 else step.b]
            elif operands == 2:
                ready = ready and known[step.b]
            known[self.n_symbols + i] = ready
            out[0] = 0
            if operands == 0:
                out[0] = step.a
            elif ready:
                if step.opcode < OP_FCONST:
                    status = integer_step(step.opcode, registers[step.a], registers[step.b], registers[step.c], out)
                else:
                    status = double_step(step.opcode, registers[step.a], registers[step.b], out)
                if status != 0:
                    raise_failure(status, i, step.opcode, registers[step.a], registers[step.b])
            out += 1
            step += 1
        return 0


cdef inline int arity(int opcode) noexcept nogil:
    """How many operands an instruction has."""
    if opcode == OP_CONST or opcode == OP_FCONST:
        return 0
    if opcode == OP_NOT or opcode == OP_TOFLOAT or opcode == OP_FSQRT or opcode >= OP_TRUNC:
        return 1
    return 3 if opcode == OP_WHERE else 2


cdef int raise_failure(int status, int position, int opcode, int64_t a, int64_t b) except -1 with gil:
    name = Opcode(opcode).name
    if opcode > OP_FCONST and opcode != OP_TOFLOAT:
        operands = f"{as_double(a)}, {as_double(b)}"
    else:
        operands = f"{a}, {b}"
    if status == CHECKED_OVERFLOW:
        raise SizeOverflowError(f"a size of this shape overflows 64 bits: {name}({operands}), instruction {position}")
    if status == CHECKED_ZERO:
        raise ShapeError(f"this shape divides a size by zero: {name}({operands}), instruction {position}")
    if opcode == OP_EXACTDIV:
        raise ShapeError(f"this shape does not divide evenly: {name}({operands}), instruction {position}")
    raise ShapeError(f"this shape has no size: {name}({operands}), instruction {position}")
