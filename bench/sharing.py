"""Three programs that take turns in one arena: its peak beside what each needs alone.

``python -m bench.sharing [--write]`` prints the table; with ``--write`` it goes into RESULTS.md.
"""

import argparse
import logging
from typing import Any, NamedTuple

import torch
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner

import etarena
from etarena.report.units import bytes_text

from .models import MODELS
from .sections import table, write_sections

__all__ = ["Shared", "measure", "section"]

PROGRAMS: dict[str, tuple[int, ...]] = {
    "normed_unet": (1, 256, 256),
    "selected": (50_000,),
    "slot_attention": (1, 1500),
}
"""Models that XNNPACK runs in parts, and sizes at which they need about as much as each other."""
TURNS = 4


class Shared(NamedTuple):
    """Bytes that an arena committed for activations: for each program alone, and for all of them in turns."""

    alone: dict[str, int]
    together: int


def measure(turns: int = TURNS) -> Shared:
    """Load the programs, each into an arena of its own, then all into one; run them in turns on garbage."""
    files, inputs = {}, {}
    for name, size in PROGRAMS.items():
        model = MODELS[name].make()
        inputs[name] = list(model.inputs(size))
        with torch.no_grad():
            files[name] = etarena.export(
                model.module,
                model.inputs(model.example),
                dynamic_shapes=model.dynamic_shapes(),
                partitioners=[XnnpackPartitioner()],
            ).buffer
    alone = {name: _committed({name: files[name]}, inputs, turns) for name in files}
    return Shared(alone, _committed(files, inputs, turns))


def _committed(files: dict[str, bytes], inputs: dict[str, list[Any]], turns: int) -> int:
    arena = etarena.Arena(name="shared")
    methods = {name: etarena.load(file, arena=arena).method() for name, file in files.items()}
    for _ in range(turns):
        for name, method in methods.items():
            arena.scribble()
            method.execute(inputs[name])
    return arena.stats.activation_committed


def section(shared: Shared) -> str:
    """The section of RESULTS.md."""
    rows = [(name, " x ".join(map(str, PROGRAMS[name])), bytes_text(count)) for name, count in shared.alone.items()]
    largest = max(shared.alone.values())
    text = (
        f"Memory committed for activations and XNNPACK's scratch by three programs, each alone and all three in\n"
        f"{TURNS} turns in one arena: {bytes_text(shared.together)}, {shared.together / largest:.4f} x the largest "
        f"alone (target: at\nmost 1.02 x). In arenas of their own they take {bytes_text(sum(shared.alone.values()))}."
    )
    command = "```\npython -m bench.sharing --write\n```"
    return "\n\n".join(("## Programs that share an arena", text, command, table(("program", "size", "alone"), rows)))


def main() -> None:
    """Measure and print, or write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="put the table into bench/RESULTS.md")
    arguments = parser.parse_args()
    logging.disable(logging.WARNING)
    text = section(measure())
    print(text)
    if arguments.write:
        write_sections(text + "\n")


if __name__ == "__main__":
    main()
