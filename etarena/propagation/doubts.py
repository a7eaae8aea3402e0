"""What to do where torch's description of an operator is missing, fails, or is not to be believed: ask a real run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.utils._pytree import tree_leaves, tree_map

from ..allocator.errors import PropagationError
from ..allocator.size_binding import affine, expression
from .materialise import RealRun, TooLargeError, _Slot, assignments, number, run_for_real
from .recorder import operator_name
from .values import Materialised, Size

if TYPE_CHECKING:
    import sympy

    from .fake_run import FakeRun

__all__ = ["Doubts"]

LARGEST_BYTES = 64 << 20
"""Most bytes that the real arguments of one operator may take."""


class Doubts:
    """Runs operators for real, on behalf of one fake run.

    Parameters
    ----------
    run : FakeRun
        Whose operators these are.
    seed : int
        Of all random numbers.
    check : bool
        Whether to compare what torch says of each operator with a real run.

    Attributes
    ----------
    materialised : list of Materialised
        Operators whose results a real run told.
    unchecked : list of str
        With `check`: operators that could not be compared, and why.
    """

    def __init__(self, run: FakeRun, seed: int, check: bool) -> None:
        self.run = run
        self.seed = seed
        self.check = check
        self.materialised: list[Materialised] = []
        self.unchecked: list[str] = []
        self._checked: set[Any] = set()
        self._runs: dict[Any, list[RealRun]] = {}

    def results_of(self, operator: Any, args: Any, kwargs: Any, reason: str, cause: Exception) -> Any:
        """Fake results of an operator, as a real run gives them.

        Raises
        ------
        PropagationError
            There can be no real run either: too large, or the operator refuses its arguments.
        """
        leaves = tree_leaves((args, kwargs))
        key = (operator, *map(_key, leaves))
        if key not in self._runs:
            self._runs[key] = self._told(operator, args, kwargs, reason, cause)
            nbytes = sum(real.nbytes for real in self._runs[key])
            name = self.run.place or operator_name(operator)
            self.materialised.append(Materialised(operator_name(operator), name, reason, nbytes))
        return self._as_fakes(operator, args, kwargs, self._runs[key])

    def _told(self, operator: Any, args: Any, kwargs: Any, reason: str, cause: Exception) -> list[RealRun]:
        given = assignments(tree_leaves((args, kwargs)), self.run.examples())
        try:
            return [self._real(operator, args, kwargs, sizes) for sizes in given[:2]]
        except TooLargeError as error:
            raise PropagationError(f"{self._what(operator, args, kwargs)}: {reason}, and {error}") from cause
        except Exception as error:
            if len(given) == 1:
                raise self._failure(operator, args, kwargs, reason, cause, error) from cause
        try:
            return [self._real(operator, args, kwargs, given[-1])]
        except Exception as error:
            raise self._failure(operator, args, kwargs, reason, cause, error) from cause

    def compare(self, operator: Any, args: Any, kwargs: Any, results: Any) -> None:
        """Refuse an operator whose meta kernel says something else than a real run shows.

        Raises
        ------
        PropagationError
            Names the operator, and what both say.
        """
        if not self.check or torch.Tag.inplace_view in operator.tags:
            return
        leaves = tree_leaves((args, kwargs))
        fakes = [leaf for leaf in tree_leaves(results) if isinstance(leaf, torch.Tensor)]
        key = (operator, *map(_key, leaves))
        if not fakes or key in self._checked or any(leaf.layout is not torch.strided for leaf in fakes):
            return
        self._checked.add(key)
        try:
            real = self._real(operator, args, kwargs, assignments(leaves, self.run.examples())[-1])
        except Exception as error:
            self.unchecked.append(f"{operator_name(operator)}: {next(iter(str(error).splitlines()), '')}")
            return
        said, shown = [_description(fake, real.sizes) for fake in fakes], [_description(t, {}) for t in real.results]
        if len(said) != len(shown) or not all(map(_agree, said, shown)):
            raise PropagationError(
                f"{self._what(operator, args, kwargs)}: its meta kernel says {_text(said)}, but it gives "
                f"{_text(shown)} when it runs: correct the meta kernel (torch.library.register_fake)"
            )

    def _real(self, operator: Any, args: Any, kwargs: Any, sizes: dict[sympy.Symbol, int]) -> RealRun:
        return run_for_real(operator, args, kwargs, sizes, seed=self.seed, limit=LARGEST_BYTES)

    def _failure(
        self, operator: Any, args: Any, kwargs: Any, reason: str, cause: Exception, error: Exception
    ) -> PropagationError:
        what = self._what(operator, args, kwargs)
        first = next(iter(str(error).strip().splitlines()), type(error).__name__)
        if str(error) == str(cause) or not reason.startswith("no meta kernel"):
            return PropagationError(f"{what} fails: {first}")
        return PropagationError(f"{what}: {reason}, and a real run on random tensors fails: {first}")

    def _what(self, operator: Any, args: Any, kwargs: Any) -> str:
        """The operator, where it is called, and its tensors."""
        place = f" in {self.run.place!r}" if self.run.place else ""
        return f"{operator_name(operator)}{place} ({self.run.described(args, kwargs)})"

    def _as_fakes(self, operator: Any, args: Any, kwargs: Any, runs: list[RealRun]) -> Any:
        given = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
        device = self.run.device_of_results(args, kwargs)
        known = [expression(size) for leaf in given for size in leaf.shape]
        fakes = []
        for at, shown in enumerate(runs[0].results):
            others = [real.results[at] for real in runs]
            shape = [self._size(dims, runs, known) for dims in zip(*(t.shape for t in others), strict=True)]
            strides = [self._size(dims, runs, known) for dims in zip(*(t.stride() for t in others), strict=True)]
            shared = runs[0].shares[at]
            with self.run.mode:
                if shared is None:
                    size, stride = list(map(self.run.as_size, shape)), list(map(self.run.as_size, strides))
                    fakes.append(torch.empty_strided(size, stride, dtype=shown.dtype, device=device))
                elif operator._schema.is_mutable:
                    fakes.append(given[shared])
                else:
                    size, stride = list(map(self.run.as_size, shape)), list(map(self.run.as_size, strides))
                    fakes.append(given[shared].as_strided(size, stride))
        return tree_map(lambda leaf: fakes[leaf.number] if isinstance(leaf, _Slot) else leaf, runs[0].structure)

    @staticmethod
    def _size(shown: tuple[int, ...], runs: list[RealRun], known: list[Size]) -> Size | None:
        """The expression that a size of a result is, from what it was in real runs; None where none fits."""
        if not runs[0].sizes or (len(runs) > 1 and len(set(shown)) == 1):
            return shown[0]
        symbols = list(runs[0].sizes)
        candidates = [*(size for size in known if not isinstance(size, int)), *symbols]
        candidates += [size * other for at, size in enumerate(candidates) for other in [*known, *symbols][at:]]
        for candidate in dict.fromkeys(candidates):
            if all(number(candidate, run.sizes) == size for run, size in zip(runs, shown, strict=True)):
                return candidate
        for symbol in symbols if len(runs) > 1 else ():
            one, two = (run.sizes[symbol] for run in runs)
            scale, rest = divmod(shown[1] - shown[0], two - one) if one != two else (0, 1)
            if rest == 0 and scale and affine(scale * symbol, symbol):
                return scale * symbol + (shown[0] - scale * one)
        return None


def _key(leaf: Any) -> Any:
    if isinstance(leaf, torch.Tensor):
        return (leaf.dtype, str([*leaf.shape, *leaf.stride()]))
    return str(leaf)


def _description(tensor: torch.Tensor, sizes: dict[sympy.Symbol, int]) -> tuple[list[Any], str, list[Any]]:
    """Shape, dtype and strides as numbers; None for what only data tells."""

    def known(size: Any) -> int | None:
        free = size.node.expr.free_symbols if isinstance(size, torch.SymInt) else set()
        return number(size, sizes) if free <= set(sizes) else None

    return list(map(known, tensor.shape)), str(tensor.dtype), list(map(known, tensor.stride()))


def _agree(said: tuple[list[Any], str, list[Any]], shown: tuple[list[Any], str, list[Any]]) -> bool:
    if len(said[0]) != len(shown[0]) or said[1] != shown[1]:
        return False
    if any(one is not None and one != two for one, two in zip(said[0], shown[0], strict=True)):
        return False
    if 0 in shown[0] or None in said[0]:
        return True
    strides = zip(shown[0], said[2], shown[2], strict=True)
    return all(size < 2 or one is None or one == two for size, one, two in strides)


def _text(found: list[tuple[list[Any], str, list[Any]]]) -> str:
    return ", ".join(f"{dtype.removeprefix('torch.')}{shape} strides {strides}" for shape, dtype, strides in found)
