"""Copies between devices, as operators: the export puts them where a value is wanted on another device than its own."""

import torch

from .library import LIBRARY

__all__ = ["TRANSFERS"]

LIBRARY.define("to_device(Tensor x, int type, int index) -> Tensor")
LIBRARY.define("to_device.out(Tensor x, int type, int index, *, Tensor(a!) out) -> Tensor(a!)")

TRANSFERS = "etarena::to_device"
"""Name of the operator in an emitted program. The CPU is type 0."""


def _to_device(x: torch.Tensor, type: int, index: int) -> torch.Tensor:
    """Eager mode and tracing: the same tensor; devices are tags of the exported program."""
    return x.clone(memory_format=torch.preserve_format)


LIBRARY.impl("to_device", _to_device, "CompositeExplicitAutograd")
torch.library.register_fake("etarena::to_device", _to_device, lib=LIBRARY)
