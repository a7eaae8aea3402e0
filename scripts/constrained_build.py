"""The build without run-time planning (``ETARENA_RUNTIME_PLANNING=0``): what it leaves out, and its one native module.

It has what plans memory ahead of time: the offset planner, exact search, size programs, export, propagation. Everything
that loads or runs a program, or holds memory for one, stays out: a C compiler builds it, without headers of executorch
or Vulkan and without shaders.
"""

from __future__ import annotations

import os
import shutil
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING

from scripts.join_modules import join_modules

if TYPE_CHECKING:
    from setuptools import Extension

__all__ = ["FOLDER", "JOINED", "MODULE", "VARIABLE", "is_left_out", "planning_module", "with_run_time_planning"]

VARIABLE = "ETARENA_RUNTIME_PLANNING"
FOLDER = "build/ahead_of_time"
MODULE = "_planning"
# The modules of allocator/ that are compiled, as one, in an order in which each uses only those before it.
JOINED = ("lifetimes", "placement", "rules", "exact", "planner", "sizes")
# What only run-time planning needs, as patterns of paths from the root of the repository.
LEFT_OUT = (
    "allocator/arena_errors.py",
    "allocator/arena_stats.py",
    "allocator/reference_heap.py",
    "allocator/replay.py",
    "allocator/trace.py",
    "allocator/trace_export.py",
    "device/*",
    "delegates/*",
    "etarena/native/*",
    "etarena/demo/*",
    "etarena/testing/*",
    "etarena/background.py",
    "etarena/delegate_registry.py",
    "etarena/devices/ordering.py",
    "etarena/devices/stock.py",
    "etarena/failures.py",
    "etarena/loaded.py",
    "etarena/memory_plan.py",
    "etarena/own_delegates.py",
    "etarena/program.py",
    "etarena/scratch_users.py",
    "etarena/state.py",
    "etarena/state_files.py",
    "etarena/stock_method.py",
    "etarena/vulkan.py",
)
# Of the folders above, what names devices and partitions graphs: plain Python that an export needs.
KEPT = (
    "device/__init__.py",
    "device/device.py",
    "device/dtypes.py",
    "delegates/__init__.py",
    "delegates/xnnpack/*.py",
)
# Small rather than fast: with -O2 the module has 197 KB instead of 132, and plans are made once, at export. A first
# plan takes 1.4 times as long, exact search as long as with -O2.
SIZE_FLAGS = (
    "-Os",
    "-fvisibility=hidden",
    "-fno-asynchronous-unwind-tables",
    "-fno-unwind-tables",
    "-fno-plt",
    "-ffunction-sections",
    "-fdata-sections",
)
LINK_FLAGS = ("-Wl,-s", "-Wl,-O1", "-Wl,--gc-sections", "-Wl,-z,noseparate-code", "-Wl,--build-id=none")


def with_run_time_planning() -> bool:
    """Read from the environment whether run-time planning is built; it is unless ``ETARENA_RUNTIME_PLANNING=0``.

    Raises
    ------
    SystemExit
        The variable is neither 0 nor 1.
    """
    value = os.environ.get(VARIABLE, "1")
    if value not in ("0", "1"):
        raise SystemExit(f"{VARIABLE} is {value!r}: expected 1 (the default) or 0, which builds no run-time planning")
    return value == "1"


def is_left_out(path: str) -> bool:
    """Whether the build without run-time planning has no use for a file of the source tree.

    Parameters
    ----------
    path : str
        From the root of the repository, with slashes.
    """
    file = Path(path)
    if file.suffix == ".pyi":  # goes with its module
        compiled = file.parent == Path("allocator") and file.stem in JOINED
        return not compiled
    if file.suffix in (".pxd", ".pyx", ".h", ".spv"):
        return True
    if any(fnmatch(path, pattern) for pattern in KEPT):
        return False
    return any(fnmatch(path, pattern) for pattern in LEFT_OUT)


def planning_module() -> list[Extension]:
    """The one native module, as C source: `JOINED` and the C sources that these are compiled with."""
    from Cython.Build import cythonize
    from setuptools import Extension

    package = Path(FOLDER) / "cimport" / "etarena" / "allocator"
    package.mkdir(parents=True, exist_ok=True)
    for folder in (package.parent, package):
        (folder / "__init__.py").touch()
    for path in Path("allocator").glob("*.pxd"):
        if path.stem not in JOINED:
            shutil.copy2(path, package)
    join_modules(Path("allocator"), JOINED, package / f"{MODULE}.pyx")
    sources = sorted(str(path) for name in JOINED for path in Path("allocator/native").glob(f"{name}_*.c"))
    module = Extension(
        f"etarena.allocator.{MODULE}",
        [str(package / f"{MODULE}.pyx"), *sources],
        include_dirs=["allocator/native"],
        depends=sorted(str(path) for path in Path("allocator/native").glob("*.h")),
        extra_compile_args=["-std=c11", "-g0", *SIZE_FLAGS],
        extra_link_args=[*LINK_FLAGS],
    )
    directives = {"language_level": 3, "binding": False, "auto_pickle": False}
    return cythonize(
        [module],
        include_path=[f"{FOLDER}/cimport"],
        build_dir=f"{FOLDER}/cython",
        compiler_directives=directives,
    )
