"""``--dynamic``: which dimensions of the inputs may vary, as text."""

import inspect
import re
from typing import Any

import click

_SPEC = re.compile(r"(?P<input>\w+):(?P<dim>-?\d+)(=(?P<name>[A-Za-z_]\w*)(,(?P<min>\d*)\.\.(?P<max>\d*))?)?")
FORMS = "'all', INPUT:DIM, INPUT:DIM=NAME or INPUT:DIM=NAME,MIN..MAX"


def dynamic_shapes(model: Any, args: tuple[Any, ...], kwargs: dict[str, Any], texts: list[str]) -> dict[str, Any]:
    """Build the ``dynamic_shapes`` of ``torch.export.export`` for a model and its example inputs.

    Parameters
    ----------
    model : torch.nn.Module
        Its ``forward`` names the inputs.
    args, kwargs
        Example inputs.
    texts : list of str
        ``all`` lets every dimension of every tensor vary where the model allows it. ``INPUT:DIM`` must vary.
        ``INPUT:DIM=NAME`` names the size, so that one name in several places means one size; ``,MIN..MAX`` limits it
        (either side may be empty). A later text overrides an earlier one.

    Raises
    ------
    click.UsageError
        A text is malformed, or names an input or a dimension that does not exist.
    """
    inputs = dict(inspect.signature(model.forward).bind(*args, **kwargs).arguments)
    shapes: dict[str, Any] = dict.fromkeys(inputs)
    sizes: dict[str, Any] = {}
    for text in texts:
        if text == "all":
            shapes = {name: _all_dynamic(value) for name, value in inputs.items()}
            continue
        match = _SPEC.fullmatch(text)
        if match is None:
            raise click.UsageError(f"--dynamic {text!r} is none of {FORMS}")
        name, dim = _place(match, inputs)
        shapes[name] = {**(shapes[name] or {}), dim: _size(match, sizes)}
    return shapes


def _all_dynamic(value: Any) -> Any:
    import torch
    from torch.utils import _pytree

    def dims(leaf: Any) -> Any:
        return dict.fromkeys(range(leaf.dim()), torch.export.Dim.AUTO) if isinstance(leaf, torch.Tensor) else None

    return _pytree.tree_map(dims, value)


def _place(match: re.Match[str], inputs: dict[str, Any]) -> tuple[str, int]:
    """Find the input by name or position and count its dimension from the front."""
    import torch

    name, dim = match["input"], int(match["dim"])
    if name.isdigit() and int(name) < len(inputs):
        name = list(inputs)[int(name)]
    if name not in inputs:
        raise click.UsageError(f"--dynamic {match[0]!r}: the model has no input {name!r}, only {', '.join(inputs)}")
    if not isinstance(inputs[name], torch.Tensor):
        raise click.UsageError(f"--dynamic {match[0]!r}: input {name!r} is no tensor; return dynamic_shapes instead")
    rank = inputs[name].dim()
    if not -rank <= dim < rank:
        raise click.UsageError(f"--dynamic {match[0]!r}: input {name!r} has {rank} dimensions")
    return name, dim % rank


def _size(match: re.Match[str], sizes: dict[str, Any]) -> Any:
    import torch

    if match["name"] is None:
        return torch.export.Dim.DYNAMIC
    if match["name"] not in sizes or match["min"] or match["max"]:
        limits = {key: int(match[key]) for key in ("min", "max") if match[key]}
        sizes[match["name"]] = torch.export.Dim(match["name"], **limits)
    return sizes[match["name"]]
