"""Our Vulkan delegate beside ncnn's Vulkan, on the same device, and beside XNNPACK on the CPU.

``python -m bench.vulkan_ncnn [--write] [--seconds S] [CASE ...]`` prints the table; with ``--write`` it goes into
RESULTS.md. Needs the package ``ncnn``, which nothing else needs.

Each way gets the input from the CPU's memory and gives the result there; all run in turn in one process. ncnn runs
with fp32 and, as it does unless told otherwise, with fp16: the faster of the two counts. Where a linear layer can be
given to ncnn in two ways, both are rows.
"""

import argparse
import logging
from collections.abc import Callable, Iterator
from functools import partial
from statistics import median
from typing import Any, NamedTuple

import torch
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from torch import Tensor, nn

import etarena
from etarena.quiet import quiet

from .ncnn_models import MobileNetV2, Ncnn, NcnnNet, conv_net, gemm_net, linear_net, matmul_net, mobilenet_net
from .sections import table, write_sections
from .side_by_side import in_turn, median_ratio, rounds_within

TITLE = "Vulkan beside ncnn"
HEADS = [
    "case",
    "etarena Vulkan ms",
    "ncnn fp32 ms",
    "ncnn fp16 ms",
    "XNNPACK ms",
    "ratio to ncnn",
    "to XNNPACK",
    "error",
]
TEXT = f"""## {TITLE}

`python -m bench.vulkan_ncnn --write`: one model for each row, fp32, input and output in the CPU's memory. Times are
medians; the ratio is the median over rounds in which all ran in turn, to the faster of ncnn's two ways. Target: at most
1.0 x ncnn. The error is the largest difference from eager PyTorch beside its largest number.

"""


class Matmul(nn.Module):
    """A product of two inputs."""

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        """As torch does."""
        return a @ b


class Case(NamedTuple):
    """A model with its inputs, and ncnn's network for the inputs without their batch."""

    name: str
    module: nn.Module
    inputs: tuple[Tensor, ...]
    net: NcnnNet
    batched: bool


def cases() -> Iterator[Case]:
    """Each case with random weights."""
    for m, k, n in ((128, 768, 768), (512, 512, 512), (1, 1280, 1000)):
        linear, x = nn.Linear(k, n), torch.randn(m, k)
        yield Case(f"linear {m} x {k} x {n}", linear, (x,), linear_net(linear, m), m == 1)
        if m > 1:
            yield Case(f"linear {m} x {k} x {n} (ncnn's Gemm)", linear, (x,), gemm_net(linear, m), batched=False)
    pair = torch.randn(512, 512), torch.randn(512, 512)
    yield Case("matmul 512 x 512 x 512", Matmul(), pair, matmul_net(512, 512, 512), batched=False)
    for name, conv, shape in (
        ("conv 3x3 64-64 at 56", nn.Conv2d(64, 64, 3, 1, 1), (64, 56, 56)),
        ("conv 1x1 32-192 at 56", nn.Conv2d(32, 192, 1), (32, 56, 56)),
        ("depthwise 3x3 96 at 56", nn.Conv2d(96, 96, 3, 1, 1, groups=96), (96, 56, 56)),
        ("conv 7x7 stride 2 3-32 at 224", nn.Conv2d(3, 32, 7, 2, 3), (3, 224, 224)),
    ):
        yield Case(name, conv, (torch.randn(1, *shape),), conv_net(conv, shape), batched=True)
    model = MobileNetV2()
    for part in model.modules():
        if isinstance(part, nn.Conv2d):
            nn.init.kaiming_normal_(part.weight)
    yield Case("MobileNetV2 at 224", model, (torch.randn(1, 3, 224, 224),), mobilenet_net(model), batched=True)


def row(case: Case, seconds: float) -> list[str]:
    """Measure one case."""
    ways: dict[str, Callable[[], Any]] = {}
    for name, partitioner in (("vulkan", etarena.VulkanPartitioner()), ("xnnpack", XnnpackPartitioner())):
        with quiet():
            program = etarena.export(case.module, case.inputs, partitioners=[partitioner])
        method = etarena.load(program.buffer).method()
        ways[name] = partial(method, *case.inputs)
    arrays = [(x[0] if case.batched else x).contiguous().numpy() for x in case.inputs]
    for name, half in (("fp32", False), ("fp16", True)):
        ways[name] = partial(Ncnn(case.net, half=half).run, *arrays)
    expected = case.module(*case.inputs)
    found = ways["vulkan"]()
    error = (torch.from_dlpack(found[0] if isinstance(found, tuple | list) else found) - expected).abs().max()
    samples = in_turn(ways, rounds_within(lambda: [call() for call in ways.values()], seconds, least=9))
    times = {name: median(samples[name]) / 1e6 for name in ways}
    best = min(("fp32", "fp16"), key=times.__getitem__)
    return [
        case.name,
        *(f"{times[name]:.2f}" for name in ("vulkan", "fp32", "fp16", "xnnpack")),
        f"{median_ratio(samples, 'vulkan', best):.3f}",
        f"{median_ratio(samples, 'vulkan', 'xnnpack'):.1f}",
        f"{float(error / expected.abs().max()):.1e}",
    ]


def main() -> None:
    """Measure and print, or write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="put the table into bench/RESULTS.md")
    parser.add_argument("--seconds", type=float, default=10.0, help="for each case")
    parser.add_argument("cases", nargs="*", help="parts of names of cases; all by default")
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    torch.manual_seed(0)
    rows = []
    with torch.no_grad():
        for case in cases():
            if options.cases and not any(part in case.name for part in options.cases):
                continue
            rows.append(row(case, options.seconds))
            print(" | ".join(rows[-1]), flush=True)
            if options.write:
                write_sections(TEXT + table(HEADS, rows) + "\n")


if __name__ == "__main__":
    main()
