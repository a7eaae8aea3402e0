"""How many rounds the loops of an invocation may go."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ....allocator.errors import Error

if TYPE_CHECKING:
    from .call import Call

__all__ = ["MOST_ROUNDS", "require_rounds", "too_long"]

MOST_ROUNDS = 60_000
"""Of all loops together, nested and one after another, with a margin for those that are always short: Mesa's device for
CPUs ends them silently after 65535 rounds (``LP_MAX_TGSI_LOOP_ITERATIONS`` in its sources)."""


def too_long(rounds: int) -> str | None:
    """Why so many rounds are too many; None if they are not."""
    return None if rounds <= MOST_ROUNDS else f"its loops have {rounds} rounds, {MOST_ROUNDS} are the most"


def require_rounds(call: Call, rounds: int) -> None:
    """Refuse a shape, known only now, at which an invocation goes too many rounds.

    Raises
    ------
    Error
        It does.
    """
    reason = too_long(rounds)
    if reason is not None:
        shape = next(tuple(x.shape) for x in call.arguments.values() if hasattr(x, "shape"))
        raise Error(
            f"{call.name} of Vulkan is given the shape {shape}: {reason}. Leave it to others with "
            f"VulkanPartitioner(skip=[{call.name!r}])"
        )
