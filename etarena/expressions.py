"""A register of a size program as the expression that it computes."""

import struct

from .allocator.plan import Method, SizeInstruction
from .allocator.sizes import Opcode

# Opcode -> (sign, how strongly it binds); the others are shown as calls.
_INFIX = {
    Opcode.ADD: (" + ", 1),
    Opcode.SUB: (" - ", 1),
    Opcode.MUL: ("*", 2),
    Opcode.FLOORDIV: ("//", 2),
    Opcode.EXACTDIV: ("/", 2),
    Opcode.MOD: ("%", 2),
}
_UNARY = {Opcode.NOT, Opcode.TOFLOAT, Opcode.FSQRT, Opcode.TRUNC, Opcode.FLOOR, Opcode.CEIL, Opcode.ROUND}
_ATOM = 9
_DEEPEST = 24


def size_text(method: Method, register: int) -> str:
    """Return the size that a register holds as text: a number, a symbol, or an expression such as ``2*s77 + 1``."""
    return _text(method, register, _DEEPEST)[0]


def _text(method: Method, register: int, depth: int) -> tuple[str, int]:
    """Return the text and how strongly its outermost operator binds."""
    if register < len(method.symbols):
        return method.symbols[register].name, _ATOM
    step = method.size_code[register - len(method.symbols)]
    opcode = Opcode(step.opcode)
    if opcode is Opcode.CONST:
        return str(step.a), _ATOM
    if opcode is Opcode.FCONST:
        return str(struct.unpack("d", struct.pack("q", step.a))[0]), _ATOM
    if depth == 0:
        return "...", _ATOM
    operands = [_text(method, operand, depth - 1) for operand in _operands(opcode, step)]
    if opcode not in _INFIX:
        return f"{opcode.name.lower()}({', '.join(text for text, _ in operands)})", _ATOM
    sign, strength = _INFIX[opcode]
    # The right operand needs brackets at equal strength too: a - (b - c).
    left, right = (
        f"({text})" if inner < needed else text
        for (text, inner), needed in zip(operands, (strength, strength + 1), strict=True)
    )
    return f"{left}{sign}{right}", strength


def _operands(opcode: Opcode, step: SizeInstruction) -> tuple[int, ...]:
    if opcode in _UNARY:
        return (step.a,)
    return (step.a, step.b, step.c) if opcode is Opcode.WHERE else (step.a, step.b)
