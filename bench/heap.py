"""Measure the heap beside its peers: ns per alloc + free from C and from Python, and footprint.

    python -m bench.heap [--mimalloc LIBRARY] [--offset-allocator LIBRARY] [--models FOLDER] [--write]

The peers are shared libraries as upstream builds them (github.com/microsoft/mimalloc and
github.com/sebbbi/OffsetAllocator); without one, its column says so. All run in one process, round by round in turn;
each time is the least of its rounds.
"""

import argparse
import csv
import json
import random
import struct
import subprocess
import sys
import tempfile
import timeit
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.machine import describe
from bench.sections import table, write_sections
from etarena.allocator import Arena, OffsetHeap
from etarena.allocator.replay import Step, from_lifetimes

ROOT = Path(__file__).parent.parent
OURS = ["etarena", "etarena+release", "etarena+find", "etarena+lock"]
HEADING = "## Heap"
NOTES = """\
ns per pair of alloc and free from C, pages not touched. `random`: 64 live blocks, sizes uniform from 1 KiB to 16 MiB, a
random one replaced at each step. `model`: the buffers of a model, each allocated at its first use and freed after its
last. `release` gives memory behind free ranges back to the system (what an `Arena` does), `find` looks the block up by
address, `lock` does so under an uncontended mutex. `footprint`: highest end of a block / peak of live bytes; for
`release` in parentheses, bytes that may have memory behind them / peak of live bytes."""


def lifo() -> list[Step]:
    """One block of 64 KiB, again and again."""
    return [Step(0, 65536), Step(0, None)] * 1000


def random_blocks(n: int = 100_000, live: int = 64, seed: int = 1) -> list[Step]:
    numbers = random.Random(seed)
    steps = [Step(slot, numbers.randint(1024, 16 << 20)) for slot in range(live)]
    for _ in range(n):
        slot = numbers.randrange(live)
        steps += [Step(slot, None), Step(slot, numbers.randint(1024, 16 << 20))]
    return steps + [Step(slot, None) for slot in range(live)]


def model(path: Path) -> list[Step]:
    rows = [[int(row[key]) for key in ("size", "lower", "upper")] for row in csv.DictReader(path.open())]
    return from_lifetimes(*zip(*rows, strict=True))


def traces(folder: Path) -> dict[str, list[Step]]:
    found = {"same size, LIFO": lifo(), "random": random_blocks()}
    return found | {f"model {path.stem}": model(path) for path in sorted(folder.glob("*.csv"))}


def build_driver(folder: Path) -> Path:
    """Compile heap_driver.c with the flags of the modules."""
    driver = folder / "heap_driver"
    sources = [ROOT / "bench" / "heap_driver.c", *sorted((ROOT / "allocator" / "native").glob("*.c"))]
    include = f"-I{ROOT / 'allocator' / 'native'}"
    subprocess.run(["cc", "-std=c11", "-O2", "-g0", include, *sources, "-o", driver, "-ldl", "-lpthread"], check=True)
    return driver


def measure(driver: Path, steps: list[Step], allocators: Sequence[str], rounds: int) -> dict[str, Any]:
    with tempfile.NamedTemporaryFile(suffix=".trace") as file:
        file.write(b"".join(struct.pack("qq", s.slot, -1 if s.nbytes is None else s.nbytes) for s in steps))
        file.flush()
        command = [str(driver), file.name, str(rounds), *allocators]
        return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def python_pairs() -> list[tuple[str, str]]:
    """ns per pair from Python, the least of many rounds."""
    arena, heap = Arena(), OffsetHeap(1 << 30)
    ways = {
        "`arena.alloc(5000).free()`": lambda: arena.alloc(5000).free(),
        "`heap.free(heap.alloc(5000))`, an `OffsetHeap`": lambda: heap.free(heap.alloc(5000)),
    }
    return [(name, f"{min(timeit.repeat(way, number=5000, repeat=60)) / 5000 * 1e9:.0f}") for name, way in ways.items()]


def row(name: str, found: dict[str, Any], peers: Sequence[str]) -> list[str]:
    ways, live = found["allocators"], found["peak_live"]
    ours = ways["etarena"]["ns"]
    cells = [name, *(f"{ways[way]['ns']:.1f}" for way in OURS)]
    for peer in peers:
        cells.append(f"{ways[peer]['ns']:.1f} ({ours / ways[peer]['ns']:.2f})" if peer in ways else "not measured")
    backed = ways["etarena+release"]["backed"] / live
    cells.append(f"{ways['etarena']['extent'] / live:.3f} ({backed:.3f})")
    theirs = ways.get("offset_allocator")
    return [*cells, f"{theirs['extent'] / live:.3f}" if theirs else "not measured"]


def section(arguments: argparse.Namespace) -> str:
    """The text of the section of RESULTS.md."""
    peers = {"offset_allocator": arguments.offset_allocator, "mimalloc": arguments.mimalloc}
    allocators = [*OURS, "none", *(f"{name}={path}" for name, path in peers.items() if path)]
    with tempfile.TemporaryDirectory() as folder:
        driver = build_driver(Path(folder))
        rows = []
        for name, steps in traces(arguments.models).items():
            found = measure(driver, steps, allocators, arguments.rounds)
            rows.append(row(name, found, list(peers)))
            print(" | ".join(rows[-1]), file=sys.stderr)
    heads = ["trace", *OURS, *(f"{peer} (ratio)" for peer in peers), "footprint", "offset_allocator's"]
    options = "".join(f" --{name.replace('_', '-')} LIBRARY" for name, path in peers.items() if path)
    return "\n\n".join(
        [
            HEADING,
            NOTES,
            f"```\npython -m bench.heap{options} --rounds {arguments.rounds}\n```",
            table(("", ""), describe()),
            table(heads, rows),
            "From Python, ns per pair:",
            table(("", "ns"), python_pairs()),
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mimalloc", metavar="LIBRARY", type=Path)
    parser.add_argument("--offset-allocator", metavar="LIBRARY", type=Path)
    parser.add_argument("--models", metavar="FOLDER", type=Path, default=ROOT / "tests" / "data" / "models")
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--write", action="store_true", help="put the section into bench/RESULTS.md")
    arguments = parser.parse_args()
    text = section(arguments)
    print(text)
    if arguments.write:
        write_sections(text)


if __name__ == "__main__":
    main()
