"""The ``etarena`` command group."""

import click

from .. import __version__
from .demo import demo
from .estimate import estimate
from .export import export
from .inspect import inspect
from .replay import replay
from .run import run


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120})
@click.version_option(__version__, prog_name="etarena")
def cli() -> None:
    """Export PyTorch models with unbounded shapes and run them from one arena on the stock ExecuTorch runtime."""


for command in (export, inspect, estimate, run, replay, demo):
    cli.add_command(command)


def main() -> None:
    """Run the command line and exit the process with its code."""
    cli(prog_name="etarena")
