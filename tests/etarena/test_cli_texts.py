"""How the command line writes numbers, sizes and errors."""

import pytest

from etarena.allocator import errors
from etarena.allocator.plan import Method, SizeInstruction, Symbol
from etarena.allocator.sizes import Opcode
from etarena.cli.failure import explain
from etarena.cli.units import shape_text, time_text
from etarena.expressions import size_text


@pytest.mark.parametrize(
    ("nanoseconds", "text"), [(0, "0 ns"), (250, "250 ns"), (999.6, "1 us"), (3_512_000, "3.51 ms"), (9e10, "90 s")]
)
def test_times(nanoseconds: float, text: str) -> None:
    assert time_text(nanoseconds) == text


def test_shapes() -> None:
    assert shape_text((1, 3, 224)) == "1x3x224"
    assert shape_text(["1", "3"]) == "1x3"
    assert shape_text(["1", "h", "w//2 + 1"]) == "[1, h, w//2 + 1]"
    assert shape_text(()) == "scalar"


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ([(Opcode.CONST, 7)], "7"),
        ([(Opcode.CONST, 2), (Opcode.MUL, 2, 0), (Opcode.CONST, 1), (Opcode.ADD, 3, 4)], "2*h + 1"),
        ([(Opcode.ADD, 0, 1), (Opcode.MUL, 2, 0)], "(h + w)*h"),
        ([(Opcode.SUB, 0, 1), (Opcode.SUB, 0, 2)], "h - (h - w)"),
        ([(Opcode.SUB, 0, 1), (Opcode.SUB, 2, 0)], "h - w - h"),
        ([(Opcode.CONST, 32), (Opcode.FLOORDIV, 0, 2), (Opcode.MAX, 3, 1)], "max(h//32, w)"),
        ([(Opcode.LT, 0, 1), (Opcode.WHERE, 0, 1, 2)], "where(h, w, lt(h, w))"),
        ([(Opcode.LT, 0, 1), (Opcode.NOT, 2)], "not(lt(h, w))"),
        ([(Opcode.FCONST, 0x3FE0000000000000)], "0.5"),
    ],
)
def test_sizes_as_expressions(code: list[tuple[int, ...]], text: str) -> None:
    method = Method("forward", symbols=[Symbol("h"), Symbol("w")], size_code=[SizeInstruction(*step) for step in code])
    assert size_text(method, 0) == "h"
    assert size_text(method, 1 + len(code)) == text


def test_a_long_chain_of_sizes_is_cut() -> None:
    steps = [SizeInstruction(Opcode.ADD, position, 0) for position in range(500)]
    text = size_text(Method("forward", symbols=[Symbol("h")], size_code=steps), 500)
    assert text.startswith("... + h")


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (errors.SizeOverflowError("too many bytes"), "error: too many bytes (hint: give smaller sizes)"),
        (errors.PlanError("order[3]:\n  7 is wrong"), "error: order[3]: 7 is wrong (hint: the file is damaged"),
        (KeyError("x"), "error: KeyError: 'x' (hint: run again with --debug for the traceback)"),
        (RuntimeError(), "error: RuntimeError: RuntimeError (hint: run again with --debug"),
        (FileNotFoundError(2, "No such file", "a.pte"), "error: [Errno 2] No such file: 'a.pte' (hint:"),
    ],
)
def test_errors_become_one_line(error: Exception, line: str) -> None:
    failure = explain(error)
    assert failure.kind == type(error).__name__
    assert failure.line().startswith(line)
    assert "\n" not in failure.line()
