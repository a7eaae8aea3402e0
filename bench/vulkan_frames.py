"""Frames painted on the device beside frames copied through the CPU, at 1080p.

``python -m bench.vulkan_frames [--write] [--size WIDTH HEIGHT] [--rounds N]`` prints the table, which ``--write`` puts
into RESULTS.md. The application, the model and both ways are those of `examples.vulkan_frames`.
"""

import argparse
import logging
from functools import partial
from statistics import median

import etarena
from etarena.quiet import quiet
from examples.vulkan_frames.model import export_painter
from examples.vulkan_frames.paths import OnDevice, Path, ThroughCpu
from examples.vulkan_renderer.context import Context
from examples.vulkan_renderer.renderer import Frame, Renderer

from .sections import table, write_sections
from .side_by_side import in_turn, median_ratio

TITLE = "Frames through a model"
HEADS = ["way", "ms from image to image", "bytes copied", "images beside it"]
TEXT = f"""## {TITLE}

`python -m bench.vulkan_frames --write`: from a drawn VkImage of {{0}} x {{1}} texels to a painted one, done on the
device, with `examples.vulkan_frames`. Times are medians; the ratio is the median over rounds in which all ran in turn.
Copying is: read the image back, convert with PyTorch, run the model on the CPU's tensors, convert back, upload. The
bytes are those of its texels; images on the device are painted under `zero_copy()`. Target: at most 0.9 x the copying
way with the same model.

"""


def paint(path: Path, frame: Frame, renderer: Renderer) -> None:
    """Paint a drawn frame and wait until the device is done."""
    painted = path.start(frame)
    painted.finish()
    renderer.wait_for(painted.frame)


def painted_without_a_copy(path: OnDevice, frame: Frame, renderer: Renderer) -> None:
    """As `paint`; refuses copies."""
    with etarena.zero_copy():
        paint(path, frame, renderer)


def rows(width: int, height: int, rounds: int) -> list[list[str]]:
    """Measure."""
    with quiet():
        models = [export_painter("vulkan"), export_painter("cpu"), export_painter("cpu", xnnpack_alone=True)]
    with Context() as context, Renderer(context, width, height) as renderer:
        frame = renderer.draw(0.0)
        renderer.wait(frame.number)
        images = OnDevice(context, renderer, models[0], 1)
        same, alone = (ThroughCpu(context, renderer, model, 1) for model in models[1:])
        ways = {
            "images on the device": partial(painted_without_a_copy, images, frame, renderer),
            "copied, the same model": partial(paint, same, frame, renderer),
            "copied, XNNPACK alone": partial(paint, alone, frame, renderer),
        }
        samples = in_turn(ways, rounds)
        first, *_ = ways
        copied = [sum(copy.nbytes for copy in images.copies()), *[2 * 4 * width * height] * 2]
        for path in (images, same, alone):
            path.close()
    return [
        [name, f"{median(samples[name]) / 1e6:.1f}", str(nbytes), f"{median_ratio(samples, first, name):.2f}"]
        for (name, nbytes) in zip(ways, copied, strict=True)
    ]


def main() -> None:
    """Measure and print, or write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="put the table into bench/RESULTS.md")
    parser.add_argument("--size", type=int, nargs=2, default=(1920, 1080), metavar=("WIDTH", "HEIGHT"))
    parser.add_argument("--rounds", type=int, default=21)
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    text = TEXT.format(*options.size) + table(HEADS, rows(*options.size, options.rounds)) + "\n"
    print(text)
    if options.write:
        write_sections(text)


if __name__ == "__main__":
    main()
