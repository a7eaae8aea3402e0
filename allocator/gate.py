"""Whether this build has run-time planning, and the error where something needs it and it has not.

``ETARENA_RUNTIME_PLANNING=0 pip install .`` leaves it out (docs/size.md).
"""

from importlib.machinery import PathFinder
from pathlib import Path

from .errors import NotBuiltError

__all__ = ["HAS_RUN_TIME", "require_run_time"]

# Looked for in this folder alone: another etarena on the path, such as a checkout, is not this build.
HAS_RUN_TIME = PathFinder.find_spec("arena_stats", [str(Path(__file__).parent)]) is not None


def require_run_time(what: str) -> None:
    """Make sure that this build has run-time planning.

    Parameters
    ----------
    what : str
        What needs it, for the message.

    Raises
    ------
    NotBuiltError
        It was left out when etarena was built.
    """
    if not HAS_RUN_TIME:
        raise NotBuiltError(
            f"{what} needs run-time memory planning, which this build of etarena leaves out "
            "(ETARENA_RUNTIME_PLANNING=0). Build with it: 'pip install .' without that variable"
        )
