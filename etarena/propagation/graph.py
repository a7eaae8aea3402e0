"""An exported program, node by node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.export.graph_signature import InputKind

from ..allocator.errors import InputError, InputTypeError
from ..allocator.size_binding import expression
from .arguments import INT64_MAX, Arguments, InputShape
from .numbers import finite

if TYPE_CHECKING:
    from torch.export import ExportedProgram

    from .devices import DeviceMap
    from .fake_run import FakeRun

__all__ = ["GraphRun", "graph_arguments", "graph_path"]


class GraphRun(torch.fx.Interpreter):
    """Interprets a graph, tells the run where it is, and drops each value after its last use.

    Parameters
    ----------
    module : torch.fx.GraphModule
        With parameters and buffers as attributes.
    run : FakeRun
        Records.
    places : DeviceMap
        Where submodules are.
    """

    def __init__(self, module: torch.fx.GraphModule, run: FakeRun, places: DeviceMap) -> None:
        super().__init__(module)
        self.extra_traceback = False
        self._run = run
        self._places = places

    def run_node(self, node: torch.fx.Node) -> Any:
        """Interpret one node."""
        if node.op in ("placeholder", "output", "get_attr"):
            return super().run_node(node)
        home = self._places.of_tensor(graph_path(node))
        self._run.enter(node.name)
        if home is not None:
            self._run.enter_home(self._run.names.to_torch(home))
        try:
            return super().run_node(node)
        finally:
            self._run.leave()
            if home is not None:
                self._run.leave_home()


def graph_path(node: torch.fx.Node) -> str:
    """The submodule that a node came from; empty if it is not known."""
    stack = node.meta.get("nn_module_stack") or {}
    last = next(reversed(stack.values()), ("", None))
    return str(last[0])


def graph_arguments(arguments: Arguments, program: ExportedProgram, args: Any, kwargs: Any) -> list[Any]:
    """Make the inputs of a program, flat, with its own symbols; `args` and `kwargs` may give other fixed sizes.

    Raises
    ------
    InputError, InputTypeError
        If inputs are given that the program does not take.
    """
    specs = [spec for spec in program.graph_signature.input_specs if spec.kind is InputKind.USER_INPUT]
    nodes = {node.name: node for node in program.graph.nodes if node.op == "placeholder"}
    given = _given(program, args, kwargs, len(specs))
    environment = _environment(program)
    made: dict[str, Any] = {}

    def size(dim: Any) -> Any:
        found = expression(dim)
        if isinstance(found, int):
            return found
        for symbol in sorted(found.free_symbols, key=str):
            if str(symbol) not in made:
                span = program.range_constraints.get(symbol)
                low, high = (0, INT64_MAX) if span is None else (finite(span.lower, 0), finite(span.upper, INT64_MAX))
                example = int(environment.backed_var_to_val.get(symbol, max(low, 4)))
                made[str(symbol)] = arguments.symbol(str(symbol), example, 0 if low <= 2 else low, high)
        values = {symbol: made[str(symbol)].node.expr for symbol in found.free_symbols}
        return arguments.run.as_size(found.xreplace(values))

    inputs = []
    for spec, leaf in zip(specs, given, strict=True):
        value = nodes[spec.arg.name].meta.get("val")
        if isinstance(value, torch.Tensor):
            inputs.append(_tensor(arguments, spec.arg.name, value, leaf, size))
        else:
            inputs.append(leaf if leaf is not None else size(value) if isinstance(value, torch.SymInt) else value)
    return inputs


def _tensor(arguments: Arguments, name: str, value: torch.Tensor, leaf: Any, size: Any) -> torch.Tensor:
    device = arguments.places.of_input(name)
    target = arguments.run.names.to_torch(device) if device is not None else arguments.home(value.device)
    if leaf is not None:
        if not isinstance(leaf, torch.Tensor) or leaf.dim() != value.dim() or leaf.dtype != value.dtype:
            raise InputTypeError(f"input {name!r} must be a {value.dtype} tensor with {value.dim()} dimensions")
        for at, (dim, actual) in enumerate(zip(value.shape, leaf.shape, strict=True)):
            if isinstance(expression(dim), int) and dim != actual:
                raise InputError(f"dimension {at} of input {name!r} is {actual}, but the program fixes it to {dim}")
        fake = arguments.strided(leaf, list(leaf.shape), target)
    else:
        fake = arguments.strided(value, [size(dim) for dim in value.shape], target)
    arguments.run.add(name, "input", fake, 0)
    arguments.inputs.append(InputShape(name, tuple(map(expression, fake.shape))))
    return fake


def _given(program: ExportedProgram, args: Any, kwargs: Any, count: int) -> list[Any]:
    if args is None and kwargs is None:
        return [None] * count
    try:
        flat = program._get_flat_args_with_check(tuple(args or ()), dict(kwargs or {}))[0]
    except (RuntimeError, ValueError, TypeError, KeyError) as error:
        raise InputError(f"the program does not take these arguments: {error}") from error
    if len(flat) != count:
        raise InputError(f"the program takes {count} inputs, got {len(flat)}")
    return list(flat)


def _environment(program: ExportedProgram) -> Any:
    for node in program.graph.nodes:
        for leaf in [node.meta.get("val")] if node.op == "placeholder" else ():
            mode = getattr(leaf, "fake_mode", None)
            if mode is not None and mode.shape_env is not None:
                return mode.shape_env
    return torch.fx.experimental.symbolic_shapes.ShapeEnv()
