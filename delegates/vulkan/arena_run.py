"""Runs in the shared arena: the device works on its bytes in place, with commands recorded once for each placement."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any, TypeAlias

from ...allocator.arena import Arena
from ...allocator.arena_core import arena_at
from ...device.etensor import ETensor
from .bound import padded
from .places import buffer_of, key_of
from .recording import Spot, record

if TYPE_CHECKING:
    from collections import OrderedDict
    from collections.abc import Callable, Sequence

    from ...device.vulkan.arena_import import ArenaImport
    from ...device.vulkan.commands import Commands
    from .bound import BoundGraph
    from .image_arguments import ImageArguments
    from .session import Session

__all__ = ["ArenaRun", "Recordings", "on_cpu", "recorded"]

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
    images
        Those among the arguments.
    """

    def __init__(
        self, session: Session, bound: BoundGraph, args: Sequence[Any], scratch: memoryview, images: ImageArguments
    ) -> None:
        self._session, self._bound, self._args, self._images = session, bound, args, images
        self._base = 0
        self.arena: Arena | None = None  # where the memory of the CPU is
        self.imported: ArenaImport | None = None  # once something was recorded
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
        self.arena = found
        base, end = self.arena.base, self.arena.base + self.arena.activation_committed
        if self._bound.scratch_bytes:
            self._base = addresses[-1] - base
        return all(base <= address < end for address in addresses)

    def commands(self, recordings: Recordings) -> Commands:
        """Commands for this placement, recorded before or now."""
        return recorded(recordings, self._key(), self._record)

    def _key(self) -> tuple[Any, ...] | None:
        """What tells this placement from others; None if that cannot be told."""
        key: list[Any] = [id(self.arena), self._base]
        for position, arg in enumerate(self._args):
            if isinstance(arg, ETensor):
                key.append(arg.address if arg.device.is_cpu else key_of(self._session.device, arg))
                key.append(self._images.key_at(position))
        return None if None in key else tuple(key)

    def _record(self) -> Commands:
        device = self._session.device
        if self.arena is not None:
            self.imported = self._session.imported(self.arena)
        commands = device.commands()
        commands.begin(once=False, yields=True)
        self._images.record_inputs(commands)
        record(
            commands,
            device,
            self._bound,
            self._inner,
            [self._spot(position, arg) for position, arg in enumerate(self._args)],
        )
        self._images.record_outputs(commands)
        commands.host_barrier()
        commands.end()
        return commands

    def _inner(self, offset: int, nbytes: int) -> Spot:
        assert self.imported is not None
        span = self.imported.range(self._base + offset, nbytes)
        return span.buffer, span.offset

    def _spot(self, position: int, arg: Any) -> Spot | None:
        if not isinstance(arg, ETensor) or arg.nbytes == 0:
            return None
        if not arg.device.is_cpu:
            return self._images.spot_at(position) or buffer_of(self._session.device, arg)
        assert self.imported is not None
        assert self.arena is not None
        span = self.imported.range(arg.address - self.arena.base, padded(arg.nbytes))
        return span.buffer, span.offset


def recorded(recordings: Recordings, key: tuple[Any, ...] | None, record: Callable[[], Commands]) -> Commands:
    """Commands that were recorded under a key before and can still be submitted, or that are recorded now.

    Without a key they are not kept.
    """
    if key is None:
        return record()
    found = recordings.get(key)
    if found is not None and found.is_ready and all(guard.is_there() for guard in found.guards):
        recordings.move_to_end(key)
        return found
    recordings[key] = made = record()
    while len(recordings) > MOST_RECORDINGS:
        recordings.popitem(last=False)
    return made


def on_cpu(arg: Any) -> bool:
    """Whether an argument is a tensor with bytes on the CPU."""
    return isinstance(arg, ETensor) and arg.device.is_cpu and arg.nbytes > 0
