"""Export: from the part of an edge program that goes to Vulkan to a delegate's blob."""

from __future__ import annotations

import operator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, final

import torch
from executorch.exir.backend.backend_details import BackendDetails, PreprocessResult
from torch.export.graph_signature import InputKind
from torch.fx import Node

from ...allocator.errors import ExportError
from .fusion import fuse
from .graph import LINE, Graph, Operation, Size, TensorId, Value, leaves
from .schema import arguments_of, operator_name
from .sizes import GraphSizes, sizes_of

if TYPE_CHECKING:
    from executorch.exir.backend.compile_spec_schema import CompileSpec
    from torch.export import ExportedProgram

__all__ = ["EtarenaVulkan", "lower_graph"]

DTYPES = {
    torch.float32: "float32",
    torch.float16: "float16",
    torch.int32: "int32",
    torch.int64: "int64",
    torch.uint8: "uint8",
    torch.int8: "int8",
    torch.bool: "bool",
}
CONSTANTS = (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR)


@final
class EtarenaVulkan(BackendDetails):
    """The backend as ExecuTorch's export knows it; the class's name is the backend id in the file."""

    @staticmethod
    def preprocess(edge_program: ExportedProgram, compile_specs: list[CompileSpec]) -> PreprocessResult:
        """Write the blob of one delegate."""
        return PreprocessResult(lower_graph(edge_program).encode())


def lower_graph(program: ExportedProgram) -> Graph:
    """Write down the graph of a program that holds nothing but operators of `operators`.

    Raises
    ------
    ExportError
        It holds something else, or a size that its inputs do not tell.
    """
    return _Lowering(program).run()


class _Lowering:
    def __init__(self, program: ExportedProgram) -> None:
        self.program = program
        self.graph = Graph()
        self.places: dict[Node, Any] = {}  # a value, or a list of them
        self.constants = bytearray()
        self.nodes = list(program.graph.nodes)
        kinds = {spec.arg.name: spec for spec in program.graph_signature.input_specs}
        self.constant_nodes = {
            node: kinds[node.name]
            for node in self.nodes
            if node.op == "placeholder" and node.name in kinds and kinds[node.name].kind in CONSTANTS
        }
        self.inputs = [node for node in self.nodes if node.op == "placeholder" and node not in self.constant_nodes]
        self.sizes = GraphSizes([sizes_of(node.meta["val"]) for node in self.inputs])
        self.tickets: list[list[int]] = []  # of the values' sizes

    def run(self) -> Graph:
        for node in self.inputs:
            value = node.meta["val"]
            is_tensor = isinstance(value, torch.Tensor)
            self.graph.inputs.append(self.add(node, value) if is_tensor else None)
        for node, spec in self.constant_nodes.items():
            self.places[node] = self.add_constant(self.tensor_of(spec))
        calls = [node for node in self.nodes if node.op == "call_function"]
        pending = [call for node in calls if (call := self.call(node)) is not None]
        (output,) = (node for node in self.nodes if node.op == "output")
        results = output.args[0] if isinstance(output.args[0], list | tuple) else [output.args[0]]
        self.graph.outputs = [self.places[node] for node in results]
        self.graph.n_symbols, self.graph.code, self.graph.bindings = self.sizes.compile()
        register = self.sizes.register
        self.graph.values = [
            Value(value.dtype, tuple(register(ticket) for ticket in tickets), value.data)
            for value, tickets in zip(self.graph.values, self.tickets, strict=True)
        ]
        self.graph.operations = [
            Operation(name, {key: _resolve(entry, register) for key, entry in arguments.items()}, outputs)
            for name, arguments, outputs in pending
        ]
        self.graph.constants = bytes(self.constants)
        fuse(self.graph)
        _drop_unused(self.graph)
        return self.graph

    def add(self, node: Node | None, value: torch.Tensor, data: tuple[int, int] | None = None) -> int:
        if value.dtype not in DTYPES:
            raise ExportError(f"Vulkan: {node} is of type {value.dtype}")
        place = len(self.graph.values)
        self.graph.values.append(Value(DTYPES[value.dtype], (), data))
        self.tickets.append([self.sizes.want(size) for size in value.shape])
        if node is not None:
            self.places[node] = place
        return place

    def tensor_of(self, spec: Any) -> torch.Tensor:
        """What a constant holds; buffers that are not kept with the parameters are among the constants."""
        found = self.program.state_dict.get(spec.target)
        return self.program.constants[spec.target] if found is None else found

    def add_constant(self, tensor: torch.Tensor) -> int:
        dense = tensor.detach().cpu().contiguous()
        self.constants += bytes(-len(self.constants) % LINE)
        content = dense.reshape(-1).view(torch.uint8).numpy().tobytes() if dense.numel() else b""
        place = self.add(None, dense, (len(self.constants), len(content)))
        self.constants += content
        return place

    def call(self, node: Node) -> tuple[str, dict[str, Any], tuple[int, ...]] | None:
        """One operation; None for a node that only takes results apart or reads a size."""
        if node.target is operator.getitem:
            source = self.places[node.args[0]]
            self.places[node] = source[node.args[1]]
            return None
        if isinstance(node.meta.get("val"), int | torch.SymInt):
            return None  # known from the shapes
        name = operator_name(node)
        if name is None:
            raise ExportError(f"Vulkan: {node.target} is no operator")
        arguments = {key: self.argument(entry) for key, entry in arguments_of(node).items()}
        value = node.meta["val"]
        if isinstance(value, torch.Tensor):
            outputs: tuple[int, ...] = (self.add(node, value),)
        else:
            outputs = tuple(self.add(None, result) for result in value)
            self.places[node] = list(outputs)
        return name, arguments, outputs

    def argument(self, entry: Any) -> Any:
        if isinstance(entry, Node):
            if isinstance(entry.meta.get("val"), int | torch.SymInt):
                return _Ticket(self.sizes.want(entry.meta["val"]))
            return TensorId(self.places[entry])
        if isinstance(entry, list | tuple):
            return [self.argument(inner) for inner in entry]
        if isinstance(entry, torch.SymInt):
            return _Ticket(self.sizes.want(entry))
        if isinstance(entry, torch.dtype):
            return DTYPES.get(entry, str(entry))
        if entry is None or isinstance(entry, bool | int | float | str):
            return entry
        return str(entry)  # a layout, a device, a memory format


def _drop_unused(graph: Graph) -> None:
    """Leave out the bytes of constants that nothing reads any more."""
    read = {leaf.value for op in graph.operations for leaf in leaves(op.arguments) if isinstance(leaf, TensorId)}
    kept = bytearray()
    for place, value in enumerate(graph.values):
        if value.data is None:
            continue
        offset, nbytes = value.data if place in read else (0, 0)
        kept += bytes(-len(kept) % LINE)
        sizes = value.sizes if place in read else ()
        graph.values[place] = replace(value, sizes=sizes, data=(len(kept), nbytes))
        kept += graph.constants[offset : offset + nbytes]
    graph.constants = bytes(kept)


class _Ticket:
    """A size whose register is not known yet."""

    def __init__(self, number: int) -> None:
        self.number = number


def _resolve(entry: Any, register: Any) -> Any:
    if isinstance(entry, _Ticket):
        return Size(register(entry.number))
    return [_resolve(inner, register) for inner in entry] if isinstance(entry, list) else entry
