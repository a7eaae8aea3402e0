"""Whether every operator of an emitted method has a kernel in ExecuTorch's registry."""

from collections.abc import Collection

import torch
from executorch.exir.dialects.edge._ops import EdgeOpOverload
from executorch.exir.passes import to_out_var_skiplist
from executorch.exir.schema import ExecutionPlan

from .allocator.errors import ExportError
from .allocator.gate import HAS_RUN_TIME
from .libraries import load_libraries

__all__ = ["WAY_OUT", "check_kernels", "missing_kernel"]

WAY_OUT = (
    "Write that part of the model with other operators, give it to a delegate, or load the library that registers a "
    "kernel (ctypes.CDLL) before the export and before the load"
)


def check_kernels(emitted: ExecutionPlan) -> None:
    """Check that the runtime can load a method: that each of its operators has a kernel in this process.

    Raises
    ------
    ExportError
        If some have none, with their names and the way out.
    """
    known = _registered_kernels()
    names = [f"{operator.name}.{operator.overload}".rstrip(".") for operator in emitted.operators]
    missing = sorted({name for name in names if name not in known and not _is_ours(name)})
    if missing:
        raise ExportError(f"method {emitted.name!r}: ExecuTorch has no CPU kernel for {', '.join(missing)}. {WAY_OUT}")


def missing_kernel(target: object) -> str:
    """Name of the kernel that an operator of the edge dialect needs and the runtime does not have; else "".

    Operators that passes replace later count as they are; `ReplaceMissingKernels` says which.
    """
    if not isinstance(target, EdgeOpOverload) or target in to_out_var_skiplist or not _makes_tensors(target):
        return ""
    schema = target._schema
    try:
        if not schema.is_mutable:
            schema = target.to_out_variant()._schema
    except RuntimeError:
        return f"{schema.name} (which has no out variant)"
    name = f"{schema.name}.{schema.overload_name}".rstrip(".")
    return "" if name in _registered_kernels() or _is_ours(name) else name


def _registered_kernels() -> Collection[str]:
    """Operators with a kernel in this process; those of the stock runtime in a build without run-time planning."""
    load_libraries()
    if not HAS_RUN_TIME:
        from executorch.runtime import Runtime

        return frozenset(Runtime.get().operator_registry.operator_names)
    from ._runtime import registered_kernels

    return registered_kernels()


def _is_ours(name: str) -> bool:
    """Whether a build with run-time planning brings the kernel along, and this one has none."""
    return not HAS_RUN_TIME and name.startswith("etarena::")


def _makes_tensors(target: EdgeOpOverload) -> bool:
    """Whether it is no assertion and computes no mere number: the emitter removes the ones, translates the others."""
    return any(isinstance(result.type, torch.TensorType | torch.ListType) for result in target._schema.returns)
