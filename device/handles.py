"""Numbers behind the handles that bindings use: integers, ctypes, cffi, capsules."""

from __future__ import annotations

import ctypes
import os
import weakref
from typing import Any

from ..allocator.errors import DeviceError

__all__ = ["FileDescriptor", "address_of_pointer", "handle_number"]

_capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_capsule_pointer.restype = ctypes.c_void_p
_capsule_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]


def handle_number(value: Any, what: str = "handle") -> int:
    """Read a handle of 64 bits from an integer, a ctypes value or pointer, a cffi handle, or anything with `__int__`.

    Raises
    ------
    DeviceError
        It is none of these, or no number of 64 bits.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        number: int = value
    elif type(value).__module__ == "_cffi_backend":
        number = _cffi_number(value)
    elif isinstance(value, ctypes._Pointer | ctypes._CFuncPtr):
        number = ctypes.cast(value, ctypes.c_void_p).value or 0
    elif isinstance(value, ctypes._SimpleCData):
        number = value.value or 0
    elif hasattr(value, "__int__") and not isinstance(value, str | bytes | bool | float):
        number = int(value)
    else:
        raise DeviceError(f"{what}: a {type(value).__name__} is no handle; pass an integer, a ctypes or a cffi pointer")
    if not 0 <= number < 2**64:
        raise DeviceError(f"{what}: {number} is no handle of 64 bits")
    return number


def _cffi_number(value: Any) -> int:
    from cffi import FFI

    return int(FFI().cast("uintptr_t", value))


def address_of_pointer(value: Any, capsule: str) -> int:
    """Read the address of a C struct from an integer, a ctypes or cffi pointer, a ctypes struct or a capsule.

    Parameters
    ----------
    value
        Where the struct lies.
    capsule
        Name that a capsule must have.

    Raises
    ------
    DeviceError
        It is none of these, or null.
    """
    if type(value).__name__ == "PyCapsule":
        try:
            return int(_capsule_pointer(value, capsule.encode()))
        except ValueError as error:
            raise DeviceError(f"{value!r} is no capsule of the name {capsule!r}") from error
    number = ctypes.addressof(value) if isinstance(value, ctypes.Structure) else handle_number(value, capsule)
    if number == 0:
        raise DeviceError(f"{capsule}: the pointer is null")
    return number


class FileDescriptor:
    """A duplicate of a file descriptor, closed with the last reference to this object.

    Raises
    ------
    DeviceError
        The number is no open file descriptor.
    """

    def __init__(self, number: int) -> None:
        try:
            self.number = os.dup(number)
        except (OSError, OverflowError) as error:
            raise DeviceError(f"{number} is no open file descriptor") from error
        weakref.finalize(self, os.close, self.number)
