"""Build of etarena: sub-packages live in top-level folders, native modules are compiled against the executorch wheel.

``allocator/`` installs as ``etarena.allocator``, ``device/`` as ``etarena.device``, ``delegates/`` as
``etarena.delegates``. Everything that does not need this file is declared in pyproject.toml.
"""

import importlib.util
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup

ROOT = Path(__file__).parent
SUBPACKAGES = ("allocator", "device", "delegates")
CXX_FLAGS = ["-std=c++17", "-O2", "-Wall", "-Wextra", "-Wundef", "-fvisibility=hidden"]
C_FLAGS = ["-std=c11", "-O2", "-Wall", "-Wextra"]


def stage_cimport_tree() -> None:
    """Show Cython the sources under their installed names, because it finds .pxd files by package path."""
    staged = ROOT / "build" / "cimport" / "etarena"
    staged.mkdir(parents=True, exist_ok=True)
    for source in (*SUBPACKAGES, *(path.name for path in sorted((ROOT / "etarena").iterdir()))):
        link = staged / source
        if not link.is_symlink():
            link.symlink_to(ROOT / source if source in SUBPACKAGES else ROOT / "etarena" / source)


def executorch_root() -> Path:
    """Folder of the installed executorch wheel, whose headers the runtime module includes."""
    spec = importlib.util.find_spec("executorch")
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit("etarena is compiled against executorch: run 'pip install executorch==1.5.1' first")
    return Path(next(iter(spec.submodule_search_locations)))


def allocator_extensions() -> list[Extension]:
    """The ground floor: plain C, no dependency."""
    return [
        Extension(f"etarena.allocator.{source.stem}", [f"allocator/{source.name}"], extra_compile_args=C_FLAGS)
        for source in sorted((ROOT / "allocator").glob("*.pyx"))
    ]


def runtime_extensions() -> list[Extension]:
    """The modules that touch libexecutorch.so. They find it at run time: etarena preloads the wheel's libraries."""
    include = executorch_root() / "include"
    return [
        Extension(
            f"etarena.{source.stem}",
            [f"etarena/{source.name}"],
            language="c++",
            include_dirs=["etarena/native"],
            define_macros=[("C10_USING_CUSTOM_GENERATED_MACROS", None)],
            library_dirs=[str(executorch_root() / "lib")],
            libraries=["executorch"],
            depends=[str(header.relative_to(ROOT)) for header in (ROOT / "etarena" / "native").glob("*.h")],
            # Not ours to keep free of warnings: system headers.
            extra_compile_args=[
                *CXX_FLAGS,
                f"-isystem{include}",
                f"-isystem{include / 'executorch' / 'runtime' / 'core' / 'portable_type' / 'c10'}",
            ],
        )
        for source in sorted((ROOT / "etarena").glob("*.pyx"))
    ]


stage_cimport_tree()
setup(
    packages=["etarena", *(f"etarena.{name}" for name in SUBPACKAGES)],
    package_dir={"etarena": "etarena", **{f"etarena.{name}": name for name in SUBPACKAGES}},
    ext_modules=cythonize(
        [*allocator_extensions(), *runtime_extensions()],
        include_path=["build/cimport"],
        build_dir="build/cython",
        compiler_directives={"language_level": 3, "embedsignature": True},
    ),
)
