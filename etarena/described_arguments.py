"""What a plan section says of the inputs and outputs of a method."""

from collections.abc import Mapping, Sequence

import sympy
import torch
from executorch.exir.schema import Bool, Double, Int, Null, String, Tensor
from torch.export.graph_signature import OutputKind

from .allocator import plan
from .allocator.errors import ExportError
from .emitted import Emitted, input_nodes, size_result, value_of
from .symbols import Registers
from .traced import expression

__all__ = ["described_inputs", "described_outputs"]


def described_inputs(
    method: Emitted, position: Mapping[int, int], symbols: list[sympy.Symbol], names: Sequence[str]
) -> list[plan.Input]:
    """Describe the inputs, under the names they had before lowering renamed some.

    Raises
    ------
    ExportError
        As many were emitted as were not exported, or one is of a kind that no input has.
    """
    mutated = {
        spec.target
        for spec in method.program.graph_signature.output_specs
        if spec.kind is OutputKind.USER_INPUT_MUTATION
    }
    nodes = input_nodes(method)
    if not len(names) == len(nodes) == len(method.plan.inputs):
        raise ExportError(f"{len(names)} inputs were exported, {len(method.plan.inputs)} were emitted")
    inputs = []
    for index, node, name in zip(method.plan.inputs, nodes, names, strict=True):
        result = position.get(method.results.get(index, -1), -1)
        item = plan.Input(index, name, mutated=node.name in mutated, result=result)
        _describe_input(item, method.plan.values[index].val, value_of(node), position, symbols)
        inputs.append(item)
    return inputs


def _describe_input(
    item: plan.Input, emitted: object, value: object, position: Mapping[int, int], symbols: list[sympy.Symbol]
) -> None:
    item.scalar = _scalar(emitted)
    if item.scalar is plan.Scalar.TENSOR:
        item.value = position[item.index]
    elif isinstance(value, torch.SymInt):
        size = expression(value)
        if size in symbols:
            item.symbol = symbols.index(size)
        elif isinstance(size, int):
            item.int_value = size
        else:
            raise ExportError(f"input {item.name!r} is the expression {size} of other inputs; pass a plain int")
    elif isinstance(emitted, Int):
        item.int_value = emitted.int_val
    elif isinstance(emitted, Bool):
        item.int_value = int(emitted.bool_val)
    elif isinstance(emitted, Double):
        item.float_value = float(emitted.double_val)
    elif isinstance(emitted, String):
        item.string_value = emitted.string_val


def _scalar(emitted: object) -> plan.Scalar:
    kinds = {
        Tensor: plan.Scalar.TENSOR,
        Int: plan.Scalar.INT,
        Double: plan.Scalar.FLOAT,
        Bool: plan.Scalar.BOOL,
        String: plan.Scalar.STRING,
        Null: plan.Scalar.NONE,
    }
    if type(emitted) not in kinds:
        raise ExportError(f"inputs and outputs of kind {type(emitted).__name__} are not supported")
    return kinds[type(emitted)]


def described_outputs(
    method: Emitted, position: Mapping[int, int], results: list[object], registers: Registers
) -> list[plan.Output]:
    """Describe the outputs, those that are only changed inputs among them.

    Raises
    ------
    ExportError
        As many were emitted as the signature does not have, or one is of a kind that no output has.
    """
    kinds = [
        spec.kind for spec in method.program.graph_signature.output_specs if spec.kind is not OutputKind.BUFFER_MUTATION
    ]
    if not len(kinds) == len(results) == len(method.plan.outputs):
        raise ExportError(
            f"method {method.plan.name!r}: {len(kinds)} outputs in its signature, {len(method.plan.outputs)} emitted"
        )
    outputs = []
    for index, kind, node in zip(method.plan.outputs, kinds, results, strict=True):
        output = plan.Output(index, _scalar(method.plan.values[index].val))
        output.hidden = kind is OutputKind.USER_INPUT_MUTATION
        size = size_result(node, set(registers.symbols))
        if output.scalar is plan.Scalar.TENSOR:
            output.value = position[index]
        elif output.scalar is plan.Scalar.INT and size is not None:
            output.register = registers[size]
        outputs.append(output)
    return outputs
