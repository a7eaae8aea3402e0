"""From captured methods to an ordinary program file with offsets: stock passes, and what makes their results right."""

from collections.abc import Mapping, Sequence

import torch
from executorch.exir import EdgeCompileConfig, EdgeProgramManager, ExecutorchBackendConfig, to_edge_transform_and_lower
from executorch.exir.backend.partitioner import Partitioner
from executorch.exir.pass_base import PassBase, PassResult
from executorch.exir.schema import ExecutionPlan
from torch.export import ExportedProgram
from torch.export.graph_signature import OutputKind
from torch.fx import GraphModule

from ..allocator.errors import ExportError
from ..body_results import CopySharedResults, PassOperands
from ..capture import Capture
from ..constants import fold_permuted_constants
from ..embed import check_one_file, serialised
from ..empty_results import AllowNoElements
from ..legalize import MatchDimOrders, ReplaceMissingKernels
from ..loops import emitting_loops
from ..oblivious import size_oblivious_tracing
from ..retrace import decomposed_bodies, keeping_symbols, separate_operands
from ..traced import check_symbols_survived
from ..unbacked import data_dependent_tracing
from ..write_backs import copy_foreign_results, copy_returned_inputs
from .bounds import Bounds
from .exported import StaticModel
from .planning_pass import PLAN, StaticPlanningPass
from .verifier import verify

__all__ = ["lower_static"]

OWN_OPERATORS = "etarena::"
OWN_BACKENDS = "Etarena"
"""What the names of backends that come with etarena begin with."""


def lower_static(
    captures: Mapping[str, Capture], partitioners: Mapping[str, list[Partitioner]], planning: StaticPlanningPass
) -> StaticModel:
    """Lower the captured methods, fix the place of every tensor, emit, and check what came out.

    Mutable buffers begin with the model's values, and have one place in all methods that name them.

    Raises
    ------
    ExportError
        A size has no upper bound, an input is a number that varies, an operator has no stock kernel, or a backend is
        etarena's own.
    PlanError
        The finished program is not what was planned: an error of this package.
    """
    with size_oblivious_tracing(), data_dependent_tracing(), keeping_symbols(), emitting_loops():
        return _lower(captures, partitioners, planning)


def _lower(
    captures: Mapping[str, Capture], partitioners: Mapping[str, list[Partitioner]], planning: StaticPlanningPass
) -> StaticModel:
    for name, capture in captures.items():
        _check_inputs(capture, name)
        separate_operands(capture.program)
    edge = to_edge_transform_and_lower(
        {
            name: decomposed_bodies(capture.program) if partitioners[name] else capture.program
            for name, capture in captures.items()
        },
        partitioner=dict(partitioners),
        compile_config=EdgeCompileConfig(_check_ir_validity=False),
    )
    programs = {name: edge.exported_program(name) for name in captures}
    mutable = {name for program in programs.values() for name in program.graph_signature.buffers_to_mutate.values()}
    for name, program in programs.items():
        check_symbols_survived(captures[name].input_sizes, program, name)
        Bounds(captures[name].names).check_graph(program.graph_module)
        fold_permuted_constants(program, mutable)
        copy_foreign_results(program)
        if not (planning.alloc_graph_input and planning.alloc_graph_output):
            copy_returned_inputs(program)
    planning = planning.for_methods(len(captures), has_state=bool(mutable))
    config = _config(edge, captures, planning, mutable)
    manager = edge.to_executorch(config)
    emitted = manager.executorch_program
    check_one_file(manager._tensor_data)
    changed = not planning.alloc_graph_input and _leave_changed_inputs(emitted.execution_plan, programs)
    for plan in emitted.execution_plan:
        _check_kernels(plan)
    if planning.options.verify:
        verify(emitted, shared_memory=planning.share_mutable_buffers)
    plans = {name: manager.exported_program(name).graph_module.meta[PLAN] for name in captures}
    return StaticModel(serialised(manager, config) if changed else bytes(manager.buffer), plans)


def _config(
    edge: EdgeProgramManager, names: Mapping[str, object], planning: StaticPlanningPass, mutable: set[str]
) -> ExecutorchBackendConfig:
    started = {
        placeholder
        for name in names
        for placeholder, buffer in edge.exported_program(name).graph_signature.inputs_to_buffers.items()
        if buffer in mutable
    }
    passes = [ReplaceMissingKernels(), AllowNoElements(), MatchDimOrders(), PassOperands(), CopySharedResults()]
    return ExecutorchBackendConfig(passes=[*passes, StartValues(started)], memory_planning_pass=planning)


class StartValues(PassBase):
    """Have mutable buffers begin with the values that they have in the model, which stock exports leave out.

    Parameters
    ----------
    placeholders : set of str
        Of the mutable buffers, in any method.
    """

    def __init__(self, placeholders: set[str]) -> None:
        super().__init__()
        self._placeholders = placeholders

    def call(self, graph_module: GraphModule) -> PassResult:
        """Mark them for the emitter."""
        for node in graph_module.graph.nodes:
            if node.op == "placeholder" and node.target in self._placeholders:
                node.meta["et_init_buffer"] = True
        return PassResult(graph_module, True)


def _leave_changed_inputs(plans: Sequence[ExecutionPlan], programs: Mapping[str, ExportedProgram]) -> bool:
    """Take inputs that a method changes out of its results, where ExecuTorch puts them in front of all others.

    They are changed where they are, and a host that gives every result memory would put them elsewhere. Says whether
    there are any.
    """
    found = 0
    for plan in plans:
        specs = programs[plan.name].graph_signature.output_specs
        count = sum(spec.kind is OutputKind.USER_INPUT_MUTATION for spec in specs)
        del plan.outputs[:count]
        found += count
    return found > 0


def _check_inputs(capture: Capture, method: str) -> None:
    """Check that no input is a number that varies: the stock runtime refuses every value of one."""
    for node in capture.program.graph.find_nodes(op="placeholder"):
        value = node.meta.get("val")
        if isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool) and not value.node.expr.is_number:
            raise ExportError(
                f"method {method!r}: input {node.name!r} is a number that varies, and the stock runtime that a static "
                "file is for takes none: leave it out of dynamic_shapes, make it a tensor of which the model takes "
                ".item(), or plan at run time (memory='runtime')"
            )


def _check_kernels(plan: ExecutionPlan) -> None:
    """Check that the stock runtime has a kernel for each operator, and no delegate is etarena's own."""
    from executorch.extension.pybindings.portable_lib import _get_operator_names

    for delegate in plan.delegates:
        if delegate.id.startswith(OWN_BACKENDS):
            raise ExportError(
                f"method {plan.name!r}: the backend {delegate.id} is etarena's, and the stock runtime that a static "
                "file is for lacks it: leave its partitioner out, or plan at run time (memory='runtime')"
            )
    known = {name for name in _get_operator_names() if not name.startswith(OWN_OPERATORS)}
    names = {f"{operator.name}.{operator.overload}".rstrip(".") for operator in plan.operators}
    missing = sorted(name for name in names if name not in known)
    own = [name for name in missing if name.startswith(OWN_OPERATORS)]
    if own:
        raise ExportError(
            f"method {plan.name!r}: {', '.join(own)} is an operator of etarena, and the stock runtime that a static "
            "file is for has no kernel of it: plan at run time (memory='runtime'), or use operators of torch there"
        )
    if missing:
        raise ExportError(
            f"method {plan.name!r}: ExecuTorch has no CPU kernel for {', '.join(missing)}. Write that part of the "
            "model with other operators, or give it to a delegate"
        )
