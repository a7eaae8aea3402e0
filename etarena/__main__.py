"""``python -m etarena`` is the ``etarena`` command."""

from .cli import main

if __name__ == "__main__":
    main()
