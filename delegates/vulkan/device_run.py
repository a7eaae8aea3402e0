"""Runs in memory of the device: for discrete ones, and where there is no arena (stock files in the stock runtime)."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...device.copies import allow_copy
from ...device.etensor import ETensor
from ..shared_run import current_run
from .arena_run import on_cpu, recorded
from .bound import padded
from .graph import BACKEND_ID
from .places import buffer_of, key_of
from .recording import Spot, record

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...device.vulkan.commands import Commands
    from ...device.vulkan.memory import Buffer
    from .arena_run import Recordings
    from .bound import BoundGraph
    from .image_arguments import ImageArguments
    from .session import Session

__all__ = ["run_in_device_memory"]


@dataclass(frozen=True)
class _Staged:
    """An argument of the CPU: where it is in the device's memory, and in the memory that both see."""

    argument: ETensor
    position: int
    offset: int
    staging: int


def run_in_device_memory(
    session: Session,
    bound: BoundGraph,
    args: Sequence[Any],
    n_inputs: int,
    images: ImageArguments,
    recordings: Recordings,
) -> None:
    """Run a bound graph in the session's device memory; arguments of the CPU are copied there and back, counted.

    Parameters
    ----------
    session
        Of the device; its memory is taken for the whole call.
    bound
        The graph at the call's shapes.
    args, n_inputs
        The call's arguments, the inputs first.
    images
        Those among the arguments.
    recordings
        Of the graph at these shapes, to which this call's is added.

    Raises
    ------
    CopyRefusedError
        Inside ``zero_copy()``, if an argument is on the CPU.
    """
    with session.memory.lock:
        staged = _layout(args, bound.scratch_bytes, session.device.info.limits["minStorageBufferOffsetAlignment"])
        inputs = [entry for entry in staged if entry.position < n_inputs]
        outputs = [entry for entry in staged if entry.position >= n_inputs]
        for entry in inputs:
            _allow(f"input {entry.position} of {BACKEND_ID} goes to the device's memory", entry)
        for entry in outputs:
            _allow(f"output {entry.position - n_inputs} of {BACKEND_ID} comes from the device's memory", entry)
        _run(session, bound, args, inputs, outputs, images, recordings)


def _allow(cause: str, entry: _Staged) -> None:
    """Write a copy down, for the run's figures too."""
    copy, run = allow_copy(cause, entry.argument.nbytes), current_run()
    if run is not None:
        run.copies.append(copy)


def _layout(args: Sequence[Any], start: int, alignment: int) -> list[_Staged]:
    found = []
    step, end = max(256, alignment), start
    for position, arg in enumerate(args):
        if on_cpu(arg):
            offset = -(-end // step) * step
            found.append(_Staged(arg, position, offset, offset - start))
            end = offset + padded(arg.nbytes)
    return found


def _run(
    session: Session,
    bound: BoundGraph,
    args: Sequence[Any],
    inputs: list[_Staged],
    outputs: list[_Staged],
    images: ImageArguments,
    recordings: Recordings,
) -> None:
    device = session.device
    ends = [(entry.offset, entry.staging, padded(entry.argument.nbytes)) for entry in (*inputs, *outputs)]
    memory = session.memory.buffer(max([bound.scratch_bytes, *(offset + nbytes for offset, _, nbytes in ends)]))
    staging = session.memory.staging(max([0, *(place + nbytes for _, place, nbytes in ends)]))
    mapped = staging.memory.map() + staging.memory_offset
    for entry in inputs:
        ctypes.memmove(mapped + entry.staging, entry.argument.address, entry.argument.nbytes)
    staging.memory.flush()
    given = {i: arg for i, arg in enumerate(args) if isinstance(arg, ETensor) and arg.nbytes and not arg.device.is_cpu}
    keys = {i: key_of(device, arg) for i, arg in given.items()}
    pictures = [images.key_at(i) for i in given]

    def made() -> Commands:
        spots: list[Spot | None] = [
            images.spot_at(i) or buffer_of(device, given[i]) if i in given else None for i in range(len(args))
        ]
        for entry in (*inputs, *outputs):
            spots[entry.position] = (memory, entry.offset)
        commands = device.commands()
        commands.begin(once=False, yields=True)
        _copy(commands, inputs, staging, memory, inward=True)
        images.record_inputs(commands)
        record(commands, device, bound, lambda offset, _: (memory, offset), spots)
        images.record_outputs(commands)
        _copy(commands, outputs, memory, staging, inward=False)
        commands.host_barrier()
        commands.end()
        return commands

    key = None if None in keys.values() else (id(memory), id(staging), *keys.items(), *pictures)
    device.run(recorded(recordings, key, made), None)
    staging.memory.invalidate()
    for entry in outputs:
        ctypes.memmove(entry.argument.address, mapped + entry.staging, entry.argument.nbytes)


def _copy(commands: Commands, entries: list[_Staged], source: Buffer, to: Buffer, *, inward: bool) -> None:
    for entry in entries:
        origin, target = (entry.staging, entry.offset) if inward else (entry.offset, entry.staging)
        commands.copy_buffer(source, to, origin, target, padded(entry.argument.nbytes))
