"""Packages that only the pictures need."""

from importlib import import_module
from types import ModuleType

from ..allocator.errors import Error

__all__ = ["optional"]


def optional(module: str) -> ModuleType:
    """Import a module of the extra ``etarena[demo]``.

    Raises
    ------
    Error
        If its package is not installed; the message says how to install it.
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        package = module.partition(".")[0]
        if error.name is None or error.name.partition(".")[0] != package:
            raise
        raise Error(f"drawing needs {package}, which is not installed: run 'pip install etarena[demo]'") from error
