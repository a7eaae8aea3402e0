"""Which delegates of a loaded method the plan can serve with scratch memory."""

from __future__ import annotations

import functools
import warnings
from typing import TYPE_CHECKING

from .delegates.xnnpack import scratch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ._runtime import NativeMethod
    from .allocator.arena import Arena
    from .allocator.plan import Method
    from .delegates.contract import ScratchUser

__all__ = ["scratch_users"]

XNNPACK = "XnnpackBackend"
LOADED_BEFORE = (
    "executorch.runtime was imported before etarena: XNNPACK keeps its scratch memory outside the arena. "
    "Import etarena first"
)


@functools.cache
def warn_once() -> None:
    """Say once a process that XNNPACK cannot be planned."""
    warnings.warn(LOADED_BEFORE, stacklevel=4)


def scratch_users(
    section: Method, native: NativeMethod, runtimes: Sequence[ScratchUser | None], arena: Arena
) -> dict[int, ScratchUser | None]:
    """Say by delegate index what of the delegates just made belongs to it: they are made in that order.

    Parameters
    ----------
    section, native
        The method that was just loaded.
    runtimes
        XNNPACK's runtimes made meanwhile; None for one that keeps its scratch to itself.
    arena
        Where the method will run.
    """
    names = {delegate.index: delegate.id for delegate in section.delegates}
    indices = sorted(index for index in names if names[index] == XNNPACK)
    if indices and not scratch.is_active():
        warn_once()
    users = dict(zip(indices, runtimes, strict=True)) if len(indices) == len(runtimes) else {}
    made = [user.backend for user in native.delegates]
    indices = sorted(index for index in names if names[index] in made)
    if [names[index] for index in indices] == made:
        for index, user in zip(indices, native.delegates, strict=True):
            user.watch(arena.poison, arena.guard)
            users[index] = user
    return users
