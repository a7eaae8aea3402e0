"""ExecuTorch's scalar types: codes as files hold them, bytes of an item, names as torch has them."""

from __future__ import annotations

from ..allocator import item_bytes
from ..allocator.errors import InputTypeError

__all__ = ["DTYPE_NAMES", "ITEM_BYTES", "RARE_ITEM_BYTES", "RARE_NAMES", "dtype_name", "dtype_number"]

# executorch/runtime/core/portable_type/scalar_type.h of executorch 1.5.1; the tests compare it with executorch.exir.
DTYPE_NAMES = {
    0: "uint8",
    1: "int8",
    2: "int16",
    3: "int32",
    4: "int64",
    5: "float16",
    6: "float32",
    7: "float64",
    8: "complex32",
    9: "complex64",
    10: "complex128",
    11: "bool",
    15: "bfloat16",
    27: "uint16",
    28: "uint32",
    29: "uint64",
}

# Types that ExecuTorch names but etarena never plans: a tensor may hold them, nothing computes with them here.
RARE_NAMES = {
    12: "qint8",
    13: "quint8",
    14: "qint32",
    16: "quint4x2",
    17: "quint2x4",
    18: "bits1x8",
    19: "bits2x4",
    20: "bits4x2",
    21: "bits8",
    22: "bits16",
    23: "float8_e5m2",
    24: "float8_e4m3fn",
    25: "float8_e5m2fnuz",
    26: "float8_e4m3fnuz",
}

ITEM_BYTES = {code: item_bytes.ITEM_BYTES[code] for code in DTYPE_NAMES}
RARE_ITEM_BYTES = {code: item_bytes.ITEM_BYTES[code] for code in RARE_NAMES}

_ALL_NAMES = DTYPE_NAMES | RARE_NAMES
_NUMBERS = {name: code for code, name in _ALL_NAMES.items()}


def dtype_name(code: int) -> str:
    """Name a dtype code as torch does, for messages and tables."""
    return _ALL_NAMES.get(code, f"dtype code {code}")


def dtype_number(dtype: object) -> int:
    """ExecuTorch's code of a dtype.

    Parameters
    ----------
    dtype
        A name (``"float32"``), a code (6), a torch dtype, or a NumPy dtype or scalar type.

    Raises
    ------
    InputTypeError
        ExecuTorch has no such dtype.
    """
    if isinstance(dtype, str):
        name = dtype
    elif isinstance(dtype, type):
        name = {float: "float64", int: "int64", bool: "bool", complex: "complex128"}.get(dtype, dtype.__name__)
        name = name.removesuffix("_")
    elif hasattr(dtype, "__index__"):
        name = _ALL_NAMES.get(dtype.__index__(), "")
    else:
        name = str(dtype).removeprefix("torch.")
    code = _NUMBERS.get(name)
    if code is None:
        raise InputTypeError(f"ExecuTorch has no dtype {dtype!r}; it has {', '.join(_NUMBERS)}")
    return code
