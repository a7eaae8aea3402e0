"""Arguments of `export` that may be given for each method by its name."""

from collections.abc import Mapping
from typing import Any

from .allocator.errors import InputError

__all__ = ["check_methods"]


def check_methods(argument: str, given: Mapping[Any, Any], methods: Mapping[str, Any]) -> None:
    """Refuse an argument that names a method there is not.

    Parameters
    ----------
    argument : str
        Name of the argument, for the message.
    given : mapping
        The argument, by the names of methods.
    methods : mapping of str
        The methods.

    Raises
    ------
    InputError
        If a name is none of a method.
    """
    unknown = sorted(set(given) - set(methods), key=str)
    if unknown:
        raise InputError(f"{argument}: no method {unknown[0]!r}; there are {', '.join(sorted(methods))}")
