"""A backend in Python: softmax through numpy, taken out of a model by a partitioner and run as an ExecuTorch delegate.

Run it with ``python examples/python_delegate.py``: it exports a small attention block with a varying length, runs it at
several lengths and compares the results with eager PyTorch.
"""

import json
from typing import Any

import numpy as np
import torch
from executorch.exir.backend.backend_details import BackendDetails, PreprocessResult
from executorch.exir.backend.canonical_partitioners.pattern_op_partitioner import generate_pattern_op_partitions
from executorch.exir.backend.compile_spec_schema import CompileSpec
from executorch.exir.backend.partitioner import DelegationSpec, Partitioner, PartitionResult
from executorch.exir.dialects._ops import ops
from torch.export import ExportedProgram
from torch.fx.passes.operator_support import OperatorSupportBase

import etarena

SOFTMAX = ops.edge.aten._softmax.default


class IsSoftmax(OperatorSupportBase):
    """What the backend takes: softmax of float32."""

    def is_node_supported(self, submodules: Any, node: torch.fx.Node) -> bool:
        """Say whether a node goes to the backend."""
        return node.target is SOFTMAX and node.meta["val"].dtype == torch.float32


class NumpySoftmaxPartitioner(Partitioner):
    """Marks every softmax of a model for the backend."""

    def partition(self, exported_program: ExportedProgram) -> PartitionResult:
        """Tag the nodes; each group of them becomes one delegate."""
        delegation = DelegationSpec(NumpySoftmax.__name__, [CompileSpec("version", b"1")])
        tags = {}
        for partition in generate_pattern_op_partitions(exported_program.graph_module, op_support=IsSoftmax()):
            tag = f"softmax{partition.id}"
            tags[tag] = delegation
            for node in partition.nodes:
                node.meta["delegation_tag"] = tag
        return PartitionResult(exported_program, tags)


class NumpySoftmax(BackendDetails):
    """Export: turns the nodes of one delegate into bytes. The class's name is the backend id in the file."""

    @staticmethod
    def preprocess(edge_program: ExportedProgram, compile_specs: list[CompileSpec]) -> PreprocessResult:
        """Write down which value each softmax reads and along which dimension."""
        nodes = list(edge_program.graph.nodes)
        values = {node.name: i for i, node in enumerate(node for node in nodes if node.op == "placeholder")}
        steps = []
        for node in nodes:
            if node.target is SOFTMAX:
                steps.append({"source": values[node.args[0].name], "dim": node.args[1]})
                values[node.name] = len(values)
        (results,) = (node.args[0] for node in nodes if node.op == "output")
        blob = {"steps": steps, "results": [values[node.name] for node in results]}
        return PreprocessResult(json.dumps(blob).encode())


class NumpySoftmaxDelegate(etarena.Delegate):
    """Run time: one object for each delegate of a loaded method."""

    def init(self, blob: memoryview, specs: dict[str, bytes]) -> None:
        """Read what `preprocess` wrote."""
        if specs["version"] != b"1":
            raise ValueError(f"this backend reads version 1, the file has {specs['version']!r}")
        found = json.loads(bytes(blob))
        self.steps, self.results = found["steps"], found["results"]

    def scratch_bytes(self, shapes: list[Any]) -> int:
        """Room for one array of the largest size: every step computes in it."""
        return max(4 * int(np.prod(shape)) for shape in shapes)

    def output_shapes(self, shapes: list[Any]) -> list[Any]:
        """A softmax keeps its shape; all chains of them here start at an input."""
        values = list(shapes[: len(shapes) - len(self.results)])
        for step in self.steps:
            values.append(values[step["source"]])
        return [values[result] for result in self.results]

    def execute(self, args: list[Any], scratch: memoryview) -> None:
        """Compute without memory of its own but for a sum per row."""
        n_inputs = len(args) - len(self.results)
        values = [np.asarray(arg) for arg in args[:n_inputs]]
        for step in self.steps:
            x, dim = values[step["source"]], step["dim"]
            room = np.frombuffer(scratch, np.float32, x.size).reshape(x.shape)
            np.subtract(x, x.max(dim, keepdims=True), out=room)
            np.exp(room, out=room)
            room /= room.sum(dim, keepdims=True)
            values.append(room.copy() if len(self.steps) > 1 else room)
        for result, out in zip(self.results, args[n_inputs:], strict=True):
            np.asarray(out)[...] = values[result]


class Attention(torch.nn.Module):
    """Two heads of attention over a sequence of 32 features."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv = torch.nn.Linear(32, 96)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Attend from every position to every other."""
        q, k, v = (part.unflatten(-1, (2, 16)).transpose(-3, -2) for part in self.qkv(x).chunk(3, -1))
        weights = torch.softmax(q @ k.transpose(-1, -2) / 4, -1)
        return (weights @ v).transpose(-3, -2).flatten(-2)


def main() -> None:
    """Export, run at several lengths, compare."""
    torch.manual_seed(0)
    model = Attention().eval()
    exported = etarena.export(
        model,
        (torch.randn(1, 10, 32),),
        dynamic_shapes={"x": {1: torch.export.Dim.DYNAMIC}},
        partitioners=[NumpySoftmaxPartitioner()],
    )
    etarena.register_delegate(NumpySoftmax.__name__, NumpySoftmaxDelegate)
    method = etarena.load(exported.buffer).method()
    for length in (10, 200, 3, 64):
        x = torch.randn(1, length, 32)
        with torch.no_grad():
            expected = model(x)
        (result,) = method.execute([x])
        torch.testing.assert_close(result, expected)
        run = method.last_run
        print(
            f"length {length:4}: arena {run.arena_bytes:8} bytes, of which scratch {run.delegate_scratch_bytes:8}; "
            f"largest difference from eager {float((result - expected).abs().max()):.1e}"
        )


if __name__ == "__main__":
    main()
