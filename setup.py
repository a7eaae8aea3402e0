"""Build of etarena: sub-packages live in top-level folders, native modules are compiled against the executorch wheel.

``allocator/`` installs as ``etarena.allocator``, ``device/`` as ``etarena.device``, ``delegates/`` as
``etarena.delegates``. Everything that does not need this file is declared in pyproject.toml, what the build without
run-time planning has in scripts/constrained_build.py.
"""

import importlib.util
import multiprocessing
import os
import shutil
import sys
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, find_packages, setup

ROOT = Path(__file__).resolve().parent
sys.path.insert(0, str(ROOT))  # a build frontend does not put it there
from scripts import build_commands, constrained_build  # noqa: E402

SUBPACKAGES = ("allocator", "device", "delegates")
EXECUTORCH = "executorch==1.5.1"
INCLUDE = "device/include"  # the C interface, which is installed with the package
ALLOCATOR_HEADERS = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "allocator" / "native").glob("*.h"))
DEVICE_NATIVE = "device/native"  # DLPack's C ABI
DEVICE_HEADERS = [f"{INCLUDE}/etarena.h", f"{DEVICE_NATIVE}/dlpack_abi.h", f"{DEVICE_NATIVE}/scalar_types.h"]
LINKED = "_runtime"  # the only module that links against libexecutorch.so: its registries must have one owner
# No debug information: it is most of a module's size and holds the path of the build folder.
COMMON_FLAGS = ["-O2", "-g0", "-Wall", "-Wextra", "-Wundef"]
C_FLAGS = ["-std=c11", *COMMON_FLAGS]
# What nothing calls of the machinery that Cython brings stays out; neither changes the code of what is called.
UNUSED_OUT = ["-ffunction-sections", "-fdata-sections"]
C_FLAGS += UNUSED_OUT
# The planner's inner loops are a few instructions: where they happen to lie is worth some per cent.
C_FLAGS += ["-falign-functions=32", "-falign-loops=32"]
C_LINK_FLAGS = ["-Wl,--gc-sections", "-Wl,-z,noseparate-code"]
# ETARENA_DEBUG=1: expensive checks after every change of a heap, poison in every arena, counters.
DEBUG_MACROS: list[tuple[str, str | None]] = [("ETARENA_DEBUG", "1")] if os.environ.get("ETARENA_DEBUG") == "1" else []
# Calls within a module go straight there, others straight to where they were bound: what is not in the cache when a new
# shape comes costs more than what is computed.
CXX_FLAGS = ["-std=c++17", "-fvisibility=hidden", "-fno-plt", *UNUSED_OUT, *COMMON_FLAGS]
CXX_LINK_FLAGS = [*C_LINK_FLAGS, "-Wl,-Bsymbolic-functions"]


def stage_cimport_tree() -> None:
    """Show Cython the sources under their installed names, because it finds .pxd files by package path."""
    staged = ROOT / "build" / "cimport" / "etarena"
    shutil.rmtree(staged, ignore_errors=True)
    staged.mkdir(parents=True)
    for name in SUBPACKAGES:
        (staged / name).symlink_to(ROOT / name)
    for path in sorted((ROOT / "etarena").iterdir()):
        (staged / path.name).symlink_to(path)


def package_folders() -> dict[str, str]:
    """Every package of the wheel with the folder that holds it."""
    folders = {"etarena": "etarena"} | {f"etarena.{name}": name for name in SUBPACKAGES}
    nested = {
        f"{package}.{child}": f"{folder}/{child.replace('.', '/')}"
        for package, folder in folders.items()
        for child in find_packages(str(ROOT / folder))
    }
    return folders | nested


def executorch_root() -> Path:
    """Folder of the installed executorch wheel, whose headers the runtime module includes."""
    spec = importlib.util.find_spec("executorch")
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit(
            f"etarena is compiled against executorch, which {sys.executable} does not see.\n"
            f"Run 'pip install {EXECUTORCH}' in that environment, or build without --no-build-isolation."
        )
    root = Path(next(iter(spec.submodule_search_locations)))
    for needed in ("include/executorch/runtime/executor/method.h", "lib/libexecutorch.so"):
        if not (root / needed).exists():
            raise SystemExit(
                f"the executorch package in {root} has no {needed}: it is not the wheel of release 1.5.1.\n"
                f"Run 'pip install --force-reinstall --no-deps {EXECUTORCH}'."
            )
    return root


def allocator_extensions() -> list[Extension]:
    """The ground floor: plain C, no dependency. `heap` and `exact` are compiled with the C sources of their name."""
    folder = ROOT / "allocator"
    native = sorted(str(path.relative_to(ROOT)) for path in (folder / "native").glob("*"))
    return [
        Extension(
            f"etarena.allocator.{source.stem}",
            [f"allocator/{source.name}", *(path for path in native if Path(path).match(f"{source.stem}_*.c"))],
            include_dirs=["allocator/native"],
            define_macros=DEBUG_MACROS,
            depends=native,
            extra_compile_args=C_FLAGS,
            extra_link_args=C_LINK_FLAGS,
        )
        for source in sorted(folder.glob("*.pyx"))
    ]


def vulkan_headers() -> list[str] | None:
    """Folders to search for Vulkan's headers besides the compiler's own; None if there are none.

    Only headers are needed: libvulkan is opened at run time. Without them the package is built without Vulkan.
    """
    given = [Path(os.environ["VULKAN_SDK"]) / "include"] if os.environ.get("VULKAN_SDK") else []
    given += [Path(folder) for folder in os.environ.get("CPATH", "").split(os.pathsep) if folder]
    for folder in (*given, Path("/usr/include"), Path("/usr/local/include")):
        if (folder / "vulkan" / "vulkan_core.h").exists():
            return [str(folder)] if folder in given else []
    print(
        "etarena is built without Vulkan: there is no vulkan/vulkan_core.h. To have it, run 'apt-get install "
        "libvulkan-dev' or set VULKAN_SDK, and build again.",
        file=sys.stderr,
    )
    return None


def middle_extensions(folder: str) -> list[Extension]:
    """The floors of devices and delegates: each module with the C++ sources in the folder ``native`` beside it."""
    vulkan = vulkan_headers() if folder == "device" else None
    return [
        Extension(
            ".".join(["etarena", *source.relative_to(ROOT).with_suffix("").parts]),
            [str(path.relative_to(ROOT)) for path in (source, *sorted(source.parent.glob("native/*.cpp")))],
            language="c++",
            include_dirs=[
                str((source.parent / "native").relative_to(ROOT)),
                "allocator/native",
                DEVICE_NATIVE,
                INCLUDE,
                *(vulkan or []),
            ],
            define_macros=DEBUG_MACROS,
            depends=[
                *(str(path.relative_to(ROOT)) for path in sorted(source.parent.glob("native/*"))),
                *ALLOCATOR_HEADERS,
                *DEVICE_HEADERS,
            ],
            extra_compile_args=CXX_FLAGS,
            extra_link_args=CXX_LINK_FLAGS,
        )
        for source in sorted((ROOT / folder).rglob("*.pyx"))
        if folder != "device" or vulkan is not None or source.parent.name != "vulkan"
    ]


def runtime_extensions() -> list[Extension]:
    """The top floor. Its libexecutorch.so is found at run time: etarena preloads the wheel's libraries."""
    sources = sorted((ROOT / "etarena").glob("*.pyx"))
    if not sources:
        return []
    root = executorch_root()
    include = root / "include"
    kernels = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "etarena" / "native").glob("*.cpp"))
    return [
        Extension(
            f"etarena.{source.stem}",
            [f"etarena/{source.name}", *(kernels if source.stem == LINKED else [])],
            language="c++",
            include_dirs=["etarena/native", "allocator/native", "delegates/native", DEVICE_NATIVE, INCLUDE],
            define_macros=[*DEBUG_MACROS, ("C10_USING_CUSTOM_GENERATED_MACROS", None)],
            library_dirs=[str(root / "lib")],
            libraries=["executorch"] if source.stem == LINKED else [],
            depends=[
                *ALLOCATOR_HEADERS,
                *DEVICE_HEADERS,
                *(
                    str(header.relative_to(ROOT))
                    for folder in ("etarena", "delegates")
                    for header in (ROOT / folder / "native").glob("*.h")
                ),
            ],
            extra_link_args=CXX_LINK_FLAGS,
            # Not ours to keep free of warnings: system headers.
            extra_compile_args=[
                *CXX_FLAGS,
                f"-isystem{include}",
                f"-isystem{include / 'executorch' / 'runtime' / 'core' / 'portable_type' / 'c10'}",
            ],
        )
        for source in sources
    ]


def all_modules() -> list[Extension]:
    """The native modules of the whole package, as C and C++ sources."""
    stage_cimport_tree()
    return cythonize(
        [
            *allocator_extensions(),
            *middle_extensions("device"),
            *middle_extensions("delegates"),
            *runtime_extensions(),
        ],
        include_path=["build/cimport"],
        build_dir="build/cython",
        # Python 3.14 would start each process with this file once more.
        nthreads=os.cpu_count() if multiprocessing.get_start_method() == "fork" else 0,
        cache="CYTHON_CACHE_DIR" in os.environ,
        # No object of ours is pickled, and the code that would say so for each class is a sixth of all.
        compiler_directives={"language_level": 3, "embedsignature": True, "auto_pickle": False},
    )


PACKAGES = package_folders()
RUN_TIME = constrained_build.with_run_time_planning()
if not RUN_TIME:
    PACKAGES = {
        name: folder for name, folder in PACKAGES.items() if not constrained_build.is_left_out(f"{folder}/__init__.py")
    }
setup(
    packages=sorted(PACKAGES),
    package_dir=PACKAGES,
    ext_modules=all_modules() if RUN_TIME else constrained_build.planning_module(),
    cmdclass=build_commands.WHOLE if RUN_TIME else build_commands.CONSTRAINED,
    # A folder of its own, because setuptools packs whatever it finds in one.
    options={
        "build": {"build_base": "build" if RUN_TIME else constrained_build.FOLDER},
        "build_ext": {"parallel": True},
    },
)
