"""The demo: real models at many sizes from one arena, compared with eager PyTorch and with stock ExecuTorch."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import Console

    from .results import DemoResult

__all__ = ["run"]

FULL = ("mobilenet_v2", "segformer", "bert", "llama", "embedding_linear", "conv_mean")
QUICK = ("bert", "llama", "embedding_linear", "conv_mean")
QUICK_SIZES = 5


def run(out: Path, quick: bool = False, console: Console | None = None) -> DemoResult:
    """Export, load, run, compare and draw all models.

    Parameters
    ----------
    out : Path
        Folder for the programs (``*.pte``), the memory map (``memory_map.png``), the page (``index.html``) and the
        figures (``figures.json``); made if it is not there.
    quick : bool, default False
        Only the models that export in seconds, at their smaller sizes.
    console : rich.console.Console, optional
        Where progress is shown; by default standard error.

    Returns
    -------
    DemoResult
        Its `failures` name every error above 1e-4 and every arena above 1.03 x its lower bound.

    Raises
    ------
    Error
        If an export fails, or a package of the extra ``etarena[demo]`` is missing.
    """
    # Symbolic sizes are sympy expressions: a larger cache, set before torch loads, saves a fifth of an export.
    os.environ.setdefault("SYMPY_CACHE_SIZE", "50000")
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    from rich.console import Console as RichConsole

    from ..report.optional import optional
    from .steps import Steps

    for package in ("matplotlib", "plotly", "sklearn", "transformers"):
        optional(package)
    out.mkdir(parents=True, exist_ok=True)
    with Steps.on(console or RichConsole(stderr=True)) as steps:
        with steps.step("Loading torch and ExecuTorch"):
            from .session import run_session
        return run_session(QUICK if quick else FULL, out, steps, most_sizes=QUICK_SIZES if quick else None)
