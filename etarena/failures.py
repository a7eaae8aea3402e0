"""Native failures as exceptions: ExecuTorch's error codes, named and explained."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from .allocator.errors import RuntimeFailure
from .delegates.delegate_failures import delegate_failure

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["ERROR_NAMES", "foreign_failure", "native_failure"]

# executorch/runtime/core/error.h of executorch 1.5.1; compared with the installed header by the tests.
ERROR_NAMES = {
    0x00: "Ok",
    0x01: "Internal",
    0x02: "InvalidState",
    0x03: "EndOfMethod",
    0x04: "AlreadyLoaded",
    0x10: "NotSupported",
    0x11: "NotImplemented",
    0x12: "InvalidArgument",
    0x13: "InvalidType",
    0x14: "OperatorMissing",
    0x15: "RegistrationExceedingMaxKernels",
    0x16: "RegistrationAlreadyRegistered",
    0x20: "NotFound",
    0x21: "MemoryAllocationFailed",
    0x22: "AccessFailed",
    0x23: "InvalidProgram",
    0x24: "InvalidExternalData",
    0x25: "OutOfResources",
    0x30: "DelegateInvalidCompatibility",
    0x31: "DelegateMemoryAllocationFailed",
    0x32: "DelegateInvalidHandle",
}

_KERNEL_CALL = re.compile(r"KernelCall failed at instruction \d+:(\d+) in operator (\S+?)\.?: 0x")
_UNKNOWN_BACKEND = re.compile(r"Backend (\S+) is not (?:registered|available)\.")
_DELEGATE_CALL = re.compile(r"CALL_DELEGATE execute failed at instruction (\d+)")


def native_failure(action: str, code: int, log: str, labels: Sequence[str] = ()) -> RuntimeFailure:
    """Describe a failed call of the ExecuTorch runtime.

    Parameters
    ----------
    action
        What was being done, to start the message with.
    code
        ExecuTorch's error code.
    log
        What the runtime printed during the call.
    labels
        Operator or delegate of each instruction of the method, if known.

    Returns
    -------
    RuntimeFailure
        To be raised; carries the code, its name, the instruction and the operator where they are known.
    """
    instruction: int | None = None
    operator: str | None = None
    if found := _KERNEL_CALL.search(log):
        instruction, operator = int(found[1]), found[2]
    elif found := _DELEGATE_CALL.search(log):
        instruction = int(found[1])
    if instruction is not None and operator is None and instruction < len(labels):
        operator = labels[instruction]
    name = ERROR_NAMES.get(code, f"unknown error 0x{code:x}")
    place = "" if instruction is None else f" at instruction {instruction} ({operator})"
    reason = log.strip().split("\n")[0] if log.strip() else "the runtime gave no reason"
    if found := _UNKNOWN_BACKEND.search(log):
        operator = found[1]
        reason = (
            f"nothing is registered for the backend {operator!r} that the file names: import the package that has it, "
            f"or call etarena.register_delegate({operator!r}, ...), before the method is loaded"
        )
    return RuntimeFailure(
        f"{action} failed{place}: ExecuTorch error {name}: {reason}",
        code=code,
        code_name=name,
        instruction=-1 if instruction is None else instruction,
        operator=operator or "",
        log=log,
    )


def foreign_failure(
    action: str, code: int, log: str, backend: str, step: str, reason: str, cause: BaseException | None
) -> BaseException:
    """Describe a failure inside a delegate behind a function table.

    Parameters
    ----------
    action, code, log
        As for `native_failure`.
    backend, step, reason, cause
        As for `delegate_failure`.

    Returns
    -------
    BaseException
        To be raised.
    """
    found = _DELEGATE_CALL.search(log)
    name = ERROR_NAMES.get(code, f"unknown error 0x{code:x}")
    return delegate_failure(
        action,
        backend,
        step,
        reason,
        cause,
        code=code,
        code_name=name,
        instruction=int(found[1]) if found else -1,
        log=log,
    )
