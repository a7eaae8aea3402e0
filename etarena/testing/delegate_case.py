"""What an author gives to check a delegate: itself, a model it is part of, and inputs of several sizes."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ..allocator.arena import Arena
from ..allocator.errors import Error
from ..delegate_registry import register_delegate, unregister_delegate
from ..delegates.delegate import Delegate
from ..program import load

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import torch

    from ..program import Method

__all__ = ["ARENA_BYTES", "DelegateCase"]

ARENA_BYTES = 1 << 32  # of address space, not of memory


@dataclass(frozen=True, eq=False)
class DelegateCase:
    """A delegate and a model that uses it; exports are made once per case.

    Parameters
    ----------
    delegate : type or table
        A subclass of `etarena.Delegate`, or a function table as `etarena.register_delegate` takes it.
    backend : str
        Its backend id.
    module : torch.nn.Module
        The model, run in eager mode for the results to compare with.
    inputs : callable
        Makes the list of the model's inputs for a size, an int.
    dynamic_shapes : object
        As for `etarena.export`.
    partitioners : sequence
        Give parts of the model to the backend, as for `etarena.export`.
    program : bytes, optional
        The model as a ``.pte`` file of `etarena.export`, in place of `partitioners`.
    bounded_shapes : object, optional
        Dynamic shapes with upper bounds for `torch.export.export`: the model is also made a stock file.
    stock : bytes, optional
        The model as a stock ``.pte`` file, in place of `bounded_shapes`.
    sizes : tuple of int
        Sizes to run, both growing and shrinking; the first one is exported with.
    rtol, atol : float
        Tolerances of the comparison with eager mode; 1e-4 by default.
    """

    delegate: Any
    backend: str
    module: torch.nn.Module
    inputs: Callable[[int], Sequence[Any]]
    dynamic_shapes: Any = None
    partitioners: Sequence[Any] = ()
    program: bytes | None = None
    bounded_shapes: Any = None
    stock: bytes | None = None
    sizes: tuple[int, ...] = (6, 33, 200, 12, 1)
    rtol: float = 1e-4
    atol: float = 1e-4

    @property
    def is_python(self) -> bool:
        """Whether the delegate is a Python class, which checks can look into."""
        return isinstance(self.delegate, type) and issubclass(self.delegate, Delegate)

    @cached_property
    def file(self) -> bytes:
        """The model with its plan section."""
        if self.program is not None:
            return self.program
        from ..exporter import export

        example = tuple(self.inputs(self.sizes[0]))
        made = export(self.module, example, dynamic_shapes=self.dynamic_shapes, partitioners=list(self.partitioners))
        return bytes(made.buffer)

    @cached_property
    def stock_file(self) -> bytes | None:
        """The model as ExecuTorch plans it by itself; None if the case has no bounds."""
        if self.stock is not None or self.bounded_shapes is None:
            return self.stock
        import torch
        from executorch.exir import to_edge_transform_and_lower

        from ..quiet import quiet

        with quiet():
            example = tuple(self.inputs(self.sizes[0]))
            captured = torch.export.export(self.module, example, dynamic_shapes=self.bounded_shapes)
            lowered = to_edge_transform_and_lower(captured, partitioner=list(self.partitioners))
            return bytes(lowered.to_executorch().buffer)

    @contextmanager
    def registered(self, delegate: Any = None) -> Iterator[None]:
        """Register the delegate, or a stand-in for it, for a while; what was registered before comes back."""
        before = self.unregister()
        register_delegate(self.backend, self.delegate if delegate is None else delegate)
        try:
            yield
        finally:
            self.unregister()
            if before:
                register_delegate(self.backend, self.delegate)

    def unregister(self) -> bool:
        """Take the backend back; False if it was not registered."""
        try:
            unregister_delegate(self.backend)
        except Error:
            return False
        return True

    def method(self, arena: Arena | None = None, *, stock: bool = False, **options: Any) -> Method:
        """Load the model anew, on an arena of its own if none is given."""
        file = self.stock_file if stock else self.file
        assert file is not None, "the case has no stock file"
        return load(file, arena or Arena(ARENA_BYTES, name="delegate"), **options).method()

    def eager(self, inputs: Sequence[Any]) -> list[Any]:
        """The results of the model in eager mode."""
        import torch
        from torch.utils._pytree import tree_leaves

        with torch.no_grad():
            return list(tree_leaves(self.module(*inputs)))

    def assert_right(self, method: Any, size: int, when: str) -> list[Any]:
        """Run a loaded method at a size and compare with eager mode; gives the results."""
        inputs = self.inputs(size)
        results = list(method.execute(list(inputs)))
        self.assert_same(results, self.eager(inputs), f"{when}, size {size}")
        return results

    def assert_same(self, results: Sequence[Any], expected: Sequence[Any], when: str) -> None:
        """Compare results, with the tolerances of the case."""
        import torch

        assert len(results) == len(expected), f"{len(results)} results for {len(expected)} ({when})"
        for number, (result, right) in enumerate(zip(results, expected, strict=True)):
            torch.testing.assert_close(
                result,
                right,
                rtol=self.rtol,
                atol=self.atol,
                equal_nan=True,
                msg=lambda text, number=number: f"result {number} is not eager mode's ({when}): {text}",
            )
