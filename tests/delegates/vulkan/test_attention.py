"""Scaled dot product attention on Vulkan, against PyTorch."""

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import etarena.ops.attention  # noqa: F401 - defines the operator
from etarena.allocator.errors import Error
from etarena.delegates.vulkan.operators.call import Call
from etarena.delegates.vulkan.operators.registry import all_operators
from tests.helpers.vulkan_operators import OperatorRunner

NAME = "aten.scaled_dot_product_attention.default"
FLOATS = [torch.float32, torch.float16]


def made(*shape: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("columns", [(8, 8), (8, 12), (5, 7), (2, 1)])
def test_attention(runner: OperatorRunner, columns: tuple[int, int], causal: bool, dtype: torch.dtype) -> None:
    """Few queries and many, whole blocks of eight keys and parts."""
    for queries, keys in ((1, 1), (1, 21), (2, 16), (3, 3), (17, 21), (40, 8)):
        query, key = made(2, 3, queries, columns[0], dtype=dtype), made(2, 3, keys, columns[0], dtype=dtype, seed=1)
        runner.compare(NAME, query, key, made(2, 3, keys, columns[1], dtype=dtype, seed=2), None, 0.0, causal)


@pytest.mark.parametrize("queries", [2, 40])
def test_without_shuffles(runner: OperatorRunner, queries: int) -> None:
    """As on a device whose subgroups are larger, or cannot shuffle."""
    limits = runner.limits
    query, key = made(2, 4, queries, 8), made(2, 2, 29, 8, seed=1)
    mask = made(queries, 29, seed=2)
    for changed, ending in (({"subgroupSize": 32}, "f32"), ({"subgroupSupportedOperations": 0}, "f32_shared")):
        runner.limits = {**limits, **changed}
        try:
            for options in ({"mask": mask, "causal": False}, {}, {"window": 5}):
                runner.compare("etarena.attention.default", query, key, key, **options)
                assert runner.dispatches[0].shader.endswith(ending)
        finally:
            runner.limits = limits


@given(
    sizes=st.tuples(*(st.integers(0, size) for size in (2, 3, 20, 20))),
    scale=st.none() | st.sampled_from([0.25, 1.0]),
    rank=st.sampled_from([3, 4]),
)
@settings(max_examples=40)
def test_any_sizes(runner: OperatorRunner, sizes: tuple[int, int, int, int], scale: float | None, rank: int) -> None:
    batch, heads, queries, keys = sizes
    outer = (batch, heads)[4 - rank :]
    query, key, value = (made(*outer, rows, 8, seed=i) for i, rows in enumerate((queries, keys, keys)))
    runner.compare(NAME, query, key, value, scale=scale)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("queries", [2, 9])
@pytest.mark.parametrize("form", ["query key", "1 key", "batch 1 1 key", "batch head query key", "1 head query 1"])
def test_masks(runner: OperatorRunner, form: str, queries: int, dtype: torch.dtype) -> None:
    named = {"batch": 2, "head": 3, "query": queries, "key": 11, "1": 1}
    shape = [named[name] for name in form.split()]
    query, key = made(2, 3, queries, 8, dtype=dtype), made(2, 3, 11, 8, dtype=dtype, seed=1)
    numbers = made(*shape, dtype=dtype, seed=2)
    runner.compare(NAME, query, key, key, numbers)
    runner.compare(NAME, query, key, key, numbers > 0)


@pytest.mark.parametrize("queries", [2, 9])
def test_queries_that_see_nothing(runner: OperatorRunner, queries: int) -> None:
    query, key = made(1, 2, queries, 8), made(1, 2, 11, 8, seed=1)
    mask = torch.ones(queries, 11, dtype=torch.bool)
    mask[1] = False
    (found,) = runner.compare(NAME, query, key, key, mask)
    assert found[:, :, 1].abs().max() == 0
    runner.compare(NAME, query, key, key, torch.where(mask, 0.0, torch.finfo(torch.float32).min))
    runner.compare(NAME, query, key, key, torch.where(mask, 0.0, float("-inf")))


@pytest.mark.parametrize("queries", [2, 9])
def test_heads_that_share_keys(runner: OperatorRunner, queries: int) -> None:
    query, key, value = made(2, 6, queries, 8), made(2, 2, 5, 8, seed=1), made(2, 2, 5, 8, seed=2)
    runner.compare(NAME, query, key, value, enable_gqa=True)


def test_large_scores(runner: OperatorRunner) -> None:
    """Exponentials that overflow without the running maximum."""
    query, key = 30 * made(1, 1, 9, 8), 30 * made(1, 1, 40, 8, seed=1)
    runner.compare(NAME, query, key, made(1, 1, 40, 8, seed=2))
    runner.compare(NAME, query[:, :, :1], key, made(1, 1, 40, 8, seed=2))


def test_wide_rows(runner: OperatorRunner) -> None:
    runner.compare(NAME, made(1, 1, 9, 64), made(1, 1, 10, 64, seed=1), made(1, 1, 10, 64, seed=2))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(("queries", "keys"), [(1, 21), (2, 30), (9, 21), (20, 20), (12, 5), (2, 1)])
def test_queries_at_the_last_keys(runner: OperatorRunner, queries: int, keys: int, dtype: torch.dtype) -> None:
    query, key = made(1, 4, queries, 8, dtype=dtype), made(1, 2, keys, 8, dtype=dtype, seed=1)
    mask = made(keys, seed=2) > 0
    for options in ({}, {"causal": False}, {"window": 3}, {"window": 100}, {"mask": mask, "window": 9}, {"scale": 0.1}):
        runner.compare("etarena.attention.default", query, key, key, **options)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"query": torch.zeros(1, 1, 2, 256), "key": torch.zeros(1, 1, 2, 256)}, "256"),
        ({"query": torch.zeros(2, 4)}, "rank"),
        ({"query": torch.zeros(1, 2, 2, 4)}, "broadcast"),
        ({"value": torch.zeros(1, 1, 3, 4)}, "broadcast"),
        ({"dropout_p": 0.5}, "drops"),
        ({"attn_mask": torch.zeros(2, 2, dtype=torch.float16)}, "mask is torch.float16"),
        ({"attn_mask": torch.zeros(1, 1, 1, 2, 2)}, "more dimensions"),
        ({name: torch.zeros(1, 1, 2, 4).double() for name in ("query", "key", "value", "out")}, "float64"),
    ],
)
def test_refused(changes: dict[str, Any], reason: str) -> None:
    check = all_operators()[NAME].check
    assert check is not None
    values = {name: torch.zeros(1, 1, 2, 4) for name in ("query", "key", "value", "out")}
    values |= {"attn_mask": None, "dropout_p": 0.0, "enable_gqa": False}  # type: ignore[dict-item]
    assert check(values) is None
    assert reason in str(check({**values, **changes}))


@pytest.mark.parametrize("place", ["key", "value", "out", "attn_mask"])
def test_damaged_shapes(runner: OperatorRunner, place: str) -> None:
    given = {name: runner.temporary("float32", (1, 2, 3, 4)) for name in ("query", "key", "value", "out")}
    given["attn_mask"] = runner.temporary("float32", (3, 3))
    given[place] = runner.temporary("float32", (1, 3, 2, 5))
    out = given.pop("out")
    with pytest.raises(Error):
        all_operators()[NAME].emit(Call(NAME, {**given, "is_causal": False, "scale": None}, [out], runner))
