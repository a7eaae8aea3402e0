"""Bytes of host resources for Python."""

from __future__ import annotations

from ..allocator.errors import DeviceError
from .etensor import ETensor
from .kinds import ResourceKind
from .resource import Resource

__all__ = ["host_bytes"]


def host_bytes(resource: Resource, offset: int = 0, nbytes: int | None = None) -> memoryview:
    """Bytes of a host resource, for allocators whose memory the CPU can touch.

    Parameters
    ----------
    resource
        Of kind HOST.
    offset
        First byte, counted from where the resource begins.
    nbytes
        How many; by default all that follow.

    Raises
    ------
    DeviceError
        Another kind, or bytes that are not inside.
    """
    if resource.kind != ResourceKind.HOST:
        raise DeviceError(f"{resource!r} is not memory of the CPU")
    part = resource.part(offset, resource.nbytes - offset if nbytes is None else nbytes)
    return memoryview(ETensor.from_resource(part, "uint8", (part.nbytes,)))
