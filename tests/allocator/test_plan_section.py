import contextlib
import copy
import hashlib
import math
import subprocess
from dataclasses import replace
from pathlib import Path

import executorch
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from etarena.allocator import Opcode, PlanError, _plan_generated, plan
from etarena.allocator.plan import Kind, Scalar

FLOAT = 6


def example():
    """A method with everything in it: two symbols, views, state, a delegate, scalars in and out."""
    return plan.Method(
        name="forward",
        instructions=3,
        labels=["aten::mul.out", "XnnpackBackend", "aten::add.out"],
        symbols=[plan.Symbol("s77", 1, 4096), plan.Symbol("scale", -5, 5)],
        bindings=[plan.Binding(0, 0, 1, scale=32), plan.Binding(1, 1, -1)],
        size_code=[
            plan.SizeInstruction(Opcode.CONST, 3),
            plan.SizeInstruction(Opcode.MUL, 0, 2),
            plan.SizeInstruction(Opcode.LE, 0, 2),
        ],
        guards=[plan.Guard(4, "s77 <= 3")],
        values=[
            plan.Value(0, "x", FLOAT, [2, 0], [0, 1], 0, Kind.INPUT, 0, 1),
            plan.Value(4, "mul", FLOAT, [2, 0], [1, 0], 1, Kind.ACTIVATION, 0, 3, "aten::mul.out"),
            plan.Value(5, "view", FLOAT, [3], [0], 1, Kind.ACTIVATION),
            plan.Value(6, "out", FLOAT, [], [], 3, Kind.OUTPUT, 2, 3),
            plan.Value(7, "count", 4, [2], [0], 4, Kind.STATE, 0, 3),
        ],
        inputs=[
            plan.Input(0, "x", value=0, mutated=True),
            plan.Input(1, "scale", Scalar.INT, symbol=1),
            plan.Input(2, "eps", Scalar.FLOAT, float_value=1e-5),
            plan.Input(3, "mode", Scalar.STRING, string_value="réflect"),
        ],
        outputs=[plan.Output(6, value=3), plan.Output(8, Scalar.INT, register=3), plan.Output(4, value=1, hidden=True)],
        states=[plan.State("counter", 4, bytes(range(24)))],
        delegates=[plan.Delegate(0, "XnnpackBackend", 1, [4, 6])],
        order=[1],
    )


BLOB = plan.encode(example())


def test_a_section_reads_back_as_it_was_written():
    assert plan.decode(BLOB) == example()
    assert plan.decode(memoryview(BLOB)) == example()
    assert BLOB.startswith(plan.MAGIC)


texts = st.text(max_size=8)
int64s = st.integers(-(2**63), 2**63 - 1)


@st.composite
def methods(draw):
    n = draw(st.integers(0, 4))
    bounds = [sorted((draw(int64s), draw(int64s))) for _ in range(n)]
    return plan.Method(
        name=draw(texts),
        instructions=n,
        labels=[draw(texts) for _ in range(n)],
        symbols=[plan.Symbol(draw(texts), low, high) for low, high in bounds],
        bindings=[plan.Binding(i, i, -1, draw(st.integers(1, 2**63 - 1)), draw(int64s)) for i in range(n)],
        size_code=[plan.SizeInstruction(Opcode.CONST, draw(int64s)) for _ in range(n)],
        values=[
            plan.Value(i, draw(texts), FLOAT, [n] * rank, draw(st.permutations(range(rank))), i, Kind.ACTIVATION, i, n)
            for i, rank in enumerate(draw(st.lists(st.integers(0, 5), min_size=n, max_size=n)))
        ],
        inputs=[
            plan.Input(i, draw(texts), Scalar.INT, -1, i, draw(int64s), draw(st.floats(allow_nan=False)), draw(texts))
            for i in range(n)
        ],
        delegates=[plan.Delegate(i, draw(texts), i, draw(st.lists(st.integers(0, 9)))) for i in range(n)],
        order=draw(st.permutations(range(n))),
    )


@given(methods())
def test_any_valid_method_reads_back(method):
    assert plan.decode(plan.encode(method)) == method


def test_the_reader_agrees_with_the_one_that_flatc_generates():
    root = _plan_generated.MethodT.InitFromPackedBuf(BLOB[plan.HEADER_SIZE :])
    method = example()
    assert root.name.decode() == method.name
    assert [value.name.decode() for value in root.values] == [value.name for value in method.values]
    assert [list(value.sizes) for value in root.values if value.sizes is not None] == [[2, 0], [2, 0], [3], [], [2]]
    assert [(step.opcode, step.a, step.b, step.c) for step in root.sizeCode] == method.size_code
    assert bytes(root.states[0].initial) == method.states[0].initial


def test_generated_code_is_that_of_the_schema(tmp_path):
    flatc = Path(executorch.__path__[0]) / "data" / "bin" / "flatc"
    allocator = Path(plan.__file__).parent
    command = [flatc, "--python", "--gen-object-api", "--gen-onefile", "-o", tmp_path, allocator / "plan.fbs"]
    subprocess.run(command, check=True)
    generated = next(path for path in tmp_path.rglob("plan_generated.py"))
    assert generated.read_text() == (allocator / "_plan_generated.py").read_text()


@given(st.integers(0, len(BLOB) - 1), st.integers(1, 255))
@settings(max_examples=1000)
def test_a_changed_byte_is_refused_or_harmless(position, change):
    damaged = bytearray(BLOB)
    damaged[position] ^= change
    with contextlib.suppress(PlanError):
        plan.validate(plan.decode(damaged))


@given(st.lists(st.tuples(st.integers(plan.HEADER_SIZE, len(BLOB) - 4), st.integers(0, 2**32 - 1)), max_size=6))
@settings(max_examples=500)
def test_changed_words_are_refused_or_harmless(changes):
    damaged = bytearray(BLOB)
    for position, word in changes:
        damaged[position : position + 4] = word.to_bytes(4, "little")
    with contextlib.suppress(PlanError):
        plan.validate(plan.decode(damaged))


@pytest.mark.parametrize("length", range(0, len(BLOB), 7))
def test_a_truncated_section_is_refused_or_harmless(length):
    with contextlib.suppress(PlanError):
        plan.validate(plan.decode(BLOB[:length]))


@given(st.binary(max_size=400))
def test_random_bytes_are_refused(data):
    with pytest.raises(PlanError):
        plan.decode(data)
    with pytest.raises(PlanError):
        plan.decode(plan.MAGIC + bytes(32) + data)


def test_a_vector_that_claims_more_than_the_section_holds_is_refused():
    root = _plan_generated.Method.GetRootAs(BLOB, plan.HEADER_SIZE)
    start = root._tab.Vector(root._tab.Offset(10)) - 4  # length of labels
    for claimed in (2**32 - 1, 2**28, len(BLOB)):
        damaged = bytearray(BLOB)
        damaged[start : start + 4] = claimed.to_bytes(4, "little")
        with pytest.raises(PlanError, match="labels"):
            plan.decode(damaged)


def test_a_foreign_file_is_refused():
    with pytest.raises(PlanError, match="do not start with a plan section"):
        plan.decode(b"ET12" + bytes(100))
    with pytest.raises(PlanError, match="shorter than its header"):
        plan.decode(plan.MAGIC)


def changed(**fields):
    """The example with fields of its parts replaced: values__1__storage=2."""
    method = copy.deepcopy(example())
    for path, value in fields.items():
        target = method
        *steps, last = path.split("__")
        for step in steps:
            target = target[int(step)] if step.isdigit() else getattr(target, step)
        setattr(target, last, value)
    return method


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"version": 2}, "version"),
        ({"instructions": 4}, "labels: 3 labels for 4 instructions"),
        ({"name": None}, "name"),
        ({"size_code": [plan.SizeInstruction(99)]}, r"size_code\[0\]"),
        ({"symbols__0__max": 0}, r"symbols\[0\].max: 0 is out of range \(expected 1 to"),
        ({"symbols__1__name": None}, r"symbols\[1\].name"),
        ({"bindings": [plan.Binding(0, 0, 1)]}, r"symbols\[1\]: no binding"),
        ({"bindings__0__symbol": 2}, r"bindings\[0\].symbol: 2 is out of range \(expected 0 to 1\)"),
        ({"bindings__0__input": -1}, r"bindings\[0\].input"),
        ({"bindings__0__dim": 2}, r"bindings\[0\].dim"),
        ({"bindings__0__dim": -1}, r"bindings\[0\].dim"),
        ({"bindings__1__dim": 0}, r"bindings\[1\].dim"),
        ({"bindings__1__input": 2}, r"bindings\[1\].input: input 'eps' is a FLOAT"),
        ({"bindings__0__scale": 0}, r"bindings\[0\].scale"),
        ({"guards__0__register": 5}, r"guards\[0\].register"),
        ({"values__1__index": 0}, r"values\[1\].index: 0 does not come after 0"),
        ({"values__0__index": -1}, r"values\[0\].index"),
        ({"values__0__dtype": 77}, r"values\[0\].dtype"),
        ({"values__0__sizes": [2, 5]}, r"values\[0\].sizes\[1\]: 5 is out of range \(expected 0 to 4\)"),
        ({"values__0__sizes": [2] * 17}, r"values\[0\].sizes: rank"),
        ({"values__0__dim_order": [0, 0]}, r"values\[0\].dim_order"),
        ({"values__0__dim_order": [0]}, r"values\[0\].dim_order"),
        ({"values__2__storage": 2, "values__1__storage": 2}, r"values\[2\].first|values\[2\].last"),
        ({"values__1__storage": 2}, r"values\[1\].storage: values\[2\] does not own"),
        ({"values__2__storage": 9}, r"values\[2\].storage"),
        ({"values__2__kind": Kind.STATE}, r"values\[2\].kind: STATE differs from its storage's ACTIVATION"),
        ({"values__1__kind": 7}, r"values\[1\].kind"),
        ({"values__1__first": 3}, r"values\[1\].last"),
        ({"values__1__last": 4}, r"values\[1\].last"),
        ({"values__1__first": -1}, r"values\[1\].first"),
        ({"inputs__0__value": 5}, r"inputs\[0\].value"),
        ({"inputs__1__value": 0}, r"inputs\[1\].value"),
        ({"inputs__1__symbol": 2}, r"inputs\[1\].symbol"),
        ({"inputs__0__symbol": 0}, r"inputs\[0\].symbol"),
        ({"inputs__2__scalar": 9}, r"inputs\[2\].scalar"),
        ({"inputs__1__int_value": 2**63}, r"inputs\[1\].int_value"),
        ({"outputs__0__value": -1}, r"outputs\[0\].value"),
        ({"outputs__1__register": 5}, r"outputs\[1\].register"),
        ({"outputs__0__register": 0}, r"outputs\[0\].register"),
        ({"states__0__value": 1}, r"states\[0\].value: values\[1\] is of kind ACTIVATION"),
        ({"states__0__initial": bytes(23)}, r"states\[0\].initial: 23 bytes for a state of 24 bytes"),
        ({"delegates__0__instruction": 3}, r"delegates\[0\].instruction"),
        ({"delegates__0__arguments": [-1]}, r"delegates\[0\].arguments\[0\]"),
        ({"order": [1, 1]}, r"order\[1\]: values\[1\] comes twice"),
        ({"order": [2]}, r"order\[0\]: values\[2\] is no planned buffer"),
        ({"order": [5]}, r"order\[0\]"),
        ({"values__0__dtype": None}, r"values\[0\].dtype"),
        ({"instructions": "3"}, "instructions"),
    ],
    ids=lambda item: ",".join(item) if isinstance(item, dict) else None,
)
def test_an_inconsistent_field_is_named(fields, message):
    with pytest.raises(PlanError, match=message):
        plan.encode(changed(**fields))


def test_states_may_start_at_zero():
    assert plan.decode(plan.encode(changed(states__0__initial=b""))).states[0].initial == b""


def test_constants_of_inputs_keep_their_value():
    method = changed(inputs__2__float_value=math.inf, inputs__1__int_value=-(2**63))
    assert plan.decode(plan.encode(method)) == method


def test_element_sizes():
    assert [plan.itemsize(code) for code in (0, 5, 6, 7, 4, 11, 15)] == [1, 2, 4, 8, 8, 1, 2]
    with pytest.raises(PlanError, match="-1 is no ScalarType"):
        plan.itemsize(-1)


def program():
    return b"program" + BLOB + b"between" + plan.encode(replace(example(), name="other")) + b"end"


def test_a_sealed_program_checks():
    sealed = plan.seal(program())
    assert plan.check(sealed) == 2
    assert plan.check(memoryview(sealed)) == 2
    assert len(sealed) == len(program())
    assert plan.seal(sealed) == sealed
    assert plan.program_digest(sealed) == plan.program_digest(program())
    assert plan.program_digest(sealed) in sealed


def test_the_digest_is_blake2b_of_the_file_without_digests():
    assert plan.program_digest(program()) == hashlib.blake2b(program(), digest_size=32).digest()


def test_a_stock_file_has_no_sections():
    assert plan.check(b"ET12 and more") == 0
    assert plan.seal(b"ET12 and more") == b"ET12 and more"


@given(st.integers(0, len(program()) - 1), st.integers(1, 255))
def test_any_change_of_a_sealed_program_is_noticed(position, change):
    damaged = bytearray(plan.seal(program()))
    damaged[position] ^= change
    try:
        count = plan.check(damaged)
    except PlanError:
        return
    assert count < 2  # the magic of a section was hit: no longer a file of two sections


def test_a_section_of_another_program_is_noticed():
    sealed = plan.seal(program())
    foreign = plan.seal(b"elsewhere" + BLOB)
    section = foreign[len("elsewhere") :]
    start = sealed.index(plan.MAGIC)
    with pytest.raises(PlanError, match="digest of plan section 0"):
        plan.check(sealed[:start] + section + sealed[start + len(section) :])


def test_a_program_that_ends_inside_a_digest_is_refused():
    sealed = plan.seal(program())
    cut = sealed[: sealed.rindex(plan.MAGIC) + plan.HEADER_SIZE - 1]
    for function in (plan.check, plan.seal, plan.program_digest):
        with pytest.raises(PlanError, match="ends inside the section's digest"):
            function(cut)


def test_a_digest_of_the_wrong_length_is_refused():
    with pytest.raises(PlanError, match="digest has 3 bytes"):
        plan.encode(example(), b"abc")
