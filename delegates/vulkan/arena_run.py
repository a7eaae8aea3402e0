"""Runs in the shared arena: the device works on its bytes in place, with commands recorded once for each placement."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any, TypeAlias

from ...allocator.arena import Arena
from ...allocator.arena_core import arena_at
from ...device.etensor import ETensor
from .bound import padded
from .places import buffer_of
from .recording import Spot, record

if TYPE_CHECKING:
    from collections import OrderedDict
    from collections.abc import Sequence

    from ...device.vulkan.arena_import import ArenaImport
    from ...device.vulkan.commands import Commands
    from .bound import BoundGraph
    from .session import Session

__all__ = ["ArenaRun", "Recordings"]

Recordings: TypeAlias = "OrderedDict[tuple[Any, ...], Commands]"
MOST_RECORDINGS = 16  # kept for each shape, the least recently used goes first


class ArenaRun:
    """One call of a bound graph whose memory is the arena's, or the device's own where arguments are there.

    Parameters
    ----------
    session
        Of the device.
    bound
        The graph at the call's shapes.
    args
        The call's arguments.
    scratch
        Of the call.
    """

    def __init__(self, session: Session, bound: BoundGraph, args: Sequence[Any], scratch: memoryview) -> None:
        self._session, self._bound, self._args = session, bound, args
        self._base = 0
        self._arena: Arena | None = None
        self._import: ArenaImport | None = None
        self.is_possible = session.shares_arena and self._find(scratch)
        """Whether all memory of the CPU that the call needs is in one arena."""

    def _find(self, scratch: memoryview) -> bool:
        addresses = [arg.address for arg in self._args if on_cpu(arg)]
        if self._bound.scratch_bytes:
            addresses.append(ctypes.addressof(ctypes.c_char.from_buffer(scratch)))
        if not addresses:
            return True
        found = arena_at(addresses[0])
        if not isinstance(found, Arena):
            return False
        self._arena = found
        base, end = self._arena.base, self._arena.base + self._arena.stats.activation_committed
        if self._bound.scratch_bytes:
            self._base = addresses[-1] - base
        return all(base <= address < end for address in addresses)

    def commands(self, recordings: Recordings) -> Commands:
        """Commands for this placement, recorded before or now."""
        key = self._key()
        found = recordings.get(key)
        if found is not None and found.is_ready and all(guard.is_there() for guard in found.guards):
            recordings.move_to_end(key)
            return found
        recordings[key] = made = self._record()
        while len(recordings) > MOST_RECORDINGS:
            recordings.popitem(last=False)
        return made

    def _key(self) -> tuple[Any, ...]:
        key: list[Any] = [id(self._arena), self._base]
        for arg in self._args:
            if isinstance(arg, ETensor):
                key.append(arg.address if arg.device.is_cpu else (arg.resource.handle, arg.resource.offset))
        return tuple(key)

    def _record(self) -> Commands:
        device = self._session.device
        if self._arena is not None:
            self._import = self._session.imported(self._arena)
        commands = device.commands()
        commands.begin(once=False, yields=True)
        record(commands, device, self._bound, self._inner, [self._spot(arg) for arg in self._args])
        commands.host_barrier()
        commands.end()
        return commands

    def _inner(self, offset: int, nbytes: int) -> Spot:
        assert self._import is not None
        span = self._import.range(self._base + offset, nbytes)
        return span.buffer, span.offset

    def _spot(self, arg: Any) -> Spot | None:
        if not isinstance(arg, ETensor) or arg.nbytes == 0:
            return None
        if not arg.device.is_cpu:
            return buffer_of(self._session.device, arg)
        assert self._import is not None
        assert self._arena is not None
        span = self._import.range(arg.address - self._arena.base, padded(arg.nbytes))
        return span.buffer, span.offset


def on_cpu(arg: Any) -> bool:
    """Whether an argument is a tensor with bytes on the CPU."""
    return isinstance(arg, ETensor) and arg.device.is_cpu and arg.nbytes > 0
