"""`export`: from a PyTorch model to a program file whose memory is planned at run time."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, overload

import torch
from executorch.exir.backend.partitioner import Partitioner
from torch.export import ExportedProgram

from .allocator import plan
from .allocator.errors import Error, ExportError, InputError, InputTypeError
from .allocator.sizes import Opcode
from .capture import Capture, capture_model, capture_program, first_lines
from .devices.arguments import placements
from .devices.placement import Placement
from .exported_file import ExportedFile
from .lowering import Watch, lower
from .oblivious import size_oblivious_tracing
from .per_method import check_methods
from .quiet import quiet
from .unbacked import data_dependent_tracing

if TYPE_CHECKING:
    from .static.exported import StaticModel
    from .static.planning_pass import StaticPlanningPass

__all__ = ["ExportedModel", "Model", "captured", "checked_methods", "checked_partitioners", "export", "lowered"]

Model: TypeAlias = torch.nn.Module | ExportedProgram


class ExportedModel(ExportedFile[plan.Method]):
    """A finished program file whose memory is planned at run time, made by `export`.

    Parameters
    ----------
    buffer : bytes
        The file.
    plans : mapping of str to allocator.plan.Method
        The plan section of each method, as the file has it.
    """

    def _described(self, name: str, plan: plan.Method) -> str:
        return f"{name}({', '.join(_input_text(plan, item) for item in plan.inputs)})"


@overload
def export(
    model: Model | Mapping[str, Any],
    args: tuple[Any, ...] | None = None,
    kwargs: dict[str, Any] | None = None,
    dynamic_shapes: Any = None,
    *,
    partitioners: Sequence[Partitioner] | Mapping[str, Sequence[Partitioner]] = (),
    memory: Literal["runtime"] = "runtime",
    strict: bool = False,
    input_devices: Any = None,
    output_devices: Any = None,
    copies: str = "insert",
) -> ExportedModel: ...
@overload
def export(
    model: Model | Mapping[str, Any],
    args: tuple[Any, ...] | None = None,
    kwargs: dict[str, Any] | None = None,
    dynamic_shapes: Any = None,
    *,
    partitioners: Sequence[Partitioner] | Mapping[str, Sequence[Partitioner]] = (),
    memory: 'Literal["static"] | StaticPlanningPass',
    strict: bool = False,
    input_devices: Any = None,
    output_devices: Any = None,
    copies: str = "insert",
) -> "StaticModel": ...
def export(
    model: Model | Mapping[str, Any],
    args: tuple[Any, ...] | None = None,
    kwargs: dict[str, Any] | None = None,
    dynamic_shapes: Any = None,
    *,
    partitioners: Sequence[Partitioner] | Mapping[str, Sequence[Partitioner]] = (),
    memory: "str | StaticPlanningPass" = "runtime",
    strict: bool = False,
    input_devices: Any = None,
    output_devices: Any = None,
    copies: str = "insert",
) -> "ExportedModel | StaticModel":
    """Export a model into a program file that runs at any size its own guards allow.

    Parameters
    ----------
    model : torch.nn.Module, torch.export.ExportedProgram or mapping
        What to export as method ``forward``; or several methods by name, each an `ExportedProgram` or a tuple of
        ``(module, args[, kwargs[, dynamic_shapes]])``. Mutable buffers with one name are one state of all methods.
    args, kwargs : tuple, dict, optional
        Example inputs of a module.
    dynamic_shapes : optional
        Which sizes vary, as for `torch.export.export`: ``Dim.DYNAMIC`` has no limit; ``Dim("h", min=, max=)`` is
        checked on every call. Sizes 0 and 1 are legal unless the model or a limit says otherwise.
    partitioners : sequence of Partitioner, or mapping of method names to sequences
        ExecuTorch partitioners, applied in order.
    memory : {"runtime", "static"} or StaticPlanningPass
        When memory is planned: ``"runtime"``, once sizes are known; ``"static"``, now, for the upper bounds of all
        sizes, into an ordinary file for the stock runtime. A pass made by `static_planning_pass` is the latter with its
        options.
    strict : bool, default False
        Trace the model with TorchDynamo instead of plain Python.
    input_devices : mapping of str to device, optional
        Where inputs are, by their names: a `Device`, its name (``"vulkan:0"``) or type. The CPU by default. With
        several methods a mapping of method names to such mappings.
    output_devices : device, sequence or mapping of int to device, optional
        Where outputs are: one device for all, one for each (None for the CPU), or some by position. The CPU by default.
        With several methods a mapping of method names.
    copies : {"insert", "error"}
        What to do where a value is wanted on another device than its own, for instance by an operator that runs on the
        CPU: put a copy into the program, which every run counts, or refuse to export.

    Returns
    -------
    ExportedModel or StaticModel
        The latter with static memory; both have the file and the plan of each method.

    Raises
    ------
    ExportError
        The model cannot be exported; the message names the operator or input and the way out.
    InputError, InputTypeError
        An argument of this function has a value or type that makes no sense.
    """
    planning = _checked_memory(memory)
    methods = checked_methods(model, args, kwargs, dynamic_shapes)
    chosen = checked_partitioners(partitioners, methods)
    if planning is not None:
        if input_devices or output_devices:
            raise InputError("memory='static' keeps inputs and outputs on the CPU: leave their devices out")
        with quiet():
            captures = {name: captured(name, *parts, strict=strict) for name, parts in methods.items()}
            return static(captures, chosen, planning)
    several = isinstance(model, Mapping)
    places = placements(methods, input_devices, output_devices, copies, several=several)
    with quiet():
        captures = {name: captured(name, *parts, strict=strict) for name, parts in methods.items()}
        return lowered(captures, chosen, places=places)


def static(
    captures: Mapping[str, Capture], partitioners: Mapping[str, list[Partitioner]], planning: "StaticPlanningPass"
) -> "StaticModel":
    """Make an ordinary program with fixed offsets; any failure becomes an ExportError."""
    from .static.lowering import lower_static

    with _reported("the program", "lowered"):
        return lower_static(captures, partitioners, planning)


def captured(name: str, program: Model, args: Any, kwargs: Any, dynamic_shapes: Any, *, strict: bool) -> Capture:
    """Trace one method; any failure becomes an ExportError."""
    with _reported(f"method {name!r}", "captured"):
        return _capture(program, args, kwargs, dynamic_shapes, strict=strict)


def lowered(
    captures: Mapping[str, Capture],
    partitioners: Mapping[str, list[Partitioner]],
    watch: Watch | None = None,
    places: Mapping[str, Placement] | None = None,
) -> ExportedModel:
    """Make the program of what was traced; any failure becomes an ExportError. `watch` as in `lower`."""
    with _reported("the program", "lowered"), size_oblivious_tracing(), data_dependent_tracing():
        return ExportedModel(*lower(captures, partitioners, places or {}, watch))


def _capture(program: Model, args: Any, kwargs: Any, dynamic_shapes: Any, *, strict: bool) -> Capture:
    if isinstance(program, ExportedProgram):
        return capture_program(program)
    return capture_model(program, args, kwargs, dynamic_shapes, strict)


@contextmanager
def _reported(what: str, stage: str) -> Iterator[None]:
    """Failures inside torch and ExecuTorch as ExportError that says how far the model came."""
    try:
        yield
    except Error:
        raise
    except Exception as error:
        text = f"{what} cannot be {stage}: {type(error).__name__}: {first_lines(error)}"
        raise ExportError(text + _root_cause(error, text) + _way_out(error)) from error


def _root_cause(error: BaseException, said: str) -> str:
    """The first line of the innermost cause, which the passes of ExecuTorch leave out of their own message."""
    cause = error
    while cause.__cause__ is not None:
        cause = cause.__cause__
    line = next(iter(str(cause).strip().splitlines()), "")
    return "" if line in said else f"; caused by {type(cause).__name__}: {line}"


def _way_out(error: BaseException) -> str:
    """What the user can do about a failure that is known to come from the model's own mode."""
    if "native_batch_norm" in str(error):
        return ". The model normalises batches as in training: call model.eval() before the export"
    if "out variant" in str(error):
        return ". ExecuTorch has no kernel for these operators: write that part of the model with others"
    return ""


def _checked_memory(memory: Any) -> "StaticPlanningPass | None":
    """The pass that fixes offsets; None to plan at run time."""
    if memory == "runtime":
        return None
    from .static.planning_pass import StaticPlanningPass, static_planning_pass

    if isinstance(memory, StaticPlanningPass):
        if not memory.alloc_mutable_buffers:
            raise InputError("memory: a static file keeps its mutable buffers; leave alloc_mutable_buffers=True")
        return memory
    if memory != "static":
        raise InputError(f"memory: expected 'runtime', 'static' or a static_planning_pass(...), got {memory!r}")
    return static_planning_pass()


def checked_methods(model: Any, args: Any, kwargs: Any, dynamic_shapes: Any) -> dict[str, tuple[Any, Any, Any, Any]]:
    """Every method by its name as (model, args, kwargs, dynamic_shapes), with the types checked."""
    if isinstance(model, Mapping):
        if args is not None or kwargs is not None or dynamic_shapes is not None:
            raise InputError("with several methods, give each its own (module, args, kwargs, dynamic_shapes)")
        if not model:
            raise InputError("model: no method to export")
        return {_method_name(name): _method(name, entry) for name, entry in model.items()}
    return {"forward": _method("forward", (model, args, kwargs, dynamic_shapes))}


def _method_name(name: object) -> str:
    if not isinstance(name, str) or not name:
        raise InputTypeError(f"method names are non-empty text, got {name!r}")
    return name


def _method(name: str, entry: Any) -> tuple[Any, Any, Any, Any]:
    parts = list(entry) if isinstance(entry, tuple) else [entry]
    if not 1 <= len(parts) <= 4:
        raise InputError(f"method {name!r}: expected (module, args, kwargs, dynamic_shapes), got {len(parts)} entries")
    model, args, kwargs, dynamic_shapes = parts + [None] * (4 - len(parts))
    if isinstance(model, ExportedProgram):
        if args is not None or kwargs is not None or dynamic_shapes is not None:
            raise InputError(f"method {name!r}: an ExportedProgram has its example inputs and dynamic shapes inside")
        return model, None, None, None
    if not isinstance(model, torch.nn.Module):
        raise InputTypeError(
            f"method {name!r}: expected a torch.nn.Module or ExportedProgram, got {type(model).__name__}"
        )
    args = () if args is None else args
    if not isinstance(args, tuple | list):
        raise InputTypeError(f"method {name!r}: args is a tuple of example inputs, got {type(args).__name__}")
    if kwargs is not None and not isinstance(kwargs, Mapping):
        raise InputTypeError(f"method {name!r}: kwargs is a dict of example inputs, got {type(kwargs).__name__}")
    return model, tuple(args), dict(kwargs or {}), dynamic_shapes


def checked_partitioners(partitioners: Any, methods: Mapping[str, Any]) -> dict[str, list[Partitioner]]:
    """The partitioners of every method, with the types checked."""
    by_method = partitioners if isinstance(partitioners, Mapping) else dict.fromkeys(methods, partitioners)
    check_methods("partitioners", by_method, methods)
    for name, entries in by_method.items():
        if not isinstance(entries, Sequence) or isinstance(entries, str):
            raise InputTypeError(f"partitioners: expected a list of partitioners, got {type(entries).__name__}")
        for entry in entries:
            if not isinstance(entry, Partitioner):
                hint = " (call it to make one)" if isinstance(entry, type) else ""
                raise InputTypeError(f"partitioners of {name!r}: {entry!r} is no ExecuTorch Partitioner{hint}")
    return {name: list(by_method.get(name, ())) for name in methods}


def _input_text(method: plan.Method, item: plan.Input) -> str:
    if item.scalar is not plan.Scalar.TENSOR:
        return f"{item.name}: {item.scalar.name.lower()}"
    sizes = ", ".join(_size_text(method, register) for register in method.values[item.value].sizes)
    return f"{item.name}[{sizes}]"


def _size_text(method: plan.Method, register: int) -> str:
    """A size in words: a symbol's name, a number, sums and products of these; "..." for anything else."""
    if register < len(method.symbols):
        return method.symbols[register].name
    step = method.size_code[register - len(method.symbols)]
    if step.opcode == Opcode.CONST:
        return str(step.a)
    sign = {Opcode.ADD: " + ", Opcode.SUB: " - ", Opcode.MUL: "*"}.get(Opcode(step.opcode))
    if sign is None:
        return "..."
    parts = [_size_text(method, step.a), _size_text(method, step.b)]
    return sign.join(sorted(parts, key=lambda part: not part.isdigit()) if sign == "*" else parts)
