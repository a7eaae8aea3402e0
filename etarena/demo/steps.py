"""What a long run is doing: bars on a terminal, one line a step elsewhere."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rich.console import Console

__all__ = ["Steps"]


class Steps:
    """Progress of a run, got from `Steps.on`.

    Attributes
    ----------
    console
        Where it is shown.
    """

    def __init__(self, console: Console) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        self.console = console
        self._bars = Progress(
            SpinnerColumn(finished_text="[green]\u2713[/green]"),
            TextColumn("{task.description}"),
            BarColumn(bar_width=20),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=console,
        )

    @classmethod
    @contextmanager
    def on(cls, console: Console) -> Iterator[Steps]:
        """Show progress on `console` within the block."""
        steps = cls(console)
        if not console.is_terminal:
            yield steps
            return
        with steps._bars:
            yield steps

    @contextmanager
    def step(self, doing: str, total: int = 1) -> Iterator[Callable[[], None]]:
        """Show one step within the block.

        Yields
        ------
        callable
            Call it after each of `total` parts; a step of one part is done when the block ends.
        """
        start = time.perf_counter()
        task = self._bars.add_task(doing, total=total)
        if not self.console.is_terminal:
            self.console.print(f"{doing} ...", highlight=False)
        yield lambda: self._bars.advance(task)
        self._bars.update(task, completed=total)
        if not self.console.is_terminal and time.perf_counter() - start > 1:
            self.console.print(f"  {time.perf_counter() - start:.1f} s", highlight=False)
