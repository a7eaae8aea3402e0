"""The command line: ``etarena export | inspect | run | demo``."""

from .main import cli, main

__all__ = ["cli", "main"]
