"""Operators without a kernel: the decompositions against torch's own kernels, and in an exported program."""

import math

import pytest
import torch
from torch import nn
from torch.export import Dim

from etarena import decompositions as ours

from ..helpers.oracle import run_and_compare

HARD = torch.tensor([0.0, -0.0, 1.5, -2.25, 1e-30, -3e30, math.inf, -math.inf, math.nan])
EDGES = torch.tensor([-2.0, -0.5, 0.0, 0.0, 0.7, 3.0])


def pairs():
    """Every pair of the hard numbers."""
    return HARD.repeat_interleave(len(HARD)), HARD.repeat(len(HARD))


@pytest.mark.parametrize("name", ["fmax", "fmin", "hypot", "copysign"])
def test_pairs_of_hard_numbers(name):
    one, other = pairs()
    if name in ("hypot", "copysign"):  # an infinite side beside a NaN, and the sign of a NaN, are left to the platform
        usable = one.isfinite() & other.isfinite()
        one, other = one[usable], other[usable]
    torch.testing.assert_close(getattr(ours, name)(one, other), getattr(torch, name)(one, other), equal_nan=True)


@pytest.mark.parametrize("name", ["fmax", "fmin", "copysign"])
def test_whole_numbers_and_broadcasts(name):
    one, other = torch.arange(-3, 3)[:, None], torch.arange(-2, 2)
    torch.testing.assert_close(getattr(ours, name)(one, other), getattr(torch, name)(one, other))


@pytest.mark.parametrize("name", ["signbit", "exp2", "erfc"])
def test_hard_numbers(name):
    numbers = HARD[:-1]
    torch.testing.assert_close(getattr(ours, name)(numbers), getattr(torch, name)(numbers))
    torch.testing.assert_close(getattr(ours, name)(torch.arange(-3, 4)), getattr(torch, name)(torch.arange(-3, 4)))


def test_powers_of_two():
    exponents = torch.tensor([0, 3, -4, 10])
    torch.testing.assert_close(ours.ldexp(HARD[2:6], exponents), torch.ldexp(HARD[2:6], exponents))


@pytest.mark.parametrize("shape", [(), (5,), (2, 7), (2, 0), (3, 1, 4)])
@pytest.mark.parametrize("dim", [0, -1])
def test_products_up_to_each_element(shape, dim):
    x = torch.randn(shape, generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(ours.cumprod(x, dim), x.cumprod(dim))
    whole = (x * 3).long()
    torch.testing.assert_close(ours.cumprod(whole, dim), whole.cumprod(dim))
    torch.testing.assert_close(ours.cumprod(whole, dim, dtype=torch.float64), whole.cumprod(dim, dtype=torch.float64))


@pytest.mark.parametrize("right", [False, True])
@pytest.mark.parametrize("out_int32", [False, True])
def test_places_in_a_sorted_sequence(right, out_int32):
    values = torch.tensor([[-3.0, -2.0, 0.0], [0.6, 0.7, 9.0]])
    options = {"right": right, "out_int32": out_int32}
    assert_equal(ours.bucketize(values, EDGES, **options), torch.bucketize(values, EDGES, **options))
    assert_equal(ours.searchsorted(EDGES, values, **options), torch.searchsorted(EDGES, values, **options))
    rows = torch.stack([EDGES, EDGES * 2])
    assert_equal(ours.searchsorted(rows, values, **options), torch.searchsorted(rows, values, **options))


def test_places_in_a_sequence_sorted_elsewhere():
    values, order = torch.tensor([0.1, -1.0]), torch.tensor([3, 5, 0, 1, 4, 2])
    shuffled = EDGES[order]
    sorter = shuffled.argsort()
    expected = torch.searchsorted(shuffled, values, side="right", sorter=sorter)
    assert_equal(ours.searchsorted(shuffled, values, side="right", sorter=sorter), expected)


@pytest.mark.parametrize("invert", [False, True])
def test_membership(invert):
    elements, tests = torch.arange(12).reshape(3, 4), torch.tensor([[3, 7], [11, 99]])
    assert_equal(ours.isin(elements, tests, invert=invert), torch.isin(elements, tests, invert=invert))
    assert_equal(ours.isin(elements, tests[:0], invert=invert), torch.isin(elements, tests[:0], invert=invert))


@pytest.mark.parametrize("shape", [(), (5,), (2, 7), (3, 1, 4)])
@pytest.mark.parametrize("dim", [0, -1])
def test_logarithms_of_sums_up_to_each_element(shape, dim):
    x = torch.randn(shape, generator=torch.Generator().manual_seed(1)) * 100
    torch.testing.assert_close(ours.logcumsumexp(x, dim), x.logcumsumexp(dim))


@pytest.mark.parametrize("keepdim", [False, True])
@pytest.mark.parametrize(("k", "dim"), [(1, 0), (3, 0), (2, -1), (4, 1)])
def test_small_elements(k, dim, keepdim):
    x = torch.randn(3, 4, generator=torch.Generator().manual_seed(1))
    for actual, expected in zip(ours.kthvalue(x, k, dim, keepdim), x.kthvalue(k, dim, keepdim), strict=True):
        assert_equal(actual, expected)


@pytest.mark.parametrize("shape", [(2, 3, 7, 8), (3, 5, 4), (1, 1, 1, 1), (1, 2, 6, 3)])
@pytest.mark.parametrize("cells", [(1, 1), (2, 3), (4, 1)])
def test_largest_elements_of_cells(shape, cells):
    x = torch.randn(shape, generator=torch.Generator().manual_seed(1))
    expected = nn.functional.adaptive_max_pool2d(x, cells, return_indices=True)
    for actual, wanted in zip(ours.adaptive_max_pool2d(x, list(cells)), expected, strict=True):
        assert_equal(actual, wanted)


def assert_equal(actual, expected):
    assert actual.dtype == expected.dtype
    assert torch.equal(actual, expected)


class All(nn.Module):
    """Every operator of the table."""

    def forward(self, x):
        other = x.flip(0)
        rows, columns = torch.triu_indices(6, 6, 1)
        shift = torch.tensor([0, 1, 2, 3, 4, 5])
        return (
            torch.bucketize(x, EDGES),
            torch.searchsorted(EDGES, x, right=True),
            torch.copysign(x, other),
            torch.fmax(x, other) - torch.fmin(x, other),
            torch.hypot(x, other),
            torch.exp2(x) + torch.erfc(x),
            torch.ldexp(x, torch.tensor(3)),
            torch.signbit(x),
            x.cumprod(0),
            x.logcumsumexp(0),
            x.kthvalue(2, 1),
            torch.isin(x.long(), torch.tensor([0, 1])),
            (((x * 9).long() << 3) >> shift) + ((x * 9).long() << shift) + (x.long() >> 1),
            nn.functional.adaptive_max_pool2d(x[None], (2, 3), return_indices=True),
            x[:, rows] * x[:, columns] + x[:, torch.tril_indices(6, 6, -1)[0]],
        )


def test_a_program_with_all_of_them_runs_at_any_size():
    inputs = [(torch.randn(n, 6, generator=torch.Generator().manual_seed(n)),) for n in (7, 2, 4, 20, 3)]
    run_and_compare(All(), inputs[0], ({0: Dim.DYNAMIC},), inputs)


def test_the_table_is_what_the_exported_program_tests():
    program = torch.export.export(All(), (torch.randn(7, 6),), dynamic_shapes=({0: Dim.DYNAMIC},))
    assert set(ours.TABLE) <= {node.target for node in program.graph.nodes}
    left = {node.target for node in ours.decompose_missing_kernels(program).graph.nodes}
    assert not left & set(ours.TABLE)


def test_a_program_without_them_is_left_alone():
    program = torch.export.export(nn.Linear(3, 3), (torch.randn(2, 3),))
    assert ours.decompose_missing_kernels(program) is program
