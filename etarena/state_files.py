"""States in a file: safetensors, which other tools read too and which holds nothing but numbers."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from .allocator.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    import torch

__all__ = ["read_states", "save_states"]


def save_states(path: str | os.PathLike[str], tensors: Mapping[str, torch.Tensor]) -> None:
    """Write tensors by name; an older file is replaced once the new one is complete."""
    from safetensors.torch import save

    target = Path(os.path.realpath(path))
    content = save({name: tensor.contiguous() for name, tensor in tensors.items()}, {"format": "etarena.states"})
    handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        os.replace(temporary, target)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def read_states(path: str | os.PathLike[str], names: Collection[str]) -> dict[str, torch.Tensor]:
    """Read the tensors of a file that holds these names and no others.

    Raises
    ------
    InputError
        If the file is damaged or of another kind, or holds other names.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load

    content = Path(path).read_bytes()
    try:
        tensors = load(content)
    except (SafetensorError, ValueError, KeyError, TypeError, AttributeError, RuntimeError) as error:
        raise InputError(f"{path} is no file of states, or it is damaged: {str(error).splitlines()[0]}") from error
    missing = [name for name in names if name not in tensors]
    if missing:
        raise InputError(f"{path} holds no state {missing[0]!r}: it belongs to another program")
    extra = [name for name in tensors if name not in names]
    if extra:
        raise InputError(f"{path} holds state {extra[0]!r}, which this program does not have")
    return dict(tensors)
