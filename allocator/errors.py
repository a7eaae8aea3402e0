"""The exceptions of the package: each is one of ours and the closest builtin, so callers can catch either."""

__all__ = [
    "ArenaFullError",
    "DeviceError",
    "Error",
    "ExportError",
    "InputError",
    "InputTypeError",
    "NotBuiltError",
    "PlanError",
    "PropagationError",
    "RuntimeFailure",
    "ShapeError",
    "SizeOverflowError",
]


class Error(Exception):
    """Base of every exception that the package raises on purpose."""


class ArenaFullError(Error, MemoryError):
    """The arena cannot provide the bytes asked for; the message says what is free and what to change."""


class DeviceError(Error, RuntimeError):
    """Memory of a device was used in a way its device, resource or state does not allow; says what to call instead."""


class PlanError(Error, ValueError):
    """A plan section is damaged or belongs to another program, or a plan is unsound; names the field or the values."""


class SizeOverflowError(Error, OverflowError):
    """The bytes of a shape do not fit a signed 64-bit integer."""


class ShapeError(Error, ValueError):
    """An input shape lies outside the model's own guards; names input, dimension, symbol and limit."""


class InputError(Error, ValueError):
    """An input has the wrong rank, fixed dimension or value, or there are too many or too few of them."""


class InputTypeError(Error, TypeError):
    """An input has the wrong dtype or is not the kind of object the method takes."""


class ExportError(Error):
    """A model cannot be exported; names the operator and the way out."""


class NotBuiltError(Error, ImportError):
    """What was asked for is not part of this build; names it and the build that has it."""


class PropagationError(Error):
    """What an operator gives cannot be told ahead of time, or its meta kernel disagrees with a real run; names it."""


class RuntimeFailure(Error, RuntimeError):
    """The native runtime refused a program or failed inside an instruction.

    Parameters
    ----------
    message : str
        What happened and what to do next.
    code : int, optional
        ExecuTorch's error code; -1 if there is none.
    code_name : str, optional
        Name of that code, such as ``"NotSupported"``.
    instruction : int, optional
        Position of the failing instruction; -1 if the failure is not inside one.
    operator : str, optional
        Operator or delegate that the instruction calls.
    log : str, optional
        What the runtime logged while it failed.
    """

    def __init__(
        self,
        message: str,
        *,
        code: int = -1,
        code_name: str = "",
        instruction: int = -1,
        operator: str = "",
        log: str = "",
    ) -> None:
        super().__init__(message)
        self.code = code
        self.code_name = code_name
        self.instruction = instruction
        self.operator = operator
        self.log = log
