"""Sizes that data tells: every operator that makes them, against eager, on sequences of inputs of one loaded method."""

import pytest
import torch
from torch import nn
from torch.export import Dim

from ..helpers.oracle import run_and_compare

ANY = Dim.DYNAMIC


class Lambda(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *args):
        return self.function(*args)


def rows(*counts):
    generator = torch.Generator().manual_seed(3)
    return [(torch.randn(n, 4, generator=generator),) for n in counts]


# Something, nothing, everything, one row, no row, and the first shape again with another count.
MATRICES = [*rows(5), (-torch.ones(5, 4),), (torch.ones(5, 4),), *rows(40, 1, 0), (torch.eye(5, 4),), *rows(5)]
INTS = [(torch.randint(0, 6, (n,), generator=torch.Generator().manual_seed(n)),) for n in (7, 1, 30, 0, 7)]

MATRIX_FUNCTIONS = {
    "nonzero": lambda x: torch.nonzero(x > 0) * 2,
    "nonzero of floats": lambda x: torch.nonzero(x),
    "argwhere": lambda x: torch.argwhere(x > 0.5) + 1,
    "where with a mask alone": lambda x: torch.where(x > 0),
    "rows by their places": lambda x: x[torch.nonzero(x > 0)[:, 0]],
    "mask of elements": lambda x: x[x > 0] * 2,
    "mask of rows": lambda x: x[x[:, 0] > 0] @ torch.ones(4, 3),
    "two masks": lambda x: (x[x > 0] * 2, x[x[:, 1] < 0] + 1),
    "mask beside an index": lambda x: x[x[:, 0] > 0, 1],
    "masked_select": lambda x: torch.masked_select(x, x > 0) * 2,
    "masked_select of a row": lambda x: torch.masked_select(x, torch.tensor([True, False, True, True])) + 1,
    "index_put": lambda x: x.index_put((x > 0,), torch.zeros(())),
    "write through a mask": lambda x: x.clone().masked_fill_(x > 0, 1.0),
    "write a told number of values": lambda x: x.index_put((x > 0,), x[x > 0] * 3),
    "cat of told sizes": lambda x: torch.cat([x[x > 0], x[x < -1], x.reshape(-1)]),
    "chain of masks": lambda x: (lambda y: y[y < 1.0].square())(x[x > 0]),
    "size as a number": lambda x: x.sum() * x[x > 0].shape[0],
    "size as an output": lambda x: x[x > 0].shape[0],
    "sort what was told": lambda x: torch.sort(x[x > 0], descending=True)[0],
    "static and told together": lambda x: ((x * 3).exp().sum(), x[x > 0].cumsum(0)),
}


@pytest.mark.parametrize("function", MATRIX_FUNCTIONS.values(), ids=MATRIX_FUNCTIONS)
def test_masks_of_any_count(function):
    run_and_compare(Lambda(function), MATRICES[0], (({0: ANY},),), MATRICES)


INT_FUNCTIONS = {
    "unique": lambda x: torch.unique(x, return_inverse=True, return_counts=True),
    "unique values": lambda x: torch.unique(x) * 2,
    "unique_consecutive": lambda x: torch.unique_consecutive(x, return_inverse=True, return_counts=True),
    "bincount": lambda x: torch.bincount(x),
    "bincount with a minimum": lambda x: torch.bincount(x, minlength=4),
    "each as often as it says": lambda x: x.repeat_interleave(x),
    "repeat_interleave alone": lambda x: torch.repeat_interleave(x),
}


def test_weights_are_summed_by_number():
    calls = [(x, torch.rand(x.shape, generator=torch.Generator().manual_seed(1))) for (x,) in INTS if x.numel()]
    run_and_compare(Lambda(torch.bincount), calls[0], (({0: ANY}, {0: ANY}),), calls)


@pytest.mark.parametrize("function", INT_FUNCTIONS.values(), ids=INT_FUNCTIONS)
def test_groups_and_repetitions(function):
    run_and_compare(Lambda(function), INTS[0], (({0: ANY},),), INTS)


def test_rows_are_repeated_as_often_as_each_says():
    calls = [(torch.randn(n, 3), torch.randint(0, 4, (n,))) for n in (4, 1, 9)] + [
        (torch.randn(3, 3), torch.zeros(3, dtype=torch.int64))
    ]
    repeat = Lambda(lambda x, n: x.repeat_interleave(n, 0) * 2)
    run_and_compare(repeat, calls[0], (({0: ANY}, {0: ANY}),), calls)


def numbers(*values):
    return [(torch.randn(6, 4), torch.tensor(value)) for value in values]


ITEM_FUNCTIONS = {
    "zeros": (lambda x, n: torch.zeros(n.item()) + x.sum(), (3, 0, 100, 3)),
    "full": (lambda x, n: torch.full((n.item(), 2), 7.0) * x[0, 0], (3, 0, 100)),
    "arange": (lambda x, n: torch.arange(n.item()) * 2, (3, 0, 100)),
    "first rows": (lambda x, n: x[: n.item()] * 2, (3, 0, 100, -2, -50)),
    "last rows": (lambda x, n: x[n.item() :] * 2, (3, 0, 100, -2, -50)),
    "topk": (lambda x, n: torch.topk(x, n.item(), dim=0), (3, 0, 6)),
    "number only": (lambda x, n: x * n.item(), (3, -7)),
}


@pytest.mark.parametrize(("function", "values"), ITEM_FUNCTIONS.values(), ids=ITEM_FUNCTIONS)
def test_numbers_from_tensors(function, values):
    calls = numbers(*values)
    run_and_compare(Lambda(function), calls[0], (({0: ANY}, {}),), calls)


def test_split_with_told_sizes():
    calls = numbers([3, 3], [0, 6], [6, 0], [1, 5])
    split = Lambda(lambda x, n: torch.split(x * 1, n.tolist()))
    run_and_compare(split, calls[0], (({0: ANY}, {}),), calls)


class SuppressOverlaps(nn.Module):
    """Boxes that score well and overlap no better one; the overlap of all pairs decides at once."""

    def forward(self, boxes, scores):
        is_good = scores > 0.3
        boxes, scores = boxes[is_good], scores[is_good]
        order = torch.argsort(scores, descending=True)
        boxes, scores = boxes[order], scores[order]
        area = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
        corner = torch.maximum(boxes[:, None, :2], boxes[None, :, :2])
        opposite = torch.minimum(boxes[:, None, 2:], boxes[None, :, 2:])
        side = (opposite - corner).clamp(min=0)
        shared = side[..., 0] * side[..., 1]
        overlap = shared / (area[:, None] + area[None, :] - shared)
        rank = torch.arange(boxes.shape[0])
        is_worse = (overlap > 0.5) & (rank[None, :] < rank[:, None])
        keep = ~is_worse.any(dim=1)
        return boxes[keep], scores[keep]


def detections(count, best):
    generator = torch.Generator().manual_seed(count)
    corner = torch.rand(count, 2, generator=generator) * 10
    return torch.cat([corner, corner + 1 + torch.rand(count, 2, generator=generator) * 4], 1), torch.rand(
        count, generator=generator
    ) * best


def test_suppression_of_overlapping_boxes():
    calls = [detections(50, 1.0), detections(200, 0.6), detections(7, 0.31), detections(50, 1.0), detections(9, 0.1)]
    run_and_compare(SuppressOverlaps(), calls[0], ({0: ANY}, {0: ANY}), calls)


class Branches(nn.Module):
    def forward(self, x):
        def positive(v):
            return v[v > 0].sum() * torch.ones(3)

        def negative(v):
            return torch.unique(v.to(torch.int64)).to(torch.float32).sum() - torch.ones(3)

        return torch.cond(x.sum() > 0, positive, negative, (x,)) * 2


def test_told_sizes_inside_branches():
    calls = [(torch.tensor(values),) for values in ([1.0, 2, -1], [-1.0, -2, -3, -3], [5.0], [-5.0], [1.0, -9, 2])]
    run_and_compare(Branches(), calls[0], ({0: ANY},), calls)


def test_nonzero_of_a_matrix_lists_rows_in_order():
    calls = [(torch.tensor([[0, 1, 0], [2, 0, 3]]),), (torch.zeros(2, 3, dtype=torch.int64),)]
    program = run_and_compare(Lambda(torch.nonzero), calls[0], (({0: ANY, 1: ANY},),), calls)
    method = program.method()
    assert method.execute([calls[0][0]])[0].tolist() == [[0, 1], [1, 0], [1, 2]]
    assert method.execute([calls[1][0]])[0].shape == (0, 2)
    assert method.execute([torch.ones(64, 10, dtype=torch.int64)])[0].shape == (640, 2)


def test_argwhere_of_a_cube():
    mask = torch.tensor([[[1, 0], [0, 1]], [[1, 1], [0, 0]]], dtype=torch.bool)
    run_and_compare(Lambda(torch.argwhere), (mask,), (({0: ANY},),), [(mask,), (~mask,), (mask[:1],)])


def test_a_selection_of_an_unbounded_input_is_used_downstream():
    generator = torch.Generator().manual_seed(0)
    calls = [(torch.randn(n, 10, generator=generator),) for n in (4, 1000, 1, 0, 4)]
    select = Lambda(lambda x: torch.masked_select(x, x > 0) * 2)
    run_and_compare(select, calls[0], (({0: ANY},),), calls)


def test_a_mask_that_broadcasts_selects_more_than_there_is():
    data = torch.rand(1, 6, 8) > 0.5
    calls = [(data, torch.ones(2, 2, 2, 8, 1, 8, dtype=torch.bool)), (data, torch.rand(2, 2, 2, 8, 1, 8) > 0.5)]
    program = run_and_compare(Lambda(torch.masked_select), calls[0], None, calls)
    assert program.method().execute(list(calls[0]))[0].shape == (3072,)


DTYPES = [torch.float32, torch.float64, torch.int64, torch.int32, torch.int16, torch.uint8, torch.int8, torch.bool]


@pytest.mark.parametrize("dtype", [*DTYPES, torch.float16, torch.bfloat16], ids=str)
def test_elements_of_every_type_are_counted(dtype):
    x = torch.tensor([0.0, -0.0, 1, 2, 0, 3, 0]).to(dtype)
    calls = [(x,), (torch.zeros(3).to(dtype),), (torch.ones(9).to(dtype),)]
    run_and_compare(Lambda(lambda x: torch.nonzero(x)), calls[0], (({0: ANY},),), calls)
