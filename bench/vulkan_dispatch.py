"""What a recorded Vulkan delegate costs beside its commands.

    python -m bench.vulkan_dispatch [--write] [--seconds S]

A model of 50 operators on few numbers runs at one shape again and again, and in turn with it the command buffer that
the delegate recorded is submitted as it is. The difference is the price of the method, the delegate and its copies.
"""

import argparse
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from statistics import median
from typing import Any

import torch
from torch import Tensor, nn

import etarena
from bench.machine import describe
from bench.sections import table, write_sections
from bench.side_by_side import in_turn, rounds_within
from etarena import vulkan
from etarena.quiet import quiet

__all__ = ["OPERATORS", "Chain", "recorded", "ways"]

OPERATORS = 50
TARGET_US = 60.0
TITLE = "Dispatch on Vulkan"


class Chain(nn.Module):
    """Operators one after another, none of which becomes one with its neighbour."""

    def forward(self, x: Tensor) -> Tensor:
        """Numbers stay small."""
        for _ in range(OPERATORS // 2):
            x = torch.tanh(torch.abs(x))
        return x


@contextmanager
def recorded(device: vulkan.Device) -> Iterator[list[Any]]:
    """All commands that are run on a device in the block."""
    found: list[Any] = []
    run = device.run

    def listen(commands: Any, timeout: float | None = 10.0) -> None:
        found.append(commands)
        run(commands, timeout)

    device.run = listen  # type: ignore[method-assign]
    try:
        yield found
    finally:
        del device.run  # type: ignore[method-assign]


def ways(device: vulkan.Device, x: Tensor) -> dict[str, Callable[[], object]]:
    """The method, and its commands alone.

    Parameters
    ----------
    device : Device
        To run on.
    x : Tensor
        The input.
    """
    with quiet():
        exported = etarena.export(
            Chain(),
            (torch.ones(7, 5),),
            dynamic_shapes=({0: torch.export.Dim.DYNAMIC, 1: torch.export.Dim.DYNAMIC},),
            partitioners=[etarena.VulkanPartitioner()],
        )
    method = etarena.load(exported.buffer, vulkan=device).method()
    inputs = [x]
    method.execute(inputs)
    with recorded(device) as runs:
        (result,) = method.execute(inputs)
    torch.testing.assert_close(result, Chain()(x), rtol=1e-4, atol=1e-5)
    (commands,) = runs
    return {"method": lambda: method.execute(inputs), "commands": lambda: device.run(commands, None)}


def main() -> None:
    """Measure and print, or write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="put the section into bench/RESULTS.md")
    parser.add_argument("--seconds", type=float, default=10.0, help="for each size")
    arguments = parser.parse_args()
    logging.disable(logging.WARNING)
    device = vulkan.Device.create()
    rows = []
    for shape in ((4, 4), (32, 32)):
        both = ways(device, torch.randn(shape))
        samples = in_turn(both, rounds_within(lambda both=both: [call() for call in both.values()], arguments.seconds))
        cost = [one - two for one, two in zip(samples["method"], samples["commands"], strict=True)]
        times = [median(samples[name]) / 1e3 for name in ("method", "commands")]
        figures = (*times, median(cost) / 1e3)
        rows.append((" x ".join(map(str, shape)), *(f"{time:.1f}" for time in figures), str(len(cost))))
        print(" | ".join(rows[-1]), flush=True)
    text = (
        f"`python -m bench.vulkan_dispatch --write`: a delegate of {OPERATORS} operators at a repeated shape, input\n"
        "and result in the CPU's memory, and in turn with it the command buffer that it recorded, submitted as it is.\n"
        f"Medians; the overhead is the median of the differences. Target: at most {TARGET_US:.0f} us."
    )
    heads = ("input", "method us", "commands us", "overhead us", "rounds")
    if arguments.write:
        write_sections("\n\n".join([f"## {TITLE}", text, table(("", ""), describe()), table(heads, rows)]))


if __name__ == "__main__":
    main()
