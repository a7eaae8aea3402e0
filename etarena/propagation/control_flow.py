"""Operators that take functions: their bodies are recorded once, in the memory of the call."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from unittest import mock

import torch
from torch._higher_order_ops import utils
from torch.utils._pytree import tree_map

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .fake_run import FakeRun

__all__ = ["plain_control_flow", "run_control_flow"]


@contextmanager
def plain_control_flow() -> Iterator[None]:
    """Within the block, ``torch.cond`` and its kind call their operator without compiling it, in this thread."""
    compiled, here = utils._hop_compile_and_call, threading.get_ident()

    def call(function: Any, args: Any, kwargs: Any = None) -> Any:
        if threading.get_ident() != here:
            return compiled(function, args, kwargs)
        return function(*args, **(kwargs or {}))

    with mock.patch.object(utils, "_hop_compile_and_call", call):
        yield


def run_control_flow(run: FakeRun, operator: Any, args: Any, kwargs: Any) -> Any:
    """Record the bodies of a higher-order operator, then the operator.

    A branch is over before the next one begins, and one round of a loop stands for all: rounds take turns on the same
    memory. Results of ``map`` and ``scan`` are there from the start, because every round writes a part of them.
    """
    name = operator.name()
    if name.startswith("wrap_with_set_grad_enabled"):
        return args[1](*args[2:])  # nothing here has gradients
    if name.startswith("wrap_with_autocast"):
        return _autocast(*args)
    if name in ("map_impl", "scan"):
        results = _whole(run, operator, args, kwargs)
        _body(run, f"{name}.body", *_round(name, run, args, kwargs))
        return results
    for label, function, given in _branches(name, args, kwargs):
        _body(run, f"{name}.{label}", function, given)
    return _whole(run, operator, args, kwargs)


def _autocast(device: str, dtype: Any, enabled: bool, cache: bool | None, function: Any, *given: Any) -> Any:
    with torch.autocast(device, dtype=dtype, enabled=enabled, cache_enabled=cache):
        return function(*given)


def _whole(run: FakeRun, operator: Any, args: Any, kwargs: Any) -> Any:
    position = run.begin(operator)
    results = operator(*args, **kwargs)
    run.note(operator, position, results)
    return results


def _body(run: FakeRun, label: str, function: Any, given: Any) -> None:
    prefix = f"{run.place}." if run.place else ""
    with run.scope(prefix + label), run:
        function(*given)


def _branches(name: str, args: Any, kwargs: Any) -> list[tuple[str, Any, Any]]:
    if name == "cond":
        _, true, false, *rest = args
        given = rest[0] if rest else kwargs.get("operands", ())
        return [("true", true, given), ("false", false, given)]
    if name == "while_loop":
        condition, body, carried, *rest = args
        given = (*carried, *(rest[0] if rest else kwargs.get("additional_inputs", ())))
        return [("condition", condition, given), ("body", body, given)]
    return []


def _round(name: str, run: FakeRun, args: Any, kwargs: Any) -> tuple[Any, Any]:
    """The body of a loop over slices, and what it is given in the first round."""
    if name == "map_impl":
        function, slices, *rest = args
        before: Any = ()
        more = rest[0] if rest else kwargs.get("pos_args", ())
    else:
        function, before, slices, *rest = args
        more = rest[0] if rest else kwargs.get("additional_inputs", ())
    with run.mode:
        first = tree_map(lambda tensor: tensor.select(0, 0), tuple(slices))
    for tensor in first:
        run.note_view(tensor)
    return function, (*before, *first, *more)
