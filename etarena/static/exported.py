"""What `export(memory="static")` returns."""

import os
from collections.abc import Mapping

from ..whole_file import write_whole
from .plan import StaticPlan

__all__ = ["StaticModel"]


class StaticModel:
    """A finished program file whose offsets are fixed, made by `export` with ``memory="static"``.

    Parameters
    ----------
    buffer : bytes
        The file, an ordinary one that the stock runtime runs.
    plans : mapping of str to StaticPlan
        The plan of each method.
    """

    def __init__(self, buffer: bytes, plans: Mapping[str, StaticPlan]) -> None:
        self._buffer = buffer
        self._plans = dict(plans)

    @property
    def buffer(self) -> bytes:
        """The program file as bytes."""
        return self._buffer

    @property
    def method_names(self) -> list[str]:
        """Names of the methods, sorted."""
        return sorted(self._plans)

    def plan(self, method: str = "forward") -> StaticPlan:
        """The plan of a method; KeyError names the methods there are."""
        if method not in self._plans:
            raise KeyError(f"no method {method!r}; there are {', '.join(self.method_names)}")
        return self._plans[method]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the file, as a whole or not at all; `write_whole` says what becomes of links and pipes."""
        write_whole(path, self._buffer)

    def __repr__(self) -> str:
        methods = ", ".join(f"{name}: {plan.peak:,} bytes planned" for name, plan in sorted(self._plans.items()))
        return f"StaticModel({methods}; {len(self._buffer):,} bytes)"
