"""Operations that become one: normalisation folded into weights, activations applied where a result is written."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np

from .graph import LINE, Operation, TensorId, Value, leaves

if TYPE_CHECKING:
    from collections.abc import Callable

    from .graph import Graph

__all__ = ["fuse"]

CONVOLUTION = "aten.convolution.default"
BATCH_NORM = "aten._native_batch_norm_legit_no_training.default"
# What can apply an activation to its result; those of elements know the first two.
PRODUCERS = frozenset({CONVOLUTION, *(f"aten.{name}.default" for name in ("linear", "addmm", "mm", "bmm"))})
ELEMENTWISE = frozenset(
    f"aten.{name}.{other}" for name in ("add", "sub", "mul", "div") for other in ("Tensor", "Scalar")
)


ADD = "aten.add.Tensor"
RESIZES = frozenset({"etarena.resize2d.default", "aten.upsample_bilinear2d.vec", "aten.upsample_bilinear2d.default"})


def relu(arguments: dict[str, Any]) -> dict[str, Any] | None:
    """As the argument of a producer."""
    return {"activation": "relu"}


def clamp(lowest: str, highest: str) -> Callable[[dict[str, Any]], dict[str, Any] | None]:
    """As the arguments of a producer, where both ends are numbers."""

    def found(arguments: dict[str, Any]) -> dict[str, Any] | None:
        ends = [arguments.get(lowest), arguments.get(highest)]
        if not all(isinstance(end, int | float) for end in ends):
            return None
        return {"activation": "clamp", "lowest": float(ends[0]), "highest": float(ends[1])}  # type: ignore[arg-type]

    return found


def gelu(arguments: dict[str, Any]) -> dict[str, Any] | None:
    """Both forms."""
    return {"activation": "gelu_tanh" if arguments.get("approximate") == "tanh" else "gelu"}


ACTIVATIONS: dict[str, Callable[[dict[str, Any]], dict[str, Any] | None]] = {
    "aten.relu.default": relu,
    "aten.hardtanh.default": clamp("min_val", "max_val"),
    "aten.clamp.default": clamp("min", "max"),
    "aten.hardswish.default": lambda _: {"activation": "hardswish"},
    "aten.silu.default": lambda _: {"activation": "silu"},
    "aten.gelu.default": gelu,
}


def simple(activation: dict[str, Any]) -> bool:
    """Whether shaders of elements know it."""
    return activation["activation"] in ("relu", "clamp")


def fuse(graph: Graph) -> None:
    """Fold norms into convolutions before them, activations into what makes their input, sums into resizing; in place.

    Results change by rounding only: weights are scaled in double precision.
    """
    graph.operations = _fold_norms(graph)
    graph.operations = _fold_activations(graph)
    graph.operations = _fold_sums(graph)


def _uses(graph: Graph) -> Counter[int]:
    """How often each value is read, outputs included."""
    found = Counter(
        leaf.value
        for operation in graph.operations
        for leaf in leaves(operation.arguments)
        if isinstance(leaf, TensorId)
    )
    found.update(graph.outputs)
    return found


def _fold_activations(graph: Graph) -> list[Operation]:
    uses = _uses(graph)
    made: list[Operation] = []
    maker: dict[int, int] = {}  # value -> which of `made` makes it
    for operation in graph.operations:
        source = operation.arguments.get("self")
        place = maker.get(source.value) if isinstance(source, TensorId) else None
        if operation.name in ACTIVATIONS and isinstance(source, TensorId) and place is not None:
            producer = made[place]
            more = ACTIVATIONS[operation.name](operation.arguments)
            fits = (
                (producer.name in PRODUCERS or (producer.name in ELEMENTWISE and more is not None and simple(more)))
                and "activation" not in producer.arguments
                and uses[source.value] == 1
                and graph.values[source.value].dtype.startswith("float")
            )
            if fits and more is not None:
                made[place] = Operation(producer.name, {**producer.arguments, **more}, operation.outputs)
                maker[operation.outputs[0]] = place
                continue
        maker.update(dict.fromkeys(operation.outputs, len(made)))
        made.append(operation)
    return made


def _fold_sums(graph: Graph) -> list[Operation]:
    uses = _uses(graph)
    made: list[Operation] = []
    maker: dict[int, Operation] = {}
    for operation in graph.operations:
        is_sum = operation.name == ADD and isinstance(operation.arguments.get("alpha") or 1, int | float)
        given = [operation.arguments.get(name) for name in ("self", "other")] if is_sum else []
        ends = [end for end in given if isinstance(end, TensorId)]
        for mine, other in (ends, ends[::-1]) if len(ends) == 2 else ():
            resize = maker.get(mine.value)
            if resize is not None and uses[mine.value] == 1 and _can_add(graph, resize, mine, other):
                made.remove(resize)
                operation = _added(resize, operation, other, first=mine is ends[0])
                break
        maker.update(dict.fromkeys(operation.outputs, operation))
        made.append(operation)
    return made


def _can_add(graph: Graph, resize: Operation, mine: TensorId, other: TensorId) -> bool:
    """Whether it resizes linearly, to the sizes of what is added to it."""
    one, two = graph.values[mine.value], graph.values[other.value]
    return (
        resize.name in RESIZES
        and "addend" not in resize.arguments
        and resize.arguments.get("mode", "bilinear") == "bilinear"
        and one.sizes == two.sizes
        and one.dtype == two.dtype
    )


def _added(resize: Operation, add: Operation, addend: TensorId, *, first: bool) -> Operation:
    alpha = add.arguments.get("alpha")  # a number, if there is one
    factors = [1.0, 1.0 if alpha is None else float(alpha)]
    more: dict[str, Any] = {
        name: add.arguments[name] for name in ("activation", "lowest", "highest") if name in add.arguments
    }
    arguments = {**resize.arguments, "addend": addend, "factors": factors if first else factors[::-1], **more}
    return Operation(resize.name, arguments, add.outputs)


def _fold_norms(graph: Graph) -> list[Operation]:
    uses = _uses(graph)
    made: list[Operation] = []
    maker: dict[int, int] = {}
    for operation in graph.operations:
        source = operation.arguments.get("input")
        place = maker.get(source.value) if isinstance(source, TensorId) else None
        if operation.name == BATCH_NORM and isinstance(source, TensorId) and place is not None:
            folded = _folded(graph, made[place], operation) if uses[source.value] == 1 else None
            if folded is not None and not any(uses[other] for other in operation.outputs[1:]):
                made[place] = folded
                maker[operation.outputs[0]] = place
                continue
        maker.update(dict.fromkeys(operation.outputs, len(made)))
        made.append(operation)
    return made


def _folded(graph: Graph, convolution: Operation, norm: Operation) -> Operation | None:
    """The convolution with the norm in its weights; None where that cannot be done."""
    given = convolution.arguments
    if convolution.name != CONVOLUTION or given["transposed"]:
        return None
    weight, bias = _constant(graph, given["weight"]), _constant(graph, given["bias"])
    mean, variance = (_constant(graph, norm.arguments[name]) for name in ("running_mean", "running_var"))
    gain, shift = (_constant(graph, norm.arguments[name]) for name in ("weight", "bias"))
    told = [(given["bias"], bias), (norm.arguments["weight"], gain), (norm.arguments["bias"], shift)]
    if weight is None or mean is None or variance is None or any((a is None) != (b is None) for a, b in told):
        return None
    scale = 1.0 / np.sqrt(variance.astype(np.float64) + float(norm.arguments["eps"]))
    if gain is not None:
        scale = scale * gain
    offset = (0.0 if bias is None else bias.astype(np.float64)) - mean
    offset = offset * scale + (0.0 if shift is None else shift)
    scaled = weight * scale.reshape(-1, *[1] * (weight.ndim - 1))
    sizes = graph.values[given["weight"].value].sizes
    arguments = {
        **given,
        "weight": _add_constant(graph, scaled.astype(weight.dtype), sizes),
        "bias": _add_constant(graph, offset.astype(weight.dtype), sizes[:1]),
    }
    return Operation(convolution.name, arguments, norm.outputs[:1])


def _constant(graph: Graph, argument: Any) -> np.ndarray[Any, Any] | None:
    if not isinstance(argument, TensorId):
        return None
    value = graph.values[argument.value]
    if value.data is None:
        return None
    offset, nbytes = value.data
    shape = [graph.code[register - graph.n_symbols][1] for register in value.sizes]  # of constants: CONST steps
    return np.frombuffer(graph.constants[offset : offset + nbytes], value.dtype).reshape(shape)


def _add_constant(graph: Graph, array: np.ndarray[Any, Any], sizes: tuple[int, ...]) -> TensorId:
    content = array.tobytes()
    start = -(-len(graph.constants) // LINE) * LINE
    graph.constants = bytes(graph.constants).ljust(start, b"\0") + content
    graph.values.append(Value(str(array.dtype), sizes, (start, len(content))))
    return TensorId(len(graph.values) - 1)
