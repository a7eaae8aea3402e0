"""The check of a built wheel finds what can go wrong with one, and the build file describes the tree as it is."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from scripts.check_wheel import faults

ROOT = Path(__file__).parent.parent
SOURCES = {
    "etarena/__init__.py": '__version__ = "1.2"\n',
    "etarena/py.typed": "",
    "etarena/_native.pyx": "",
    "etarena/_native.pyi": "",
    "allocator/__init__.py": "",
    "allocator/arena.pyx": "",
    "allocator/plan.fbs": "",
}
WHEEL = {
    "etarena/__init__.py": b'__version__ = "1.2"\n',
    "etarena/py.typed": b"",
    "etarena/_native.pyi": b"",
    "etarena/_native.cpython-311-x86_64-linux-gnu.so": b"\x7fELF",
    "etarena/allocator/__init__.py": b"",
    "etarena/allocator/arena.cpython-311-x86_64-linux-gnu.so": b"\x7fELF",
    "etarena/allocator/plan.fbs": b"",
    "etarena-1.2.dist-info/METADATA": b"Metadata-Version: 2.4\nName: etarena\nVersion: 1.2\n",
}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for folder in ("allocator", "device", "delegates", "etarena"):
        (tmp_path / "tree" / folder).mkdir(parents=True)
    for name, text in SOURCES.items():
        (tmp_path / "tree" / name).write_text(text)
    return tmp_path / "tree"


def wheel_faults(tree: Path, contents: dict[str, bytes | None]) -> list[str]:
    path = tree.parent / "etarena.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in (WHEEL | contents).items():
            if data is not None:
                archive.writestr(name, data)
    return faults(path, tree)


def test_a_complete_wheel_has_no_faults(tree: Path) -> None:
    assert wheel_faults(tree, {}) == []


@pytest.mark.parametrize(
    ("contents", "fault"),
    [
        ({"etarena/_native.pyi": None}, "missing: etarena/_native.pyi"),
        ({"etarena/allocator/plan.fbs": None}, "missing: etarena/allocator/plan.fbs"),
        (
            {"etarena/allocator/arena.cpython-311-x86_64-linux-gnu.so": None},
            "not compiled: etarena/allocator/arena",
        ),
        ({"etarena/_native.cpp": b""}, "not expected: etarena/_native.cpp"),
        ({"etarena-1.2.dist-info/METADATA": b"Version: 1.3\n"}, "metadata says version 1.3, the package another"),
    ],
)
def test_a_fault_is_named(tree: Path, contents: dict[str, bytes | None], fault: str) -> None:
    assert wheel_faults(tree, contents) == [fault]


def test_shaders_that_were_not_compiled_are_found(tree: Path) -> None:
    folder = tree / "delegates/vulkan/shaders"
    folder.mkdir(parents=True)
    (folder / "add.comp").write_text("")
    (folder / "variants.toml").write_text("[add]\nf32 = {}\nf16 = {}\n")
    place = "etarena/delegates/vulkan/shaders/spirv"
    assert wheel_faults(tree, {f"{place}/add_f32.spv": b"", f"{place}/add.spv": b""}) == [
        f"missing: {place}/add_f16.spv",
        f"not expected: {place}/add.spv",
    ]


def test_a_path_of_the_build_machine_is_found(tree: Path) -> None:
    module = "etarena/_native.cpython-311-x86_64-linux-gnu.so"
    assert wheel_faults(tree, {module: f"\x7fELF {tree}/etarena".encode()}) == [f"names the build folder: {module}"]


def test_the_build_without_executorch_says_what_to_install(tmp_path: Path) -> None:
    code = (
        "import importlib.util, runpy\n"
        "find = importlib.util.find_spec\n"
        "importlib.util.find_spec = lambda name, *rest: None if name == 'executorch' else find(name, *rest)\n"
        "runpy.run_path('setup.py', run_name='__main__')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 1
    assert "pip install executorch==1.5.1" in done.stderr
    assert "Traceback" not in done.stderr
