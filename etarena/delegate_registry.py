"""Backends that programs bring along: Python classes and function tables, by the name that files use."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

from .allocator.errors import Error, InputError, InputTypeError
from .delegates.delegate import Delegate
from .libraries import load_libraries

__all__ = ["get_include", "register_delegate", "unregister_delegate"]


def register_delegate(name: str, what: Any) -> None:
    """Make a backend known, for methods that are loaded from now on.

    Parameters
    ----------
    name
        Backend id, as in the ``.pte`` files (the name of the class whose ``preprocess`` made the delegates).
    what
        A subclass of `Delegate`; or a function table ``etarena_delegate`` of ``etarena.h``: a ctypes pointer or
        structure, a cffi pointer, an address, or a capsule named "etarena_delegate". The object is kept, but what the
        table points at must outlive every method loaded while it was registered.

    Raises
    ------
    Error
        If the name is taken, by this function or by a backend of ExecuTorch, or ExecuTorch has no room (16 names a
        process, which are never given back).
    InputError, InputTypeError
        If `name` is no backend id, or `what` no such thing; the message says what is wrong.
    """
    if not isinstance(name, str):
        raise InputTypeError(f"name must be a str, got {type(name).__name__}")
    if not name or "\0" in name or not name.isprintable():
        raise InputError(f"{name!r} is no backend id: it must be printable text")
    if isinstance(what, type):
        check_class(name, what)
        from .delegates.python_table import table_of_class

        table = table_of_class(name, what)
    elif isinstance(what, Delegate):
        raise InputTypeError(f"{name!r} needs the class {type(what).__name__} itself, not an object of it")
    else:
        from .delegates.table import table_at

        table = table_at(name, what)
    load_libraries()
    from ._runtime import register_table, registered_backends

    refusal = register_table(table)
    if refusal == "taken":
        raise Error(
            f"a delegate is registered under {name!r} already: call etarena.unregister_delegate({name!r}) first"
        )
    if refusal == "stock":
        raise Error(f"{name!r} is the name of a backend of ExecuTorch in this process: choose another one")
    if refusal == "full":
        raise Error(
            f"ExecuTorch has no room for backend {name!r}: a process can have 16 names, which are never given back "
            f"({', '.join(registered_backends())}). Use one of your former names again"
        )


def check_class(name: str, delegate: type) -> None:
    """Refuse a class that cannot be a delegate."""
    if not issubclass(delegate, Delegate):
        raise InputTypeError(f"{name!r} needs a subclass of etarena.Delegate, {delegate.__name__} is none")
    if delegate.execute is Delegate.execute:
        raise InputTypeError(f"{delegate.__name__} defines no execute()")


def unregister_delegate(name: str) -> None:
    """Take a backend back: methods loaded from now on that name it are refused.

    Methods that are loaded keep their delegates until they are gone or load themselves anew.

    Raises
    ------
    Error
        If `register_delegate` has made no backend of this name, or it was taken back before.
    """
    if not isinstance(name, str):
        raise InputTypeError(f"name must be a str, got {type(name).__name__}")
    load_libraries()
    from ._runtime import unregister_table

    if not unregister_table(name):
        raise Error(f"no delegate is registered under {name!r}")


def get_include() -> str:
    """Return the folder of ``etarena.h``, for compilers."""
    spec = importlib.util.find_spec("etarena.device")
    if spec is None or not spec.submodule_search_locations:
        raise Error("etarena.device is not installed: run 'pip install .' again")
    return str(Path(next(iter(spec.submodule_search_locations))).resolve() / "include")
