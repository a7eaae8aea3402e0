# distutils: language = c++
"""Function tables of delegates as Python objects, and those that others made."""

from libc.stdint cimport uint32_t, uintptr_t
from libc.string cimport memcpy, memset
from libcpp.memory cimport make_shared

from etarena.device.abi cimport ETARENA_ABI

from etarena.allocator.errors import DeviceError, InputError, InputTypeError
from etarena.device.handles import address_of_pointer

__all__ = ["Table", "table_at"]

cdef class Table:
    """A function table that can be registered as a backend."""

    def __cinit__(self):
        self.registration = make_shared[Registration]()


def table_at(str name not None, what):
    """Copy the function table of `etarena.h` that someone else made.

    Parameters
    ----------
    name : str
        Backend id.
    what : int, ctypes or cffi pointer, or capsule "etarena_delegate"
        Where the table is; what it points at must outlive every method made while it was registered.

    Returns
    -------
    Table

    Raises
    ------
    InputTypeError
        If this points at nothing known.
    InputError
        If it is no table of this version.
    """
    cdef Table made = Table.__new__(Table)
    cdef const etarena_delegate* source
    cdef etarena_delegate* table = &made.registration.get().table
    cdef uint32_t size
    try:
        source = <const etarena_delegate*> <uintptr_t> address_of_pointer(what, "etarena_delegate")
    except DeviceError as error:
        raise InputTypeError(
            f"{name!r} needs a subclass of etarena.Delegate or a pointer to an etarena_delegate table: {error}"
        ) from None
    if <uintptr_t> source % 8 != 0:
        raise InputError(f"the table of {name!r} is at {<uintptr_t> source:#x}, which is no address of a struct")
    size = source.struct_size
    if size < sizeof(etarena_delegate) or size > 1 << 16:
        raise InputError(
            f"the table of {name!r} has struct_size {size}, version {ETARENA_ABI} has {sizeof(etarena_delegate)}: "
            "set it to sizeof(etarena_delegate) of etarena.get_include()"
        )
    if source.abi != ETARENA_ABI:
        raise InputError(f"the table of {name!r} has abi {source.abi}, this etarena has {ETARENA_ABI}")
    memset(table, 0, sizeof(etarena_delegate))
    memcpy(table, source, sizeof(etarena_delegate))
    table.struct_size = sizeof(etarena_delegate)
    for field, given in (
        ("init", table.init is not NULL), ("execute", table.execute is not NULL), ("close", table.close is not NULL)
    ):
        if not given:
            raise InputError(f"the table of {name!r} has no function {field}")
    made.name = name
    made.registration.get().name = name.encode()
    return made
