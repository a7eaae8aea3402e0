"""``etarena demo``: real models at many sizes, from one arena."""

from pathlib import Path

import click

from ..allocator.gate import require_run_time
from .command import Answer, Command


@click.command(cls=Command)
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("out/demo"),
    show_default=True,
    help="Folder for the programs, the pictures and the figures.",
)
@click.option("--quick", is_flag=True, help="Only the models that export in seconds, at their smaller sizes.")
def demo(out: Path, quick: bool) -> Answer:
    """Run real models at many sizes, compare them with eager PyTorch and stock ExecuTorch, and draw their memory."""
    require_run_time("etarena demo")
    from ..demo.main import run

    result = run(out, quick)
    return Answer(result.data(), result.show, failed="; ".join(result.failures))
