"""What etarena weighs: the native modules of both builds, and what a process maps of them.

    python -m bench.size [--write]

The build without run-time planning is made into a wheel and installed in a folder of its own; the whole build is the
checkout's. Sizes are those of stripped files. What a process maps is read from its own /proc/self/maps after the
imports or calls of a row. Python runs without .pth files, so that one build never finds the modules of the other.
"""

import argparse
import base64
import hashlib
import importlib.metadata
import json
import os
import subprocess
import sys
import sysconfig
import tempfile
from dataclasses import dataclass
from pathlib import Path

from etarena.allocator.errors import Error
from scripts.constrained_build import VARIABLE

from .machine import describe
from .sections import table, write_sections

__all__ = [
    "Loaded",
    "build_wheel",
    "changed_libraries",
    "install",
    "main",
    "mapped",
    "native_modules",
    "python_in",
    "stripped_sizes",
]

ROOT = Path(__file__).resolve().parent.parent
LAYERS = ("allocator", "device", "delegates")
LIMIT = 150 * 1024
SECONDS = 600
HEADING = "## Size"
NOTES = f"""\
Native code in KiB, stripped. Without run-time planning ({VARIABLE}=0) the planner, exact search and size
programs of `allocator/` are one module, built for size; the target for it is {LIMIT // 1024} KiB."""
MAPPED_NOTES = """\
What a process has of both builds after some imports or calls: Python modules of etarena, native modules of etarena with
the KiB of their stripped files, and libraries of the executorch wheel with theirs."""

MODEL = """
import logging; logging.disable(logging.WARNING)
import torch, etarena
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2)).eval()
"""
EXPORTS = """
etarena.export(model, (torch.ones(3, 4),), dynamic_shapes=({0: torch.export.Dim("rows")},)).save(sys.argv[1])
etarena.export(model, (torch.ones(3, 4),), memory="static").save(sys.argv[2])
"""
STATIC_MODEL = "two linear layers"
WHOLE, CONSTRAINED = "whole", "without run-time planning"
PROCESSES = [
    (WHOLE, "import etarena", "import etarena"),
    (WHOLE, "etarena.allocator.plan_offsets", "from etarena.allocator import plan_offsets"),
    (WHOLE, "import etarena.static", "import etarena.static"),
    (
        WHOLE,
        "etarena.load and one run",
        MODEL + "etarena.load(sys.argv[1]).method('forward').execute([torch.ones(3, 4)])",
    ),
    (CONSTRAINED, "import etarena", "import etarena"),
    (CONSTRAINED, "etarena.allocator.plan_offsets", "from etarena.allocator import plan_offsets"),
    (CONSTRAINED, "import etarena.static", "import etarena.static"),
    (CONSTRAINED, "a static export", MODEL + "etarena.export(model, (torch.ones(3, 4),), memory='static')"),
]
# Prints ns a buffer of the first plan of each list of buffers below a folder, the least of some, all in all.
SPEED = """
import csv, pathlib, sys, time
from etarena.allocator import plan_offsets
best, buffers = 0, 0
for path in sorted(pathlib.Path(sys.argv[1]).rglob("*.csv")):
    with path.open() as file:
        rows = list(csv.DictReader(file))
    lists = [[int(row[column]) for row in rows] for column in ("size", "lower", "upper")]
    times = []
    for _ in range(50):
        started = time.perf_counter_ns()
        plan_offsets(*lists)
        times.append(time.perf_counter_ns() - started)
    best += min(times)
    buffers += len(rows)
print(best / buffers)
"""
# Prints the files that the process maps and the modules it has.
REPORT = """
import json, sys
modules = [name for name in sys.modules if name.split(".")[0] == "etarena"]
with open("/proc/self/maps") as file:
    paths = {line.split(maxsplit=5)[5].strip() for line in file if "/" in line}
print(json.dumps([modules, sorted(paths)]))
"""


@dataclass(frozen=True)
class Loaded:
    """What a process has loaded: modules of etarena by name, its native modules and the libraries of executorch."""

    modules: list[str]
    native: list[Path]
    libraries: list[Path]


def build_wheel(folder: Path) -> Path:
    """Build the wheel without run-time planning.

    Raises
    ------
    Error
        The build fails; the message has what it printed.
    """
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-build-isolation", "--no-deps", "-w", str(folder)]
    done = subprocess.run(
        [*command, str(ROOT)], env=os.environ | {VARIABLE: "0"}, capture_output=True, text=True, timeout=SECONDS
    )
    if done.returncode:
        raise Error(f"the build without run-time planning fails:\n{done.stdout}{done.stderr}")
    return next(folder.glob("*.whl"))


def install(wheel: Path, site: Path) -> None:
    """Install a wheel alone in a folder, which then goes before all others on the path."""
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", str(site)]
    subprocess.run([*command, str(wheel)], check=True, timeout=SECONDS)


def checkout(site: Path) -> None:
    """Make a folder in which the checkout's packages have the names under which they are installed."""
    package = site / "etarena"
    package.mkdir(parents=True)
    for path in [ROOT / layer for layer in LAYERS] + list((ROOT / "etarena").iterdir()):
        (package / path.name).symlink_to(path)


def python_in(site: Path, code: str, *arguments: str) -> str:
    """What Python code prints with the etarena of a folder and the other packages of this environment.

    Raises
    ------
    Error
        It fails; the message has what it printed.
    """
    paths = os.pathsep.join([str(site), sysconfig.get_path("purelib"), sysconfig.get_path("platlib")])
    done = subprocess.run(
        [sys.executable, "-S", "-c", code, *arguments],
        env=os.environ | {"PYTHONPATH": paths},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        cwd=site,
    )
    if done.returncode:
        raise Error(f"Python ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def mapped(site: Path, code: str, *arguments: str) -> Loaded:
    """What a process has loaded that ran some code."""
    modules, paths = json.loads(python_in(site, f"import sys\n{code}\n{REPORT}", *arguments).splitlines()[-1])
    files = [Path(path) for path in paths if ".so" in Path(path).suffixes]
    folders = [site.resolve(), *(ROOT / layer for layer in (*LAYERS, "etarena"))]
    own = [path for path in files if any(path.is_relative_to(folder) for folder in folders)]
    return Loaded(sorted(modules), own, [path for path in files if "executorch" in path.parts])


def native_modules(site: Path) -> dict[str, Path]:
    """Native modules by their path in the site; those of the checkout if it is linked."""
    folders = [path.resolve() for path in ((site / "etarena"), *(site / "etarena" / layer for layer in LAYERS))]
    files = [path for folder in folders for path in folder.rglob(f"*{sysconfig.get_config_var('EXT_SUFFIX')}")]
    linked = (site / "etarena" / "__init__.py").is_symlink()
    files += list((ROOT / "etarena").glob(f"*{sysconfig.get_config_var('EXT_SUFFIX')}")) if linked else []
    return {installed_name(path, site): path for path in files}


def stripped_sizes(modules: dict[str, Path]) -> dict[str, int]:
    """Bytes of native modules when they are stripped."""
    with tempfile.TemporaryDirectory() as folder:
        sizes = {}
        for name, path in modules.items():
            copy = Path(folder) / "module"
            subprocess.run(["strip", "-o", str(copy), str(path)], check=True, timeout=SECONDS)
            sizes[name] = copy.stat().st_size
        return sizes


def changed_libraries() -> tuple[list[str], int]:
    """Libraries of the installed executorch wheel that are not those of its RECORD, and how many were compared."""
    changed, count = [], 0
    for file in importlib.metadata.files("executorch") or []:
        if not file.name.startswith("libexecutorch") or file.hash is None:
            continue
        count += 1
        digest = hashlib.new(file.hash.mode, Path(str(file.locate())).read_bytes()).digest()
        if base64.urlsafe_b64encode(digest).rstrip(b"=").decode() != file.hash.value:
            changed.append(file.name)
    return changed, count


def module_rows(whole: dict[str, int], constrained: dict[str, int]) -> list[list[str]]:
    """A row for each native module with its size in both builds, and the sums of allocator/ and of everything."""
    rows = [
        [name, kib(whole.get(name)), kib(constrained.get(name))] for name in sorted(whole.keys() | constrained.keys())
    ]
    for what, prefix in (("allocator/, all", "etarena/allocator/"), ("everything", "etarena/")):
        sums = [sum(size for name, size in build.items() if name.startswith(prefix)) for build in (whole, constrained)]
        rows.append([what, *map(kib, sums)])
    return rows


def kib(size: int | None) -> str:
    """A size in KiB; "" for none."""
    return "" if size is None else f"{size / 1024:.1f}"


def process_rows(sites: dict[str, Path], sizes: dict[str, dict[str, int]], model: Path) -> list[list[str]]:
    """A row for each process of `PROCESSES`: what it has loaded."""
    rows = []
    for build, what, code in PROCESSES:
        loaded = mapped(sites[build], code, str(model))
        own = sum(sizes[build][installed_name(path, sites[build])] for path in loaded.native)
        libraries = sum(path.stat().st_size for path in loaded.libraries)
        count = str(len(loaded.modules)), str(len(loaded.native)), str(len(loaded.libraries))
        rows.append([f"{build}: {what}", count[0], count[1], kib(own), count[2], kib(libraries)])
    return rows


def installed_name(path: Path, site: Path) -> str:
    """A native module's path from the folder of packages, without suffixes, wherever its file is."""
    if path.is_relative_to(site.resolve()):
        inside = path.relative_to(site.resolve())
    else:
        inside = path.relative_to(ROOT)
        inside = inside if inside.parts[0] == "etarena" else Path("etarena") / inside
    return str(inside).split(".")[0]


def speed_text(sites: dict[str, Path]) -> str:
    """What first plans cost in both builds."""
    whole, constrained = (float(python_in(sites[build], SPEED, str(ROOT / "tests" / "data"))) for build in sites)
    return (
        f"First plans of all lists in `tests/data`, the least of 50 each: {whole:.0f} ns a buffer in the whole build, "
        f"{constrained:.0f} ns {CONSTRAINED}."
    )


def section() -> str:
    """Measure everything and write it as a section of RESULTS.md.

    Raises
    ------
    Error
        A build or a process fails, or a library of the executorch wheel is not as it was published.
    """
    changed, count = changed_libraries()
    if changed:
        raise Error(f"the executorch wheel's {', '.join(changed)} is not the one of its RECORD")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        sites = {WHOLE: folder / "whole", CONSTRAINED: folder / "constrained"}
        checkout(sites[WHOLE])
        install(build_wheel(folder), sites[CONSTRAINED])
        sizes = {build: stripped_sizes(native_modules(site)) for build, site in sites.items()}
        model, static = folder / "model.pte", folder / "static.pte"
        python_in(sites[WHOLE], f"import sys\n{MODEL}{EXPORTS}", str(model), str(static))
        processes = process_rows(sites, sizes, model)
        speeds = speed_text(sites)
        traces = static.read_bytes().lower().count(b"etarena")
    modules = table(["module", WHOLE, CONSTRAINED], module_rows(sizes[WHOLE], sizes[CONSTRAINED]))
    return "\n\n".join(
        [
            HEADING,
            "```\npython -m bench.size\n```",
            table(["", ""], [list(pair) for pair in describe()]),
            NOTES,
            modules,
            MAPPED_NOTES,
            table(["build: process", "modules", "native", "KiB", "libraries", "KiB"], processes),
            speeds,
            f"{count} libraries of the executorch wheel are byte for byte those of its RECORD.",
            f"A static `.pte` of {STATIC_MODEL} names etarena {traces} times.",
        ]
    )


def main() -> None:
    """Print the section; with ``--write`` put it into RESULTS.md."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="replace the section of bench/RESULTS.md")
    arguments = parser.parse_args()
    text = section()
    print(text)
    if arguments.write:
        write_sections(text)


if __name__ == "__main__":
    main()
