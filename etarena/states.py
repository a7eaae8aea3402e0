"""The mutable buffers of a program at export: start values, how they grow, who tells their lengths."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import sympy
import torch
from executorch.exir.schema import Tensor
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, OutputKind

from .allocator import plan
from .allocator.errors import ExportError
from .allocator.size_binding import InputSize, affine
from .caches import Growth, growable_buffers
from .traced import Size
from .unbacked import is_unbacked

__all__ = ["States", "find_states", "tell_lengths"]


@dataclass
class States:
    """The buffers that any method writes or that grow.

    Parameters
    ----------
    start : dict of str to torch.Tensor
        Start values by name.
    growth : dict of str to Growth
        Those that grow.
    """

    start: dict[str, torch.Tensor] = field(default_factory=dict)
    growth: dict[str, Growth] = field(default_factory=dict)

    def describe(self, name: str, value: int, result: int) -> plan.State:
        """Say what the plan section says of one buffer: position of its value, and of what it becomes."""
        tensor = self.start[name]
        growth = self.growth.get(name)
        if growth is None:
            return plan.State(name, value, start_value(tensor), result)
        order = growth.order(tuple(tensor.shape))
        initial = start_value(tensor.permute(order).contiguous())
        return plan.State(name, value, initial, result, growth.dim, tensor.shape[growth.dim], growth.window)

    def refuse_told_entries(
        self, method: str, values: Sequence[tuple[str, Sequence[Size]]], lengths: set[sympy.Symbol]
    ) -> None:
        """Refuse caches for which a call cannot make room when it begins.

        Parameters
        ----------
        method : str
            Its name, for the message.
        values : sequence of (str, sequence of Size)
            Every value: the buffer it lies in (or any other text), and its sizes.
        lengths : set of sympy.Symbol
            Told by the lengths of caches, before the call.

        Raises
        ------
        ExportError
        """
        for name, sizes in values:
            free = {symbol for size in sizes for symbol in getattr(size, "free_symbols", ())} - lengths
            if name in self.growth and any(map(is_unbacked, free)):
                raise ExportError(
                    f"method {method!r}: how many entries are appended to buffer {name!r} depends on data; append a "
                    "number of entries that the inputs tell"
                )

    def lay_out(self, tensors: Mapping[str, Tensor]) -> None:
        """Give the emitted growable buffers their dim order; the emitter takes that of the start value."""
        for name, tensor in tensors.items():
            if name in self.growth:
                tensor.dim_order = list(self.growth[name].order(tuple(self.start[name].shape)))


def find_states(programs: Mapping[str, ExportedProgram]) -> States:
    """Find the buffers that any method writes or that grow.

    Raises
    ------
    ExportError
        If two methods have different buffers under one name, or one grows in two ways.
    """
    states = States()
    growable = {method: growable_buffers(program, method) for method, program in programs.items()}
    for method, found in growable.items():
        for name, growth in found.items():
            known = states.growth.setdefault(name, growth)
            if known.dim != growth.dim:
                raise ExportError(
                    f"method {method!r}: buffer {name!r} grows in dimension {growth.dim}, in another method in "
                    f"{known.dim}; choose one"
                )
            if known.window and growth.window not in (0, known.window):
                raise ExportError(
                    f"method {method!r}: buffer {name!r} keeps {growth.window} entries, in another method "
                    f"{known.window}; choose one window"
                )
            states.growth[name] = replace(known, window=known.window or growth.window)
    written = _written(programs) | set(states.growth)
    for method, program in programs.items():
        for spec in program.graph_signature.input_specs:
            if spec.kind is InputKind.BUFFER and spec.target in written:
                if spec.target in states.growth and spec.target not in growable[method]:
                    raise ExportError(
                        f"method {method!r} uses buffer {spec.target!r}, which grows in another method, as a tensor of "
                        "fixed size; read it with etarena.ops.append, appending nothing"
                    )
                _add(states, spec.target, _buffer(program, spec.target), method)
    return states


def _written(programs: Mapping[str, ExportedProgram]) -> set[str]:
    return {
        str(spec.target)
        for program in programs.values()
        for spec in program.graph_signature.output_specs
        if spec.kind is OutputKind.BUFFER_MUTATION
    }


def _add(states: States, name: str, tensor: torch.Tensor, method: str) -> None:
    known = states.start.setdefault(name, tensor)
    if (known.shape, known.dtype) != (tensor.shape, tensor.dtype):
        raise ExportError(
            f"method {method!r} has buffer {name!r} as {tensor.dtype}{list(tensor.shape)}, another "
            f"method as {known.dtype}{list(known.shape)}; buffers with one name are one state: rename one"
        )


def _buffer(program: ExportedProgram, name: str) -> torch.Tensor:
    if name in program.state_dict:
        return program.state_dict[name]
    return program.constants[name]


def start_value(tensor: torch.Tensor) -> bytes:
    """Bytes of a tensor in its own layout; empty if they are all zero."""
    tensor = tensor.detach().cpu()
    if tensor.dim() == 4 and tensor.is_contiguous(memory_format=torch.channels_last) and not tensor.is_contiguous():
        tensor = tensor.permute(0, 2, 3, 1)
    flat = tensor.contiguous().reshape(-1).view(torch.uint8)
    return flat.numpy().tobytes() if flat.any() else b""


def tell_lengths(
    symbols: Sequence[sympy.Symbol],
    inputs: Iterable[InputSize],
    states: Sequence[tuple[Growth | None, Sequence[Size]]],
) -> list[plan.Discovery]:
    """Say which symbols the lengths of growable states tell.

    Parameters
    ----------
    symbols : sequence of sympy.Symbol
        Of the method.
    inputs : iterable of InputSize
        Symbols in these need no state.
    states : sequence of (Growth or None, sequence of Size)
        For each state of the method how it grows, and its sizes.
    """
    bound = {symbol for entry in inputs for symbol in getattr(entry.size, "free_symbols", ())}
    told: dict[sympy.Symbol, plan.Discovery] = {}
    for place, (growth, sizes) in enumerate(states):
        size = sizes[growth.dim] if growth is not None else 0
        every: set[sympy.Symbol] = getattr(size, "free_symbols", set())
        free = every - bound
        form = affine(size, next(iter(free))) if len(free) == 1 and every == free else None
        if growth is None or form is None or form[0] < 1:
            continue
        (symbol,) = free
        known = told.get(symbol)
        if known is None or (known.scale, abs(known.offset)) > (form[0], abs(form[1])):
            told[symbol] = plan.Discovery(
                symbols.index(symbol),
                plan.Teller.STATE_LENGTH,
                value=place,
                dim=growth.dim,
                scale=form[0],
                offset=form[1],
                origin="etarena::length",
            )
    return list(told.values())
