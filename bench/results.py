"""Write into RESULTS.md what the JSON files of the benchmarks and the demo say."""

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from bench.machine import describe
from bench.sections import RESULTS, table, write_sections
from etarena.report.units import bytes_text

__all__ = ["results"]

Entry = dict[str, Any]
INTRODUCTION = """\
Written by `python -m bench.results` from the last measurement. Times are medians; ratios of times are medians over
rounds in which all ways ran in turn, in one process, on the same input."""
COMMANDS = ("make bench", "make demo", "python -m bench.results out/bench.json out/demo/figures.json")


def results(bench: dict[str, Any], demo: dict[str, Any] | None, machine: Sequence[tuple[str, str]]) -> str:
    """The introduction of RESULTS.md and the sections of these measurements.

    Parameters
    ----------
    bench : dict
        What pytest-benchmark wrote.
    demo : dict or None
        What the demo wrote as ``figures.json``.
    machine : sequence of (str, str)
        What describes the machine.
    """
    parts = [
        "# Results",
        INTRODUCTION,
        "```\n" + "\n".join(COMMANDS) + "\n```",
        table(("", ""), machine),
        *repeated_shape(entries(bench, "test_repeated_shape")),
        *new_shape(entries(bench, "test_plan_a_new_shape"), entries(bench, "test_planner_alone")),
        *switching(entries(bench, "test_switch_to_a_cached_plan"), entries(bench, "test_grow_the_arena")),
        *delegate_calls(entries(bench, "test_delegate_call")),
        *leaks(entries(bench, "test_memory_stays_flat")),
        *etensors(entries(bench, "test_etensor_interop"), entries(bench, "test_etensor_input")),
        *(demo_figures(demo) if demo else ()),
    ]
    return "\n\n".join(parts) + "\n"


def entries(bench: dict[str, Any], test: str) -> list[Entry]:
    """What one test recorded, an entry for each of its parameters."""
    found = [entry for entry in bench["benchmarks"] if entry["name"].partition("[")[0] == test]
    return [entry["extra_info"] | {"stats": entry["stats"]} for entry in found]


def title(entry: Entry) -> str:
    return f"{entry['model']} ({entry['backend']})"


def size_text(size: Sequence[int]) -> str:
    return " x ".join(map(str, size))


def repeated_shape(found: list[Entry]) -> Iterator[str]:
    if not found:
        return
    heads = ("model", "size", "etarena us", "stock dynamic us", "stock static us", "to dynamic", "to static", "rounds")
    yield "## A repeated shape"
    yield (
        "`stock dynamic` is the stock runtime (`executorch.runtime`) on a stock export bounded at the size,\n"
        "`stock static` on a stock export for this size alone. Target: at most 1.02 x stock dynamic."
    )
    yield table(
        heads,
        [
            (
                title(entry),
                size_text(entry["size"]),
                *(f"{entry['median_us'][way]:.1f}" for way in ("etarena", "stock dynamic", "stock static")),
                f"{entry['against_dynamic']:.3f}",
                f"{entry['against_static']:.3f}",
                str(entry["rounds"]),
            )
            for entry in found
        ],
    )


def new_shape(found: list[Entry], planner: list[Entry]) -> Iterator[str]:
    if found:
        yield "## A new shape"
        yield (
            "Time a run spends on planning when its shape is new: sizes, bytes, offsets.\n"
            "Target: at most 1 ms, and 1 us a buffer for the planner. With XNNPACK most of it is XNNPACK's own\n"
            "reshape, which tells what scratch it needs and which the run then does not do again."
        )
        heads = (
            "model",
            "buffers",
            "shapes",
            "median us",
            "99 % us",
            "largest us",
            "ns a buffer",
            "worst arena / lower bound",
        )
        yield table(
            heads,
            [
                (
                    title(entry),
                    str(entry["buffers"]),
                    str(entry["shapes"]),
                    *(f"{entry[name]:.1f}" for name in ("median_us", "p99_us", "largest_us")),
                    f"{entry['ns_per_buffer']:.0f}" if entry["ns_per_buffer"] else "",
                    f"{entry['worst_ratio']:.4f}",
                )
                for entry in found
            ],
        )
    counted = [entry for entry in planner if entry["buffers"]]
    if counted:
        yield "`plan_offsets` alone, called from Python with lists:"
        yield table(
            ("model", "buffers", "median us", "ns a buffer", "arena / lower bound"),
            [
                (
                    title(entry),
                    str(entry["buffers"]),
                    f"{entry['stats']['median'] * 1e6:.1f}",
                    f"{entry['stats']['median'] * 1e9 / entry['buffers']:.0f}",
                    f"{entry['ratio']:.4f}",
                )
                for entry in counted
            ],
        )


def delegate_calls(found: list[Entry]) -> Iterator[str]:
    if not found:
        return
    yield "## Delegate calls"
    yield (
        "What calling a delegate costs beside what it does: a chain of operators with and without a delegate that\n"
        "does nothing behind each, in turn; the difference for each delegate. Target: at most 5 us in Python, 0.3 us\n"
        "in C."
    )
    yield table(
        ("delegate", "us a call", "delegates", "rounds"),
        [(entry["kind"], f"{entry['cost_us']:.3f}", str(entry["calls"]), str(entry["rounds"])) for entry in found],
    )


def switching(switch: list[Entry], growth: list[Entry]) -> Iterator[str]:
    if switch or growth:
        yield "## Switching and growing"
    for entry in switch:
        yield (
            f"A method of {entry['tensors']} tensors, two shapes in turn: {entry['switch_us']:.1f} us a call; always\n"
            f"the same shape: {entry['same_us']:.1f} us. Switching to a cached plan, all pointers included, costs\n"
            f"{entry['cost_us']:.1f} us (median of the differences; target: at most 10 us)."
        )
    for entry in growth:
        yield (
            f"Allowing {entry['growth'] >> 20} MiB more for activations, without touching the pages: median\n"
            f"{entry['stats']['median'] * 1e6:.1f} us, largest {entry['stats']['max'] * 1e6:.1f} us (target: at most "
            "50 us). Nothing moves."
        )


def leaks(found: list[Entry]) -> Iterator[str]:
    if found:
        yield "## Leaks"
    for entry in found:
        yield (
            f"{title(entry)}, {entry['calls']:,} calls with {entry['shapes']:,} distinct shapes. Resident memory\n"
            f"after each tenth of them, in MiB: {', '.join(f'{size / (1 << 20):.1f}' for size in entry['resident'])};\n"
            f"growth from the first tenth to the last: {entry['growth'] / 1024:.0f} KiB."
        )


def etensors(interop: list[Entry], inputs: list[Entry]) -> Iterator[str]:
    if interop or inputs:
        yield "## ETensors"
    for entry in interop:
        yield (
            "One call from Python on a 3 x 4 tensor (target: at most 1000 ns), the loop around it included;\n"
            f"{entry['copied']} bytes were copied."
        )
        yield table(("call", "ns"), [(name, f"{ns:.0f}") for name, ns in entry["ns"].items()])
    for entry in inputs:
        kinds = ", ".join(f"{ns:.0f} ns as {kind}" for kind, ns in entry["ns_an_input"].items())
        yield (
            f"Each further input of `execute` costs {kinds}, from the Python object to the pointer that the\n"
            "runtime reads (target: at most 300 ns more than the pointer alone)."
        )


def demo_figures(demo: dict[str, Any]) -> Iterator[str]:
    yield "## Demo"
    yield (
        f"`make demo` took {demo['seconds']:.0f} s after set-up. Every size ran growing, shrinking and growing again,\n"
        "the arena filled with garbage before every run. `error`: largest difference from eager PyTorch over its\n"
        "largest magnitude, over all runs. `stock takes`: what ExecuTorch plans,\n"
        "bounded at the largest size, and XNNPACK's workspace at this one."
    )
    heads = ("model", "size", "error", "arena", "lower bound", "ratio", "total", "stock takes", "plan us", "run ms")
    rows = []
    for model in demo["models"]:
        for one in model["sizes"]:
            times = sorted(one["run_seconds"])
            rows.append(
                (
                    title(model | {"model": model["title"]}),
                    size_text(one["size"]),
                    "planned only" if one["error"] is None else f"{one['error']:.1e}",
                    bytes_text(one["arena_bytes"]),
                    bytes_text(one["lower_bound_bytes"]),
                    f"{one['ratio']:.4f}",
                    bytes_text(one["total_bytes"]),
                    bytes_text(one["stock_bytes"]),
                    f"{one['plan_ns'] / 1e3:.0f}",
                    f"{times[len(times) // 2] * 1e3:.1f}" if times else "",
                )
            )
    yield table(heads, rows)


def main(paths: Sequence[str]) -> None:
    """Read the JSON files of the benchmarks and, if there is one, of the demo; replace their sections of RESULTS.md."""
    files = [Path(path) for path in paths]
    bench, *rest = [json.loads(path.read_text()) for path in files if path.exists() or path is files[0]]
    demo = rest[0] if rest else None
    write_sections(results(bench, demo, describe()))
    print(RESULTS)


if __name__ == "__main__":
    main(sys.argv[1:] or ["out/bench.json", "out/demo/figures.json"])
