"""Symbols that data tells: what a plan section says about them, and what it may not say."""

import contextlib
import copy

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from etarena.allocator import Opcode, PlanError, plan
from etarena.allocator.plan import Kind, Teller
from etarena.allocator.sizes import symbols_of_registers

BOOL, FLOAT, LONG = 11, 6, 4


def example():
    """n comes from the input; a mask, an int, a result and a state tell one symbol each."""
    names = ["n", "u0", "u1", "u2", "past"]
    return plan.Method(
        name="forward",
        instructions=3,
        labels=["aten::nonzero.out", "aten::_local_scalar_dense.out", "custom::op.out"],
        symbols=[plan.Symbol(name) for name in names],
        bindings=[plan.Binding(0, 0, 0)],
        size_code=[plan.SizeInstruction(Opcode.MUL, 0, 1), plan.SizeInstruction(Opcode.ADD, 3, 3)],
        values=[
            plan.Value(0, "mask", BOOL, [0], [0], 0, Kind.INPUT, 0, 1),
            plan.Value(1, "nonzero", LONG, [1, 0], [0, 1], 1, Kind.ACTIVATION, 0, 3),
            plan.Value(2, "custom", FLOAT, [3], [0], 2, Kind.OUTPUT, 2, 3),
            plan.Value(4, "cache", FLOAT, [4, 0], [0, 1], 3, Kind.STATE, 0, 3),
        ],
        inputs=[plan.Input(0, "mask", value=0)],
        outputs=[plan.Output(2, value=2)],
        states=[plan.State("cache", 3)],
        discoveries=[
            plan.Discovery(1, Teller.COUNT_NONZERO, 0, value=0, origin="aten::nonzero"),
            plan.Discovery(2, Teller.SCALAR, 1, index=3, scale=2, offset=-1, origin="aten::item"),
            plan.Discovery(3, Teller.SIZE, 2, value=2, dim=0, upper=5),
            plan.Discovery(3, Teller.SIZE, 2, value=2, dim=0),
            plan.Discovery(4, Teller.STATE_LENGTH, value=0, dim=1),
        ],
    )


BLOB = plan.encode(example())


def test_discoveries_read_back_as_they_were_written():
    assert plan.decode(BLOB) == example()


def test_registers_know_the_symbols_they_depend_on():
    code = [(Opcode.CONST, 7, 0, 0), (Opcode.MUL, 0, 2, 0), (Opcode.WHERE, 1, 3, 0), (Opcode.CONST, 1, 0, 0)]
    assert symbols_of_registers(2, code) == [1, 2, 0, 1, 3, 0]


@pytest.mark.parametrize(
    ("position", "fields", "message"),
    [
        (0, {"symbol": 5}, "symbol: 5 is out of range"),
        (0, {"symbol": 0}, "symbol: a binding defines 'n' already"),
        (0, {"teller": 4}, "teller: 4 is no Teller"),
        (0, {"instruction": 3}, "instruction: 3 is out of range"),
        (0, {"instruction": -1}, "instruction"),
        (0, {"value": 4}, "value: 4 is out of range"),
        (0, {"value": -1}, "value"),
        (0, {"index": 0}, "index: 0 is out of range"),
        (0, {"upper": 0}, "upper"),
        (0, {"scale": 0}, "scale"),
        (0, {"offset": 2**63}, "offset"),
        (0, {"origin": None}, "origin"),
        (1, {"index": -1}, "index"),
        (1, {"value": 0}, "value"),
        (1, {"upper": 0}, "upper"),
        (2, {"dim": 1}, "dim: 1 is out of range"),
        (2, {"upper": 7}, "upper: 7 is out of range"),
        (2, {"upper": 3}, "upper: the bound depends on the number"),
        (2, {"upper": 6}, "upper: the bound depends on the number"),
        (4, {"value": 1}, "value: 1 is out of range"),
        (4, {"dim": 2}, "dim: 2 is out of range"),
        (4, {"instruction": 1}, "instruction: 1 is out of range"),
    ],
)
def test_an_inconsistent_discovery_is_named(position, fields, message):
    method = copy.deepcopy(example())
    for field, value in fields.items():
        setattr(method.discoveries[position], field, value)
    with pytest.raises(PlanError, match=rf"discoveries\[{position}\].{message}"):
        plan.encode(method)


def test_a_symbol_that_nothing_tells_is_refused():
    method = example()
    del method.discoveries[0]
    with pytest.raises(PlanError, match=r"symbols\[1\]: no binding and no discovery"):
        plan.encode(method)


@given(st.lists(st.tuples(st.integers(plan.HEADER_SIZE, len(BLOB) - 1), st.integers(0, 255)), min_size=1, max_size=4))
@settings(max_examples=500)
def test_changed_bytes_are_refused_or_harmless(changes):
    damaged = bytearray(BLOB)
    for position, byte in changes:
        damaged[position] = byte
    with contextlib.suppress(PlanError):
        plan.validate(plan.decode(damaged))
