"""A partitioner whose delegates are on a device, and the backend that runs them there: small graphs of arithmetic."""

import json

import numpy
from executorch.exir.backend.backend_details import BackendDetails, PreprocessResult
from executorch.exir.backend.canonical_partitioners.pattern_op_partitioner import generate_partitions_from_list_of_nodes
from executorch.exir.backend.compile_spec_schema import CompileSpec
from executorch.exir.backend.partitioner import DelegationSpec, Partitioner, PartitionResult
from executorch.exir.backend.utils import tag_constant_data
from torch.fx.passes.operator_support import OperatorSupportBase

import etarena

__all__ = ["PlacedBackend", "PlacedDelegate", "PlacedPartitioner"]


class PlacedBackend(BackendDetails):
    @staticmethod
    def preprocess(edge_program, compile_specs):
        steps, inputs, outputs = [], [], []
        for node in edge_program.graph.nodes:
            if node.op == "placeholder":
                inputs.append(node.name)
            elif node.op == "call_function":
                name = node.target._schema.name.split("::")[1]
                steps.append([node.name, name, [str(argument) for argument in node.args]])
            elif node.op == "output":
                outputs = [str(result) for result in node.args[0]]
        return PreprocessResult(processed_bytes=json.dumps([inputs, steps, outputs]).encode())


class Named(OperatorSupportBase):
    def __init__(self, names):
        self.names = names

    def is_node_supported(self, submodules, node):
        return node.op == "call_function" and any(name in str(node.target) for name in self.names)


class PlacedPartitioner(Partitioner):
    """Gives the operators of some names to a delegate of a device."""

    def __init__(self, device, *names):
        self.delegation = DelegationSpec("PlacedBackend", [CompileSpec("target_device", device.encode())])
        self.names = names

    def partition(self, exported_program):
        tags = {}
        found = generate_partitions_from_list_of_nodes(exported_program.graph_module, op_support=Named(self.names))
        for partition in found:
            tag = f"{self.delegation.compile_specs[0].value.decode()}_{partition.id}"
            tags[tag] = self.delegation
            for node in partition.nodes:
                node.meta["delegation_tag"] = tag
        tag_constant_data(exported_program)
        return PartitionResult(tagged_exported_program=exported_program, partition_tags=tags)


class PlacedDelegate(etarena.Delegate):
    """Computes on the bytes of a simulated device; subclasses say which in `allocator`."""

    allocator = None
    devices = 1 << 7
    OPERATORS = {
        "mul": numpy.multiply,
        "add": numpy.add,
        "exp": numpy.exp,
        "sigmoid": lambda x: 1 / (1 + numpy.exp(-x)),
    }

    def init(self, blob, specs):
        self.inputs, self.steps, self.outputs = json.loads(bytes(blob))

    def requirements(self, shapes):
        return [etarena.Requirement(devices=self.devices)] * len(shapes)

    def execute(self, args, scratch):
        values = {name: self.array(arg) for name, arg in zip(self.inputs, args, strict=False)}
        for name, operator, arguments in self.steps:
            values[name] = self.OPERATORS[operator](*(values[argument] for argument in arguments))
        for name, result in zip(self.outputs, args[len(self.inputs) :], strict=True):
            self.array(result)[...] = values[name]

    def array(self, tensor):
        memory = self.allocator.bytes_of(tensor.device.index, tensor.resource, 0, tensor.nbytes)
        return numpy.frombuffer(memory, numpy.float32).reshape(tensor.shape)
