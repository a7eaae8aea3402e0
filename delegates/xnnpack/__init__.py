"""XNNPACK as a delegate whose scratch is planned: the stock backend, its workspaces placed by us."""

import importlib.util

__all__ = ["scratch_library"]


def scratch_library() -> str:
    """Path of the module that must be loaded, with its symbols visible to all, before XNNPACK's library is."""
    spec = importlib.util.find_spec(f"{__name__}.scratch")
    if spec is None or spec.origin is None:
        raise ImportError("etarena.delegates.xnnpack.scratch is not built: run 'pip install .' again")
    return spec.origin
