"""The element types that shaders know."""

__all__ = ["CODES", "ITEM_BYTES", "SHORT"]

ITEM_BYTES = {"float32": 4, "float16": 2, "int32": 4, "int64": 8, "uint8": 1, "int8": 1, "bool": 1}

# In the names of shaders.
SHORT = {"float32": "f32", "float16": "f16", "int32": "i32", "int64": "i64", "uint8": "u8", "int8": "i8", "bool": "b8"}

# ExecuTorch's ScalarType.
CODES = {"uint8": 0, "int8": 1, "int32": 3, "int64": 4, "float16": 5, "float32": 6, "bool": 11}
