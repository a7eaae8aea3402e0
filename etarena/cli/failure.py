"""An exception as one line with a hint."""

from dataclasses import dataclass

from ..allocator import errors

# Most specific first; a class that names its own way out in the message has no entry.
_HINTS: list[tuple[type[BaseException], str]] = [
    (errors.ShapeError, "'etarena inspect MODEL' lists the sizes that each input may have"),
    (errors.InputError, "'etarena inspect MODEL' lists the inputs with their dtypes and shapes"),
    (errors.InputTypeError, "'etarena inspect MODEL' lists the inputs with their dtypes and shapes"),
    (errors.PlanError, "the file is damaged or was changed after its export: export the model again"),
    (errors.ArenaFullError, "give smaller inputs or an arena with a larger reserve"),
    (errors.SizeOverflowError, "give smaller sizes"),
    (errors.ExportError, "change the model as the message says; 'etarena export --explain' names all in the way"),
    (errors.NotBuiltError, "plan ahead of time with what this build has: 'etarena --help'"),
    (errors.RuntimeFailure, "run again with --debug for the runtime's own log"),
    (FileNotFoundError, "check the path"),
    (IsADirectoryError, "name a file"),
    (PermissionError, "check the file's permissions"),
    (ModuleNotFoundError, "install the missing package, or run where its module can be found"),
]
_FALLBACK = "run again with --debug for the traceback"


@dataclass(frozen=True)
class Failure:
    """What went wrong and what to do about it."""

    kind: str
    message: str
    hint: str

    def line(self) -> str:
        """Return the failure as a person reads it."""
        return f"error: {self.message} (hint: {self.hint})"

    def data(self) -> dict[str, str]:
        """Return the failure as a program reads it."""
        return {"type": self.kind, "message": self.message, "hint": self.hint}


def explain(error: Exception) -> Failure:
    """Describe an exception in one line; one that etarena does not raise on purpose also names its class."""
    message = " ".join(str(error).split()) or type(error).__name__
    hint = next((text for kind, text in _HINTS if isinstance(error, kind)), _FALLBACK)
    if not isinstance(error, errors.Error | OSError):
        message = f"{type(error).__name__}: {message}"
    return Failure(type(error).__name__, message, hint)
