"""From captured methods to the finished file: edge dialect, delegates, emission without memory, plan sections."""

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from executorch.exir import EdgeCompileConfig, ExecutorchBackendConfig, to_edge_transform_and_lower
from executorch.exir.backend.partitioner import Partitioner
from executorch.exir.schema import Program, Tensor
from torch.export import ExportedProgram

from .allocator import plan
from .body_results import CopySharedResults, PassOperands
from .caches import ThreadCaches, check_chain
from .capture import Capture
from .conditions import conditions_of, limits_of
from .constants import fold_permuted_constants
from .devices.placement import Placement, own_device_tags, place_on_devices
from .discoveries import renamed_conditions, told_symbols
from .embed import finished_file
from .empty_results import AllowNoElements
from .joint_partitioning import delegated
from .kernels import check_kernels
from .legalize import MatchDimOrders, ReplaceMissingKernels
from .loops import emitting_loops
from .pixels import ResizePixels
from .resizing import with_own_resizing
from .retrace import decomposed_bodies, keeping_symbols, separate_operands
from .section import build_section
from .states import find_states
from .traced import check_symbols_survived
from .unbacked import OutVariants, RecordAsserts
from .unplanned import LeaveUnplanned, NamedSizes, PlaceholderShapes
from .write_backs import copy_foreign_results

__all__ = ["Watch", "lower"]

Watch: TypeAlias = Callable[[str, ExportedProgram], None]
"""Told the name and the program of each method once partitioners have taken their part and nothing else has changed."""

ANY_NUMBER = (-(2**63), 2**63 - 1)


def lower(
    captures: Mapping[str, Capture],
    partitioners: Mapping[str, list[Partitioner]],
    placements: Mapping[str, Placement],
    watch: Watch | None = None,
) -> tuple[bytes, dict[str, plan.Method]]:
    """Lower, emit and describe the captured methods as one program.

    Parameters
    ----------
    captures : mapping of str to Capture
        The methods.
    partitioners : mapping of str to list of Partitioner
        Those of each method.
    placements : mapping of str to Placement
        Devices of inputs and outputs, for methods that have some outside the CPU.
    watch : callable, optional
        Sees each method between partitioning and emission; must not change it.

    Returns
    -------
    buffer : bytes
        The sealed program file.
    sections : dict of str to allocator.plan.Method
        What each method's plan section says.

    Raises
    ------
    ExportError
        If lowering loses a symbol, or a method cannot be planned.
    """
    with keeping_symbols(), emitting_loops(), own_device_tags():
        return _lower(captures, partitioners, placements, watch)


def _lower(
    captures: Mapping[str, Capture],
    partitioners: Mapping[str, list[Partitioner]],
    placements: Mapping[str, Placement],
    watch: Watch | None,
) -> tuple[bytes, dict[str, plan.Method]]:
    for name, capture in captures.items():
        capture.program = with_own_resizing(capture.program, partitioners[name])
        separate_operands(capture.program)
    conditions = {name: conditions_of(capture.program, capture.ranges) for name, capture in captures.items()}
    partitioners = {name: partitioners[name] for name in captures}  # not of methods that could not be captured
    passes: dict[str, list[Any]] = {}
    if any(partitioners.values()):
        from .delegates.xnnpack.partition import prepared, taken_before  # it imports XNNPACK's partitioner

        passes, partitioners = prepared(partitioners)
        for name, chosen in passes.items():
            chosen.insert(0, ResizePixels(taken_before(partitioners[name])))
        for name, entries in partitioners.items():
            own = [one for entry in entries if hasattr(entry, "edge_passes") for one in entry.edge_passes()]
            if own:
                passes.setdefault(name, []).extend(own)
    programs = {
        name: decomposed_bodies(capture.program) if partitioners[name] else capture.program
        for name, capture in captures.items()
    }
    edge = delegated(
        partitioners,
        lambda chosen: to_edge_transform_and_lower(
            dict(programs),
            transform_passes=passes or None,
            partitioner=dict(chosen),
            compile_config=EdgeCompileConfig(_check_ir_validity=False),
        ),
    )
    if watch is not None:
        for name in captures:
            watch(name, edge.exported_program(name))
    states = find_states({name: edge.exported_program(name) for name in captures})
    for name in captures:
        fold_permuted_constants(edge.exported_program(name), states.start)
        copy_foreign_results(edge.exported_program(name))
        placement = placements.get(name, Placement())
        place_on_devices(edge.exported_program(name), placement, name, list(captures[name].input_sizes))
    sizes = {name: NamedSizes() for name in captures}
    config = ExecutorchBackendConfig(
        passes=[
            ThreadCaches(),
            ReplaceMissingKernels(),
            AllowNoElements(),
            MatchDimOrders(),
            PassOperands(),
            CopySharedResults(),
            RecordAsserts(),
        ],
        to_out_var_pass=OutVariants(),
        memory_planning_pass={name: LeaveUnplanned(sizes[name], frozenset(states.start)) for name in captures},
        sym_shape_eval_pass=dict.fromkeys(captures, PlaceholderShapes()),
        emit_mutable_buffer_names=True,
    )
    manager = edge.to_executorch(config)
    program = manager._emitter_output.program
    _drop_allocations(program)
    sections = {}
    for emitted in program.execution_plan:
        check_kernels(emitted)
        capture = captures[emitted.name]
        lowered = manager.exported_program(emitted.name)
        check_symbols_survived(capture.input_sizes, lowered, emitted.name)
        check_chain(lowered, emitted.name)
        conditions[emitted.name].update(conditions_of(lowered, capture.ranges))  # lowering may have asked for more
        told = renamed_conditions(lowered.graph_module)
        conditions[emitted.name].update(told)
        ranges = {**dict.fromkeys(told_symbols(told), ANY_NUMBER), **capture.ranges}
        kept, capture.ranges = limits_of(conditions[emitted.name], ranges)
        sections[emitted.name] = build_section(emitted, lowered, capture, sizes[emitted.name], kept, states)
    return finished_file(manager, config, sections), sections


def _drop_allocations(program: Program) -> None:
    """Buffers that only another method mutates were marked by a memory id; the mark has done its work."""
    for method in program.execution_plan:
        for value in method.values:
            if isinstance(value.val, Tensor):
                value.val.allocation_info = None
