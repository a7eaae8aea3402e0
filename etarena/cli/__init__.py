"""The command line: ``etarena export | inspect | run | replay | demo``."""

from .group import cli, main

__all__ = ["cli", "main"]
