"""Whether every operator of an emitted method has a kernel in ExecuTorch's registry."""

from executorch.exir.schema import ExecutionPlan

from .allocator.errors import ExportError
from .libraries import load_libraries

__all__ = ["check_kernels"]


def check_kernels(emitted: ExecutionPlan) -> None:
    """Check that the runtime can load a method: that each of its operators has a kernel in this process.

    Raises
    ------
    ExportError
        If some have none, with their names and the way out.
    """
    load_libraries()
    from ._runtime import registered_kernels

    known = registered_kernels()
    names = [f"{operator.name}.{operator.overload}".rstrip(".") for operator in emitted.operators]
    missing = sorted({name for name in names if name not in known})
    if missing:
        raise ExportError(
            f"method {emitted.name!r}: ExecuTorch has no CPU kernel for {', '.join(missing)}. Write that part of the "
            "model with other operators, give it to a delegate, or load the library that registers a kernel "
            "(ctypes.CDLL) before the export and before the load"
        )
