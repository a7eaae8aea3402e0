"""``etarena demo``: real models at many sizes, from one arena."""

from pathlib import Path

import click

from .command import Answer, Command


@click.command(cls=Command)
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("out/demo"),
    show_default=True,
    help="Folder for the pictures and the report.",
)
@click.option("--quick", is_flag=True, help="Fewer sizes: under a minute.")
def demo(out: Path, quick: bool) -> Answer:
    """Run real models at many sizes, compare them with eager PyTorch, and draw their memory."""
    raise NotImplementedError
