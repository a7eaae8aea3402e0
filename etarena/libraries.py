"""The shared libraries of the executorch wheel, loaded once and in the right order."""

from __future__ import annotations

import ctypes
import functools
import importlib.metadata
import importlib.util
from pathlib import Path

from .allocator.errors import Error

__all__ = ["SUPPORTED_EXECUTORCH", "load_libraries"]

# The native modules are compiled against this version's headers and use private members of its Method class.
SUPPORTED_EXECUTORCH = "1.5.1"

# Kernels and backends register themselves when their library is loaded; the core comes first.
_LIBRARIES = (
    "libexecutorch.so",
    "libexecutorch_threadpool.so",
    "libexecutorch_kernels_optimized.so",
    "libexecutorch_kernels_quantized.so",
    "libexecutorch_backend_xnnpack.so",
)


@functools.cache
def load_libraries() -> None:
    """Load ExecuTorch's runtime, its CPU kernels and the XNNPACK backend into the process.

    Raises
    ------
    Error
        If the executorch wheel is missing or of another version than etarena was compiled for.
    """
    spec = importlib.util.find_spec("executorch")
    if spec is None or not spec.submodule_search_locations:
        raise Error(f"the executorch package is missing: run 'pip install executorch=={SUPPORTED_EXECUTORCH}'")
    version = importlib.metadata.version("executorch").split("+")[0]
    if version != SUPPORTED_EXECUTORCH:
        raise Error(
            f"executorch {version} is installed, etarena was compiled for {SUPPORTED_EXECUTORCH}: "
            f"run 'pip install executorch=={SUPPORTED_EXECUTORCH}'"
        )
    folder = Path(next(iter(spec.submodule_search_locations))) / "lib"
    for name in _LIBRARIES:
        try:
            ctypes.CDLL(str(folder / name), mode=ctypes.RTLD_GLOBAL)
        except OSError as error:
            raise Error(f"cannot load {name} of the executorch wheel: {error}") from error
