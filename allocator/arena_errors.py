"""What an arena says when it refuses: what was asked, what there is, and what to change."""

from typing import TYPE_CHECKING

from .errors import ArenaFullError, Error

if TYPE_CHECKING:
    from .arena import Arena

__all__ = [
    "activations_full",
    "foreign",
    "heap_full",
    "nested",
    "no_address_space",
    "no_room",
    "overwritten",
    "pinned",
    "refused",
    "rewound",
    "too_large",
]


def no_room(name: str, reserve: int, activation_reserve: int, largest: int) -> ValueError:
    """Say that the sizes of the regions make no sense."""
    return ValueError(
        f"arena {name!r}: reserve={reserve} and activation_reserve={activation_reserve} bytes leave no room for "
        f"activations and heap (expected 0 < activation_reserve < reserve <= {largest})"
    )


def no_address_space(arena: "Arena", reason: str) -> ArenaFullError:
    """Say that the system has no such range of addresses."""
    return ArenaFullError(
        f"arena {arena.name!r}: the system does not grant {arena.reserve} bytes of address space ({reason}); create "
        "the Arena with a smaller reserve"
    )


def too_large(arena: "Arena", nbytes: int) -> ArenaFullError:
    """Say that a size is beyond all reason."""
    return ArenaFullError(
        f"arena {arena.name!r}: {nbytes} bytes are more than any address space, {arena.reserve} are reserved"
    )


def activations_full(arena: "Arena", nbytes: int, limit: int) -> ArenaFullError:
    """Say that a plan is larger than the activation region can grow to."""
    return ArenaFullError(
        f"arena {arena.name!r}: the activations need {nbytes} bytes, but the activation region can only grow to "
        f"{limit}; create the Arena with activation_reserve={nbytes} or more"
    )


def heap_full(arena: "Arena", nbytes: int, alignment: int, limit: int, scattered: int) -> ArenaFullError:
    """Say that no free range of the heap is large enough."""
    stats = arena.stats
    return ArenaFullError(
        f"arena {arena.name!r}: no room for a heap block of {nbytes} bytes (alignment {alignment}): "
        f"{limit - stats.heap_extent} bytes are free in one piece at the end and {scattered} in "
        f"{stats.heap_free_ranges} pieces, {stats.heap_live} are in use; drop blocks, or create the Arena with a "
        f"reserve larger than {arena.reserve}"
    )


def refused(arena: "Arena", nbytes: int) -> ArenaFullError:
    """Say that the system does not grant the memory behind the address space."""
    stats = arena.stats
    return ArenaFullError(
        f"arena {arena.name!r}: the system does not grant memory for {nbytes} more bytes "
        f"({stats.activation_committed + stats.heap_committed} are in use); free memory, call trim(), or raise the "
        "memory limit of the process"
    )


def foreign(arena: "Arena", address: int) -> Error:
    """Say that an address is no live block."""
    return Error(
        f"arena {arena.name!r}: 0x{address:x} is not the start of a live block: it was freed before, or it is not from "
        "this arena"
    )


def nested(arena: "Arena") -> Error:
    """Say that a thread asked for a turn that it has already."""
    return Error(
        f"arena {arena.name!r}: this thread is inside a method that uses the activation region; run, trim or close "
        "after it has returned, or give the inner method an arena of its own"
    )


def overwritten(arena: "Arena", nbytes: int) -> Error:
    """Say that somebody wrote to memory after it was freed."""
    return Error(
        f"arena {arena.name!r}: memory for a block of {nbytes} bytes was written to after it had been freed; whoever "
        "freed it last still uses it"
    )


def rewound(arena: "Arena") -> Error:
    """Say that a block is gone."""
    return Error(f"arena {arena.name!r}: this block was freed when the arena was rewound")


def pinned(arena: "Arena") -> BufferError:
    """Say that a block cannot be rewound."""
    return BufferError(
        f"arena {arena.name!r}: a memoryview or array still uses a block made since the mark; drop it before rewinding"
    )
