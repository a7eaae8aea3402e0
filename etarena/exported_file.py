"""What an export returns: a finished program file, and the plan of each of its methods."""

import os
from collections.abc import Mapping
from typing import Generic, TypeVar

from .whole_file import write_whole

__all__ = ["ExportedFile"]

PlanT = TypeVar("PlanT")


class ExportedFile(Generic[PlanT]):
    """A finished program file.

    Parameters
    ----------
    buffer : bytes
        The file.
    plans : mapping of str to plan
        By method.
    """

    def __init__(self, buffer: bytes, plans: Mapping[str, PlanT]) -> None:
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

    def plan(self, method: str = "forward") -> PlanT:
        """The plan of a method; KeyError names the methods there are."""
        if method not in self._plans:
            raise KeyError(f"no method {method!r}; there are {', '.join(self.method_names)}")
        return self._plans[method]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the file, as a whole or not at all; `write_whole` says what becomes of links and pipes."""
        write_whole(path, self._buffer)

    def __repr__(self) -> str:
        methods = ", ".join(self._described(name, plan) for name, plan in sorted(self._plans.items()))
        return f"{type(self).__name__}({methods}; {len(self._buffer):,} bytes)"

    def _described(self, name: str, plan: PlanT) -> str:
        raise NotImplementedError
