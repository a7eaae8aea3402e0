"""The command line: ``etarena export | inspect | estimate | run | replay | demo``."""

from .group import cli, main

__all__ = ["cli", "main"]
