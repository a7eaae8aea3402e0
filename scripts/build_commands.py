"""Steps of setuptools with what this package adds: shaders in the whole build, fewer files in the constrained one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py

from scripts.compile_shaders import compile_shaders
from scripts.constrained_build import JOINED, MODULE, VARIABLE, is_left_out
from scripts.join_modules import stand_in

if TYPE_CHECKING:
    from setuptools import Command

__all__ = ["CONSTRAINED", "WHOLE"]


def forget_modules(command: build_py) -> None:
    """Remove what an earlier build collected: a module that is gone must not go into the next wheel."""
    if not command.editable_mode:
        for path in Path(command.build_lib).rglob("*.py*"):
            path.unlink()


class BuildPackages(build_py):
    """Compiled shaders are data of a package: they must be there before its files are collected."""

    def run(self) -> None:
        """Compile them, then as always."""
        compile_shaders()
        forget_modules(self)
        super().run()


class BuildModules(build_ext):
    """Builds in place leave out the step above."""

    def run(self) -> None:
        """Compile shaders, then as always."""
        compile_shaders()
        super().run()


class BuildAheadOfTime(build_py):
    """The files of the build without run-time planning."""

    def find_package_modules(self, package: str, package_dir: str) -> list[tuple[str, str, str]]:
        """Leave out the modules that only run-time planning needs."""
        return [entry for entry in super().find_package_modules(package, package_dir) if not is_left_out(entry[2])]

    def find_data_files(self, package: str, src_dir: str) -> list[str]:
        """Leave out their stubs, declarations, headers and shaders."""
        return [path for path in super().find_data_files(package, src_dir) if not is_left_out(path)]

    def run(self) -> None:
        """As always, and a small module in place of each that is joined with others."""
        forget_modules(self)
        super().run()
        if self.editable_mode:
            return
        for name in JOINED:
            text = stand_in(Path("allocator") / f"{name}.pyx", MODULE)
            (Path(self.build_lib) / "etarena" / "allocator" / f"{name}.py").write_text(text)


class BuildPlanningModule(build_ext):
    """Its native module, which is no part of a checkout."""

    def run(self) -> None:
        """Refuse to build in place: the modules of a checkout are the whole package's."""
        if self.inplace:
            raise SystemExit(f"{VARIABLE}=0 builds a package to install: run 'pip install .', not an editable install")
        super().run()


WHOLE: dict[str, type[Command]] = {"build_py": BuildPackages, "build_ext": BuildModules}
CONSTRAINED: dict[str, type[Command]] = {"build_py": BuildAheadOfTime, "build_ext": BuildPlanningModule}
