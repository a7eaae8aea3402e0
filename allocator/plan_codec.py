"""Writes and reads the bytes of a plan section: magic, digest, FlatBuffer."""

import struct
from collections.abc import Callable
from typing import Any, TypeVar

import flatbuffers
import numpy as np

from . import _plan_generated
from .errors import PlanError
from .plan_digest import DIGEST_SIZE, HEADER_SIZE, MAGIC
from .plan_tables import (
    VERSION,
    Binding,
    Delegate,
    Discovery,
    Guard,
    Input,
    Kind,
    Method,
    Output,
    Scalar,
    SizeInstruction,
    State,
    Symbol,
    Teller,
    Value,
)
from .plan_validation import validate

__all__ = ["decode", "encode"]

T = TypeVar("T")
fb: Any = _plan_generated  # what flatc generates is not typed

# One SizeInstruction of plan.fbs as it lies in memory.
INSTRUCTION = np.dtype([("opcode", "<i4"), ("c", "<i4"), ("a", "<i8"), ("b", "<i8")])

# What the accessors that flatc generates raise when offsets point outside the buffer or into the wrong place.
DAMAGE = (struct.error, ValueError, IndexError, TypeError, OverflowError, MemoryError)


def encode(method: Method, digest: bytes = bytes(DIGEST_SIZE)) -> bytes:
    """Write a method's plan section.

    Parameters
    ----------
    method : Method
        Validated as `decode` does.
    digest : bytes, optional
        Digest (32 bytes) of the program the section belongs to; zeros, to be filled in by `seal`, by default.

    Returns
    -------
    bytes
        ``MAGIC + digest + FlatBuffer``.

    Raises
    ------
    PlanError
        A field is inconsistent or does not fit its type; the message names it.
    """
    if len(digest) != DIGEST_SIZE:
        raise PlanError(f"digest has {len(digest)} bytes, expected {DIGEST_SIZE}")
    validate(method)
    builder = flatbuffers.Builder(1 << 16)
    try:
        builder.Finish(_packed(method).Pack(builder))
    except (*DAMAGE, flatbuffers.builder.BuilderSizeError) as error:
        raise PlanError(f"method {method.name!r} cannot be written as a plan section: {error}") from error
    return b"".join((MAGIC, digest, bytes(builder.Output())))


def decode(blob: bytes | bytearray | memoryview) -> Method:
    """Read a plan section; the digest is not looked at (see `check`).

    Parameters
    ----------
    blob : bytes-like
        Exactly one section, as `encode` returns it.

    Returns
    -------
    Method
        Every index, range, enumeration and register in it has been validated.

    Raises
    ------
    PlanError
        The bytes are no plan section or damaged; the message names the field. No damage leads to anything else.
    """
    data = bytes(blob)
    if data[: len(MAGIC)] != MAGIC:
        raise PlanError(f"magic: these {len(data)} bytes do not start with a plan section of etarena")
    if len(data) < HEADER_SIZE + 8:
        raise PlanError(f"plan section of {len(data)} bytes is shorter than its header of {HEADER_SIZE + 8} bytes")
    method = _Reader(data[HEADER_SIZE:]).method()
    validate(method)
    return method


class _Reader:
    """Reads the tables; every vector is charged against the size of the buffer.

    A damaged buffer can claim 2**32 elements, or share one long vector among many tables; an intact one never holds
    more than its own bytes.
    """

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.budget = len(data)
        self.field = "root"

    def method(self) -> Method:
        try:
            root = fb.Method.GetRootAs(self.data, 0)
            version = root.Version()
            if version != VERSION:
                raise PlanError(
                    f"version: this section has version {version}, this etarena reads version {VERSION}; "
                    "export the model again"
                )
            return self._read_method(root)
        except DAMAGE as error:
            if isinstance(error, PlanError):
                raise
            raise PlanError(f"{self.field}: the plan section is damaged ({error})") from error

    def _read_method(self, root: Any) -> Method:
        return Method(
            version=root.Version(),
            name=self.text(root.Name, "name"),
            instructions=root.Instructions(),
            labels=self.texts(root.Labels, root.LabelsLength(), "labels"),
            symbols=self.tables(root.Symbols, root.SymbolsLength(), "symbols", self.symbol),
            bindings=self.tables(root.Bindings, root.BindingsLength(), "bindings", self.binding),
            size_code=self.instructions(root.SizeCode, root.SizeCodeLength(), "size_code"),
            guards=self.tables(root.Guards, root.GuardsLength(), "guards", self.guard),
            values=self.tables(root.Values, root.ValuesLength(), "values", self.value),
            inputs=self.tables(root.Inputs, root.InputsLength(), "inputs", self.input),
            outputs=self.tables(root.Outputs, root.OutputsLength(), "outputs", self.output),
            states=self.tables(root.States, root.StatesLength(), "states", self.state),
            delegates=self.tables(root.Delegates, root.DelegatesLength(), "delegates", self.delegate),
            order=self.numbers(root.OrderAsNumpy, root.OrderLength(), "order"),
            discoveries=self.tables(root.Discoveries, root.DiscoveriesLength(), "discoveries", self.discovery),
        )

    def charge(self, nbytes: int, name: str) -> None:
        self.field = name
        if not 0 <= nbytes <= self.budget:
            raise PlanError(f"{name}: the plan section is damaged (it claims more elements than its bytes can hold)")
        self.budget -= nbytes

    def tables(self, get: Callable[[int], Any], length: int, name: str, read: Callable[[Any], T]) -> list[T]:
        self.charge(4 * length, name)
        result = []
        for i in range(length):
            self.field = f"{name}[{i}]"
            result.append(read(get(i)))
        return result

    def numbers(self, as_array: Callable[[], Any], length: int, name: str, width: int = 4) -> list[int]:
        self.charge(width * length, name)
        return list(as_array().tolist()) if length else []

    def instructions(self, get: Callable[[int], Any], length: int, name: str) -> list[SizeInstruction]:
        self.charge(INSTRUCTION.itemsize * length, name)
        if not length:
            return []
        steps = np.frombuffer(self.data, INSTRUCTION, length, get(0)._tab.Pos)
        return [SizeInstruction(opcode, a, b, c) for opcode, c, a, b in steps.tolist()]

    def text(self, get: Callable[[], bytes | None], name: str) -> str:
        return self._decoded(get(), name)

    def texts(self, get: Callable[[int], bytes], length: int, name: str) -> list[str]:
        self.charge(4 * length, name)
        return [self._decoded(get(i), f"{name}[{i}]") for i in range(length)]

    def _decoded(self, raw: bytes | None, name: str) -> str:
        if not raw:
            return ""
        self.charge(len(raw), name)
        return raw.decode()

    def symbol(self, t: Any) -> Symbol:
        return Symbol(self.text(t.Name, f"{self.field}.name"), t.Min(), t.Max())

    def binding(self, t: Any) -> Binding:
        return Binding(t.Symbol(), t.Input(), t.Dim(), t.Scale(), t.Offset())

    def discovery(self, t: Any) -> Discovery:
        here = self.field
        return Discovery(
            symbol=t.Symbol(),
            teller=self.member(Teller, t.Teller(), f"{here}.teller"),
            instruction=t.Instruction(),
            value=t.Value(),
            index=t.Index(),
            dim=t.Dim(),
            upper=t.Upper(),
            scale=t.Scale(),
            offset=t.Offset(),
            origin=self.text(t.Origin, f"{here}.origin"),
        )

    def guard(self, t: Any) -> Guard:
        return Guard(t.Register(), self.text(t.Text, f"{self.field}.text"))

    def value(self, t: Any) -> Value:
        here = self.field
        return Value(
            index=t.Index(),
            name=self.text(t.Name, f"{here}.name"),
            dtype=t.Dtype(),
            sizes=self.numbers(t.SizesAsNumpy, t.SizesLength(), f"{here}.sizes"),
            dim_order=self.numbers(t.DimOrderAsNumpy, t.DimOrderLength(), f"{here}.dim_order", 1),
            storage=t.Storage(),
            kind=self.member(Kind, t.Kind(), f"{here}.kind"),
            first=t.First(),
            last=t.Last(),
            definition=self.text(t.Definition, f"{here}.definition"),
            device_type=t.DeviceType(),
            device_index=t.DeviceIndex(),
        )

    def input(self, t: Any) -> Input:
        here = self.field
        return Input(
            index=t.Index(),
            name=self.text(t.Name, f"{here}.name"),
            scalar=self.member(Scalar, t.Scalar(), f"{here}.scalar"),
            value=t.Value(),
            symbol=t.Symbol(),
            int_value=t.IntValue(),
            float_value=t.FloatValue(),
            string_value=self.text(t.StringValue, f"{here}.string_value"),
            mutated=t.Mutated(),
            result=t.Result(),
        )

    def output(self, t: Any) -> Output:
        scalar = self.member(Scalar, t.Scalar(), f"{self.field}.scalar")
        return Output(t.Index(), scalar, t.Value(), t.Hidden(), t.Register())

    def state(self, t: Any) -> State:
        here = self.field
        length = t.InitialLength()
        self.charge(length, f"{here}.initial")
        initial = bytes(t.InitialAsNumpy()) if length else b""
        name = self.text(t.Name, f"{here}.name")
        return State(name, t.Value(), initial, t.Result(), t.Dim(), t.Length(), t.Window())

    def delegate(self, t: Any) -> Delegate:
        here = self.field
        arguments = self.numbers(t.ArgumentsAsNumpy, t.ArgumentsLength(), f"{here}.arguments")
        return Delegate(t.Index(), self.text(t.Id, f"{here}.id"), t.Instruction(), arguments)

    def member(self, kind: type[T], number: int, name: str) -> T:
        try:
            return kind(number)  # type: ignore[call-arg]  # T is one of the enumerations
        except ValueError:
            raise PlanError(f"{name}: {number} is no {kind.__name__.lower()} that this etarena knows") from None


def _packed(method: Method) -> Any:
    """The method as the object tree whose Pack() writes it."""
    root = fb.MethodT()
    root.version, root.name, root.instructions = method.version, method.name, method.instructions
    root.labels = method.labels
    root.symbols = [_fill(fb.SymbolT(), name=s.name, min=s.min, max=s.max) for s in method.symbols]
    root.bindings = [
        _fill(fb.BindingT(), symbol=b.symbol, input=b.input, dim=b.dim, scale=b.scale, offset=b.offset)
        for b in method.bindings
    ]
    root.sizeCode = [
        _fill(fb.SizeInstructionT(), opcode=int(opcode), a=a, b=b, c=c) for opcode, a, b, c in method.size_code
    ]
    root.guards = [_fill(fb.GuardT(), register=g.register, text=g.text) for g in method.guards]
    root.values = [_packed_value(value) for value in method.values]
    root.inputs = [_packed_input(value) for value in method.inputs]
    root.outputs = [
        _fill(fb.OutputT(), index=o.index, scalar=int(o.scalar), value=o.value, hidden=o.hidden, register=o.register)
        for o in method.outputs
    ]
    root.states = [
        _fill(
            fb.StateT(),
            name=s.name,
            value=s.value,
            initial=np.frombuffer(s.initial, np.uint8),
            result=s.result,
            dim=s.dim,
            length=s.length,
            window=s.window,
        )
        for s in method.states
    ]
    root.delegates = [
        _fill(fb.DelegateT(), index=d.index, id=d.id, instruction=d.instruction, arguments=d.arguments)
        for d in method.delegates
    ]
    root.order = method.order
    root.discoveries = [_packed_discovery(discovery) for discovery in method.discoveries]
    return root


def _packed_discovery(discovery: Discovery) -> Any:
    return _fill(
        fb.DiscoveryT(),
        symbol=discovery.symbol,
        teller=int(discovery.teller),
        instruction=discovery.instruction,
        value=discovery.value,
        index=discovery.index,
        dim=discovery.dim,
        upper=discovery.upper,
        scale=discovery.scale,
        offset=discovery.offset,
        origin=discovery.origin,
    )


def _packed_value(value: Value) -> Any:
    return _fill(
        fb.ValueT(),
        index=value.index,
        name=value.name,
        dtype=value.dtype,
        sizes=value.sizes,
        dimOrder=value.dim_order,
        storage=value.storage,
        kind=int(value.kind),
        first=value.first,
        last=value.last,
        definition=value.definition,
        deviceType=value.device_type,
        deviceIndex=value.device_index,
    )


def _packed_input(value: Input) -> Any:
    return _fill(
        fb.InputT(),
        index=value.index,
        name=value.name,
        scalar=int(value.scalar),
        value=value.value,
        symbol=value.symbol,
        intValue=value.int_value,
        floatValue=value.float_value,
        stringValue=value.string_value,
        mutated=value.mutated,
        result=value.result,
    )


def _fill(target: Any, **fields: Any) -> Any:
    for name, value in fields.items():
        setattr(target, name, value)
    return target
