"""`static_planning_pass`: offsets for everybody's ExecuTorch export, over the whole tree of a method."""

import time
from collections.abc import Mapping, Sequence

from executorch.exir.memory_planning import _alias_inplace_result_specs, _is_inplace_node
from executorch.exir.pass_base import PassResult
from executorch.exir.passes import MemoryPlanningPass
from executorch.exir.schema import DeviceType, NonConstBufferDevice
from executorch.exir.tensor import ALIGNMENT, TensorSpec
from torch.export.exported_program import ExportGraphSignature
from torch.fx import GraphModule, Node
from torch.utils._pytree import tree_leaves

from .bounds import Bounds
from .flatten import flatten
from .lives import live_pieces
from .options import Options, Preference, ScratchNeeds, checked_options
from .placing import PlacedPool, Request, budget_after, place_in_pools
from .plan import ScratchPlace, StaticPlan, StaticPool, StaticValue
from .pools import CPU, choose_pools, requests_of
from .shared_state import SharedState
from .sweep import check_places
from .timeline import Timeline

__all__ = ["StaticPlanningPass", "static_planning_pass"]

XNNPACK_PADDING = 64
"""Bytes that XNNPACK may read behind the end of a tensor (as ExecuTorch's own planner reserves them)."""
PLAN = "etarena_static_plan"
"""Key of a graph module's meta: its `StaticPlan`."""


def static_planning_pass(
    *,
    alignment: int = ALIGNMENT,
    pools: Mapping[int, int | None] | None = None,
    prefer: Sequence[Preference] | Mapping[str, Sequence[int]] = (),
    scratch: ScratchNeeds | None = None,
    budget: float | None = None,
    alloc_graph_input: bool = True,
    alloc_graph_output: bool = True,
    alloc_mutable_buffers: bool = True,
    share_mutable_buffers: bool = False,
    verify: bool = True,
) -> "StaticPlanningPass":
    """Make a memory planning pass for any ``ExecutorchBackendConfig(memory_planning_pass=...)``.

    It plans a method and all bodies of its control flow on one time line: branches share space, a body uses what its
    parent does not hold meanwhile, and what control flow carries is kept. The file that results is an ordinary one,
    and the stock runtime runs it.

    Parameters
    ----------
    alignment : int, default 16
        Power of two in bytes; every offset is a multiple of it.
    pools : mapping of int to int or None, optional
        Memory ids, from 1, with the bytes that each has (None: as many as it takes). ``{1: None}`` by default.
    prefer : mapping, or sequence of pairs, optional
        Names of values (with ``*`` and ``?``) or predicates of a `Candidate`, each with the memory ids that it may be
        in, best first; the first that matches counts. Other values may be in any pool, in order of their ids. A memory
        id that an earlier pass gave to a value is kept.
    scratch : mapping of str to int or callable, optional
        Bytes that a delegate, by its id, needs during each of its calls, or a function of the call's graph node. They
        get a place of their own, live in the call only; `StaticPlan.scratch` says where.
    budget : float, optional
        Seconds that exact search may take for each pool if the heuristics miss the lower bound. By default as long as
        the planning took until then.
    alloc_graph_input, alloc_graph_output, alloc_mutable_buffers : bool, default True
        Whether inputs, outputs and mutable buffers get memory, or the caller provides it.
    share_mutable_buffers : bool, default False
        Give the buffers that several methods name one place, in a pool of their own behind all others.
    verify : bool, default True
        Check the plan before it is used: no two things that are alive at one position may overlap. `verify` of this
        package checks a finished program by its instructions.

    Returns
    -------
    StaticPlanningPass
        Its attribute `plans` has the plan of each method it has seen, in order.

    Raises
    ------
    InputError, InputTypeError
        An option makes no sense.
    """
    options = checked_options(alignment, pools, prefer, scratch, budget, verify)
    return StaticPlanningPass(
        options, alloc_graph_input, alloc_graph_output, alloc_mutable_buffers, share_mutable_buffers
    )


class StaticPlanningPass(MemoryPlanningPass):
    """Made by `static_planning_pass`; one object can be used for several methods and exports.

    Attributes
    ----------
    plans : list of StaticPlan
        Of the methods planned so far, in order; shared buffers are added when the last method is planned.
    """

    def __init__(
        self,
        options: Options,
        alloc_graph_input: bool,
        alloc_graph_output: bool,
        alloc_mutable_buffers: bool,
        share_mutable_buffers: bool,
    ) -> None:
        super().__init__(
            alloc_graph_input=alloc_graph_input,
            alloc_graph_output=alloc_graph_output,
            alloc_mutable_buffers=alloc_mutable_buffers,
            share_mutable_buffers=share_mutable_buffers,
            alignment=options.alignment,
        )
        self.options = options
        self.plans: list[StaticPlan] = []
        self._shared = SharedState(options.alignment)

    def for_methods(self, count: int, *, has_state: bool) -> "StaticPlanningPass":
        """A fresh pass with the same options for one export; the buffers of several methods are shared."""
        return StaticPlanningPass(
            self.options,
            self.alloc_graph_input,
            self.alloc_graph_output,
            self.alloc_mutable_buffers,
            self.share_mutable_buffers or (count > 1 and has_state),
        )

    def run(self, graph_module: GraphModule, graph_signature: ExportGraphSignature | None = None) -> PassResult:
        """Plan one method: set the memory ids and offsets of its specs, and the sizes of its pools.

        Raises
        ------
        ExportError
            The size of a value has no upper bound, a pool is too small, the memory ids of earlier passes contradict
            each other, or the graph is not in order.
        """
        started = time.perf_counter_ns()
        method = _Method(self, graph_module, graph_signature)
        timeline = flatten(
            graph_module, method.is_planned, method.unplanned, self.options.scratch_bytes, Bounds().check
        )
        pieces = live_pieces(timeline)
        pools = choose_pools(
            timeline.storages, pieces, self.options, separate_devices=self.enable_non_cpu_memory_planning
        )
        requests = requests_of(timeline.storages, pieces, self.options, pools.bound)
        seconds = self.options.budget
        budget = budget_after(started) if seconds is None else int(seconds * 1e9)
        padding = XNNPACK_PADDING if timeline.uses_xnnpack else 0
        placed = place_in_pools(list(requests.values()), pools.limits, self.options.alignment, budget, padding)
        if self.options.verify:
            check_places(requests.values(), {pool: found.nbytes for pool, found in placed.items()})
        plan = _write(timeline, requests, placed, pools.devices, self.options.alignment)
        for module in timeline.graphs:
            module.meta["non_const_buffer_sizes"] = [0, 0]
        graph_module.meta["non_const_buffer_sizes"] = _sizes(placed)
        if pools.devices:
            graph_module.meta["non_const_buffer_device"] = [
                NonConstBufferDevice(buffer_idx=pool, device_type=kind, device_index=index)
                for pool, (kind, index) in pools.devices.items()
            ]
        graph_module.meta[PLAN] = plan
        self.plans.append(plan)
        if self.share_mutable_buffers and graph_signature is not None:
            self._shared.add(graph_module, graph_signature, plan)
        return PassResult(graph_module, True)

    def run_multimethod(self) -> None:
        """Place the buffers that methods share, once all methods are planned."""
        if self.share_mutable_buffers:
            self._shared.place()
            self._shared = SharedState(self.options.alignment)


class _Method:
    """What of one method's inputs and outputs gets memory."""

    def __init__(
        self, planning: StaticPlanningPass, graph_module: GraphModule, signature: ExportGraphSignature | None
    ) -> None:
        self._planning = planning
        buffers = {} if signature is None else signature.inputs_to_buffers
        mutated = set() if signature is None else set(signature.buffers_to_mutate.values())
        self._mutable = {placeholder for placeholder, name in buffers.items() if name in mutated}
        self.unplanned = frozenset() if planning.alloc_graph_output else self._output_specs(graph_module)

    def is_planned(self, placeholder: Node) -> tuple[bool, bool]:
        if placeholder.target in self._mutable:
            return self._planning.alloc_mutable_buffers and not self._planning.share_mutable_buffers, True
        return self._planning.alloc_graph_input, False

    def _output_specs(self, graph_module: GraphModule) -> frozenset[int]:
        for node in graph_module.graph.nodes:
            if _is_inplace_node(node):
                _alias_inplace_result_specs(node)
        results = [leaf for leaf in tree_leaves(graph_module.graph.output_node().args[0]) if isinstance(leaf, Node)]
        kept = {id(node.meta.get("spec")) for node in graph_module.graph.nodes if self._is_kept(node)}
        specs = (spec for node in results for spec in tree_leaves(node.meta.get("spec")))
        return frozenset(id(spec) for spec in specs if isinstance(spec, TensorSpec)) - kept

    def _is_kept(self, node: Node) -> bool:
        """Whether a node has memory of its own, which it also has where it is a result."""
        return node.target in self._mutable or (node.op == "placeholder" and self._planning.alloc_graph_input)


def _sizes(placed: Mapping[int, PlacedPool]) -> list[int]:
    """Bytes of every memory id up to the largest; 0 is for constants."""
    return [0, *(placed[pool].nbytes if pool in placed else 0 for pool in range(1, max([1, *placed]) + 1))]


def _write(
    timeline: Timeline,
    requests: Mapping[int, Request],
    placed: Mapping[int, PlacedPool],
    devices: Mapping[int, tuple[DeviceType, int]],
    alignment: int,
) -> StaticPlan:
    """Tell every spec where it is, and say it all in a plan."""
    storages, plan = timeline.storages, StaticPlan()
    for storage, request in requests.items():
        pool, offset = request.pool, request.offset
        lifetime = request.pieces[0][0], request.pieces[-1][1]
        for spec, inside in storages.members[storage]:
            spec.alignment = alignment
            spec.lifetime = [lifetime[0], lifetime[1] - 1]
            spec.mem_id, spec.mem_offset, spec.mem_obj_id = pool, offset + inside, storage
        plan.values.append(StaticValue(request.name, pool, offset, storages.nbytes[storage], *lifetime))
    plan.values.sort(key=lambda value: (value.first, value.last))
    for scratch in timeline.scratch:
        request = requests[storages.root(scratch.storage)]
        nbytes = storages.nbytes[scratch.storage]
        plan.scratch.append(ScratchPlace(scratch.delegate, scratch.name, request.pool, request.offset, nbytes))
    for pool, found in sorted(placed.items()):
        kind, index = devices.get(pool, CPU)
        device = "cpu" if (kind, index) == CPU else f"{kind.name.lower()}:{index}"
        plan.pools.append(StaticPool(pool, found.nbytes, found.lower_bound, found.rule, device))
    return plan
