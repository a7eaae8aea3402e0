"""The element types that shaders know."""

from ...device import dtypes

__all__ = ["CODES", "ITEM_BYTES", "SHORT"]

# In the names of shaders.
SHORT = {"float32": "f32", "float16": "f16", "int32": "i32", "int64": "i64", "uint8": "u8", "int8": "i8", "bool": "b8"}

CODES = {name: code for code, name in dtypes.DTYPE_NAMES.items() if name in SHORT}
"""ExecuTorch's ScalarType by name."""

ITEM_BYTES = {name: dtypes.ITEM_BYTES[code] for name, code in CODES.items()}
