"""What all commands share: ``--json`` and ``--debug``, one answer on stdout, failures in one line on stderr."""

import contextlib
import json
import logging
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import click
from rich.console import Console

from .failure import explain


@dataclass(frozen=True)
class Answer:
    """What a command found out: plain data for programs, how to show it to a person, and what is wrong with it."""

    data: dict[str, Any]
    show: Callable[[Console], None]
    failed: str = ""


class Command(click.Command):
    """A command whose callback returns an `Answer`."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.params += [
            click.Option(["--json", "as_json"], is_flag=True, help="Print one JSON document on stdout, nothing else."),
            click.Option(["--debug"], is_flag=True, help="Show the traceback of an error."),
        ]

    def invoke(self, ctx: click.Context) -> None:
        """Run the callback, then print its answer; turn an exception into one line and exit code 1."""
        as_json, debug = ctx.params.pop("as_json"), ctx.params.pop("debug")
        try:
            # A model's own code may print; stdout belongs to the answer.
            with contextlib.redirect_stdout(sys.stderr), _quiet_logs(not debug):
                answer = super().invoke(ctx)
        except (click.ClickException, click.Abort, click.exceptions.Exit):
            raise
        except Exception as error:
            if debug:
                raise
            failure = explain(error)
            if as_json:
                click.echo(json.dumps({"error": failure.data()}))
            click.echo(failure.line(), err=True)
            ctx.exit(1)
        if as_json:
            click.echo(json.dumps(answer.data, indent=2))
        else:
            answer.show(_stdout_console())
        if answer.failed:
            click.echo(f"error: {answer.failed}", err=True)
            ctx.exit(1)


def _stdout_console() -> Console:
    """Return a console that cuts no table where nobody sees an edge: in a file or a pipe."""
    console = Console(highlight=False, markup=True)
    return console if console.is_terminal else Console(highlight=False, width=200)


@contextlib.contextmanager
def _quiet_logs(wanted: bool) -> Iterator[None]:
    """Keep log lines of the libraries, which are about their own innards, off the terminal."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING if wanted else before)
    try:
        yield
    finally:
        logging.disable(before)


@contextlib.contextmanager
def step(doing: str) -> Iterator[None]:
    """Show on stderr what a long step is doing: a spinner on a terminal, one line elsewhere."""
    console = Console(stderr=True)
    if console.is_terminal:
        with console.status(f"{doing} ..."):
            yield
    else:
        click.echo(f"{doing} ...", err=True)
        yield
