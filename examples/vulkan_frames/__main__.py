"""Draw, paint, and show what was painted in the next frames: ``python -m examples.vulkan_frames``."""

from __future__ import annotations

import argparse
import time
from collections import deque
from pathlib import Path as File
from typing import TYPE_CHECKING

import numpy as np

import etarena
from examples.vulkan_renderer.context import Context
from examples.vulkan_renderer.pictures import read, save_gif, save_png
from examples.vulkan_renderer.renderer import Renderer
from examples.vulkan_renderer.scene import PERIOD

from .model import export_painter
from .paths import OnDevice, ThroughCpu

if TYPE_CHECKING:
    from collections.abc import Iterator

    from examples.vulkan_renderer.renderer import Frame

    from .paths import Painted, Path

IN_FLIGHT = 3  # frames


def show(renderer: Renderer, path: Path, frames: int) -> Iterator[tuple[Frame, Painted]]:
    """Draw frames that show, on the screen in the scene, what was painted two frames before."""
    painting: deque[Painted] = deque()
    for number in range(frames):
        picture, wait = None, []
        if len(painting) == IN_FLIGHT - 1:
            painted = painting.popleft()
            painted.finish()
            picture, wait = painted.frame.picture(), [painted.frame.done]
        frame = renderer.draw(number * PERIOD / frames, picture, wait=wait)
        painting.append(path.start(frame))
        yield frame, painting[-1]
    for painted in painting:
        painted.finish()


def time_per_frame(renderer: Renderer, path: Path, frames: int) -> float:
    """Milliseconds, after some frames that are not counted."""
    for _ in show(renderer, path, IN_FLIGHT + 1):
        pass
    begun = time.perf_counter()
    for _ in show(renderer, path, frames):
        pass
    return 1000 * (time.perf_counter() - begun) / frames


def save_pictures(context: Context, renderer: Renderer, path: Path, frames: int, out: File) -> None:
    """Write a GIF of what is drawn, and some frames beside what was made of them."""
    pictures = []
    for number, (frame, painted) in enumerate(show(renderer, path, frames)):
        pictures.append(read(context, frame))
        if number % max(1, frames // 4) == 0:
            painted.finish()
            save_png(out / f"frame{number}.png", np.concatenate([pictures[-1], read(context, painted.frame)], 1))
    save_gif(out / "frames.gif", pictures, PERIOD)


def main() -> None:
    """Read the command line, write the pictures, print what it took."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=File, default=File("out/vulkan_frames"), help="folder of the pictures")
    parser.add_argument("--size", type=int, nargs=2, default=(640, 360), metavar=("WIDTH", "HEIGHT"))
    parser.add_argument("--frames", type=int, default=36, help="how many are drawn of one round")
    parser.add_argument("--validation", action="store_true", help="let the validation layer check everything")
    given = parser.parse_args()
    models = {device: export_painter(device) for device in ("vulkan", "cpu")}
    with (
        Context(validation=given.validation) as context,
        Renderer(context, *given.size, frames=IN_FLIGHT, samples=4) as renderer,
    ):
        on_device = OnDevice(context, renderer, models["vulkan"], IN_FLIGHT)
        with etarena.zero_copy(), etarena.record_copies() as copies:
            fast = time_per_frame(renderer, on_device, given.frames)
        copied = sum(copy.nbytes for copy in (*copies, *on_device.copies()))
        save_pictures(context, renderer, on_device, given.frames, given.out)
        renderer.wait(renderer.number - 1)
        on_device.close()
        through_cpu = ThroughCpu(context, renderer, models["cpu"], IN_FLIGHT)
        slow = time_per_frame(renderer, through_cpu, given.frames)
        through_cpu.close()
    width, height = given.size
    print(f"{width} x {height}, {given.frames} frames, {IN_FLIGHT} in flight; pictures are in {given.out}")
    print(f"images stay on the device: {fast:7.1f} ms a frame, {copied} bytes copied (under zero_copy())")
    print(f"copied through the CPU:    {slow:7.1f} ms a frame, {2 * 4 * width * height} bytes of texels copied")
    for message in context.messages:
        print(message)
    if context.messages:
        raise SystemExit("the validation layer said something")


if __name__ == "__main__":
    main()
