"""Random models at random sizes, on an arena full of garbage, against eager PyTorch."""

import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch.export import Dim

import etarena

from ..helpers.oracle import run_and_compare
from ..helpers.random_graphs import COLUMNS, RandomModel

# An export takes far longer than other examples: one for every sixteen of the profile.
EXAMPLES = settings(max_examples=max(1, settings.default.max_examples // 16))


@EXAMPLES
@given(st.integers(0, 2**32), st.lists(st.integers(1, 60), min_size=3, max_size=6))
def test_a_random_model_equals_eager_at_any_sequence_of_sizes(seed, sizes):
    generator = torch.Generator().manual_seed(seed)
    calls = [tuple(torch.randn(n, COLUMNS, generator=generator) for _ in range(2)) for n in (5, *sizes, 5)]
    rows = Dim("rows", min=0, max=10_000)
    try:
        run_and_compare(RandomModel(seed), calls[0], {"x": {0: rows}, "y": {0: rows}}, calls)
    except etarena.ExportError as error:
        assume(not str(error).startswith("torch.export failed"))  # torch refuses some branches of unlike sizes
        raise
