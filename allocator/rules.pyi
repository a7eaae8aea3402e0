from typing import Final

__all__ = ["RULES"]

RULES: Final[tuple[str, ...]]
