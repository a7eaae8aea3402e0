"""What a user can decide about a static plan, checked when it is said and not when a model is exported."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, TypeAlias

from executorch.exir.tensor import ALIGNMENT
from torch.fx import Node

from ..allocator.errors import InputError, InputTypeError

__all__ = ["Candidate", "Options", "Preference", "ScratchNeeds", "checked_options"]

LARGEST_ALIGNMENT = 1 << 30
FIRST_POOL = 1
LAST_POOL = 1 << 16
"""Largest memory id: a program lists the bytes of all ids up to the last."""
ScratchNeeds: TypeAlias = Mapping[str, "int | Callable[[Node], int]"]


@dataclass(frozen=True)
class Candidate:
    """A storage that is about to get a place, as a predicate of `prefer` sees it.

    Attributes
    ----------
    name : str
        Graph node that makes it, the bodies of control flow in front, separated by dots.
    nbytes : int
        Its bytes.
    positions : int
        Number of positions of the time line from its first to its last use.
    """

    name: str
    nbytes: int
    positions: int


Preference: TypeAlias = tuple["str | Callable[[Candidate], bool]", Sequence[int]]


@dataclass(frozen=True)
class Options:
    """The options of `static_planning_pass`, checked; see there."""

    alignment: int = ALIGNMENT
    pools: Mapping[int, int | None] = field(default_factory=lambda: {FIRST_POOL: None})
    prefer: Sequence[Preference] = ()
    scratch: ScratchNeeds = field(default_factory=dict)
    budget: float | None = None
    verify: bool = True

    def choices(self, candidate: Candidate) -> tuple[int, ...]:
        """The pools that a storage may be in, best first."""
        for what, pools in self.prefer:
            if fnmatchcase(candidate.name, what) if isinstance(what, str) else _answer(what, candidate):
                return tuple(pools)
        return tuple(self.pools)

    def scratch_bytes(self, delegate: str, node: Node) -> int:
        """Bytes that a delegate needs during one call."""
        need = self.scratch.get(delegate, 0)
        if isinstance(need, int):
            return need
        try:
            given = need(node)
        except Exception as error:
            raise InputError(f"scratch of {delegate!r} fails for {node.name!r}: {_text(error)}") from error
        if isinstance(given, bool) or not isinstance(given, int) or given < 0:
            raise InputError(f"scratch of {delegate!r}: expected a number of bytes for {node.name!r}, got {given!r}")
        return given


def _answer(predicate: Callable[[Candidate], bool], candidate: Candidate) -> bool:
    try:
        return bool(predicate(candidate))
    except Exception as error:
        raise InputError(f"prefer: {predicate!r} fails for {candidate.name!r}: {_text(error)}") from error


def _text(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def checked_options(alignment: Any, pools: Any, prefer: Any, scratch: Any, budget: Any, verify: Any) -> Options:
    """Options from what a caller gave.

    Raises
    ------
    InputError, InputTypeError
        One of them makes no sense.
    """
    if isinstance(alignment, bool) or not isinstance(alignment, int):
        raise InputTypeError(f"alignment: expected a power of two in bytes, got {alignment!r}")
    if not 0 < alignment <= LARGEST_ALIGNMENT or alignment & (alignment - 1):
        raise InputError(f"alignment: expected a power of two up to {LARGEST_ALIGNMENT}, got {alignment}")
    if budget is not None and (isinstance(budget, bool) or not isinstance(budget, int | float)):
        raise InputTypeError(f"budget: expected seconds or None, got {budget!r}")
    if budget is not None and not 0 <= budget < 1e9:
        raise InputError(f"budget: expected seconds from 0 to 1e9, got {budget}")
    known = _checked_pools(pools)
    return Options(
        alignment, known, _checked_preferences(prefer, known), _checked_scratch(scratch), budget, bool(verify)
    )


def _checked_pools(pools: Any) -> dict[int, int | None]:
    if pools is None:
        return {FIRST_POOL: None}
    if not isinstance(pools, Mapping):
        raise InputTypeError(f"pools: expected a mapping of memory ids to bytes or None, got {type(pools).__name__}")
    if not pools:
        raise InputError("pools: no pool to plan for")
    for pool, nbytes in pools.items():
        if isinstance(pool, bool) or not isinstance(pool, int) or pool < FIRST_POOL:
            raise InputError(f"pools: memory ids are numbers from {FIRST_POOL} (0 is for constants), got {pool!r}")
        if pool > LAST_POOL:
            raise InputError(f"pools: memory ids are numbers up to {LAST_POOL}, got {pool}")
        if nbytes is not None and (isinstance(nbytes, bool) or not isinstance(nbytes, int) or nbytes < 0):
            raise InputError(f"pools: expected bytes or None (unlimited) for memory id {pool}, got {nbytes!r}")
    return dict(sorted(pools.items()))


def _checked_preferences(prefer: Any, pools: Mapping[int, int | None]) -> tuple[Preference, ...]:
    if isinstance(prefer, str) or not isinstance(prefer, Mapping | Sequence):
        raise InputTypeError(f"prefer: expected a mapping or a sequence of pairs, got {prefer!r}")
    entries = list(prefer.items()) if isinstance(prefer, Mapping) else list(prefer)
    checked = []
    for entry in entries:
        if not isinstance(entry, tuple | list) or len(entry) != 2:
            raise InputTypeError(f"prefer: expected pairs of a name or predicate and memory ids, got {entry!r}")
        what, ids = entry
        if not (isinstance(what, str) or callable(what)):
            raise InputTypeError(f"prefer: expected a name (with * and ?) or a predicate, got {what!r}")
        if isinstance(ids, str) or not isinstance(ids, int | Sequence):
            raise InputTypeError(f"prefer: expected memory ids for {what!r}, got {ids!r}")
        ids = (ids,) if isinstance(ids, int) else tuple(ids)
        unknown = [pool for pool in ids if pool not in pools]
        if not ids or unknown:
            raise InputError(
                f"prefer: {what!r} names memory id {unknown[0] if unknown else 'none'}; pools has "
                f"{', '.join(map(str, pools))}"
            )
        checked.append((what, ids))
    return tuple(checked)


def _checked_scratch(scratch: Any) -> dict[str, Any]:
    if scratch is None:
        return {}
    if not isinstance(scratch, Mapping):
        raise InputTypeError(f"scratch: expected a mapping of delegate ids to bytes, got {type(scratch).__name__}")
    for delegate, need in scratch.items():
        if not isinstance(delegate, str):
            raise InputTypeError(f"scratch: delegates are named by their id, a text; got {delegate!r}")
        is_bytes = isinstance(need, int) and not isinstance(need, bool)
        if not (is_bytes or callable(need)) or (is_bytes and need < 0):
            raise InputError(f"scratch of {delegate!r}: expected bytes or a function of the call's node, got {need!r}")
    return dict(scratch)
