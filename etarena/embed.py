"""Put plan sections into an emitted program and write the finished file."""

from collections.abc import Collection, Mapping

from executorch.exir import ExecutorchBackendConfig, ExecutorchProgramManager
from executorch.exir._serialize._serialize import serialize_for_executorch
from executorch.exir.schema import (
    BackendDelegate,
    BackendDelegateDataReference,
    BackendDelegateInlineData,
    DataLocation,
    DelegateCall,
    ExecutionPlan,
    Program,
)

from .allocator import plan
from .allocator.errors import ExportError

__all__ = ["BACKEND_ID", "check_one_file", "finished_file", "serialised"]

BACKEND_ID = "EtarenaPlan"


def finished_file(
    manager: ExecutorchProgramManager, config: ExecutorchBackendConfig, sections: Mapping[str, plan.Method]
) -> bytes:
    """Serialise the program of `manager` again, with one section a method, and seal it.

    Each section is the payload of a delegate entry that no instruction calls. It is the first entry of its method, so
    that a runtime initialises it before all other delegates, and one without etarena stops at it.
    """
    emitted = manager._emitter_output
    for method in emitted.program.execution_plan:
        _insert(method, emitted.program, plan.encode(sections[method.name]))
    return plan.seal(serialised(manager, config))


def serialised(manager: ExecutorchProgramManager, config: ExecutorchBackendConfig) -> bytes:
    """The file of a program that was changed after its emission.

    Raises
    ------
    ExportError
        It would need a second file.
    """
    emitted = manager._emitter_output
    data, external = serialize_for_executorch(emitted, config, manager._data_serializer, manager._named_data)
    check_one_file(external)
    return bytes(data)


def check_one_file(external: Collection[str]) -> None:
    """Raise ExportError if there is data outside the program file; the names of what it would be in."""
    if external:
        raise ExportError(
            f"a partitioner stores data outside the program file ({', '.join(external)}); only one file is supported"
        )


def _insert(method: ExecutionPlan, program: Program, section: bytes) -> None:
    reference = BackendDelegateDataReference(DataLocation.INLINE, len(program.backend_delegate_data))
    program.backend_delegate_data.append(BackendDelegateInlineData(section))
    method.delegates.insert(0, BackendDelegate(BACKEND_ID, reference, compile_specs=[]))
    for chain in method.chains:
        for instruction in chain.instructions:
            if isinstance(instruction.instr_args, DelegateCall):
                instruction.instr_args.delegate_index += 1
