"""The last passes before emission: no tensor gets memory, each gets a name, symbolic sizes become placeholders."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import torch
import torch.utils._pytree as pytree
from executorch.exir import memory
from executorch.exir.memory_planning import _alias_inplace_result_specs, _is_inplace_node
from executorch.exir.pass_base import PassBase, PassResult
from executorch.exir.passes import MemoryPlanningPass
from executorch.exir.passes.replace_view_copy_with_view_pass import _ViewSpec
from executorch.exir.schema import ExtraTensorInfo, TensorShapeDynamism
from executorch.exir.tensor import TensorSpec
from torch.export.exported_program import ExportGraphSignature
from torch.fx import GraphModule, Node

from .device.device import Device
from .devices.placement import DEVICE
from .traced import Size, expression

__all__ = ["LeaveUnplanned", "NamedSizes", "PlaceholderShapes", "graph_modules"]


@dataclass
class NamedSizes:
    """Sizes of every named tensor of one method, as numbers and expressions, and its device if not the CPU."""

    tensors: dict[str, list[Size]] = field(default_factory=dict)
    devices: dict[str, Device] = field(default_factory=dict)


def graph_modules(graph_module: GraphModule) -> Iterator[tuple[str, GraphModule]]:
    """`graph_module` and the bodies of its control flow, each with the prefix its values' names get."""
    for path, module in graph_module.named_modules():
        if isinstance(module, GraphModule):
            yield f"{path}." if path else "", module


def specs_of(node: Node) -> Iterator[tuple[torch.Tensor, TensorSpec]]:
    """(fake value, spec) of every tensor that the node makes."""
    values = pytree.tree_flatten(node.meta.get("val"))[0]
    specs = pytree.tree_flatten(node.meta.get("spec"))[0]
    for value, spec in zip(values, specs, strict=False):
        if isinstance(spec, TensorSpec):
            yield value, spec


class PlaceholderShapes(PassBase):
    """Write symbolic sizes as 1 and the tensors that have them as bounded: the run-time plan supplies the real sizes.

    The loader refuses unbounded tensors. Specs of views become specs of their own, because a view spec reads and writes
    through to its base, names included; unplanned views are then always emitted, never elided.
    """

    def call(self, graph_module: GraphModule) -> PassResult:
        """Change the specs in place."""
        for _, module in graph_modules(graph_module):
            for node in module.graph.nodes:
                if isinstance(node.meta.get("spec"), _ViewSpec):
                    node.meta["spec"] = self._own_spec(node.meta["spec"], node.meta["val"])
                for value, spec in specs_of(node):
                    if not (spec.const and all(isinstance(size, int) for size in value.shape)):
                        self._place(value, spec)
                if node.op == "placeholder" and "spec" in node.meta:
                    self._number_input(node)
        return PassResult(graph_module, True)

    def _own_spec(self, view: _ViewSpec, value: torch.Tensor) -> TensorSpec:
        spec = TensorSpec(view.dtype, torch.Size([1] * value.dim()))
        self._place(value, spec)
        return spec

    def _place(self, value: torch.Tensor, spec: TensorSpec) -> None:
        spec.shape = [size if isinstance(size, int) else 1 for size in map(expression, value.shape)]
        spec.stride = list(torch.empty(spec.shape, device="meta").stride())
        is_static = all(isinstance(size, int) for size in map(expression, value.shape))
        if not is_static:
            spec.shape_dynamism = TensorShapeDynamism.DYNAMIC_BOUND
        elif spec.shape_dynamism == TensorShapeDynamism.DYNAMIC_UNBOUND:
            spec.shape_dynamism = TensorShapeDynamism.STATIC

    def _number_input(self, node: Node) -> None:
        """Inputs that are symbolic ints or strings: the stock passes would emit them as None."""
        value = node.meta.get("val")
        if isinstance(value, torch.SymInt):
            node.meta["spec"] = 0
        elif isinstance(value, str):
            node.meta["spec"] = value


class LeaveUnplanned(MemoryPlanningPass):
    """In place of memory planning: gives no tensor a memory id, so that the emitter writes no allocation.

    Every tensor gets a name that survives in the file: its graph node's, or that of the mutable buffer.

    Parameters
    ----------
    sizes : NamedSizes
        Filled with the symbolic sizes of every named tensor.
    shared_buffers : collection of str
        Mutable buffers of the whole program. A method that only reads one must not get it as a constant.
    """

    def __init__(self, sizes: NamedSizes, shared_buffers: frozenset[str] = frozenset()) -> None:
        super().__init__()
        self.sizes = sizes
        self.shared_buffers = shared_buffers

    def run(self, graph_module: GraphModule, graph_signature: ExportGraphSignature | None = None) -> PassResult:
        """Name every tensor of `graph_module`; the stock pass would plan it."""
        self._set_alloc_node_spec(graph_module)
        buffers = dict(graph_signature.inputs_to_buffers) if graph_signature is not None else {}
        for prefix, module in graph_modules(graph_module):
            module.meta["non_const_buffer_sizes"] = [0, 0]
            for node in module.graph.nodes:
                if _is_inplace_node(node):
                    _alias_inplace_result_specs(node)
            for node in module.graph.nodes:
                if isinstance(node.meta.get("spec"), _ViewSpec):
                    raise AssertionError(f"the view {node.name} still shares its spec with its base")
                buffer = buffers.get(node.target) if node.op == "placeholder" and not prefix else None
                self._name(node, buffer or prefix + node.name, buffer)
        return PassResult(graph_module, True)

    def _name(self, node: Node, name: str, buffer: str | None) -> None:
        if node.op == "output" or node.target is memory.alloc:
            return
        made = list(specs_of(node))
        for position, (value, spec) in enumerate(made):
            if buffer is not None and buffer in self.shared_buffers and spec.const:
                spec.mem_id = spec.mem_offset = 0  # the emitter's sign for "mutable in another method"
            elif spec.const:
                continue
            if spec.extra_tensor_info is None:
                own = name if len(made) == 1 else f"{name}.{position}"
                spec.extra_tensor_info = ExtraTensorInfo(fully_qualified_name=self._unique(own))
                unique = spec.extra_tensor_info.fully_qualified_name
                self.sizes.tensors[unique] = list(map(expression, value.shape))
                if DEVICE in node.meta:
                    self.sizes.devices[unique] = node.meta[DEVICE]

    def _unique(self, name: str) -> str:
        unique, n = name, 1
        while unique in self.sizes.tensors:
            n += 1
            unique = f"{name}#{n}"
        return unique
