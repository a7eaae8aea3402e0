"""`etarena.ops.attention` in eager mode against the formula, and the exported kernel against eager mode."""

import math

import pytest
import torch
from torch import nn
from torch.export import Dim

import etarena
from etarena import ops

from ..helpers.oracle import assert_same, load_exported

DYNAMIC = Dim.DYNAMIC


def by_the_formula(query, key, value, mask=None, causal=True, scale=None, window=None):
    """Attention in double precision, one query at a time."""
    query, key, value = query.double(), key.double(), value.double()
    group = query.shape[1] // key.shape[1]
    n_queries, n_keys = query.shape[2], key.shape[2]
    out = torch.zeros(*query.shape[:3], value.shape[3], dtype=torch.float64)
    for b in range(query.shape[0]):
        for h in range(query.shape[1]):
            for i in range(n_queries):
                last = n_keys - n_queries + i + 1 if causal else n_keys
                first = max(0, last - window) if window is not None else 0
                seen = torch.arange(first, max(last, first))
                scores = key[b, h // group, seen] @ query[b, h, i] * (scale or 1 / math.sqrt(query.shape[3]))
                if mask is not None:
                    row = mask.broadcast_to(*query.shape[:3], n_keys)[b, h, i, seen]
                    keep = row if row.dtype == torch.bool else torch.ones_like(row, dtype=torch.bool)
                    scores = scores if row.dtype == torch.bool else scores + row.double()
                    seen, scores = seen[keep], scores[keep]
                if len(seen):
                    out[b, h, i] = torch.softmax(scores, 0) @ value[b, h // group, seen]
    return out


def tensors(batch, heads, key_heads, queries, keys, size, value_size, dtype=torch.float32):
    generator = torch.Generator().manual_seed(queries * 1000 + keys)
    shapes = ((batch, heads, queries, size), (batch, key_heads, keys, size), (batch, key_heads, keys, value_size))
    return [torch.randn(shape, generator=generator).to(dtype) for shape in shapes]


class Attend(nn.Module):
    def __init__(self, **options):
        super().__init__()
        self.options = options

    def forward(self, query, key, value):
        return ops.attention(query, key, value, **self.options)


class AttendMasked(Attend):
    def forward(self, query, key, value, mask):
        return ops.attention(query, key, value, mask=mask, **self.options)


SIZES = [(1, 1), (1, 64), (1, 65), (1, 1000), (5, 5), (7, 130), (70, 70), (3, 2), (2, 0), (0, 4)]
LENGTHS = {"query": {2: DYNAMIC}, "key": {2: DYNAMIC}, "value": {2: DYNAMIC}}


@pytest.mark.parametrize(
    ("heads", "key_heads", "size", "value_size", "options"),
    [
        (8, 2, 32, 32, {}),
        (4, 4, 16, 48, {"causal": False}),
        (6, 2, 10, 7, {"scale": 0.3}),
        (5, 1, 64, 64, {"window": 3}),
    ],
)
def test_the_kernel_and_eager_mode_follow_the_formula(heads, key_heads, size, value_size, options):
    model = Attend(**options)
    example = tuple(tensors(2, heads, key_heads, 3, 5, size, value_size))
    method = load_exported(model, example, LENGTHS).method()
    for queries, keys in SIZES:
        inputs = tensors(2, heads, key_heads, queries, keys, size, value_size)
        expected = by_the_formula(*inputs, **options).float()
        assert_same(model(*inputs), expected)
        method.arena.scribble()
        assert_same(method.execute(inputs)[0], expected)


@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float16, 2e-3), (torch.bfloat16, 1.5e-2)], ids=["float16", "bfloat16"]
)
def test_half_precision(dtype, tolerance):
    method = load_exported(Attend(), tuple(tensors(1, 4, 2, 3, 5, 32, 32, dtype)), LENGTHS).method()
    for queries, keys in SIZES:
        inputs = tensors(1, 4, 2, queries, keys, 32, 32, dtype)
        assert_same(method.execute(inputs)[0], by_the_formula(*inputs).to(dtype), tolerance)


@pytest.mark.parametrize("kind", ["bool", "float"])
@pytest.mark.parametrize("shape", [(2, 4, None, None), (1, 1, None, None), (None, None)], ids=str)
def test_masks_broadcast(kind, shape):
    def mask(queries, keys):
        sizes = [*shape[:-2], queries, keys]
        values = torch.randn(sizes, generator=torch.Generator().manual_seed(keys))
        return values > 0 if kind == "bool" else values.masked_fill(values > 1, -math.inf)

    model = AttendMasked(causal=False)
    rank = len(shape)
    dynamic = {**LENGTHS, "mask": {rank - 2: DYNAMIC, rank - 1: DYNAMIC}}
    method = load_exported(model, (*tensors(2, 4, 2, 3, 5, 16, 16), mask(3, 5)), dynamic).method()
    for queries, keys in [(1, 7), (6, 100), (3, 65)]:
        inputs = tensors(2, 4, 2, queries, keys, 16, 16)
        expected = by_the_formula(*inputs, mask=mask(queries, keys), causal=False).float()
        assert_same(model(*inputs, mask(queries, keys)), expected)
        assert_same(method.execute([*inputs, mask(queries, keys)])[0], expected)


def test_extreme_scores():
    inputs = [tensor * 300 for tensor in tensors(1, 2, 1, 3, 200, 16, 16)]
    method = load_exported(Attend(), tuple(inputs)).method()
    assert_same(method.execute(inputs)[0], by_the_formula(*inputs).float())


class Cached(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("keys", torch.zeros(2, 2, 0, 16))
        self.register_buffer("values", torch.zeros(2, 2, 0, 16))

    def forward(self, query, new):
        keys = ops.append(self.keys, new, 2)
        values = ops.append(self.values, new * 2, 2)
        return ops.attention(query, keys, values, window=100)


def test_a_cache_is_read_as_it_lies():
    model = Cached()
    query, new, _ = tensors(2, 4, 2, 3, 3, 16, 16)
    program = load_exported(model, (query, new), {"query": {2: DYNAMIC}, "new": {2: DYNAMIC}})
    method = program.method()
    assert not [label for label in method.section.labels if "clone" in label or "permute" in label]
    for count in (3, 1, 200, 1, 1):
        query, new, _ = tensors(2, 4, 2, count, count, 16, 16)
        program.arena.scribble()
        assert_same(method.execute([query, new])[0], model(query, new))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"query": torch.ones(1, 4, 3)}, "query must be"),
        ({"key": torch.ones(1, 2, 5, 8)}, "size 16 in its last dimension, key 8"),
        ({"key": torch.ones(1, 3, 5, 16)}, "multiple of key heads"),
        ({"value": torch.ones(1, 2, 6, 16)}, "key has length 5, value 6"),
        ({"value": torch.ones(2, 2, 5, 16)}, "batches differ"),
        ({"key": torch.ones(1, 2, 5, 16).double()}, "key must be float32"),
        ({"key": torch.ones(1, 2, 5, 16).half()}, "key has dtype"),
        ({"key": 3}, "key must be a torch.Tensor"),
        ({"mask": torch.ones(3, 5, dtype=torch.int32)}, "mask must be bool"),
        ({"mask": torch.ones(1, 1, 1, 3, 5)}, "mask must broadcast"),
        ({"mask": 1}, "mask must be a torch.Tensor"),
        ({"scale": math.nan}, "scale must be a finite"),
        ({"window": 0}, "window is a number of keys"),
        ({"window": 3, "causal": False}, "window is a number of keys"),
    ],
)
def test_wrong_arguments(change, words):
    query, key, value = tensors(1, 4, 2, 3, 5, 16, 16)
    arguments = {"query": query, "key": key, "value": value} | change
    with pytest.raises(etarena.Error, match=words):
        ops.attention(**arguments)
