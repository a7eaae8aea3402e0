"""Commands of a bound graph for certain memory, recorded once."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from .shader_files import shader_code

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ...device.vulkan.commands import Commands
    from ...device.vulkan.device import Device
    from ...device.vulkan.memory import Buffer
    from .bound import BoundGraph, Place

__all__ = ["Spot", "record"]

Spot: TypeAlias = "tuple[Buffer, int]"  # a buffer and an offset in it


def record(
    commands: Commands,
    device: Device,
    bound: BoundGraph,
    inner: Callable[[int, int], Spot],
    arguments: Sequence[Spot | None],
) -> None:
    """Record all dispatches of a graph.

    Parameters
    ----------
    commands
        Being recorded.
    device
        Of the commands.
    bound
        The graph.
    inner
        Where bytes of the scratch are, by offset and size.
    arguments
        Where each argument is; None for numbers and empty tensors.
    """

    def resource(place: Place) -> tuple[Buffer, int, int]:
        if place.kind == "constant":
            return bound.constant(place), 0, place.nbytes
        spot = inner(place.index, place.nbytes) if place.kind == "inner" else arguments[place.index]
        assert spot is not None
        buffer, offset = spot
        return buffer, offset, min(place.nbytes, buffer.nbytes - offset)

    for dispatch, places, waits in zip(bound.dispatches, bound.places, bound.barriers, strict=True):
        if waits:
            commands.barrier()
        pipeline = device.pipeline(
            dispatch.shader,
            shader_code(dispatch.shader),
            "b" * len(places),
            len(dispatch.push),
            dict(dispatch.constants),
        )
        commands.dispatch(pipeline, [resource(place) for place in places], dispatch.push, dispatch.groups)
