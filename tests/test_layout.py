"""The shape of the repository: layers, file lengths, the public names, and that importing is light."""

import ast
import importlib.metadata
import re
import subprocess
import sys
from pathlib import Path

import pytest

import etarena

ROOT = Path(__file__).parent.parent
# A layer may import itself and what stands before it.
LAYERS = ["allocator", "device", "delegates", "etarena"]
# What only a given layer and those above it may import.
FORBIDDEN = {"allocator": {"torch", "executorch"}}
LONGEST_FILE = 450

PUBLIC_NAMES = {
    "Arena",
    "ArenaFullError",
    "Capabilities",
    "CopyRefusedError",
    "Delegate",
    "Device",
    "DeviceAllocator",
    "DeviceError",
    "DeviceType",
    "ETensor",
    "Error",
    "Explanation",
    "ExportError",
    "ExportedModel",
    "InputError",
    "InputTypeError",
    "MemoryPlan",
    "Method",
    "NotBuiltError",
    "PlanError",
    "Program",
    "PropagatedValue",
    "Propagation",
    "PropagationError",
    "Requirement",
    "Resource",
    "ResourceKind",
    "RunStats",
    "RuntimeFailure",
    "ShapeError",
    "SizeOverflowError",
    "StaticModel",
    "VulkanPartitioner",
    "__version__",
    "allocator",
    "device_allocator",
    "explain",
    "export",
    "get_include",
    "load",
    "propagate",
    "register_delegate",
    "unregister_delegate",
    "record_copies",
    "register_device_allocator",
    "static",
    "static_planning_pass",
    "testing",
    "unregister_device_allocator",
    "vulkan",
    "zero_copy",
}


def sources(
    *suffixes: str, folders: tuple[str, ...] = (*LAYERS, "tests", "bench", "scripts", "examples")
) -> list[Path]:
    found = [path for folder in folders for path in sorted((ROOT / folder).rglob("*")) if path.suffix in suffixes]
    return [path for path in found if not path.name.endswith("_generated.py")]


def installed_package(path: Path) -> list[str]:
    """The package that holds a source file, e.g. allocator/arena.pyx -> [etarena, allocator]."""
    parts = list(path.relative_to(ROOT).parts[:-1])
    return parts if parts[0] == "etarena" else ["etarena", *parts]


def absolute(package: list[str], dots: int, name: str) -> str:
    if dots == 0:
        return name
    return ".".join([*package[: len(package) - dots + 1], *([name] if name else [])])


def python_imports(text: str, package: list[str]) -> set[str]:
    """Every module that Python source may import, as absolute names; ``from x import y`` counts as x.y."""
    found = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = absolute(package, node.level, node.module or "")
            found |= {f"{base}.{alias.name}" for alias in node.names}
    return found


def cython_imports(text: str, package: list[str]) -> set[str]:
    """The same for Cython source, where ``ast`` cannot help."""
    found = set()
    for dots, module, names in re.findall(r"^\s*from\s+(\.*)([\w.]*)\s+c?import\s+(\([^)]*\)|.*)", text, re.M):
        base = absolute(package, len(dots), module)
        found |= {f"{base}.{name}" for name in re.findall(r"(\w+)(?:\s+as\s+\w+)?", names.split("#")[0])}
    for modules in re.findall(r"^\s*c?import\s+([\w., ]+)", text, re.M):
        found |= {name.split()[0] for name in modules.split(",") if name.strip()}
    return found


def imports_of(path: Path) -> set[str]:
    reader = python_imports if path.suffix == ".py" else cython_imports
    return reader(path.read_text(), installed_package(path))


def layer_of(module: str) -> str | None:
    """The layer that a module name belongs to; None outside the project."""
    parts = module.split(".")
    if parts[0] != "etarena":
        return None
    return parts[1] if len(parts) > 1 and parts[1] in LAYERS else "etarena"


@pytest.mark.parametrize("layer", LAYERS)
def test_imports_never_point_upwards(layer: str) -> None:
    above = set(LAYERS[LAYERS.index(layer) + 1 :])
    wrong = [
        f"{path.relative_to(ROOT)} imports {module}"
        for path in sources(".py", ".pyx", ".pxd", folders=(layer,))
        for module in sorted(imports_of(path))
        if layer_of(module) in above or module.split(".")[0] in FORBIDDEN.get(layer, ())
    ]
    assert not wrong


def test_readers_of_imports_see_every_form() -> None:
    package = ["etarena", "allocator"]
    python = "import torch.nn as nn\nfrom . import a\nfrom ..program import load\ndef f():\n    from .x import y\n"
    assert python_imports(python, package) == {
        "torch.nn",
        "etarena.allocator.a",
        "etarena.program.load",
        "etarena.allocator.x.y",
    }
    cython = (
        "cimport numpy as np\nfrom ..device.x cimport (\n    A,\n    B,\n)\nfrom libc.stdint cimport int64_t  # why\n"
    )
    assert {"numpy", "etarena.device.x.A", "etarena.device.x.B", "libc.stdint.int64_t"} <= cython_imports(
        cython, package
    )
    assert layer_of("etarena.device.x.A") == "device"
    assert layer_of("etarena.program.load") == "etarena"
    assert layer_of("numpy") is None


def test_no_file_is_too_long() -> None:
    lengths = {
        path: len(path.read_text().splitlines()) for path in sources(".py", ".pyx", ".pxd", ".pyi", ".h", ".cpp", ".sh")
    }
    assert len(lengths) > 10
    assert not {str(path.relative_to(ROOT)): lines for path, lines in lengths.items() if lines > LONGEST_FILE}


def test_every_compiled_module_has_a_stub() -> None:
    compiled = sources(".pyx", folders=tuple(LAYERS))
    assert compiled
    assert not [str(path.relative_to(ROOT)) for path in compiled if not path.with_suffix(".pyi").exists()]


def test_importing_etarena_is_light() -> None:
    code = "import sys, etarena; print(sorted({name.split('.')[0] for name in sys.modules}))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT).stdout
    assert "'etarena'" in loaded
    for heavy in ("torch", "executorch", "numpy", "sympy", "flatbuffers", "click", "rich"):
        assert f"'{heavy}'" not in loaded


def test_the_allocator_works_without_torch() -> None:
    code = (
        "import sys; from etarena.allocator import plan_offsets; "
        "assert plan_offsets([64, 64], [0, 1], [1, 2]).peak == 64; "
        "assert not {'torch', 'executorch', 'sympy'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)


def test_public_names_are_the_agreed_list() -> None:
    assert set(etarena.__all__) == PUBLIC_NAMES
    assert list(etarena.__all__) == sorted(etarena.__all__)
    assert set(etarena.__all__) <= set(dir(etarena))


@pytest.mark.parametrize("name", sorted(PUBLIC_NAMES))
def test_every_public_name_resolves(name: str) -> None:
    value = getattr(etarena, name)
    assert value is getattr(etarena, name)
    assert name == "__version__" or value.__doc__


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'compile'"):
        _ = etarena.compile


def test_export_stays_a_function_whatever_is_imported() -> None:
    # A module etarena/export.py would take the function's place as soon as anyone imports it.
    assert not (ROOT / "etarena" / "export.py").exists()
    code = "import etarena, etarena.exporter, etarena.cli; assert callable(etarena.export), etarena.export"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)


def test_one_version() -> None:
    assert importlib.metadata.version("etarena") == etarena.__version__
    changelog = (ROOT / "CHANGELOG.md").read_text()
    assert re.search(r"^## \[?Unreleased", changelog, re.M)
