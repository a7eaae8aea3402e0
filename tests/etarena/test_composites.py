"""Composite operators that torch would trace with fixed sizes: against torch's own, and in exported programs."""

import pytest
import torch
from torch import nn
from torch.export import Dim

from etarena import composites as ours

from ..helpers.oracle import run_and_compare


@pytest.mark.parametrize(
    "options",
    [
        ([2],),
        ([3], [1]),
        ([3], [2], [1]),
        ([2], [2], [0], [2]),
        ([2], [2], [0], [1], True),
    ],
)
@pytest.mark.parametrize("shape", [(2, 3, 7), (3, 8)])
def test_pooling_of_rows(options, shape):
    x = torch.randn(shape, generator=torch.Generator().manual_seed(1))
    assert torch.equal(ours.max_pool1d(x, *options), torch.max_pool1d(x, *options))


@pytest.mark.parametrize(
    ("shape", "indices", "dim"),
    [((4, 5), (4, 2), 1), ((4, 5), (1, 5), 0), ((4, 5), (4, 1), -1), ((1, 5), (3, 2), 1), ((4, 5), (7,), None)],
)
def test_elements_taken_along_a_dimension(shape, indices, dim):
    x = torch.randn(shape, generator=torch.Generator().manual_seed(1))
    at = torch.randint(4, indices, generator=torch.Generator().manual_seed(2))
    assert torch.equal(ours.take_along_dim(x, at, dim), torch.take_along_dim(x, at, dim))


class Both(nn.Module):
    def forward(self, x):
        pooled = nn.functional.max_pool1d(x, 3, stride=2, padding=1)
        return pooled, torch.take_along_dim(pooled, pooled.argmax(-1, keepdim=True), -1)


def test_programs_with_them_run_at_any_size():
    inputs = [(torch.randn(b, 3, n, generator=torch.Generator().manual_seed(n)),) for b, n in ((2, 7), (1, 2), (5, 40))]
    run_and_compare(Both(), inputs[0], ({0: Dim.DYNAMIC, 2: Dim.DYNAMIC},), inputs)
    assert not any(ours.COMPOSITE in operator.py_kernels for operator in ours.TABLE)
