"""Growable caches: `length` and `append`.

Neither is declared to write its argument, because the buffer that an export sees has a fixed shape. What they do to it
is made explicit in the lowered program (`etarena.caches`).
"""

import torch

from ..allocator.errors import InputError, InputTypeError, ShapeError
from .library import LIBRARY, mark_stateful

__all__ = ["append", "empty_in_order", "length", "storage_order"]

LIBRARY.define("length(Tensor cache, int dim) -> SymInt")
LIBRARY.define("append(Tensor cache, Tensor new, int dim, SymInt past, int? window=None) -> Tensor")
LIBRARY.define(
    "append.out(Tensor cache, Tensor new, int dim, SymInt past, int? window=None, *, Tensor(a!) out) -> Tensor(a!)"
)


def length(cache: torch.Tensor, dim: int) -> int:
    """Number of entries that a growable cache holds now.

    Parameters
    ----------
    cache : torch.Tensor
        A buffer of the module.
    dim : int
        The dimension in which it grows.

    Returns
    -------
    int
        Under ``torch.export``, a size known when a call begins.

    Raises
    ------
    InputError, InputTypeError
        If `cache` is no tensor, or has no dimension `dim`.
    """
    return torch.ops.etarena.length(cache, _dimension(cache, dim))


def append(
    cache: torch.Tensor, new: torch.Tensor, dim: int, past: int | None = None, window: int | None = None
) -> torch.Tensor:
    """Add entries to a growable cache and return everything it holds.

    Costs as much as `new` is large, whatever the cache holds. If the call of the exported method fails later on, the
    cache is as it was before.

    Parameters
    ----------
    cache : torch.Tensor
        A buffer of the module, of any length in `dim`.
    new : torch.Tensor
        The entries: dtype of the cache, and its sizes in all dimensions but `dim`.
    dim : int
        The dimension in which the cache grows.
    past : int, optional
        The cache's length, where it is known already. Caches that are given the same `past` have the same length in the
        exported program, which it checks on every call. By default the length of this cache.
    window : int, optional
        How many entries the cache keeps for the next call: the last ones. Unlimited by default. The result is not cut,
        since the first of the new entries may need all the old ones.

    Returns
    -------
    torch.Tensor
        Sizes of the cache with ``past + new.shape[dim]`` in `dim`. The program's own copy of it is read-only.

    Raises
    ------
    InputError, InputTypeError
        If the tensors do not fit each other, or `window` is less than one.
    ShapeError
        If `past` is not the cache's length (in eager mode; an exported program raises the same when called).
    """
    dim = _dimension(cache, dim)
    _check_new(cache, new, dim)
    if window is not None and (isinstance(window, bool) or not isinstance(window, int)):
        raise InputTypeError(f"window is a number of entries or None, got {type(window).__name__}")
    if window is not None and window < 1:
        raise InputError(f"window is the number of entries to keep, at least 1, got {window}")
    if past is None:
        past = torch.ops.etarena.length(cache, dim)
    elif isinstance(past, bool) or not isinstance(past, int | torch.SymInt):
        raise InputTypeError(f"past is the cache's length, an int, got {type(past).__name__}")
    return torch.ops.etarena.append(cache, new, dim, past, window)


def storage_order(sizes: tuple[int | torch.SymInt, ...], dim: int) -> tuple[int, ...]:
    """Dim order of a cache in memory: the growing dimension outermost, unless only sizes of 1 come before it."""
    rest = [d for d in range(len(sizes)) if d != dim]
    if all(isinstance(size, int) and size == 1 for size in sizes[:dim]):
        return tuple(range(len(sizes)))
    return (dim, *rest)


def empty_in_order(like: torch.Tensor, sizes: list[int | torch.SymInt], order: tuple[int, ...]) -> torch.Tensor:
    """An uninitialised tensor that is dense in a dim order."""
    inverse = sorted(range(len(order)), key=order.__getitem__)
    return like.new_empty([sizes[d] for d in order]).permute(inverse)


def _dimension(cache: torch.Tensor, dim: int) -> int:
    if not isinstance(cache, torch.Tensor):
        raise InputTypeError(f"cache must be a torch.Tensor, got {type(cache).__name__}")
    if isinstance(dim, bool) or not isinstance(dim, int):
        raise InputTypeError(f"dim must be an int, got {type(dim).__name__}")
    if not -cache.dim() <= dim < cache.dim():
        raise InputError(f"dim is {dim}, but the cache has {cache.dim()} dimensions")
    return dim % cache.dim()


def _check_new(cache: torch.Tensor, new: torch.Tensor, dim: int) -> None:
    if not isinstance(new, torch.Tensor):
        raise InputTypeError(f"new must be a torch.Tensor, got {type(new).__name__}")
    if new.dtype != cache.dtype:
        raise InputTypeError(f"the new entries have dtype {new.dtype}, the cache {cache.dtype}")
    if new.dim() != cache.dim():
        raise InputError(f"the new entries have {new.dim()} dimensions, the cache {cache.dim()}")
    for d in range(cache.dim()):
        if d != dim and new.shape[d] != cache.shape[d]:
            raise InputError(f"the new entries have size {new.shape[d]} in dimension {d}, the cache {cache.shape[d]}")


def _length(cache: torch.Tensor, dim: int) -> int:
    return cache.shape[dim]


def _fake_length(cache: torch.Tensor, dim: int) -> torch.SymInt:
    return torch.library.get_ctx().new_dynamic_size()


def _append(cache: torch.Tensor, new: torch.Tensor, dim: int, past: int, window: int | None = None) -> torch.Tensor:
    """Eager mode: the buffer itself changes shape; the result is a copy, like that of an operator without aliases."""
    if past != cache.shape[dim]:
        raise ShapeError(f"past is {past}, but the cache holds {cache.shape[dim]} entries in dimension {dim}")
    result = torch.cat([cache, new], dim)
    total = result.shape[dim]
    kept = result if window is None else result.narrow(dim, max(total - window, 0), min(window, total))
    with torch.no_grad():
        cache.set_(kept.clone(memory_format=torch.contiguous_format))
    return result


def _fake_append(
    cache: torch.Tensor, new: torch.Tensor, dim: int, past: int, window: int | None = None
) -> torch.Tensor:
    sizes = list(cache.shape)
    sizes[dim] = past + new.shape[dim]
    return empty_in_order(cache, sizes, storage_order(tuple(cache.shape), dim))


LIBRARY.impl("length", _length, "CompositeExplicitAutograd")
LIBRARY.impl("append", _append, "CompositeExplicitAutograd")
torch.library.register_fake("etarena::length", _fake_length, lib=LIBRARY)
torch.library.register_fake("etarena::append", _fake_append, lib=LIBRARY)
mark_stateful(torch.ops.etarena.append.default)
