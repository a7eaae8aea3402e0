"""Look into a wheel: everything that must be in it is, nothing else, and no path of the machine that built it."""

import sys
import zipfile
from pathlib import Path

from scripts.compile_shaders import read_variants

LAYERS = {"allocator": "etarena/allocator", "device": "etarena/device", "delegates": "etarena/delegates"}
SHIPPED = {".py", ".pyi", ".pxd", ".fbs", ".h", ".typed", ".html", ".css", ".js"}


def expected_files(root: Path) -> set[str]:
    """Files of the source tree under their installed names."""
    found = set()
    for folder in (*LAYERS, "etarena"):
        for path in (root / folder).rglob("*"):
            if path.suffix in SHIPPED or path.name == "py.typed":
                inside = path.relative_to(root / folder).as_posix()
                found.add(f"{LAYERS.get(folder, folder)}/{inside}")
    return found | expected_shaders(root)


def expected_shaders(root: Path) -> set[str]:
    """Compiled shaders, which are no files of the source tree."""
    folder = root / "delegates" / "vulkan" / "shaders"
    variants = read_variants(folder) if folder.exists() else []
    return {f"etarena/delegates/vulkan/shaders/spirv/{variant.name}.spv" for variant in variants}


def expected_modules(root: Path) -> set[str]:
    """Compiled modules, without the suffix that names interpreter and machine."""
    return {
        f"{LAYERS.get(folder, folder)}/{path.relative_to(root / folder).with_suffix('').as_posix()}"
        for folder in (*LAYERS, "etarena")
        for path in (root / folder).rglob("*.pyx")
    }


def faults(wheel: Path, root: Path) -> list[str]:
    """Return what is wrong with the wheel built from the tree at `root`."""
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
        contents = {name: archive.read(name) for name in names}
        metadata = next(archive.read(name) for name in archive.namelist() if name.endswith("/METADATA")).decode()
    modules = {name for name in names if name.endswith(".so")}
    built = {name.split(".")[0] for name in modules}
    wrong = [f"missing: {name}" for name in sorted(expected_files(root) - names)]
    wrong += [f"not compiled: {name}" for name in sorted(expected_modules(root) - built)]
    wrong += [f"not expected: {name}" for name in sorted(names - modules - expected_files(root))]
    wrong += [f"names the build folder: {name}" for name, data in contents.items() if str(root).encode() in data]
    version = next(line.removeprefix("Version: ") for line in metadata.splitlines() if line.startswith("Version: "))
    if f'__version__ = "{version}"' not in contents["etarena/__init__.py"].decode():
        wrong.append(f"metadata says version {version}, the package another")
    return wrong


if __name__ == "__main__":
    wheel_path, source_root = Path(sys.argv[1]), Path(sys.argv[2])
    if found_faults := faults(wheel_path, source_root):
        sys.exit("\n".join([f"{wheel_path.name}:", *found_faults]))
    print(f"{wheel_path.name} is complete")
