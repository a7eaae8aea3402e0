# distutils: language = c++
"""Function tables of delegates as Python objects, and those that others made."""

from cpython.pycapsule cimport PyCapsule_CheckExact, PyCapsule_GetName, PyCapsule_GetPointer
from libc.stdint cimport uint32_t, uintptr_t
from libc.string cimport memcpy, memset
from libcpp.memory cimport make_shared

from etarena.allocator.errors import InputError, InputTypeError

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
    cdef const etarena_delegate* source = <const etarena_delegate*> <uintptr_t> address_of(name, what)
    cdef etarena_delegate* table = &made.registration.get().table
    cdef uint32_t size
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


cdef uintptr_t address_of(str name, what) except 0:
    """The address that any of the usual kinds of pointer holds."""
    cdef uintptr_t address = 0
    if PyCapsule_CheckExact(what):
        if PyCapsule_GetName(what) is NULL or PyCapsule_GetName(what) != b"etarena_delegate":
            raise InputTypeError(f'the capsule given for {name!r} is not named "etarena_delegate"')
        return <uintptr_t> PyCapsule_GetPointer(what, "etarena_delegate")
    if isinstance(what, bool):
        raise InputTypeError(f"{name!r} needs a Delegate subclass or a function table, got {what!r}")
    if isinstance(what, int):
        if not 0 < what < 1 << 64:
            raise InputError(f"{what} is no address of a function table for {name!r}")
        return what
    module = type(what).__module__
    if module.startswith("_cffi_backend"):
        import cffi

        address = int(cffi.FFI().cast("uintptr_t", what))
    else:
        import ctypes

        if isinstance(what, ctypes.Structure):
            address = ctypes.addressof(what)
        elif isinstance(what, (ctypes.c_void_p, ctypes._Pointer)):
            address = ctypes.cast(what, ctypes.c_void_p).value or 0
        elif type(what).__name__ == "CArgObject" and isinstance(getattr(what, "_obj", None), ctypes.Structure):
            address = ctypes.addressof(what._obj)   # ctypes.byref
        else:
            raise InputTypeError(
                f"{name!r} needs a subclass of etarena.Delegate or a pointer to an etarena_delegate table, "
                f"got {type(what).__name__}"
            )
    if address == 0:
        raise InputError(f"the table of {name!r} is a null pointer")
    return address
