"""The command line: ``etarena export | inspect | run | demo``."""

from .group import cli, main

__all__ = ["cli", "main"]
