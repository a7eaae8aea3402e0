"""ExecuTorch's scalar types: codes as files hold them, bytes of an item, names as torch has them."""

from __future__ import annotations

__all__ = ["DTYPE_NAMES", "ITEM_BYTES", "dtype_name"]

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

ITEM_BYTES = {
    0: 1,
    1: 1,
    2: 2,
    3: 4,
    4: 8,
    5: 2,
    6: 4,
    7: 8,
    8: 4,
    9: 8,
    10: 16,
    11: 1,
    15: 2,
    27: 2,
    28: 4,
    29: 8,
}


def dtype_name(code: int) -> str:
    """Name a dtype code as torch does, for messages and tables."""
    return DTYPE_NAMES.get(code, f"dtype code {code}")
