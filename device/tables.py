"""Allocators behind C tables, as `DeviceAllocator`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..allocator.errors import DeviceError
from .allocator import DeviceAllocator
from .handles import address_of_pointer
from .table import AllocatorTable

if TYPE_CHECKING:
    from .capabilities import Capabilities
    from .resource import Resource

__all__ = ["TableAllocator", "as_allocator"]


class TableAllocator(DeviceAllocator):
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

    def __init__(self, table: Any) -> None:
        self._given = table  # a ctypes struct or a capsule may own the memory
        self._table = AllocatorTable(address_of_pointer(table, "etarena_device_allocator"))
        self.device_type = self._table.device_type
        self.device_count = self._table.device_count

    def __repr__(self) -> str:
        return f"TableAllocator(0x{self._table.address:x})"

    def capabilities(self, index: int) -> Capabilities:
        """As `DeviceAllocator.capabilities`."""
        return self._table.capabilities(index)

    def allocate(self, index: int, nbytes: int, alignment: int) -> Resource:
        """As `DeviceAllocator.allocate`."""
        return self._table.allocate(index, nbytes, alignment)

    def deallocate(self, index: int, resource: Resource) -> None:
        """As `DeviceAllocator.deallocate`."""
        self._table.deallocate(index, resource)

    def copy_to_device(self, index: int, destination: Resource, offset: int, source: memoryview) -> None:
        """As `DeviceAllocator.copy_to_device`."""
        self._table.copy_to_device(index, destination, offset, source)

    def copy_to_host(self, index: int, destination: memoryview, source: Resource, offset: int) -> None:
        """As `DeviceAllocator.copy_to_host`."""
        self._table.copy_to_host(index, destination, source, offset)

    def map(self, index: int, resource: Resource) -> int | None:
        """As `DeviceAllocator.map`."""
        return self._table.map(index, resource)

    def unmap(self, index: int, resource: Resource) -> None:
        """As `DeviceAllocator.unmap`."""
        self._table.unmap(index, resource)

    def synchronize(self, index: int) -> None:
        """As `DeviceAllocator.synchronize`."""
        self._table.synchronize(index)


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
