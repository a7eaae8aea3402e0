"""What a recorded Vulkan delegate costs beside its commands.

    python -m bench.vulkan_dispatch [--write] [--seconds S]

A model of 50 operators on few numbers runs at one shape again and again. What a call takes beside the time in which the
device has the recorded commands is the price of the method, the delegate and its copies.
"""

import argparse
import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import median
from typing import Any

import torch
from torch import Tensor, nn

import etarena
from bench.machine import describe
from bench.sections import table, write_sections
from etarena import vulkan
from etarena.quiet import quiet

__all__ = ["OPERATORS", "Chain", "loaded", "measure", "timed_runs"]

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
def timed_runs(device: vulkan.Device) -> Iterator[list[int]]:
    """Nanoseconds of each time that commands are given to a device and waited for in the block."""
    found: list[int] = []
    run = device.run

    def listen(commands: Any, timeout: float | None = 10.0) -> None:
        begun = time.perf_counter_ns()
        run(commands, timeout)
        found.append(time.perf_counter_ns() - begun)

    device.run = listen  # type: ignore[method-assign]
    try:
        yield found
    finally:
        del device.run  # type: ignore[method-assign]


def loaded(device: vulkan.Device) -> Any:
    """The method, with sizes that vary."""
    with quiet():
        exported = etarena.export(
            Chain(),
            (torch.ones(7, 5),),
            dynamic_shapes=({0: torch.export.Dim.DYNAMIC, 1: torch.export.Dim.DYNAMIC},),
            partitioners=[etarena.VulkanPartitioner()],
        )
    return etarena.load(exported.buffer, vulkan=device).method()


def measure(device: vulkan.Device, method: Any, x: Tensor, seconds: float) -> tuple[list[int], list[int]]:
    """Nanoseconds of each call of the method, and of the part in which the device had its commands."""
    torch.testing.assert_close(method.execute([x])[0], Chain()(x), rtol=1e-4, atol=1e-5)
    calls: list[int] = []
    end = time.perf_counter() + seconds
    with timed_runs(device) as runs:
        while time.perf_counter() < end:
            begun = time.perf_counter_ns()
            method.execute([x])
            calls.append(time.perf_counter_ns() - begun)
    return calls, runs


def main() -> None:
    """Measure and print, or write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="put the section into bench/RESULTS.md")
    parser.add_argument("--seconds", type=float, default=10.0, help="for each size")
    arguments = parser.parse_args()
    logging.disable(logging.WARNING)
    device = vulkan.Device.create()
    method = loaded(device)
    rows = []
    for shape in ((4, 4), (32, 32)):
        calls, runs = measure(device, method, torch.randn(shape), arguments.seconds)
        cost = [call - run for call, run in zip(calls, runs, strict=True)]
        figures = [f"{median(values) / 1e3:.1f}" for values in (calls, runs, cost)]
        rows.append((" x ".join(map(str, shape)), *figures, str(len(calls))))
        print(" | ".join(rows[-1]), flush=True)
    text = (
        f"`python -m bench.vulkan_dispatch --write`: a delegate of {OPERATORS} operators at a repeated shape, input\n"
        "and result in the CPU's memory. In each call the commands, recorded once, are given to the device and waited\n"
        "for; the overhead is all else: etarena's call, ExecuTorch's, and the delegate's. Medians.\n"
        f"Target: at most {TARGET_US:.0f} us."
    )
    heads = ("input", "call us", "commands us", "overhead us", "calls")
    if arguments.write:
        write_sections("\n\n".join([f"## {TITLE}", text, table(("", ""), describe()), table(heads, rows)]))


if __name__ == "__main__":
    main()
