"""A model's own code on fake tensors: its state replaced, its submodules watched, nothing of it left behind."""

from __future__ import annotations

import threading
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any
from unittest import mock

import torch
from torch.nn.utils.stateless import _reparametrize_module
from torch.utils._pytree import tree_map, tree_structure, tree_unflatten

from .arguments import Arguments, bound_inputs, declared_dims, named_leaves
from .control_flow import plain_control_flow

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .devices import DeviceMap, DeviceNames
    from .fake_run import FakeRun

__all__ = ["run_module", "tensors_of"]


def run_module(
    run: FakeRun,
    arguments: Arguments,
    module: torch.nn.Module,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    dynamic_shapes: Any,
) -> None:
    """Call a module on fake tensors and record what it does; see `propagate` for arguments and errors."""
    bound = bound_inputs(module, args, kwargs)
    leaves, structure = named_leaves(bound.arguments), tree_structure(dict(bound.arguments))
    dims = declared_dims(bound.arguments, dynamic_shapes)
    tensors = dict(tensors_of(module))
    arguments.places.check(dict(module.named_modules()), tensors, [name for name, _ in leaves])
    given = [
        arguments.input(name, leaf, varying) if isinstance(leaf, torch.Tensor) else leaf
        for (name, leaf), varying in zip(leaves, dims, strict=True)
    ]
    state = {name: arguments.parameter(name, *entry) for name, entry in tensors.items()}
    bound.arguments.update(tree_unflatten(given, structure))
    with ExitStack() as stack:
        stack.enter_context(_attributes_kept(module))
        stack.enter_context(_reparametrize_module(module, state, tie_weights=False))
        stack.enter_context(run.mode)
        stack.enter_context(plain_control_flow())
        stack.enter_context(_any_device(run.names))
        stack.enter_context(_watched(run, module, arguments.places))
        stack.enter_context(run)
        kept = module(*bound.args, **bound.kwargs)
    run.storages.sweep(len(run.operators))
    del kept


def tensors_of(module: torch.nn.Module) -> Iterator[tuple[str, tuple[torch.Tensor, str]]]:
    """Parameters and buffers by name, shared ones under each of their names."""
    for name, tensor in module.named_parameters(remove_duplicate=False):
        yield name, (tensor, "parameter")
    for name, tensor in module.named_buffers(remove_duplicate=False):
        yield name, (tensor, "buffer")


@contextmanager
def _attributes_kept(module: torch.nn.Module) -> Iterator[None]:
    """Afterwards, what the code assigned to attributes of the model is gone: it has no memory."""
    before = [(part, dict(part.__dict__)) for part in module.modules()]
    try:
        yield
    finally:
        for part, attributes in before:
            part.__dict__.clear()
            part.__dict__.update(attributes)


@contextmanager
def _watched(run: FakeRun, module: torch.nn.Module, places: DeviceMap) -> Iterator[None]:
    """Within the block, the run knows which submodule it is in, and moves what enters one with a device of its own."""
    paths = {id(part): path for path, part in module.named_modules()}
    here = threading.get_ident()  # the hooks are called for every module of the process

    def enter(part: torch.nn.Module, _args: Any) -> None:
        if threading.get_ident() == here:
            run.enter(paths.get(id(part), run.place))

    def leave(_part: torch.nn.Module, _args: Any, _result: Any) -> None:
        if threading.get_ident() == here:
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


@contextmanager
def _any_device(names: DeviceNames) -> Iterator[None]:
    """Within the block, ``tensor.cuda()`` and ``tensor.to(...)`` know the devices of the run, and ask no driver.

    PyTorch asks one for the current device where a device has no number (here it is 0), and gives back the tensor
    itself if that is where it is. In other threads all is as ever.
    """
    to_anywhere, cuda_anywhere, here = torch.Tensor.to, torch.Tensor.cuda, threading.get_ident()

    def known(given: Any) -> Any:
        device = torch.device(given) if isinstance(given, str) else given
        return names.replaced(device) if isinstance(device, torch.device) else given

    def to(tensor: torch.Tensor, *args: Any, **options: Any) -> torch.Tensor:
        if threading.get_ident() != here:
            return to_anywhere(tensor, *args, **options)
        return to_anywhere(tensor, *map(known, args), **{name: known(option) for name, option in options.items()})

    def cuda(tensor: torch.Tensor, device: Any = None, non_blocking: bool = False, **options: Any) -> torch.Tensor:
        if threading.get_ident() != here:
            return cuda_anywhere(tensor, device, non_blocking, **options)
        target = f"cuda:{device or 0}" if device is None or isinstance(device, int) else device
        return to(tensor, target, non_blocking=non_blocking, **options)

    with mock.patch.object(torch.Tensor, "cuda", cuda), mock.patch.object(torch.Tensor, "to", to):
        yield
