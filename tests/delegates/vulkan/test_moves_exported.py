"""Whole models of operators that move, resize, index and attend, exported to Vulkan and run at many sizes."""

from collections.abc import Callable

import pytest
import torch
from torch.nn.functional import embedding, grid_sample, interpolate, pad, scaled_dot_product_attention

from tests.helpers.vulkan_operators import compare_exported

N = torch.export.Dim.DYNAMIC


class Calls(torch.nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[..., object]) -> None:
        super().__init__()
        self.function = function
        self.register_buffer("table", torch.randn(10, 6, generator=torch.Generator().manual_seed(0)))

    def forward(self, *args: torch.Tensor) -> object:
        return self.function(self.table, *args)


def pictures(*sizes: tuple[int, int]) -> list[tuple[torch.Tensor, ...]]:
    torch.manual_seed(0)
    return [(torch.randn(2, 4, *size),) for size in sizes]


def moved(_: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    rows = x.permute(0, 2, 3, 1).flatten(1, 2)
    first, second = torch.chunk(x, 2, 1)
    parts = torch.cat([first.flip(3), second[:, -1:], x[:, 1:].roll(1, 2)], 1)
    return rows, parts, x[:, 1:3, ::2, :-1], x.unsqueeze(1).expand(-1, 3, -1, -1, -1).transpose(1, 4).contiguous()


def shuffled(_: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    larger = torch.pixel_shuffle(x, 2)
    return torch.stack([larger, larger.tril()], 1), torch.channel_shuffle(x, 2), torch.pixel_unshuffle(larger, 2)


def padded(_: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return (
        pad(x, (1, 2, -1, 3), value=2.0),
        pad(x, (0, 1, 1, 0), mode="reflect"),
        pad(x, (1, 3, 0, 2), mode="replicate"),
    )


def resized(_: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    half = x[:, :, ::2, ::2]
    return (
        interpolate(x, scale_factor=2),
        interpolate(half, size=x.shape[2:], mode="bilinear"),
        interpolate(x, size=(7, 9), mode="bilinear", align_corners=True),
        interpolate(x, scale_factor=1.5, mode="bicubic"),
        interpolate(x[0], scale_factor=2, mode="linear"),
    )


@pytest.mark.parametrize("function", [moved, shuffled, padded, resized])
def test_pictures_of_any_size(function: Callable[..., object]) -> None:
    sizes = pictures((6, 8), (5, 3), (16, 12), (2, 2))
    compare_exported(Calls(function), sizes[0], sizes[1:], dynamic=(({2: N, 3: N},),))


def looked_up(table: torch.Tensor, numbers: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    rows = embedding(numbers, table)
    picked = x[:, numbers, numbers].transpose(0, 1)
    replaced = x.transpose(0, 1).index_put((numbers,), x.new_zeros(()))
    return rows, x.index_select(1, numbers), picked, x[numbers % 2, :, numbers], replaced


def test_numbers_of_any_count() -> None:
    torch.manual_seed(0)
    x = torch.randn(2, 10, 10)
    lists = [(torch.tensor(numbers), x) for numbers in ([1, 5, 0], [9], [3, 3, 8, 2, 7])]
    compare_exported(Calls(looked_up), lists[0], lists[1:], dynamic=(({0: N}, None),))


def test_grids() -> None:
    torch.manual_seed(0)
    grids = [(torch.randn(2, 4, 6, 5), torch.rand(2, height, 3, 2) * 2 - 1) for height in (4, 1, 9)]
    function = Calls(lambda _, x, grid: grid_sample(x, grid, align_corners=False))
    compare_exported(function, grids[0], grids[1:], dynamic=((None, {1: N}),))


def attended(_: torch.Tensor, query: torch.Tensor, key: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return (
        scaled_dot_product_attention(query, key, key),
        scaled_dot_product_attention(query, key, key, attn_mask=key[:, :, :, 0].unsqueeze(2) > 0),
        scaled_dot_product_attention(query, query, query, is_causal=True),
    )


def split_in_heads(table: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    heads = x.view(2, -1, 4, 6).transpose(1, 2)
    found = scaled_dot_product_attention(heads @ table[:6], heads, heads)
    return found.transpose(1, 2).reshape(2, -1, 24) + x


def test_attention_among_views() -> None:
    """As transformers write it: kept whole though its result has another layout than PyTorch gives it."""
    torch.manual_seed(0)
    inputs = [(torch.randn(2, length, 24),) for length in (5, 1, 33)]
    file = compare_exported(Calls(split_in_heads), inputs[0], inputs[1:], dynamic=(({1: N},),))
    assert b"scaled_dot_product_attention" in file
    assert b"softmax" not in file


def test_attention_that_is_too_wide_is_taken_apart() -> None:
    wide = (torch.randn(1, 1, 3, 200),)
    file = compare_exported(Calls(lambda _, x: scaled_dot_product_attention(x, x, x)), wide)
    assert b"scaled_dot_product_attention" not in file
    assert b"softmax" in file


def test_attention_of_any_lengths() -> None:
    torch.manual_seed(0)
    lengths = [(6, 9), (1, 4), (30, 17), (2, 2)]
    inputs = [(torch.randn(2, 4, a, 16), torch.randn(2, 4, b, 16)) for a, b in lengths]
    compare_exported(Calls(attended), inputs[0], inputs[1:], dynamic=(({2: N}, {2: N}),))
