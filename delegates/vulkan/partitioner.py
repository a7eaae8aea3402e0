"""Which parts of a program go to Vulkan."""

from __future__ import annotations

import difflib
import operator
from typing import TYPE_CHECKING, Any

import torch
from executorch.exir.backend.compile_spec_schema import CompileSpec
from executorch.exir.backend.partitioner import DelegationSpec, Partitioner, PartitionResult
from executorch.exir.backend.utils import tag_constant_data
from torch.fx import Node
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner, Partition
from torch.fx.passes.operator_support import OperatorSupportBase

from ...allocator.errors import ExportError, InputError, InputTypeError
from .graph import BACKEND_ID, MOST_RANK
from .operators.registry import all_operators
from .operators.views import reshape
from .preprocess import CONSTANTS, DTYPES
from .schema import is_row_major, operator_name, tensors_of, values_of
from .sizes import GraphSizes, sizes_of
from .told_sizes import TellSizes, is_told

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from torch.export import ExportedProgram
    from torch.fx import GraphModule
    from torch.fx.passes.infra.pass_base import PassBase

__all__ = ["VulkanPartitioner", "unsupported"]


def unsupported(node: Node, any_layout: bool = False) -> str | None:
    """Why a node cannot go to Vulkan; None if it can.

    Parameters
    ----------
    node
        Of an edge program, or with `any_layout` of one before that, where views still have the layout of their source.
    """
    if node.op != "call_function":
        return "it is no operator"
    if node.target is operator.getitem:
        return unsupported(node.args[0]) if isinstance(node.args[0], Node) else "it takes nothing apart"
    name = operator_name(node)
    found = all_operators().get(name or "")
    if found is None:
        return f"there is no shader for {name or node.target}"
    values = values_of(node)
    tensors = tensors_of(list(values.values()))
    if not tensors_of(values["out"]):
        return "it makes no tensor"
    for tensor in tensors:
        if tensor.dtype not in DTYPES:
            return f"shaders do not know {tensor.dtype}"
        if tensor.dim() > MOST_RANK:
            return f"it has a tensor of rank {tensor.dim()}, {MOST_RANK} is the most"
        if tensor.layout is not torch.strided:
            return f"it has a tensor of layout {tensor.layout}"
    if not any_layout and any(not is_row_major(tensor) for tensor in tensors_of(values["out"])):
        return "its result is not contiguous"
    return found.check(values) if found.check is not None else None


class _Support(OperatorSupportBase):
    def __init__(self, refused: frozenset[str], reasons: dict[str, str]) -> None:
        self.refused, self.reasons = refused, reasons
        self.untold: dict[Node, str] = {}  # whose sizes nobody tells, and why

    def leave_for_others(self, nodes: Sequence[Node]) -> None:
        """Leave what is made of constants alone, in order, where something reads it that does not go to Vulkan.

        Others look for a weight there (XNNPACK behind a permutation), and the export can make it once and for all.
        """
        for node in reversed(nodes):
            if not all(self.is_node_supported({}, user) for user in node.users):
                self.untold.setdefault(node, "it is made of constants alone, and read outside of Vulkan")

    def is_node_supported(self, submodules: Mapping[str, torch.nn.Module], node: Node) -> bool:
        """As torch.fx asks."""
        if node.op != "call_function" or node.meta.get("delegation_tag") is not None:
            return False
        if is_told(node):
            return node not in self.untold and all(self.is_node_supported({}, user) for user in node.users)
        if operator_name(node) in self.refused:
            reason: str | None = "the partitioner was told to leave it"
        else:
            reason = self.untold.get(node) or unsupported(node)
        if reason is not None and operator_name(node) is not None and tensors_of(node.meta.get("val")):
            self.reasons[node.name] = reason
        return reason is None


def _skipped(names: Sequence[str]) -> frozenset[str]:
    """The operators meant, with overloads."""
    if isinstance(names, str) or not all(isinstance(name, str) for name in names):
        raise InputTypeError(f"skip must be a sequence of operators' names such as 'aten.mm.default', got {names!r}")
    found: set[str] = set()
    for name in names:
        meant = {known for known in all_operators() if name in (known, known.rpartition(".")[0])}
        if not meant:
            near = difflib.get_close_matches(name, all_operators(), 1, 0.0)
            raise InputError(f"skip: Vulkan has no operator {name!r}; the nearest is {near[0]!r}")
        found |= meant
    return frozenset(found)


class VulkanPartitioner(Partitioner):
    """Marks what goes to the backend ``EtarenaVulkan``; give it to `etarena.export` in ``partitioners``.

    Put before `XnnpackPartitioner` it takes all that it can, after it what is left.

    Parameters
    ----------
    skip : sequence of str
        Names of operators to leave to others, such as ``"aten.mm.default"``; with all overloads: ``"aten.mm"``.

    Attributes
    ----------
    reasons : dict of str to dict of str to str
        After an export, for each method, by the name of each node that did not go to Vulkan, why not. ExecuTorch's own
        lowering does not tell a partitioner the method, which is then ``"forward"``.

    Raises
    ------
    InputError
        The delegate has no operator of a name in `skip`; the message says which one is meant.
    InputTypeError
        `skip` is no sequence of names.
    """

    def __init__(self, skip: Sequence[str] = ()) -> None:
        super().__init__()
        self.skip = _skipped(skip)
        self.reasons: dict[str, dict[str, str]] = {}
        self.delegation_spec = DelegationSpec(BACKEND_ID, [CompileSpec("takes_devices", b"vulkan")])

    def ops_to_not_decompose(
        self, ep: ExportedProgram
    ) -> tuple[list[torch._ops.OpOverload], Callable[[Node], bool] | None]:
        """Operators that have a shader as a whole, where it can run them: nobody else can."""
        _reshape_attention(ep)
        kept = [_overload(name) for name, found in all_operators().items() if found.keep and name not in self.skip]
        return kept, lambda node: unsupported(node, any_layout=True) is None

    def takes(self, node: Node) -> bool:
        """Whether a node of an edge program would go to Vulkan, by itself; others that come later ask."""
        return operator_name(node) not in self.skip and unsupported(node) is None

    def edge_passes(self) -> list[PassBase]:
        """What an edge program is to go through before it is partitioned."""

        def untold(graph_module: GraphModule) -> list[Node]:
            support = _Support(self.skip, {})
            _told_partitions(graph_module, set(), support)
            return list(support.untold)

        return [TellSizes(untold)]

    def partition(self, exported_program: ExportedProgram) -> PartitionResult:
        """Tag the nodes of ``forward``; each group becomes one delegate."""
        return self.partition_method("forward", exported_program)

    def partition_method(self, method: str, exported_program: ExportedProgram) -> PartitionResult:
        """Tag the nodes of a method."""
        reasons = self.reasons[method] = {}
        support = _Support(self.skip, reasons)
        tags = {}
        names = {spec.arg.name for spec in exported_program.graph_signature.input_specs if spec.kind in CONSTANTS}
        for partition in _told_partitions(exported_program.graph_module, names, support):
            calls = [node for node in partition.nodes if node.target is not operator.getitem and not is_told(node)]
            if _is_idle(calls):
                reason = "it moves no data, and nothing beside it goes to Vulkan"
                reasons.update(dict.fromkeys((node.name for node in calls), reason))
                continue
            tag = f"vulkan{partition.id}"
            tags[tag] = self.delegation_spec
            for node in partition.nodes:
                node.meta["delegation_tag"] = tag
        if tags:
            tag_constant_data(exported_program)
        return PartitionResult(exported_program, tags)


def _is_idle(calls: Sequence[Node]) -> bool:
    """Whether no data is moved, which makes no delegate worth its while."""
    return all(all_operators()[operator_name(node) or ""].emit is reshape for node in calls)


def _told_partitions(graph_module: GraphModule, constants: set[str], support: _Support) -> Sequence[Partition]:
    """Parts of the graph whose inputs tell all of their sizes; what they do not tell is made outside.

    `constants` are the names of placeholders for parameters.
    """
    order = {node: place for place, node in enumerate(graph_module.graph.nodes)}
    fixed = _made_of_constants(order, constants)
    while True:
        support.leave_for_others(fixed)
        proposer = CapabilityBasedPartitioner(graph_module, support, allows_single_node_partition=True)
        found: Sequence[Partition] = proposer.propose_partitions()
        untold = [
            one for partition in found if (one := _untold(constants, sorted(partition.nodes, key=order.__getitem__)))
        ]
        if not untold:
            return found
        support.untold.update(untold)


def _made_of_constants(nodes: Iterable[Node], constants: set[str]) -> list[Node]:
    found: dict[Node, None] = {}
    for node in nodes:
        sources = node.all_input_nodes
        if node.op == "call_function" and sources and all(one.name in constants or one in found for one in sources):
            found[node] = None
    return list(found)


def _untold(constants: set[str], nodes: Sequence[Node]) -> tuple[Node, str] | None:
    """The first node with a size that the inputs of a part of the graph do not tell, and why; None if they do."""
    inside = set(nodes)
    for node in nodes:
        if is_told(node) and not inside.issuperset(node.users):
            return node, "what takes this size goes elsewhere"
    sources = {
        source
        for node in nodes
        for source in node.all_input_nodes
        if source not in inside and source.name not in constants
    }
    given = [sizes_of(source.meta["val"]) for source in sorted(sources, key=str)]
    if _why_untold(given, nodes) is None:
        return None
    for node in nodes:
        reason = _why_untold(given, [node])
        if reason is not None:
            return node, reason
    raise AssertionError("the sizes of each node are told, and those of all together are not")


def _why_untold(given: Sequence[Any], nodes: Sequence[Node]) -> str | None:
    sizes = GraphSizes(given)
    for node in nodes:
        for entry in values_of(node).values() if node.target is not operator.getitem else ():
            for size in _all_sizes(entry):
                sizes.want(size)
    try:
        sizes.compile()
    except ExportError as error:
        return str(error)
    return None


def _all_sizes(entry: Any) -> list[int | torch.SymInt]:
    if isinstance(entry, torch.Tensor):
        return list(entry.shape)
    if isinstance(entry, torch.SymInt):
        return [entry]
    if isinstance(entry, list | tuple):
        return [size for inner in entry for size in _all_sizes(inner)]
    return []


def _reshape_attention(program: ExportedProgram) -> None:
    """Let views of what attention gives be reshapes: kept whole, it gives another layout than PyTorch's kernels do."""
    aten = torch.ops.aten
    for module in program.graph_module.modules():
        nodes = module.graph.nodes if isinstance(module, torch.fx.GraphModule) else ()
        shown = {node for node in nodes if node.target is aten.scaled_dot_product_attention.default}
        for node in nodes:
            if node.op == "call_function" and shown.intersection(node.all_input_nodes):
                if node.target is aten.view.default:
                    node.target = aten.reshape.default
                if getattr(node.target, "is_view", False):
                    shown.add(node)


def _overload(name: str) -> torch._ops.OpOverload:
    namespace, operator_, overload = name.split(".")
    return getattr(getattr(getattr(torch.ops, namespace), operator_), overload)
