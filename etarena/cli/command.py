"""What all commands share: ``--json`` and ``--debug``, one answer on stdout, failures in one line on stderr."""

import contextlib
import json
import logging
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import click
from rich.console import Console
from rich.markup import escape

from .failure import Failure, explain


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

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """Parse the arguments; with ``--json`` among them, what is wrong with them is a JSON document too."""
        as_json = "--json" in args
        with _usage_errors(as_json):
            return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: click.Context) -> None:
        """Run the callback, then print its answer; turn an exception into one line and exit code 1."""
        as_json, debug = ctx.params.pop("as_json"), ctx.params.pop("debug")
        try:
            # A model's own code may print; stdout belongs to the answer.
            with _usage_errors(as_json), contextlib.redirect_stdout(sys.stderr), _quiet_logs(not debug):
                answer = super().invoke(ctx)
        except (click.ClickException, click.Abort, click.exceptions.Exit):
            raise
        except Exception as error:
            if debug:
                raise
            failure = explain(error)
            if as_json:
                with _written(ctx):
                    click.echo(json.dumps({"error": failure.data()}))
            click.echo(failure.line(), err=True)
            ctx.exit(1)
        with _written(ctx):
            if as_json:
                click.echo(json.dumps(answer.data, indent=2))
            else:
                answer.show(_stdout_console())
        if answer.failed:
            click.echo(f"error: {answer.failed}", err=True)
            ctx.exit(1)


@contextlib.contextmanager
def _usage_errors(as_json: bool) -> Iterator[None]:
    """Let click report wrong arguments on stderr, after a JSON document on stdout where one is wanted."""
    stdout = sys.stdout  # inside the block it may be redirected
    try:
        yield
    except click.ClickException as error:
        if as_json:
            hint = "see --help" if isinstance(error, click.UsageError) else ""
            failure = Failure(type(error).__name__, error.format_message(), hint)
            with contextlib.suppress(OSError):  # stderr still has it
                click.echo(json.dumps({"error": failure.data()}), file=stdout)
        raise


@contextlib.contextmanager
def _written(ctx: click.Context) -> Iterator[None]:
    """Report in one line that stdout cannot be written; a reader that has seen enough is no error to report."""
    try:
        yield
        sys.stdout.flush()
    except OSError as error:
        if not isinstance(error, BrokenPipeError):
            click.echo(f"error: the answer cannot be written to stdout: {error.strerror}", err=True)
        with contextlib.suppress(OSError):
            # Python flushes what is left once more when it exits.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
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
        with console.status(f"{escape(doing)} ..."):
            yield
    else:
        click.echo(f"{doing} ...", err=True)
        yield
