"""`etarena.propagate`: what a model will need, found without running it."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch._dispatch.python import enable_python_dispatcher
from torch.export import ExportedProgram
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode
from torch.nn.utils.stateless import _reparametrize_module

from ..allocator.errors import Error, InputError, InputTypeError, PropagationError
from ..oblivious import size_oblivious_tracing
from ..quiet import quiet
from .arguments import Arguments
from .composites import whole_resizing
from .devices import DeviceMap, DeviceNames
from .fake_run import Copies, FakeRun
from .graph import GraphRun, graph_arguments, graph_path
from .module_run import run_module, tensors_of
from .result import Propagation, make_propagation

__all__ = ["propagate"]

# What composite operators in C++ say of sizes that are symbols.
NEEDS_NUMBERS = ("SymIntArrayRef expected to contain only concrete integers", "tensor with symbolic sizes/strides")


def propagate(
    model: Any,
    args: Any = None,
    kwargs: Any = None,
    *,
    device_map: Any = None,
    dynamic_shapes: Any = None,
    copies: Copies = "insert",
    check: bool = False,
    seed: int = 0,
) -> Propagation:
    """Find shape, dtype, device, strides, bytes and lifetime of every value of a model, without tensor memory.

    The model's own code runs, as eager PyTorch runs it without gradients, on tensors that have everything but memory
    (torch's ``FakeTensorMode``). Parameters and buffers are replaced by such tensors as well, so that a module on the
    ``meta`` device does, or one that would not fit into memory. Autocast applies where it is on around the call. Calls
    from several threads, and exports, take turns.

    Parameters
    ----------
    model : torch.nn.Module or torch.export.ExportedProgram
        Of a program the nodes of its graph are the operators, and their names those of the values.
    args : tuple, optional
        Example inputs: their sizes, strides and dtypes count, not what is in them; tensors on ``meta`` will do. A
        program brings its own.
    kwargs : dict, optional
        Example inputs by name.
    device_map : mapping or device, optional
        Device by name of submodule (with all below it; ``""``: the whole model), parameter, buffer or input; the
        longest name decides. Any `Device` will do, whatever this machine has. By default everything is where it is,
        and on the CPU if it is on ``meta``.
    dynamic_shapes : mapping or sequence, optional
        Sizes that may vary, as ``torch.export.export`` takes them; names instead of ``Dim`` objects will do as well.
    copies : {"insert", "error"}, optional
        What happens where submodules of the map meet: ``"insert"`` (the default) copies what enters a submodule of the
        map to its device, and what an operator is given to the device of the submodule that it belongs to; the copies
        are values, and listed in `Propagation.copies`. ``"error"`` leaves everything to the model and PyTorch's rules.
    check : bool, optional
        Also run each operator for real, on small random tensors of the CPU (up to 64 MiB each, freed at once), and
        refuse one whose meta kernel says something else (default False).
    seed : int, optional
        Of all random numbers of real runs (default 0).

    Returns
    -------
    Propagation

    Raises
    ------
    PropagationError
        An operator fails for these shapes, cannot be told of, or its meta kernel is wrong; or the model's code branches
        on data. Names the operator, the submodule and the values.
    DeviceError
        A device does not exist, or an operator is given tensors of several; names both.
    InputError, InputTypeError
        Arguments, map or dynamic shapes do not fit the model.
    """
    places = DeviceMap(device_map)
    if copies not in ("insert", "error"):
        raise InputError(f"copies: expected 'insert' or 'error', got {copies!r}")
    if isinstance(seed, bool) or not isinstance(seed, int) or not -(2**63) <= seed < 2**63:
        raise InputTypeError(f"seed: expected an int of 64 bits, got {seed!r}")
    if not isinstance(model, torch.nn.Module | ExportedProgram):
        raise InputTypeError(f"expected a torch.nn.Module or an ExportedProgram, got {type(model).__name__}")

    def attempt(*, decomposed: bool) -> Propagation:
        run = FakeRun(DeviceNames(), copies=copies, seed=seed, check=bool(check))
        arguments = Arguments(run, places)
        with _silent(), torch.no_grad(), _symbolic(dynamic_shapes, model, decomposed), _reported(run):
            if isinstance(model, ExportedProgram):
                _run_program(run, arguments, model, args, kwargs, dynamic_shapes)
            else:
                run_module(run, arguments, model, *_checked(args, kwargs), dynamic_shapes)
            return make_propagation(run, arguments, decomposed)

    try:
        return attempt(decomposed=False)
    except PropagationError as error:
        if not any(words in str(error) for words in NEEDS_NUMBERS):
            raise
        return attempt(decomposed=True)


@contextmanager
def _symbolic(dynamic_shapes: Any, model: Any, decomposed: bool) -> Iterator[None]:
    """Within the block, sizes may be symbols; composite operators on request in Python, where all take them."""
    with ExitStack() as stack:
        if dynamic_shapes or isinstance(model, ExportedProgram):
            stack.enter_context(size_oblivious_tracing())
        if decomposed:
            stack.enter_context(enable_python_dispatcher())
            stack.enter_context(whole_resizing())
        yield


def _checked(args: Any, kwargs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if args is not None and not isinstance(args, tuple | list):
        raise InputTypeError(f"args is a tuple of example inputs, got {type(args).__name__}")
    if kwargs is not None and not isinstance(kwargs, Mapping):
        raise InputTypeError(f"kwargs is a dict of example inputs, got {type(kwargs).__name__}")
    return tuple(args or ()), dict(kwargs or {})


@contextmanager
def _reported(run: FakeRun) -> Iterator[None]:
    """Failures inside torch and the model's code as errors of ours."""
    try:
        yield
    except Error:
        raise
    except GuardOnDataDependentSymNode as error:
        first = next(iter(str(error).strip().splitlines()), "")
        raise PropagationError(
            f"the model's code branches on what only data tells{_where(run)}: {first}. Write the branch with "
            "torch.cond and export it, or propagate the model for an input that needs no branch"
        ) from error
    except Exception as error:
        text = next(iter(str(error).strip().splitlines()), "")
        raise PropagationError(f"the model's code fails{_where(run)}: {type(error).__name__}: {text}") from error


@contextmanager
def _silent() -> Iterator[None]:
    """Keep torch from logging what becomes an error of ours, or no error at all."""
    logger = logging.getLogger("torch._subclasses.fake_tensor")
    with quiet():
        level = logger.level
        logger.setLevel(logging.CRITICAL)
        try:
            yield
        finally:
            logger.setLevel(level)


def _where(run: FakeRun) -> str:
    place = f" in {run.place!r}" if run.place else ""
    return f"{place} after {run.operators[-1]}" if run.operators else place


def _run_program(
    run: FakeRun, arguments: Arguments, program: ExportedProgram, args: Any, kwargs: Any, dynamic_shapes: Any
) -> None:
    if dynamic_shapes is not None:
        raise InputError("an ExportedProgram has its dynamic shapes inside: leave dynamic_shapes out")
    module = program.module(check_guards=False)
    tensors = dict(tensors_of(module))
    inputs = graph_arguments(arguments, program, args, kwargs)
    known = _prefixes([*tensors, *map(graph_path, program.graph.nodes)])
    arguments.places.check(known, tensors, [entry.name for entry in arguments.inputs])
    state = {name: arguments.parameter(name, *entry) for name, entry in tensors.items()}
    with _reparametrize_module(module, state, tie_weights=False), run.mode, run:
        kept = GraphRun(module, run, arguments.places).run(*inputs, enable_io_processing=False)
    run.storages.sweep(len(run.operators))
    del kept


def _prefixes(names: Iterable[str]) -> set[str]:
    return {".".join(name.split(".")[:count]) for name in names for count in range(1, name.count(".") + 2)}
