"""What a recorded Vulkan delegate costs beside its commands.

    python -m bench.vulkan_dispatch [--write] [--seconds S]

A model of 50 operators on few numbers runs at one shape again and again. What a call takes beside the time in which the
device has the recorded commands is the price of the method, the delegate and its copies. In turn with it the same
commands run alone, and as all that a delegate in Python does. With ``--write`` the table goes into RESULTS.md.
"""

import argparse
import logging
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from statistics import median
from typing import Any

import torch
from torch import Tensor, nn

import etarena
from bench.machine import describe
from bench.sections import table, write_sections
from etarena import vulkan
from etarena.quiet import quiet
from examples.python_delegate import NumpySoftmax, NumpySoftmaxPartitioner

__all__ = ["OPERATORS", "Chain", "Runs", "Thin", "loaded", "measure", "thin_delegate", "timed_runs"]

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


@dataclass
class Runs:
    """Each time that commands are given to a device and waited for."""

    times: list[int] = field(default_factory=list)  # ns
    commands: Any = None  # the last


@contextmanager
def timed_runs(device: vulkan.Device) -> Iterator[Runs]:
    """Watch a device in the block."""
    found = Runs()
    run = device.run

    def listen(commands: Any, timeout: float | None = 10.0) -> None:
        begun = time.perf_counter_ns()
        run(commands, timeout)
        found.times.append(time.perf_counter_ns() - begun)
        found.commands = commands

    device.run = listen  # type: ignore[method-assign]  # of this device, while it is timed
    try:
        yield found
    finally:
        del device.run  # type: ignore[method-assign]  # the class's again


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


class Thin(etarena.Delegate):
    """Submits `commands` and does nothing else."""

    device: vulkan.Device
    commands: Any = None

    def execute(self, args: Any, scratch: memoryview) -> None:
        """Whatever the arguments are."""
        self.device.run(self.commands, None)


@contextmanager
def thin_delegate(device: vulkan.Device, commands: Any) -> Iterator[Any]:
    """A method that is one delegate, which submits these commands."""
    Thin.device, Thin.commands = device, commands
    etarena.register_delegate(NumpySoftmax.__name__, Thin)
    try:
        with quiet():
            model, given = nn.Softmax(-1), (torch.ones(4, 4),)
            exported = etarena.export(model, given, partitioners=[NumpySoftmaxPartitioner()])
        yield etarena.load(exported.buffer).method()
    finally:
        etarena.unregister_delegate(NumpySoftmax.__name__)
        Thin.commands = None


def measure(device: vulkan.Device, method: Any, x: Tensor, seconds: float) -> dict[str, list[int]]:
    """Nanoseconds of each call of the method (``call``), of the part in which the device had its commands
    (``commands``), of the same ``alone``, of a ``thin`` delegate's call without that part, and of a ``plain`` call that
    follows such a wait.
    """
    torch.testing.assert_close(method.execute([x])[0], Chain()(x), rtol=1e-4, atol=1e-5)
    with timed_runs(device) as runs:
        method.execute([x])
    found: dict[str, list[int]] = {"call": [], "commands": [], "alone": [], "thin": [], "plain": []}
    with quiet():
        plain = etarena.load(etarena.export(nn.Tanh(), (x,)).buffer).method()
    with thin_delegate(device, runs.commands) as thin:
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            with timed_runs(device) as runs:
                call = elapsed(method.execute, [x])
                alone = elapsed(device.run, runs.commands, None)
                found["plain"].append(elapsed(plain.execute, [x]))
                beside = elapsed(thin.execute, [x[:4, :4].contiguous()])
            found["call"].append(call)
            found["commands"].append(runs.times[0])
            found["alone"].append(alone)
            found["thin"].append(beside - runs.times[2])
    return found


def elapsed(call: Any, *arguments: Any) -> int:
    """Nanoseconds of a call."""
    begun = time.perf_counter_ns()
    call(*arguments)
    return time.perf_counter_ns() - begun


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
        found = measure(device, method, torch.randn(shape), arguments.seconds)
        found["overhead"] = [call - run for call, run in zip(found["call"], found["commands"], strict=True)]
        figures = [
            f"{median(found[name]) / 1e3:.1f}" for name in ("call", "commands", "overhead", "alone", "thin", "plain")
        ]
        rows.append((" x ".join(map(str, shape)), *figures, str(len(found["call"]))))
        print(" | ".join(rows[-1]), flush=True)
    text = (
        f"`python -m bench.vulkan_dispatch --write`: a delegate of {OPERATORS} operators at a repeated shape, input\n"
        "and result in the CPU's memory. `commands`: the part of a call in which the commands, recorded once, are\n"
        "given to the device and waited for (`Device.run`). `overhead`: all else in the call: etarena's part,\n"
        "ExecuTorch's, the delegate's, its two copies and the tensor that is handed out. `alone`: the same commands\n"
        "through `Device.run` without a model. `thin`: the overhead, counted in the same way, of a delegate in Python\n"
        "that does nothing but submit them. `plain`: a call of one operator on the CPU, without a delegate, just\n"
        "after such a wait. Medians over calls made in turn. After a wait a core is cold, so a busy\n"
        f"machine shows more than a quiet one; the load average was {os.getloadavg()[0]:.1f}. Target: an overhead of\n"
        f"at most {TARGET_US:.0f} us."
    )
    heads = ("input", "call us", "commands us", "overhead us", "alone us", "thin us", "plain us", "calls")
    if arguments.write:
        write_sections("\n\n".join([f"## {TITLE}", text, table(("", ""), describe()), table(heads, rows)]))


if __name__ == "__main__":
    main()
