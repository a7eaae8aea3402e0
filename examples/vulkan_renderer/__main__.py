"""Draw the scene by itself: ``python -m examples.vulkan_renderer``. The screen shows the frame before."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from .context import Context
from .pictures import read, save_gif, save_png
from .renderer import FORMATS, Renderer
from .scene import PERIOD


def main() -> None:
    """Read the command line and write the pictures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("out/vulkan_renderer"), help="folder of the pictures")
    parser.add_argument("--size", type=int, nargs=2, default=(640, 360), metavar=("WIDTH", "HEIGHT"))
    parser.add_argument("--format", choices=list(FORMATS), default="rgba8")
    parser.add_argument("--frames", type=int, default=48, help="how many are drawn of one round")
    parser.add_argument("--in-flight", type=int, default=3)
    parser.add_argument("--samples", type=int, choices=[1, 4], default=4, help="of each texel")
    parser.add_argument("--noisy", action="store_true", help="shadows by one random ray per texel")
    parser.add_argument("--validation", action="store_true", help="let the validation layer check everything")
    given = parser.parse_args()
    pictures, spent = [], 0.0
    with (
        Context(validation=given.validation) as context,
        Renderer(context, *given.size, given.format, frames=max(2, given.in_flight), samples=given.samples) as renderer,
    ):
        before = None
        for number in range(given.frames):
            begun = time.perf_counter()
            frame = renderer.draw(number * PERIOD / given.frames, before, noisy=given.noisy)
            renderer.wait(frame.number)
            spent += time.perf_counter() - begun
            before = frame.picture()
            pictures.append(read(context, frame))
    for number, picture in enumerate(pictures[:: max(1, given.frames // 4)]):
        save_png(given.out / f"frame{number}.png", picture)
    save_gif(given.out / "scene.gif", pictures, PERIOD)
    print(f"{given.frames} frames, {1000 * spent / given.frames:.1f} ms each, in {given.out}")
    for message in context.messages:
        print(message)
    if context.messages:
        raise SystemExit("the validation layer said something")


if __name__ == "__main__":
    main()
