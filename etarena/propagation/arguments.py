"""Inputs, parameters and buffers without memory, with symbols where their sizes may vary."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch._dynamo.source import ConstantSource
from torch._subclasses.fake_tensor import FakeTensor
from torch.export.dynamic_shapes import _tree_map_with_path
from torch.fx.experimental.symbolic_shapes import DimDynamic
from torch.utils._pytree import keystr, tree_flatten_with_path

from ..allocator.errors import InputError, InputTypeError
from ..allocator.size_binding import expression
from .values import Size, SizeSymbol

if TYPE_CHECKING:
    from .devices import DeviceMap
    from .fake_run import FakeRun

__all__ = ["Arguments", "InputShape", "bound_inputs", "declared_dims", "named_leaves"]

INT64_MAX = 2**63 - 1
TOLD = re.compile(r"z?uf?\d+")
"""What torch calls the symbols of sizes and numbers that only data tells."""


@dataclass(frozen=True)
class InputShape:
    """A tensor input by name, with its sizes."""

    name: str
    shape: tuple[Size, ...]


@dataclass
class _Dim:
    """A size that may vary, as the caller declared it; a derived one is a function of the size it comes from."""

    name: str
    dim: Any = None

    @property
    def limits(self) -> tuple[int, int]:
        low, high = getattr(self.dim, "min", None), getattr(self.dim, "max", None)
        return (low if isinstance(low, int) else 0), (high if isinstance(high, int) else INT64_MAX)


@dataclass
class Arguments:
    """Makes what a model is called with.

    Attributes
    ----------
    run : FakeRun
        Where they are used.
    places : DeviceMap
        Where they are.
    symbols : dict
        Declared sizes by name.
    inputs : list of InputShape
        The tensor inputs so far.
    """

    run: FakeRun
    places: DeviceMap
    symbols: dict[str, SizeSymbol] = field(default_factory=dict)
    inputs: list[InputShape] = field(default_factory=list)
    _sizes: dict[str, Any] = field(default_factory=dict)
    _tensors: dict[int, torch.Tensor] = field(default_factory=dict)

    def input(self, name: str, given: torch.Tensor, dims: Mapping[int, _Dim]) -> torch.Tensor:
        """An input as the run takes it.

        Raises
        ------
        InputError
            If two sizes of one name differ, or a size lies outside its range.
        """
        device = self.places.of_input(name)
        target = self.run.names.to_torch(device) if device is not None else self.home(given.device)
        if dims:
            sizes: list[Any] = list(given.shape)
            for at, dim in dims.items():
                sizes[at] = self._size(f"dimension {at} of input {name!r}", dim, int(given.shape[at]))
            fake = self.strided(given, sizes, target)
        else:
            fake = self.like(given, target)
        self.run.add(name, "input", fake, 0)
        self.inputs.append(InputShape(name, tuple(map(expression, fake.shape))))
        return fake

    def like(self, given: torch.Tensor, target: torch.device) -> torch.Tensor:
        """A tensor of the sizes and strides of another, on a device; the same one for the same tensor."""
        if id(given) not in self._tensors:
            foreign = isinstance(given, FakeTensor)
            if given.device == target and not foreign:
                fake = self.run.mode.from_tensor(given, static_shapes=True)
            elif given.layout is not torch.strided:
                raise InputTypeError(f"a tensor of layout {given.layout} cannot be moved to another device")
            else:
                fake = self.strided(given, list(given.shape), target)
            self._tensors[id(given)] = fake
        return self._tensors[id(given)]

    def strided(self, given: torch.Tensor, sizes: list[Any], target: torch.device) -> torch.Tensor:
        """A tensor laid out as `given`, with other sizes."""
        order = sorted(range(given.dim()), key=lambda at: (given.stride(at), given.shape[at]), reverse=True)
        with self.run.mode:
            dense = torch.empty([sizes[at] for at in order], dtype=given.dtype, device=target)
            fake = dense.permute([order.index(at) for at in range(given.dim())])
            if isinstance(given, torch.nn.Parameter):
                fake = torch.nn.Parameter(fake, requires_grad=given.requires_grad)
        return fake

    def parameter(self, name: str, given: torch.Tensor, kind: Any) -> torch.Tensor:
        """A parameter or buffer as the run takes it."""
        device = self.places.of_tensor(name)
        target = self.run.names.to_torch(device) if device is not None else self.home(given.device)
        fake = self.like(given, target)
        self.run.add(name, kind, fake, 0)
        return fake

    def home(self, device: torch.device) -> torch.device:
        """Where a tensor is that the map does not mention: where it is; one without memory yet gets it on the CPU."""
        return torch.device("cpu") if device.type == "meta" else self.run.names.replaced(device)

    def symbol(self, name: str, example: int, low: int = 0, high: int = INT64_MAX, source: str = "") -> Any:
        """A size with a name of its own."""
        environment = self.run.environment
        source_object = ConstantSource(source or name)
        made = environment.create_symbol(
            example, source_object, DimDynamic.DYNAMIC, constraint_dim=None, do_not_specialize_zero_one=True
        )
        size = environment.create_symintnode(made, hint=example, source=source_object)
        self.symbols[name] = SizeSymbol(name, low, high, example)
        self.run.symbol_names[made] = name
        self._sizes[name] = size
        return size

    def _size(self, where: str, dim: _Dim, example: int) -> Any:
        root = getattr(dim.dim, "root", None)
        if root is not None and hasattr(dim.dim, "fn"):
            return self._derived(where, dim.dim, root, example)
        low, high = dim.limits
        if not low <= example <= high:
            raise InputError(f"{where} is {example} in the example, but {dim.name} is {low} to {high}")
        if dim.name not in self._sizes:
            if TOLD.fullmatch(dim.name):
                raise InputError(f"{where} cannot be called {dim.name!r}: so are sizes that only data tells")
            return self.symbol(dim.name, example, low, high)
        if self.symbols[dim.name].example != example:
            raise InputError(
                f"{where} is {example} in the example, but {dim.name} is {self.symbols[dim.name].example} elsewhere"
            )
        return self._sizes[dim.name]

    def _derived(self, where: str, dim: Any, root: Any, example: int) -> Any:
        offset = dim.fn(0)  # derived sizes are linear in the one that they come from
        base, rest = divmod(example - offset, dim.fn(1) - offset)
        if rest or base < 0:
            raise InputError(f"{where} is {example} in the example, which is not {dim.__name__} for any size")
        return dim.fn(self._size(where, _Dim(root.__name__, root), base))


def bound_inputs(module: torch.nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> inspect.BoundArguments:
    """The arguments of a call by the names of the parameters of ``forward``.

    Raises
    ------
    InputError
        If ``forward`` does not take them.
    """
    try:
        return inspect.signature(module.forward).bind(*args, **kwargs)
    except (TypeError, ValueError) as error:
        raise InputError(f"{type(module).__name__}.forward does not take these arguments: {error}") from error


def named_leaves(inputs: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Leaves of the inputs with names: that of the argument, and the place in it."""
    flat, _ = tree_flatten_with_path(dict(inputs))
    return [(str(path[0].key) + keystr(path[1:]), leaf) for path, leaf in flat]


def declared_dims(inputs: Mapping[str, Any], dynamic_shapes: Any) -> list[dict[int, _Dim]]:
    """The dimensions of each leaf of the inputs that may vary.

    Raises
    ------
    InputError, InputTypeError
        `dynamic_shapes` does not have the structure of the inputs, or names a dimension that does not exist.
    """
    names = [name for name, _ in named_leaves(inputs)]
    found: list[dict[int, _Dim]] = []

    def collect(_path: Any, value: Any, shape: Any = None) -> None:
        is_declared = isinstance(value, torch.Tensor) and shape is not None
        found.append(dict(_dims(names[len(found)], value, shape)) if is_declared else {})

    if not dynamic_shapes:
        return [{} for _ in names]
    if isinstance(dynamic_shapes, str) or not isinstance(dynamic_shapes, Mapping | Sequence):
        raise InputTypeError(f"dynamic_shapes: expected a mapping or a sequence, got {type(dynamic_shapes).__name__}")
    if not isinstance(dynamic_shapes, Mapping):
        if len(dynamic_shapes) != len(inputs):
            raise InputError(f"dynamic_shapes has {len(dynamic_shapes)} entries for {len(inputs)} inputs")
        dynamic_shapes = dict(zip(inputs, dynamic_shapes, strict=True))
    unknown = sorted(set(map(str, dynamic_shapes)) - set(inputs))
    if unknown:
        raise InputError(f"dynamic_shapes: the model has no input {unknown[0]!r}, only {', '.join(inputs)}")
    shapes = {name: dynamic_shapes.get(name) for name in inputs}
    try:
        _tree_map_with_path(collect, dict(inputs), shapes, tree_name="inputs")
    except InputError:
        raise
    except Exception as error:
        raise InputError(f"dynamic_shapes does not fit the inputs: {error}") from error
    return found


def _dims(name: str, tensor: torch.Tensor, shape: Any) -> Iterator[tuple[int, _Dim]]:
    for at, dim in shape.items() if isinstance(shape, Mapping) else enumerate(shape):
        if not isinstance(at, int) or not -tensor.dim() <= at < tensor.dim():
            raise InputError(f"dynamic_shapes: input {name!r} has {tensor.dim()} dimensions, and no dimension {at!r}")
        at %= tensor.dim()
        if isinstance(dim, str):
            yield at, _Dim(dim)
        elif hasattr(dim, "__name__"):
            yield at, _Dim(dim.__name__, dim)
        elif dim is not None and not isinstance(dim, int) and getattr(dim.type, "name", "") != "STATIC":
            yield at, _Dim(f"{name}_{at}", dim)
