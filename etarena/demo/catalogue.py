"""Everything the demo can run, by name."""

import torch

from ..allocator.errors import InputError
from .cases import CASES
from .models import MODELS, DemoModel

__all__ = ["ALL", "make"]

ALL = {**MODELS, **CASES}
"""Functions that make each model and each case."""


def make(name: str) -> DemoModel:
    """Make a model or case of the demo; the process's random numbers are left alone.

    Raises
    ------
    InputError
        If there is none of that name.
    """
    if name not in ALL:
        raise InputError(f"the demo has no model {name!r}; it has {', '.join(ALL)}")
    with torch.random.fork_rng(devices=[]):
        return ALL[name]()
