"""Where there are no elements, results have the sizes that PyTorch gives them, so that whatever follows runs."""

import pytest
import torch
from torch import nn
from torch.export import Dim

from ..helpers.control_flow import cond, while_loop
from ..helpers.oracle import run_and_compare

DYNAMIC = Dim.DYNAMIC


class Applied(nn.Module):
    """`function`, then an operator that minds the shape of its result."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *inputs):
        result = self.function(*inputs)
        return result, result + torch.zeros(result.shape), torch.sin(result.transpose(0, 1)) * 2


class Reduced(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *inputs):
        return self.function(*inputs) * 2


def beside_in_rounds(x):
    return while_loop(lambda i, v: i < 3, lambda i, v: (i + 1, torch.cat([v[:, 2:], x[:, :2] * 2], 1)), (0, x))[1]


FUNCTIONS = {
    "columns": lambda x: torch.cat([x, x * 2], 1),
    "columns_of_three": lambda x: torch.cat([x[:, :1], x, x[:, 2:]], 1),
    "negative_dim": lambda x: torch.cat([x, x * 2], -1),
    "transposed": lambda x: torch.cat([x.t(), x.t() + 1], 0),
    "rows": lambda x: torch.cat([x, x * 2], 0),
    "chunks": lambda x: torch.cat(torch.chunk(x, 2, dim=1)[::-1], 1),
    "stack_last": lambda x: torch.stack([x, x * 2], 2),
    "stack_first": lambda x: torch.stack([x, x * 2], 0),
    "no_columns": lambda x: torch.cat([x[:, :0], x[:, 4:]], 0),
    "selected_rows": lambda x: torch.cat([x[x.sum(1) > 0], x[x.sum(1) > 0] * 2], 1),
    "in_a_branch": lambda x: cond(
        x.sum() >= 0, lambda v: torch.cat([v, v], 1), lambda v: torch.cat([v * 2, v - 1], 1), (x,)
    ),
    "in_a_loop": beside_in_rounds,
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_concatenation_of_any_number_of_rows(name):
    calls = [(torch.randn(n, 4, generator=torch.Generator().manual_seed(n)),) for n in (5, 0, 1, 0, 30, 0)]
    run_and_compare(Applied(FUNCTIONS[name]), (torch.randn(5, 4),), (({0: DYNAMIC},),), calls)


def test_rows_that_data_leaves_none_of():
    calls = [(torch.full((n, 4), value),) for n, value in ((3, 1.0), (3, -1.0), (0, 1.0), (9, -1.0), (9, 1.0))]
    run_and_compare(Applied(FUNCTIONS["selected_rows"]), (torch.ones(5, 4),), (({0: DYNAMIC},),), calls)


def test_operands_of_which_every_size_varies():
    sizes = [(3, 2, 5), (0, 2, 5), (0, 0, 5), (4, 0, 5), (4, 3, 0), (0, 0, 0), (2, 1, 1)]
    calls = [(torch.randn(n, a), torch.randn(n, b)) for n, a, b in sizes]
    model = Applied(lambda x, y: torch.cat([x, y, x * 2], 1))
    shapes = (({0: DYNAMIC, 1: DYNAMIC}, {0: DYNAMIC, 1: DYNAMIC}),)
    run_and_compare(model, (torch.randn(3, 2), torch.randn(3, 5)), shapes, calls)


REDUCTIONS = {
    "amax_of_columns": lambda x: x.amax(1),
    "amin_of_columns_kept": lambda x: x.amin(-1, keepdim=True),
    "amax_of_two": lambda x: x.view(-1, 2, 2).amax((1, 2)),
    "amin_of_outer_and_inner": lambda x: x.view(-1, 2, 2).unsqueeze(0).amin((0, -1), keepdim=True),
    "amax_of_integers": lambda x: (x * 10).to(torch.int64).amax(1),
}


@pytest.mark.parametrize("name", REDUCTIONS)
def test_a_largest_element_of_any_number_of_rows(name):
    calls = [(torch.randn(n, 4, generator=torch.Generator().manual_seed(n)),) for n in (5, 0, 1, 0, 30)]
    nan = torch.tensor([[1.0, float("nan"), 3.0, 4.0]])
    if name != "amax_of_integers":
        calls.append((nan,))
    run_and_compare(Reduced(REDUCTIONS[name]), (torch.randn(5, 4),), (({0: DYNAMIC},),), calls)
