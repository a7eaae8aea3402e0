"""XNNPACK as a delegate whose scratch is planned: the stock backend, its workspaces placed by us."""

import ctypes
import importlib.util

__all__ = ["interpose"]


def interpose() -> None:
    """Show the process our functions before those of XNNPACK, whose library then finds ours first.

    Does nothing useful once XNNPACK's library is loaded; `scratch.is_active` tells.

    Raises
    ------
    ImportError
        The package's native modules are not built.
    """
    spec = importlib.util.find_spec(f"{__name__}.scratch")
    if spec is None or spec.origin is None:
        raise ImportError("etarena.delegates.xnnpack.scratch is not built: run 'pip install .' again")
    ctypes.CDLL(spec.origin, mode=ctypes.RTLD_GLOBAL)
