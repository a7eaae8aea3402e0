"""Function tables of `etarena.h` made with ctypes."""

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np

P = ctypes.c_void_p
U32 = ctypes.c_uint32
U64 = ctypes.c_uint64


class Device(ctypes.Structure):
    _fields_ = (("type", ctypes.c_int32), ("index", ctypes.c_int32))


class Argument(ctypes.Structure):
    _fields_ = (
        ("struct_size", U32),
        ("kind", ctypes.c_int32),
        ("integer", ctypes.c_int64),
        ("number", ctypes.c_double),
        ("dtype", ctypes.c_int32),
        ("rank", ctypes.c_int32),
        ("sizes", ctypes.POINTER(ctypes.c_int32)),
        ("strides", ctypes.POINTER(ctypes.c_int32)),
        ("dim_order", ctypes.POINTER(ctypes.c_uint8)),
        ("data", P),
        ("nbytes", U64),
        ("device", Device),
    )


class Requirement(ctypes.Structure):
    _fields_ = (
        ("struct_size", U32),
        ("access", U32),
        ("alignment", U64),
        ("size_multiple", U64),
        ("row_pitch", U64),
        ("devices", U64),
    )


ARGUMENTS = ctypes.POINTER(Argument)
ERROR = ctypes.POINTER(ctypes.c_char * 1024)
INIT = ctypes.CFUNCTYPE(ctypes.c_int32, P, P, U64, P, U32, ctypes.POINTER(P), ERROR)
EXECUTE = ctypes.CFUNCTYPE(ctypes.c_int32, P, P, ARGUMENTS, U32, P, U64, ERROR)
CLOSE = ctypes.CFUNCTYPE(None, P, P)
SCRATCH_BYTES = ctypes.CFUNCTYPE(ctypes.c_int32, P, P, ARGUMENTS, U32, ctypes.POINTER(U64), ERROR)
REQUIREMENTS = ctypes.CFUNCTYPE(ctypes.c_int32, P, P, ARGUMENTS, U32, ctypes.POINTER(Requirement), ERROR)
OUTPUT_SIZES = ctypes.CFUNCTYPE(ctypes.c_int32, P, P, ARGUMENTS, U32, ctypes.POINTER(ctypes.c_int32), ERROR)


class Table(ctypes.Structure):
    """`etarena_delegate`."""

    _fields_ = (
        ("struct_size", U32),
        ("abi", U32),
        ("context", P),
        ("init", INIT),
        ("execute", EXECUTE),
        ("close", CLOSE),
        ("scratch_bytes", SCRATCH_BYTES),
        ("requirements", REQUIREMENTS),
        ("output_sizes", OUTPUT_SIZES),
    )


def succeed(*_: Any) -> int:
    return 0


def table(execute: Callable[..., int] = succeed, **functions: Callable[..., Any]) -> Table:
    """A table whose functions do nothing but what is given."""
    made = Table(ctypes.sizeof(Table), 1, None)
    kinds = dict(Table._fields_[3:])
    wanted = {"init": succeed, "close": lambda *_: None, "execute": execute, **functions}
    for name, function in wanted.items():
        setattr(made, name, kinds[name](function))
    return made


def overrunning(asked: int, excess: int) -> Table:
    """Make a table that takes sines, fills its scratch of so many bytes, and writes so many more behind it."""

    def execute(context: Any, handle: Any, arguments: Any, count: int, scratch: Any, nbytes: int, error: Any) -> int:
        assert nbytes == asked
        if nbytes + excess > 0 and scratch:
            ctypes.memset(scratch, 0x5A, nbytes + excess)
        read, write = (
            np.frombuffer((ctypes.c_float * (arguments[i].nbytes // 4)).from_address(arguments[i].data), np.float32)
            for i in (0, 1)
        )
        np.sin(read, out=write)
        return 0

    def scratch_bytes(context: Any, handle: Any, arguments: Any, count: int, nbytes: Any, error: Any) -> int:
        nbytes[0] = asked
        return 0

    return table(execute, scratch_bytes=scratch_bytes)


def say(error: Any, text: str) -> int:
    """Write an error's text; gives ETARENA_FAILED."""
    ctypes.memmove(error.contents, text.encode() + b"\0", len(text) + 1)
    return 4
