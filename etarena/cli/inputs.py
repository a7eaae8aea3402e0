"""The inputs of a run: from files, or random of a given shape."""

import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..allocator.errors import SizeOverflowError
from ..description import INT64_MAX, describe_method
from ..report.units import bytes_text
from .units import shape_text

if TYPE_CHECKING:
    import torch

    from ..allocator.plan import Method

Shape = tuple[int, ...]


def plan_shapes(section: "Method", shapes: Sequence[Shape]) -> list[Shape | int]:
    """Return what `plan_for` takes: a shape for each tensor input, a number for each int input that is a size."""
    items = [item for item in describe_method(section)["inputs"] if _is_sized(item)]
    return [_number(item, shape) if "symbol" in item else shape for item, shape in _assign(items, shapes)]


def make_inputs(
    section: "Method | None", files: Sequence[Path], shapes: Sequence[Shape], seed: int, int_limit: int
) -> list[Any]:
    """Return the inputs of a method: arrays from files for the first tensor inputs, then seeded random ones.

    Floating-point values are standard normal, integers lie in ``[0, int_limit)``. A stock file (no `section`) does not
    say what it takes: it gets the files, then a float32 tensor for each shape.
    """
    import torch

    generator = torch.Generator().manual_seed(seed)
    if section is None:
        return [*map(_read, files), *(_random("float32", shape, generator, int_limit) for shape in shapes)]
    items = describe_method(section)["inputs"]
    tensors = [item["name"] for item in items if item["kind"] == "tensor"]
    if len(files) > len(tensors):
        raise click.UsageError(f"{len(files)} --input for {len(tensors)} tensor inputs")
    arrays = {name: _read(path) for name, path in zip(tensors, files, strict=False)}
    sized = [item for item in items if _is_sized(item) and item["name"] not in arrays]
    sizes = {item["name"]: (item, shape) for item, shape in _assign(sized, shapes)}
    inputs: list[Any] = []
    for item in items:
        if item["name"] in arrays:
            inputs.append(arrays[item["name"]])
        elif item["kind"] == "tensor":
            inputs.append(_random(item["dtype"], sizes[item["name"]][1], generator, int_limit))
        elif "symbol" in item:
            inputs.append(_number(*sizes[item["name"]]))
        else:
            inputs.append(item["value"])
    return inputs


def physical_memory() -> int:
    """Bytes of memory of this machine."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _is_sized(item: dict[str, Any]) -> bool:
    return item["kind"] == "tensor" or "symbol" in item


def _fixed(item: dict[str, Any]) -> Shape | None:
    """Return the shape of an input that can have no other."""
    if "symbol" in item or not all(size.isdigit() for size in item["shape"]):
        return None
    return tuple(map(int, item["shape"]))


def _assign(items: list[dict[str, Any]], shapes: Sequence[Shape]) -> list[tuple[dict[str, Any], Shape]]:
    """Give each input its shape, in turn; inputs of a fixed shape may be left out, all of them together."""
    if len(shapes) == len(items):
        return list(zip(items, shapes, strict=True))
    open_items = [item for item in items if _fixed(item) is None]
    if len(shapes) != len(open_items):
        wanted = ", ".join(f"{item['name']} ({_wanted(item)})" for item in open_items) or "none"
        raise click.UsageError(f"{len(shapes)} --shape given; inputs that need one, in order: {wanted}")
    given = iter(shapes)
    return [(item, fixed if (fixed := _fixed(item)) is not None else next(given)) for item in items]


def _wanted(item: dict[str, Any]) -> str:
    return f"the number {item['symbol']}" if "symbol" in item else shape_text(item["shape"])


def _number(item: dict[str, Any], shape: Shape) -> int:
    if len(shape) != 1:
        raise click.UsageError(f"input {item['name']!r} is a number: give it as --shape N, in its turn")
    return shape[0]


def _read(path: Path) -> "torch.Tensor":
    import numpy as np
    import torch

    try:
        return torch.from_numpy(np.load(path, allow_pickle=False))
    except (ValueError, TypeError, EOFError) as error:
        raise click.ClickException(f"{str(path)!r} is no .npy file of numbers: {error}") from error


def _random(dtype: str, shape: Shape, generator: "torch.Generator", int_limit: int) -> "torch.Tensor":
    import torch

    kind = getattr(torch, dtype, None)
    if kind is None or kind.is_complex:
        raise click.UsageError(f"there are no random inputs of dtype {dtype}: give --input")
    # Random integers are drawn as int64, random floats as float32, then converted.
    nbytes = math.prod(shape) * (kind.itemsize + (4 if kind.is_floating_point else 8))
    if any(size > INT64_MAX for size in shape) or nbytes > physical_memory():
        raise SizeOverflowError(
            f"a random {dtype} input of shape {shape_text(shape)} needs {bytes_text(nbytes)}, more than the memory of "
            "this machine"
        )
    if kind.is_floating_point:
        return torch.randn(shape, generator=generator).to(kind)
    return torch.randint(0, 2 if kind is torch.bool else int_limit, shape, generator=generator).to(kind)
