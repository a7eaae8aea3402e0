"""Bad input of `propagate` and of its result."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import etarena


class Add(nn.Module):
    def forward(self, left: Tensor, right: Tensor) -> Tensor:
        return left + right


ROWS = torch.zeros(3, 2)


@pytest.mark.parametrize(
    ("arguments", "options", "error", "words"),
    [
        ((3,), {}, etarena.InputTypeError, "torch.nn.Module"),
        ((Add(), ROWS), {}, etarena.InputTypeError, "args is a tuple"),
        ((Add(), (ROWS,)), {}, etarena.InputError, "Add.forward.*right"),
        ((Add(), (ROWS,), 3), {}, etarena.InputTypeError, "kwargs is a dict"),
        ((Add(), (ROWS, torch.zeros(4, 2))), {}, etarena.PropagationError, r"add.Tensor.*left float32\[3, 2\].*right"),
        ((Add(), (ROWS, "text")), {}, etarena.PropagationError, "TypeError"),
        ((Add(), (ROWS, ROWS)), {"copies": "never"}, etarena.InputError, "copies"),
        ((Add(), (ROWS, ROWS)), {"seed": "x"}, etarena.InputTypeError, "seed"),
        ((Add(), (ROWS, ROWS)), {"dynamic_shapes": {"other": {0: "n"}}}, etarena.InputError, "no input 'other'"),
        ((Add(), (ROWS, ROWS)), {"dynamic_shapes": ({5: "n"}, None)}, etarena.InputError, "'left' has 2 dim"),
        ((Add(), (ROWS, ROWS)), {"dynamic_shapes": ({0: "n"}, {1: "n"})}, etarena.InputError, "n is 3 elsewhere"),
        ((Add(), (ROWS, ROWS)), {"dynamic_shapes": 3}, etarena.InputTypeError, "a mapping or a sequence, got int"),
        ((Add(), (ROWS, ROWS)), {"dynamic_shapes": [{0: "n"}]}, etarena.InputError, "1 entries for 2 inputs"),
        ((Add(), (ROWS, ROWS)), {"dynamic_shapes": [{0: "u0"}, {}]}, etarena.InputError, "cannot be called 'u0'"),
        (
            (Add(), (ROWS, ROWS)),
            {"dynamic_shapes": ({0: torch.export.Dim("n", min=7)}, None)},
            etarena.InputError,
            "is 3 in the example, but n is 7",
        ),
    ],
)
def test_arguments_that_make_no_sense(
    arguments: tuple[Any, ...], options: dict[str, Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        etarena.propagate(*arguments, **options)


def test_code_that_branches_on_data() -> None:
    class Branch(nn.Module):
        def forward(self, rows: Tensor) -> Tensor:
            return rows if rows.sum() > 0 else -rows

    with pytest.raises(etarena.PropagationError, match=r"branches on what only data tells.*torch.cond"):
        etarena.propagate(Branch(), (ROWS,))


@pytest.fixture(scope="module")
def found() -> etarena.Propagation:
    n = torch.export.Dim("n", max=100)
    return etarena.propagate(Add(), (ROWS, ROWS), dynamic_shapes=({0: n}, {0: n}))


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({}, etarena.InputError, "no number for n"),
        ({"sizes": {"m": 3}}, etarena.InputError, "no symbol 'm'; there are n"),
        ({"sizes": {"n": 101}}, etarena.ShapeError, "n is 101, but must be at most 100"),
        ({"sizes": {"n": 2.5}}, etarena.InputTypeError, "n must be an int"),
        ({"sizes": [3]}, etarena.InputTypeError, "mapping"),
        ({"shapes": [(3, 2)]}, etarena.InputError, "one for each tensor input"),
        ({"shapes": [(3, 2), (3,)]}, etarena.InputError, "'right' must have 2 sizes"),
        ({"shapes": [(3, 2), (4, 2)]}, etarena.ShapeError, "'right' is 4, but must be 3"),
        ({"shapes": [(3, 5), (3, 5)]}, etarena.ShapeError, "is 5, but must be 2"),
        ({"shapes": {"left": (3, 2)}}, etarena.InputError, "name each of left, right once"),
        ({"shapes": [(3, 2), (-3, 2)]}, etarena.InputError, ">= 0"),
        ({"shapes": 3}, etarena.InputError, "one for each"),
        ({"sizes": {"n": 4}, "shapes": [(3, 2), (3, 2)]}, etarena.InputError, "shapes make it 3"),
    ],
)
def test_sizes_that_make_no_sense(
    found: etarena.Propagation, options: dict[str, Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        found.peak(**options)


def test_conditions_of_the_code_are_kept() -> None:
    class Fork(nn.Module):
        def forward(self, rows: Tensor) -> Tensor:
            return torch.cat([rows, rows]) if rows.shape[0] > 10 else rows * 2

    found = etarena.propagate(Fork(), (torch.zeros(20, 1),), dynamic_shapes=({0: "n"},))
    assert found.peak({"n": 30})["cpu"].results == 2 * 30 * 4
    with pytest.raises(etarena.ShapeError, match="condition"):
        found.peak({"n": 5})


def test_sizes_by_which_nothing_can_be_divided() -> None:
    class Shared(nn.Module):
        def forward(self, rows: Tensor, parts: Tensor) -> Tensor:
            return torch.zeros(rows.shape[0] // parts.shape[0])

    given = torch.zeros(8), torch.zeros(2)
    found = etarena.propagate(Shared(), given, dynamic_shapes=({0: "n"}, {0: "m"}))
    assert found.peak({"n": 9, "m": 2})["cpu"].results == 4 * 4
    with pytest.raises(etarena.ShapeError, match="divides by zero for these sizes: n = 9, m = 0"):
        found.peak({"n": 9, "m": 0})


def test_a_program_takes_no_other_shapes() -> None:
    program = torch.export.export(Add(), (ROWS, ROWS))
    with pytest.raises(etarena.InputError, match="inside"):
        etarena.propagate(program, dynamic_shapes=({0: "n"}, None))
    with pytest.raises(etarena.InputError):
        etarena.propagate(program, (ROWS,))
    with pytest.raises((etarena.InputError, etarena.InputTypeError)):
        etarena.propagate(program, (ROWS, torch.zeros(4, 2)))
