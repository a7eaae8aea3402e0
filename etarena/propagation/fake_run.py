"""A run of a model on tensors without memory, on devices that this machine need not have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import sympy
import torch
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    FakeTensorDeviceMismatchError,
    FakeTensorMode,
    UnsupportedOperatorException,
)
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode, ShapeEnv
from torch.utils._pytree import tree_leaves, tree_map

from ..allocator.errors import DeviceError, PropagationError
from ..allocator.size_binding import expression
from .control_flow import run_control_flow
from .doubts import Doubts
from .recorder import Recorder, operator_name
from .values import PlannedCopy, Size

if TYPE_CHECKING:
    from .devices import DeviceNames

__all__ = ["Copies", "FakeRun"]

Copies = Literal["insert", "error"]
aten = torch.ops.aten
# They turn a number of the model's code into a tensor; torch keeps its value beside the fake one.
_LIFTED = (aten.lift_fresh.default, aten.lift_fresh_copy.default, aten.lift.default)


class FakeRun(Recorder):
    """Records a run in which tensors are fake.

    Parameters
    ----------
    names : DeviceNames
        How devices are called in the run.
    copies : {"insert", "error"}
        What happens where an operator is given tensors of several devices.
    seed : int
        Of what is run for real.
    check : bool
        Whether every operator is compared with a real run.

    Attributes
    ----------
    mode : FakeTensorMode
        Makes tensors fake.
    copied : list of PlannedCopy
        Copies that were inserted.
    symbol_names : dict
        The caller's names for symbols.
    """

    def __init__(self, names: DeviceNames, *, copies: Copies = "insert", seed: int = 0, check: bool = False) -> None:
        super().__init__(names)
        environment = ShapeEnv(
            allow_scalar_outputs=True, allow_dynamic_output_shape_ops=True, duck_shape=False, specialize_zero_one=False
        )
        self.mode = FakeTensorMode(allow_fallback_kernels=False, allow_non_fake_inputs=True, shape_env=environment)
        self.doubts = Doubts(self, seed, check)
        self.copies = copies
        self.copied: list[PlannedCopy] = []
        self.symbol_names: dict[sympy.Symbol, str] = {}
        self._constants: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
        self._homes: list[torch.device] = []
        self._aside = False  # what is called now is recorded by its caller

    @property
    def environment(self) -> Any:
        """Where the symbols of sizes live."""
        return self.mode.shape_env

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run one operator on fake tensors."""
        kwargs = kwargs or {}
        if self._aside or func.namespace == "prim":
            return func(*args, **kwargs)
        if isinstance(func, torch._ops.HigherOrderOperator):
            return run_control_flow(self, func, args, kwargs)
        if func is aten._assert_tensor_metadata.default:
            kwargs = {name: value for name, value in kwargs.items() if name != "device"}  # the map may say another
        if func not in _LIFTED:
            args, kwargs = tree_map(self._taken, (args, kwargs))
        results, position = self._call(func, args, kwargs)
        self.doubts.compare(func, args, kwargs, results)
        self.note(func, position, results)
        if func._schema.is_mutable:
            for leaf in tree_leaves((args, kwargs)):
                if isinstance(leaf, torch.Tensor):
                    self.resized(leaf)
        return results

    def _taken(self, leaf: Any) -> Any:
        """An argument as the run takes it: on a device that torch can name, and fake."""
        if isinstance(leaf, torch.device):
            return self.names.replaced(leaf)
        if isinstance(leaf, torch.Tensor) and not isinstance(leaf, FakeTensor):
            return self._constant(leaf)
        return leaf

    def _constant(self, tensor: torch.Tensor) -> torch.Tensor:
        """A real tensor that the model's code holds somewhere, as a fake one that is held as well."""
        if id(tensor) not in self._constants:
            fake = self.mode.from_tensor(tensor, static_shapes=True)
            self._constants[id(tensor)] = (tensor, fake)
            if fake.layout is torch.strided and self.storages.owner(fake) is None:
                self.add(self.unique("constant"), "constant", fake, 0)
        return self._constants[id(tensor)][1]

    def _call(self, operator: Any, args: Any, kwargs: Any) -> tuple[Any, int]:
        position = self.begin(operator)
        try:
            return operator(*args, **kwargs), position
        except FakeTensorDeviceMismatchError as error:
            self.operators.pop()  # the copies come before it
            args, kwargs = self._together(operator, args, kwargs, error)
            return self._call(operator, args, kwargs)
        except (GuardOnDataDependentSymNode, DataDependentOutputException, DynamicOutputShapeException):
            raise
        except (UnsupportedOperatorException, NotImplementedError) as error:
            return self.doubts.results_of(operator, args, kwargs, "no meta kernel", error), position
        except (DeviceError, PropagationError):
            raise
        except Exception as error:
            if "no fake impl registered" in str(error):
                return self.doubts.results_of(operator, args, kwargs, "no meta kernel", error), position
            first = next(iter(str(error).strip().splitlines()), "")
            reason = f"its meta kernel raises {type(error).__name__}: {first}"
            return self.doubts.results_of(operator, args, kwargs, reason, error), position

    def _together(self, operator: Any, args: Any, kwargs: Any, error: Exception) -> Any:
        """Arguments of an operator, copied to one device."""
        written = _written(operator, args)
        target = written.device if written is not None else self._homes[-1] if self._homes else None
        if self.copies == "error" or target is None:
            way_out = "set copies='insert'" if self.copies == "error" else "give device_map an entry for ''"
            raise DeviceError(
                f"{operator_name(operator)}{f' in {self.place!r}' if self.place else ''} is given tensors of several "
                f"devices: {self.described(args, kwargs)}; add .to(...) to the model, or {way_out}"
            ) from error
        tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
        if all(leaf.device == target or _follows(leaf) for leaf in tensors):
            raise DeviceError(f"{operator_name(operator)}: {error}") from error
        return tree_map(lambda leaf: self.moved(leaf, target, operator_name(operator)), (args, kwargs))

    def moved(self, leaf: Any, target: torch.device, before: str) -> Any:
        """A tensor on `target`, by a copy that is recorded if it is elsewhere; anything else as it is."""
        if not isinstance(leaf, torch.Tensor) or leaf.device == target or _follows(leaf):
            return leaf
        source = self.names.from_torch(leaf.device)
        copy = aten._to_copy.default
        self._aside = True
        try:
            with self.mode:
                result = copy(leaf, device=target)
        finally:
            self._aside = False
        name = self.fresh_name(copy)
        nbytes = expression(self.storages.bytes_of(result))
        self.add(name, "result", result, self.begin(copy), operator_name(copy))
        self.copied.append(PlannedCopy(name, source, self.names.from_torch(target), nbytes, before))
        return result

    def enter_home(self, device: torch.device) -> None:
        """From now on operators belong to a submodule on this device."""
        self._homes.append(device)

    def leave_home(self) -> None:
        """The innermost submodule with a device of its own is over."""
        if self._homes:
            self._homes.pop()

    def note_view(self, tensor: torch.Tensor) -> None:
        """Record a view that was made aside."""
        self.add(self.fresh_name(aten.select.int), "result", tensor, self.begin(aten.select.int), "aten.select.int")

    def described(self, args: Any, kwargs: Any) -> str:
        """Name, type, shape and device of each tensor among arguments."""
        texts = []
        for leaf in tree_leaves((args, kwargs)):
            if isinstance(leaf, torch.Tensor):
                name = self.name_of(leaf) or "a tensor"
                dtype = str(leaf.dtype).removeprefix("torch.")
                shape = [self.named(expression(size)) for size in leaf.shape]
                texts.append(f"{name} {dtype}{shape} on {self.names.from_torch(leaf.device)}")
        return ", ".join(texts) or "no tensors"

    def named(self, size: Size) -> Size:
        """A size with the caller's names for its symbols."""
        names = {symbol: sympy.Symbol(name, integer=True) for symbol, name in self.symbol_names.items()}
        return size if isinstance(size, int) else size.xreplace(names)

    def device_of_results(self, args: Any, kwargs: Any) -> torch.device:
        """Where an operator without a description makes its results: where its arguments are."""
        leaves = tree_leaves((args, kwargs))
        named = [leaf for leaf in leaves if isinstance(leaf, torch.device)]
        tensors = sorted((leaf for leaf in leaves if isinstance(leaf, torch.Tensor)), key=_follows)
        return named[0] if named else tensors[0].device if tensors else torch.device("cpu")

    def examples(self) -> dict[sympy.Symbol, int]:
        """Numbers of symbols in the example."""
        return {symbol: int(value) for symbol, value in self.environment.backed_var_to_val.items()}

    def as_size(self, size: Size | None) -> Any:
        """A number or an expression as torch takes sizes; None becomes a size that only data tells."""
        if isinstance(size, int):
            return size
        if size is None:
            told = self.environment.create_unbacked_symint()
            torch._check_is_size(told)
            return told
        hint = size.xreplace({symbol: sympy.Integer(value) for symbol, value in self.examples().items()})
        return self.environment.create_symintnode(size, hint=int(hint) if hint.is_number else None)


def _follows(tensor: torch.Tensor) -> bool:
    """Whether a tensor goes along with those of any device: a number on the CPU, by PyTorch's rule."""
    return tensor.dim() == 0 and tensor.device.type == "cpu"


def _written(operator: Any, args: Any) -> torch.Tensor | None:
    """The tensor that an operator writes to and that therefore cannot be copied."""
    for argument, given in zip(operator._schema.arguments, args, strict=False):
        if argument.alias_info is not None and argument.alias_info.is_write and isinstance(given, torch.Tensor):
            return given
    return None
