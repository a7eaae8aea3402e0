"""Bytes of one element of each of ExecuTorch's scalar types: the table that everything in Python reads."""

from .errors import PlanError

__all__ = ["ITEM_BYTES", "itemsize"]

ITEM_BYTES = {
    **{0: 1, 1: 1, 2: 2, 3: 4, 4: 8, 5: 2, 6: 4, 7: 8, 8: 4, 9: 8, 10: 16, 11: 1},  # uint8 .. complex128, bool
    **{12: 1, 13: 1, 14: 4, 15: 2, 16: 1, 17: 1},  # qint8, quint8, qint32, bfloat16, quint4x2, quint2x4
    **{18: 1, 19: 1, 20: 1, 21: 1, 22: 2},  # bits1x8, bits2x4, bits4x2, bits8, bits16
    **{23: 1, 24: 1, 25: 1, 26: 1, 27: 2, 28: 4, 29: 8},  # the float8 types, uint16, uint32, uint64
}
"""By ScalarType code; the codes missing here are types without a fixed element."""


def itemsize(dtype: int) -> int:
    """Bytes of one element of an ExecuTorch ScalarType code; PlanError for a code without a fixed element size."""
    try:
        return ITEM_BYTES[dtype]
    except KeyError:
        raise PlanError(f"{dtype} is no ScalarType code with a fixed element size") from None
