"""Backends for tests: chosen operators of a model go to a delegate that computes them with PyTorch."""

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from executorch.exir.backend.backend_details import BackendDetails, PreprocessResult
from executorch.exir.backend.canonical_partitioners.pattern_op_partitioner import generate_pattern_op_partitions
from executorch.exir.backend.compile_spec_schema import CompileSpec
from executorch.exir.backend.partitioner import DelegationSpec, Partitioner, PartitionResult
from torch.fx.passes.operator_support import OperatorSupportBase

import etarena

_made: dict[str, type] = {}


class Takes(OperatorSupportBase):
    def __init__(self, operators: Sequence[str]) -> None:
        super().__init__()
        self.operators = set(operators)

    def is_node_supported(self, submodules: Any, node: torch.fx.Node) -> bool:
        return node.op == "call_function" and operator_name(node) in self.operators


def operator_name(node: torch.fx.Node) -> str:
    """E.g. ``aten.sin.default``."""
    return str(node.target).replace("aten::", "aten.").removeprefix("<EdgeOpOverload: ").split(">")[0]


class OperatorPartitioner(Partitioner):
    """Gives every connected group of the operators to one delegate of the backend."""

    def __init__(self, backend: str, operators: Sequence[str], specs: Sequence[CompileSpec] = ()) -> None:
        super().__init__()
        if backend not in _made:
            _made[backend] = type(backend, (BackendDetails,), {"preprocess": staticmethod(preprocess)})
        self.backend, self.operators, self.specs = backend, operators, list(specs)

    def partition(self, exported_program: Any) -> PartitionResult:
        delegation = DelegationSpec(self.backend, self.specs)
        tags = {}
        support = Takes(self.operators)
        for partition in generate_pattern_op_partitions(exported_program.graph_module, op_support=support):
            tag = f"{self.backend}{partition.id}"
            tags[tag] = delegation
            for node in partition.nodes:
                node.meta["delegation_tag"] = tag
        return PartitionResult(exported_program, tags)


def preprocess(edge_program: Any, compile_specs: list[CompileSpec]) -> PreprocessResult:
    """Write down the operators in order; arguments are positions of values or constants."""
    nodes = list(edge_program.graph.nodes)
    values = {node.name: i for i, node in enumerate(node for node in nodes if node.op == "placeholder")}
    steps = []
    for node in nodes:
        if node.op == "call_function":
            args = [{"value": values[arg.name]} if isinstance(arg, torch.fx.Node) else arg for arg in node.args]
            steps.append([operator_name(node), args])
            values[node.name] = len(values)
    (results,) = (node.args[0] for node in nodes if node.op == "output")
    return PreprocessResult(json.dumps({"steps": steps, "results": [values[node.name] for node in results]}).encode())


def as_tensor(argument: Any) -> Any:
    """A torch view of a delegate's argument; numbers as they are."""
    return torch.from_numpy(np.asarray(argument)) if hasattr(argument, "shape") else argument


class TorchDelegate(etarena.Delegate):
    """Runs what `preprocess` wrote down."""

    def init(self, blob: memoryview, specs: dict[str, bytes]) -> None:
        found = json.loads(bytes(blob))
        self.steps, self.results, self.specs = found["steps"], found["results"], specs

    def output_shapes(self, shapes: Sequence[Any]) -> list[Any]:
        """All operators here keep the shape of the first argument."""
        return [shapes[0]] * len(self.results)

    def n_inputs(self, args: Sequence[Any]) -> int:
        return len(args) - len(self.results)

    def compute(self, inputs: list[Any]) -> list[torch.Tensor]:
        values = list(inputs)
        for name, args in self.steps:
            overload = getattr(getattr(torch.ops.aten, name.split(".")[1]), name.split(".")[2])
            values.append(overload(*[values[arg["value"]] if isinstance(arg, dict) else arg for arg in args]))
        return [values[result] for result in self.results]

    def execute(self, args: Sequence[Any], scratch: memoryview) -> None:
        inputs = [as_tensor(arg) for arg in args[: self.n_inputs(args)]]
        for out, result in zip(args[len(inputs) :], self.compute(inputs), strict=True):
            as_tensor(out).copy_(result)


class Interleaved(torch.nn.Module):
    """Three times a sine, which tests give to a delegate, and a running sum, which stays on the CPU."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for _ in range(3):
            x = torch.cumsum(torch.sin(x), -1) * 0.5
        return x


SINE = ("aten.sin.default",)
