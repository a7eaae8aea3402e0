"""Allocators behind C tables, as `DeviceAllocator`."""

from __future__ import annotations

from typing import Any

from ..allocator.errors import DeviceError
from .allocator import DeviceAllocator
from .forwarding import ForwardingAllocator
from .handles import address_of_pointer
from .table import AllocatorTable

__all__ = ["TableAllocator", "as_allocator"]


class TableAllocator(ForwardingAllocator):
    """A `DeviceAllocator` over a C table, which must outlive it.

    Parameters
    ----------
    table
        An `etarena_device_allocator`: its address, a ctypes or cffi pointer, a ctypes struct, or a capsule of the name
        ``"etarena_device_allocator"``.

    Raises
    ------
    DeviceError
        Another ABI, a struct of an older version, or one of the functions that must be there is null.
    """

    inner: AllocatorTable

    def __init__(self, table: Any) -> None:
        self._given = table  # a ctypes struct or a capsule may own the memory
        super().__init__(AllocatorTable(address_of_pointer(table, "etarena_device_allocator")))

    def __repr__(self) -> str:
        return f"TableAllocator(0x{self.inner.address:x})"


def as_allocator(what: Any) -> DeviceAllocator:
    """See a `DeviceAllocator`, a subclass of it, or a C table as an allocator."""
    if isinstance(what, type) and issubclass(what, DeviceAllocator):
        what = what()
    if isinstance(what, DeviceAllocator):
        return what
    try:
        return TableAllocator(what)
    except DeviceError as error:
        if isinstance(what, str | bytes | float) or what is None:
            raise DeviceError(f"a {type(what).__name__} is neither a DeviceAllocator nor a C table") from error
        raise
