"""Operators run once on small random tensors, where torch's description of them is missing, fails, or is doubted."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import sympy
import torch
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._pytree import tree_leaves, tree_map

from ..allocator.size_binding import expression

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["RealRun", "TooLargeError", "assignments", "number", "run_for_real"]

PRIMES = (5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43)
MORE_PRIMES = (43, 41, 37, 31, 29, 23, 19, 17, 13, 11, 7, 5)


class TooLargeError(Exception):
    """The real arguments of an operator would take more memory than allowed."""


@dataclass
class RealRun:
    """What an operator gave for real tensors.

    Attributes
    ----------
    results : list of torch.Tensor on meta
        Shapes, strides and dtypes of the tensors it gave, without memory.
    structure : Any
        The results as they were given, each tensor replaced by its number in `results`.
    shares : list of int or None
        For each result the argument (counted in the leaves of args and kwargs) whose storage it is on.
    nbytes : int
        Bytes of arguments and results.
    sizes : dict
        Numbers that stood for the symbols.
    """

    results: list[torch.Tensor] = field(default_factory=list)
    structure: Any = None
    shares: list[int | None] = field(default_factory=list)
    nbytes: int = 0
    sizes: dict[sympy.Symbol, int] = field(default_factory=dict)


@dataclass(frozen=True)
class _Slot:
    """Where a tensor stood in the results of an operator."""

    number: int


def number(size: Any, sizes: dict[sympy.Symbol, int]) -> int:
    """A size as a number, with numbers for its symbols."""
    size = expression(size) if isinstance(size, torch.SymInt) else size
    if isinstance(size, int):
        return size
    missing = sorted(size.free_symbols - set(sizes), key=str)
    known = {**sizes, **{symbol: PRIMES[-1 - at % len(PRIMES)] for at, symbol in enumerate(missing)}}
    return int(size.xreplace({symbol: sympy.Integer(value) for symbol, value in known.items()}))


def assignments(leaves: Sequence[Any], examples: dict[sympy.Symbol, int]) -> list[dict[sympy.Symbol, int]]:
    """Numbers for the symbols in the sizes of tensors: distinct small primes, twice, and those of the example.

    Without symbols there is one empty assignment.
    """
    found: set[sympy.Symbol] = set()
    for leaf in leaves:
        sizes = [*leaf.shape, *leaf.stride()] if isinstance(leaf, torch.Tensor) else [leaf]
        for size in sizes:
            if isinstance(size, torch.SymInt):
                found |= size.node.expr.free_symbols
    symbols = sorted(found, key=str)
    if not symbols:
        return [{}]
    primes = [dict(zip(symbols, row * len(symbols), strict=False)) for row in (PRIMES, MORE_PRIMES)]
    return [*primes, {symbol: examples.get(symbol, 3) for symbol in symbols}]


def run_for_real(
    operator: Any, args: Any, kwargs: Any, sizes: dict[sympy.Symbol, int], *, seed: int, limit: int
) -> RealRun:
    """Call an operator on random tensors of the CPU and forget them.

    Parameters
    ----------
    operator : torch.OpOverload
        What is called.
    args, kwargs
        Its arguments, fake tensors among them.
    sizes : dict
        Numbers for symbols in sizes.
    seed : int
        Of the random numbers; the operator's own are drawn with it as well.
    limit : int
        Most bytes that the arguments may take.

    Raises
    ------
    TooLargeError
        The arguments would take more than `limit`.
    Exception
        Whatever the operator raises.
    """
    leaves = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
    needed = sum(_extent(leaf, sizes) * leaf.dtype.itemsize for leaf in leaves)
    if needed > limit:
        raise TooLargeError(f"its arguments take {needed} bytes, more than the {limit} that may be used")
    highest = min((number(size, sizes) for leaf in leaves for size in leaf.shape), default=1)
    with _disable_current_modes(), torch.no_grad(), torch.random.fork_rng(devices=[]):
        try:
            return _call(operator, args, kwargs, sizes, seed, max(highest, 1))
        except (IndexError, RuntimeError, ValueError):
            if all(leaf.dtype.is_floating_point for leaf in leaves):
                raise
            return _call(operator, args, kwargs, sizes, seed, 1)  # zero is a valid index of anything


def _call(operator: Any, args: Any, kwargs: Any, sizes: dict[sympy.Symbol, int], seed: int, highest: int) -> RealRun:
    generator = torch.Generator().manual_seed(seed)
    torch.manual_seed(seed)

    def real(leaf: Any) -> Any:
        if isinstance(leaf, torch.Tensor):
            return _random(leaf, sizes, generator, highest)
        if isinstance(leaf, torch.SymInt):
            return number(leaf, sizes)
        return torch.device("cpu") if isinstance(leaf, torch.device) else leaf

    args, kwargs = tree_map(real, (args, kwargs))
    results = operator(*args, **kwargs)
    run = RealRun(sizes=sizes)
    given = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
    places = {leaf.untyped_storage().data_ptr(): at for at, leaf in enumerate(given) if leaf.numel()}
    run.nbytes = sum(leaf.untyped_storage().nbytes() for leaf in given)

    def seen(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor):
            return leaf
        shared = places.get(leaf.untyped_storage().data_ptr()) if leaf.numel() else None
        run.nbytes += 0 if shared is not None else leaf.untyped_storage().nbytes()
        run.shares.append(shared)
        run.results.append(torch.empty_strided(leaf.shape, leaf.stride(), dtype=leaf.dtype, device="meta"))
        return _Slot(len(run.results) - 1)

    run.structure = tree_map(seen, results)
    return run


def _extent(tensor: torch.Tensor, sizes: dict[sympy.Symbol, int]) -> int:
    """Elements that the memory of a tensor needs."""
    shape = [number(size, sizes) for size in tensor.shape]
    if 0 in shape:
        return 0
    strides = [number(stride, sizes) for stride in tensor.stride()]
    return 1 + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))


def _random(
    tensor: torch.Tensor, sizes: dict[sympy.Symbol, int], generator: torch.Generator, highest: int
) -> torch.Tensor:
    """A tensor with the sizes and strides of a fake one; integers are legal indices into every other argument."""
    dtype = tensor.dtype
    extent = _extent(tensor, sizes)
    if dtype is torch.bool:
        memory = torch.randint(0, 2, (extent,), generator=generator).to(dtype)
    elif dtype.is_floating_point or dtype.is_complex:
        memory = torch.randn(extent, generator=generator).to(dtype)
    else:
        memory = torch.randint(0, highest, (extent,), generator=generator).to(dtype)
    shape = [number(size, sizes) for size in tensor.shape]
    return memory.as_strided(shape, [number(stride, sizes) for stride in tensor.stride()])
