"""What ``etarena export`` is given: an exported program in a file, or a callable that makes a model and its inputs."""

import importlib
import importlib.util
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click


@dataclass
class Source:
    """A model with example inputs, or an exported program (then `args` and the rest stay empty)."""

    model: Any
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    dynamic_shapes: Any = None

    @property
    def exported(self) -> bool:
        """Whether the model already went through ``torch.export``."""
        import torch

        return isinstance(self.model, torch.export.ExportedProgram)


def load_source(text: str) -> Source:
    """Load ``model.pt2``, or call ``package.module:callable`` or ``folder/file.py:callable``."""
    place, colon, attribute = text.rpartition(":")
    if colon and not attribute.endswith(".pt2"):
        return _checked(text, _callable(place, attribute)())
    path = Path(text)
    if path.suffix != ".pt2":
        raise click.UsageError(
            f"{text!r} is neither a .pt2 file nor MODULE:CALLABLE, e.g. 'my_package.models:make' or 'model.py:make'"
        )
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {text!r}")
    import torch

    try:
        return Source(torch.export.load(path))
    except Exception as error:
        raise click.ClickException(f"{text!r} is not an archive of torch.export.save: {error}") from error


def _callable(place: str, attribute: str) -> Callable[[], object]:
    module = _module_of_file(Path(place)) if place.endswith(".py") else _module_of_name(place)
    found = getattr(module, attribute, None)
    if not callable(found):
        raise click.UsageError(f"{place!r} has no callable {attribute!r}")
    return found


def _module_of_file(path: Path) -> object:
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {str(path)!r}")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise click.UsageError(f"{str(path)!r} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault(path.stem, module)
    spec.loader.exec_module(module)
    return module


def _module_of_name(name: str) -> object:
    # Like python -m: modules of the current folder can be named.
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    return importlib.import_module(name)


def _checked(text: str, made: object) -> Source:
    """Read ``(model, args)``, ``(model, args, kwargs)`` or ``(model, args, kwargs, dynamic_shapes)``."""
    if not isinstance(made, tuple) or not 2 <= len(made) <= 4:
        raise click.UsageError(
            f"{text!r} must return (model, args), (model, args, kwargs) or (model, args, kwargs, dynamic_shapes), "
            f"not {type(made).__name__}" + (f" of {len(made)}" if isinstance(made, tuple) else "")
        )
    model, args, *rest = made
    if not isinstance(args, tuple | list):
        raise click.UsageError(f"{text!r}: args must be a tuple of example inputs, not {type(args).__name__}")
    kwargs, dynamic_shapes = [*rest, None, None][:2]
    return Source(model, tuple(args), dict(kwargs or {}), dynamic_shapes)
