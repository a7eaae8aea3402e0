"""`etarena.propagate`: what a model will need, found without running it."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from typing import Any
from unittest import mock

import torch
from torch.export import ExportedProgram
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode
from torch.nn.utils.stateless import _reparametrize_module
from torch.utils._pytree import tree_map, tree_structure, tree_unflatten

from ..allocator.errors import Error, InputError, InputTypeError, PropagationError
from ..oblivious import size_oblivious_tracing
from ..quiet import quiet
from .arguments import Arguments, bound_inputs, declared_dims, named_leaves
from .control_flow import plain_control_flow
from .devices import DeviceMap, DeviceNames
from .fake_run import Copies, FakeRun
from .graph import GraphRun, graph_arguments
from .result import Propagation, make_propagation

__all__ = ["propagate"]


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
    ``meta`` device does, or one that would not fit into memory. Autocast applies where it is on around the call.

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
    names, places = DeviceNames(), DeviceMap(device_map)
    if copies not in ("insert", "error"):
        raise InputError(f"copies: expected 'insert' or 'error', got {copies!r}")
    if isinstance(seed, bool) or not isinstance(seed, int) or not -(2**63) <= seed < 2**63:
        raise InputTypeError(f"seed: expected an int of 64 bits, got {seed!r}")
    run = FakeRun(names, copies=copies, seed=seed, check=bool(check))
    arguments = Arguments(run, places)
    oblivious = bool(dynamic_shapes) or isinstance(model, ExportedProgram)
    with _silent(), torch.no_grad(), size_oblivious_tracing() if oblivious else nullcontext(), _reported(run):
        if isinstance(model, ExportedProgram):
            _run_program(run, arguments, model, args, kwargs, dynamic_shapes)
        elif isinstance(model, torch.nn.Module):
            _run_module(run, arguments, model, *_checked(args, kwargs), dynamic_shapes)
        else:
            raise InputTypeError(f"expected a torch.nn.Module or an ExportedProgram, got {type(model).__name__}")
        return make_propagation(run, arguments)


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
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        with quiet():
            yield
    finally:
        logger.setLevel(level)


def _where(run: FakeRun) -> str:
    place = f" in {run.place!r}" if run.place else ""
    return f"{place} after {run.operators[-1]}" if run.operators else place


def _run_module(
    run: FakeRun,
    arguments: Arguments,
    module: torch.nn.Module,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    dynamic_shapes: Any,
) -> None:
    bound = bound_inputs(module, args, kwargs)
    leaves, structure = named_leaves(bound.arguments), tree_structure(dict(bound.arguments))
    dims = declared_dims(bound.arguments, dynamic_shapes)
    tensors = dict(_tensors(module))
    arguments.places.check(dict(module.named_modules()), tensors, [name for name, _ in leaves])
    given = [
        arguments.input(name, leaf, varying) if isinstance(leaf, torch.Tensor) else leaf
        for (name, leaf), varying in zip(leaves, dims, strict=True)
    ]
    state = {name: arguments.parameter(name, *entry) for name, entry in tensors.items()}
    bound.arguments.update(tree_unflatten(given, structure))
    with ExitStack() as stack:
        stack.enter_context(_reparametrize_module(module, state, tie_weights=False))
        stack.enter_context(run.mode)
        stack.enter_context(plain_control_flow())
        stack.enter_context(_any_cuda())
        stack.enter_context(_watched(run, module, arguments.places))
        stack.enter_context(run)
        kept = module(*bound.args, **bound.kwargs)
    run.storages.sweep(len(run.operators))
    del kept


def _tensors(module: torch.nn.Module) -> Iterator[tuple[str, tuple[torch.Tensor, str]]]:
    """Parameters and buffers by name, shared ones under each of their names."""
    for name, tensor in module.named_parameters(remove_duplicate=False):
        yield name, (tensor, "parameter")
    for name, tensor in module.named_buffers(remove_duplicate=False):
        yield name, (tensor, "buffer")


@contextmanager
def _watched(run: FakeRun, module: torch.nn.Module, places: DeviceMap) -> Iterator[None]:
    """Within the block, the run knows which submodule it is in, and moves what enters one with a device of its own."""
    paths = {id(part): path for path, part in module.named_modules()}

    def enter(part: torch.nn.Module, _args: Any) -> None:
        run.enter(paths.get(id(part), run.place))

    def leave(_part: torch.nn.Module, _args: Any, _result: Any) -> None:
        run.leave()

    with ExitStack() as stack:
        hooks = torch.nn.modules.module
        stack.callback(hooks.register_module_forward_pre_hook(enter).remove)
        stack.callback(hooks.register_module_forward_hook(leave, always_call=True).remove)
        for path, part in module.named_modules():
            if path in places.entries:
                _at_home(run, stack, part, path, run.names.to_torch(places.entries[path]))
        yield


def _at_home(run: FakeRun, stack: ExitStack, part: torch.nn.Module, path: str, device: torch.device) -> None:
    def enter(_part: torch.nn.Module, args: Any, kwargs: Any) -> Any:
        run.enter_home(device)
        if run.copies == "error":
            return None
        return tree_map(lambda leaf: run.moved(leaf, device, path or "the model"), (args, kwargs))

    def leave(_part: torch.nn.Module, _args: Any, _result: Any) -> None:
        run.leave_home()

    stack.callback(part.register_forward_pre_hook(enter, with_kwargs=True).remove)
    stack.callback(part.register_forward_hook(leave, always_call=True).remove)


def _run_program(
    run: FakeRun, arguments: Arguments, program: ExportedProgram, args: Any, kwargs: Any, dynamic_shapes: Any
) -> None:
    if dynamic_shapes is not None:
        raise InputError("an ExportedProgram has its dynamic shapes inside: leave dynamic_shapes out")
    module = program.module(check_guards=False)
    tensors = dict(_tensors(module))
    inputs = graph_arguments(arguments, program, args, kwargs)
    known = {name for path, _ in module.named_modules() for name in [path]} | _prefixes(tensors)
    arguments.places.check(known, tensors, [entry.name for entry in arguments.inputs])
    state = {name: arguments.parameter(name, *entry) for name, entry in tensors.items()}
    with _reparametrize_module(module, state, tie_weights=False), run.mode, run:
        kept = GraphRun(module, run, arguments.places).run(*inputs, enable_io_processing=False)
    run.storages.sweep(len(run.operators))
    del kept


def _prefixes(names: Mapping[str, Any]) -> set[str]:
    return {".".join(name.split(".")[:count]) for name in names for count in range(1, name.count(".") + 1)}


@contextmanager
def _any_cuda() -> Iterator[None]:
    """Within the block, ``tensor.cuda()`` asks no driver whether there is such a device."""

    def cuda(tensor: torch.Tensor, device: Any = None, non_blocking: bool = False, **options: Any) -> torch.Tensor:
        target = (
            device
            if isinstance(device, torch.device)
            else torch.device(device if isinstance(device, str) else f"cuda:{device or 0}")
        )
        return tensor.to(target, non_blocking=non_blocking, **options)

    with mock.patch.object(torch.Tensor, "cuda", cuda):
        yield
