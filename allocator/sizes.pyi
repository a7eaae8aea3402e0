from collections.abc import Sequence
from enum import IntEnum
from typing import Self

from typing_extensions import disjoint_base

__all__ = ["Opcode", "SizeProgram", "symbols_of_registers"]

class Opcode(IntEnum):
    CONST = 0
    ADD = 1
    SUB = 2
    MUL = 3
    FLOORDIV = 4
    CEILDIV = 5
    EXACTDIV = 6
    MOD = 7
    MIN = 8
    MAX = 9
    POW = 10
    EQ = 11
    NE = 12
    LT = 13
    LE = 14
    AND = 15
    OR = 16
    NOT = 17
    WHERE = 18
    FCONST = 19
    TOFLOAT = 20
    FADD = 21
    FSUB = 22
    FMUL = 23
    FDIV = 24
    FPOW = 25
    FSQRT = 26
    FMIN = 27
    FMAX = 28
    FEQ = 29
    FLT = 30
    FLE = 31
    TRUNC = 32
    FLOOR = 33
    CEIL = 34
    ROUND = 35

@disjoint_base
class SizeProgram:
    def __new__(cls, n_symbols: int, instructions: Sequence[tuple[int, int, int, int]]) -> Self: ...
    @property
    def n_symbols(self) -> int: ...
    @property
    def n_registers(self) -> int: ...
    @property
    def instructions(self) -> list[tuple[int, int, int, int]]: ...
    def evaluate(self, values: Sequence[int]) -> list[int]: ...

def symbols_of_registers(n_symbols: int, instructions: Sequence[tuple[int, int, int, int]]) -> list[int]: ...
