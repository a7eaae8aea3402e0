"""Small modules of every kind of value and alias, run at growing, shrinking and growing sizes, compared with eager."""

import pytest
import torch
from torch import nn
from torch.export import Dim

from ..helpers.oracle import run_and_compare

DYNAMIC = Dim.DYNAMIC
GROW_SHRINK_GROW = [3, 50, 1, 7, 0, 200, 2]


def rows(n: int, columns: int = 4, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    generator = torch.Generator().manual_seed(n)
    if dtype == torch.bool:
        return torch.rand(n, columns, generator=generator) > 0.5
    if not dtype.is_floating_point:
        return torch.randint(-20, 20, (n, columns), generator=generator).to(dtype)
    return torch.randn(n, columns, generator=generator).to(dtype)


class Lambda(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


ROW_FUNCTIONS = {
    "relu_plus_one": lambda x: torch.relu(x) + 1,
    "same_value_twice": lambda x: (lambda y: (y, y))(x + 1),
    "value_and_its_view": lambda x: (lambda y: (y, y.view(-1, 2)))(x + 1),
    "view_chain": lambda x: ((x * 2).view(-1, 2).unsqueeze(0).squeeze(0).reshape(-1, 4) + 1).flatten(),
    "view_read_after_base": lambda x: (lambda y: (y.view(-1) * 3, y - 1))(torch.sin(x)),
    "input_returned": lambda x: (x, x + 1),
    "only_input_returned": lambda x: (x,),
    "input_and_its_view": lambda x: (x, x.flatten()),
    "view_of_input_only": lambda x: x.view(-1, 2),
    "cat_of_three": lambda x: torch.cat([x, x * 2, torch.sin(x)], 0),
    "cat_columns": lambda x: torch.cat([x, x[:, :1]], 1) * 2,
    "stack": lambda x: torch.stack([x, x + 1], 1).sum(1),
    "split": lambda x: torch.split(x * 2, [1, 3], dim=1),
    "chunk_and_join": lambda x: torch.cat(torch.chunk(x + 1, 2, dim=1)[::-1], 1),
    "topk": lambda x: torch.topk(x, 2, dim=1),
    "sort": lambda x: torch.sort(x, dim=1),
    "sort_a_varying_size": lambda x: torch.sort(x.flatten()),
    "max_with_indices": lambda x: torch.max(x, dim=1),
    "unused_second_output": lambda x: torch.max(x, dim=1)[0] * 2,
    "sum_to_zero_dim": lambda x: x.sum() + 1,
    "zero_dim_output": lambda x: (x.sum(), x.sum() - (x.sum() - 1)),
    "mean_and_norm": lambda x: (x.mean(1, keepdim=True) - x) * torch.rsqrt((x * x).mean(1, keepdim=True) + 1e-3),
    "softmax": lambda x: torch.softmax(x, -1) @ x.t(),
    "broadcast_rows": lambda x: x[:, None, :] * x[None, :, :],
    "where_and_compare": lambda x: torch.where(x > 0, x, -x),
    "to_int_and_back": lambda x: (x * 10).to(torch.int32).to(torch.float32) / 10,
    "half_inside": lambda x: (x.to(torch.float16) * 2).to(torch.float32),
    "permute": lambda x: x.permute(1, 0) + 1,
    "transpose_and_view": lambda x: x.t().contiguous().view(-1) * 2,
    "slice_rows": lambda x: x[: x.shape[0] // 2] + 1,
    "pad": lambda x: nn.functional.pad(x, (1, 2)),
    "index_select": lambda x: torch.index_select(x, 1, torch.tensor([3, 0, 0])),
    "gather": lambda x: torch.gather(x, 1, torch.zeros(x.shape[0], 2, dtype=torch.int64)),
    "embedding_like": lambda x: nn.functional.one_hot((x.abs() * 3).long().clamp(max=6), 7).float().sum(1),
    "in_place_chain": lambda x: (x + 0).mul_(2).add_(1).relu_(),
    "in_place_index": lambda x: _index_twice(x),
    "copy_into": lambda x: torch.empty_like(x).copy_(x * 3) + 1,
    "cumsum": lambda x: torch.cumsum(x, 1) * 0.01,
    "flip": lambda x: torch.flip(x, [1]) + x,
    "repeat": lambda x: x.repeat(2, 3) + 1,
    "expand": lambda x: x[:, :1].expand(-1, 5) * 2,
    "full_like": lambda x: torch.full_like(x, 2.0) * x,
    "arange_of_size": lambda x: x + torch.arange(x.shape[0], dtype=x.dtype)[:, None],
    "size_arithmetic": lambda x: torch.zeros(max(x.shape[0], 4), 2) + 1,
    "none_in_tuple": lambda x: (x + 1, None, x * 2),
    "zero_size_cat": lambda x: torch.cat([x, torch.zeros(0, 4)], 0) * 2,
    "int_output": lambda x: (x + 1, x.shape[0] * 2),
}


def _index_twice(x):
    y = x + 0
    y[torch.arange(y.shape[0])] = y * 2
    y += torch.flip(y, [0])
    return y


@pytest.mark.parametrize("name", ROW_FUNCTIONS)
def test_row_function_at_every_size(name):
    model = Lambda(ROW_FUNCTIONS[name])
    run_and_compare(model, (rows(5),), {"x": {0: DYNAMIC}}, [(rows(n),) for n in GROW_SHRINK_GROW])


@pytest.mark.parametrize(
    "dtype",
    [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.float64, torch.float16, torch.bfloat16],
    ids=str,
)
def test_dtypes(dtype):
    model = Lambda(lambda x: (x + x, torch.cat([x, x], 1), (x * 2).view(-1)))
    calls = [(rows(n, dtype=dtype),) for n in (2, 9, 1, 0, 30)]
    run_and_compare(model, (rows(3, dtype=dtype),), {"x": {0: DYNAMIC}}, calls)


def test_bool_tensors():
    model = Lambda(lambda x: (~x, x | ~x, x.view(-1), torch.where(x, 1.0, -1.0)))
    calls = [(rows(n, dtype=torch.bool),) for n in (2, 9, 1, 0, 30)]
    run_and_compare(model, (rows(3, dtype=torch.bool),), {"x": {0: DYNAMIC}}, calls)


def test_zero_dim_input():
    calls = [(torch.tensor(value),) for value in (1, -5, 2**40)]
    run_and_compare(Lambda(lambda x: x + 1), (torch.tensor(3),), None, calls)


class TwoInputs(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x, y):
        return self.function(x, y)


def test_cat_of_two_unbounded_inputs():
    model = TwoInputs(lambda x, y: torch.cat([x, y], 0) * 2)
    shapes = {"x": {0: DYNAMIC}, "y": {0: DYNAMIC}}
    calls = [(rows(n, 3), rows(k, 3)) for n, k in ((1, 1), (3, 8), (8, 3), (0, 4), (4, 0), (100, 7))]
    run_and_compare(model, (rows(5, 3), rows(6, 3)), shapes, calls)


def test_cat_with_a_fixed_second_input():
    model = TwoInputs(lambda x, y: torch.cat([x, y], 0) * 2)
    calls = [(rows(n), rows(2)) for n in (3, 8, 0)]
    run_and_compare(model, (rows(5), rows(2)), {"x": {0: DYNAMIC}, "y": None}, calls)


def test_broadcast_where_both_sides_grow():
    model = TwoInputs(lambda x, y: x - y)
    calls = [(torch.randn(1, d), torch.randn(d, 1)) for d in (2, 4, 1, 7)]
    run_and_compare(model, (torch.randn(1, 3), torch.randn(3, 1)), {"x": {1: DYNAMIC}, "y": {0: DYNAMIC}}, calls)


def test_matrix_product_of_unbounded_sides():
    model = TwoInputs(lambda x, y: x @ y)
    calls = [(rows(n), rows(m).t().contiguous()) for n, m in ((3, 5), (1, 1), (40, 2))]
    run_and_compare(model, (rows(2), rows(6).t().contiguous()), {"x": {0: DYNAMIC}, "y": {1: DYNAMIC}}, calls)


class Constants(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.tensor([1.0, 2.0]))
        self.register_buffer("table", torch.tensor([7.0, 8.0, 9.0]))

    def forward(self, x):
        return x + 1, self.weight, self.table, torch.tensor([5, 6])


def test_constants_returned_are_copies():
    program = run_and_compare(Constants(), (rows(3),), {"x": {0: DYNAMIC}}, [(rows(2),), (rows(9),)])
    method = program.method()
    first = method.execute([rows(2)])
    for constant in first[1:]:
        constant.fill_(0)
    second = method.execute([rows(2)])
    assert second[1].tolist() == [1.0, 2.0]
    assert second[2].tolist() == [7.0, 8.0, 9.0]
    assert second[3].tolist() == [5, 6]


class MutatesInput(nn.Module):
    def forward(self, x):
        y = torch.relu_(x)
        return x + y


def test_in_place_work_on_an_input_reaches_the_caller():
    calls = [(torch.tensor([-1.0, 2.0]),), (torch.tensor([-1.0, 2.0, -3.0]),)]
    program = run_and_compare(MutatesInput(), (torch.tensor([1.0, -2.0, 3.0]),), {"x": {0: DYNAMIC}}, calls)
    x = torch.tensor([-1.0, 2.0])
    outputs = program.method().execute([x])
    assert [item.tolist() for item in outputs] == [[0.0, 4.0]]
    assert x.tolist() == [0.0, 2.0]


def test_in_place_work_on_a_strided_input_is_written_back():
    program = run_and_compare(MutatesInput(), (torch.randn(3),), {"x": {0: DYNAMIC}}, [])
    base = torch.tensor([-1.0, 10.0, 2.0, 11.0, -3.0, 12.0])
    outputs = program.method().execute([base[::2]])
    assert outputs[0].tolist() == [0.0, 4.0, 0.0]
    assert base.tolist() == [0.0, 10.0, 2.0, 11.0, 0.0, 12.0]
    assert program.method().last_run.bytes_copied == 24


class Counter(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("k", torch.ones(4))

    def forward(self, x):
        self.k += x
        return self.k + 0


def test_mutable_buffer_starts_at_its_value_and_keeps_it():
    method = run_and_compare(Counter(), (torch.ones(4),), None, []).method()
    assert method.execute([torch.ones(4)])[0].tolist() == [2.0] * 4
    assert method.execute([torch.ones(4)])[0].tolist() == [3.0] * 4
    assert method.last_run.state_bytes == 16


class ImageNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3, padding=1)
        self.second = nn.Conv2d(8, 8, 3, stride=2, padding=1, groups=8)
        self.norm = nn.BatchNorm2d(8)

    def forward(self, x):
        y = self.norm(self.second(torch.relu(self.first(x))))
        return nn.functional.interpolate(y, scale_factor=2.0, mode="nearest").mean((2, 3)), y


IMAGE_SIZES = [(1, 8, 8), (2, 31, 17), (1, 2, 2), (1, 64, 48), (3, 8, 8)]


@pytest.mark.parametrize("xnnpack", [False, True], ids=["cpu", "xnnpack"])
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last], ids=str)
def test_image_model_in_both_layouts(xnnpack, layout):
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner

    torch.manual_seed(0)
    model = ImageNet().eval()
    calls = [(torch.randn(b, 3, h, w).to(memory_format=layout),) for b, h, w in IMAGE_SIZES]
    shapes = {"x": {0: DYNAMIC, 2: DYNAMIC, 3: DYNAMIC}}
    partitioners = [XnnpackPartitioner()] if xnnpack else []
    run_and_compare(model, (torch.randn(2, 3, 16, 16),), shapes, calls, partitioners=partitioners)


def test_channels_last_export_takes_both_layouts():
    example = torch.randn(2, 3, 4, 4).to(memory_format=torch.channels_last)
    inputs = [torch.randn(2, 3, 4, 4), torch.randn(5, 3, 4, 4).to(memory_format=torch.channels_last)]
    model = Lambda(lambda x: (x * 2, torch.flip(x, [2])))
    run_and_compare(model, (example,), {"x": {0: DYNAMIC}}, [(item,) for item in inputs])


def test_int_input_that_is_a_symbol():
    class Rows(nn.Module):
        def forward(self, x, n: int):
            return x[:, None].expand(-1, n) + 1, n * 2

    calls = [(torch.arange(4.0), 3), (torch.arange(4.0), 9), (torch.arange(7.0), 1)]
    run_and_compare(Rows(), (torch.arange(5.0), 6), {"x": {0: DYNAMIC}, "n": DYNAMIC}, calls)
