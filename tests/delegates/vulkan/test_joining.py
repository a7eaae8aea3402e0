"""Tensors put together, padded, shifted and cut off on Vulkan, against PyTorch."""

import math

import pytest
import torch
from executorch.exir import to_edge
from hypothesis import given, settings
from hypothesis import strategies as st

from etarena import vulkan
from etarena.allocator.errors import Error
from etarena.allocator.sizes import SizeProgram
from etarena.delegates.vulkan.bound import BoundGraph
from etarena.delegates.vulkan.operators.call import Call
from etarena.delegates.vulkan.operators.registry import all_operators
from etarena.delegates.vulkan.preprocess import lower_graph
from etarena.delegates.vulkan.weights import Weights
from tests.helpers.vulkan_operators import DTYPES, OperatorRunner

EXAMPLES = 40
small = st.lists(st.sampled_from([0, 1, 2, 3, 4, 8]), min_size=1, max_size=5).filter(lambda s: math.prod(s) <= 5000)
dtypes = st.sampled_from(list(DTYPES))


def numbered(shape: list[int] | tuple[int, ...], dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Elements of which none is zero, but for masks."""
    count = torch.arange(math.prod(shape)).reshape(shape)
    return count % 3 == 0 if dtype == torch.bool else (count % 113 + 1).to(dtype)


@given(shape=small, dtype=dtypes, data=st.data())
@settings(max_examples=EXAMPLES)
def test_joined(runner: OperatorRunner, shape: list[int], dtype: torch.dtype, data: st.DataObject) -> None:
    dim = data.draw(st.integers(-len(shape), len(shape) - 1))
    parts = []
    for size in data.draw(st.lists(st.integers(0, 4), min_size=1, max_size=4)):
        part = list(shape)
        part[dim] = size
        parts.append(numbered(part, dtype))
    runner.compare("aten.cat.default", parts, dim)
    runner.compare("aten.stack.default", [numbered(shape, dtype)] * len(parts), dim)


def test_joined_with_an_empty_vector(runner: OperatorRunner) -> None:
    runner.compare("aten.cat.default", [torch.empty(0), numbered((2, 3)), torch.empty(0)], 1)


@given(shape=small, dtype=dtypes, data=st.data())
@settings(max_examples=EXAMPLES)
def test_replaced(runner: OperatorRunner, shape: list[int], dtype: torch.dtype, data: st.DataObject) -> None:
    dim = data.draw(st.integers(-len(shape), len(shape) - 1))
    size, x = shape[dim], numbered(shape, dtype)
    start, end, step = data.draw(st.integers(-6, 6)), data.draw(st.integers(-6, 9)), data.draw(st.integers(1, 3))
    part = torch.ops.aten.slice.Tensor(x, dim, start, end, step).clone().contiguous()
    part = ~part if dtype == torch.bool else part + 1
    runner.compare("aten.slice_scatter.default", x, part, dim, start, end, step)
    if size:
        index = data.draw(st.integers(-size, size - 1))
        runner.compare("aten.select_scatter.default", x, x.select(dim, 0).clone(), dim, index)


@pytest.mark.parametrize("name", ["aten.cat.default", "aten.slice_scatter.default"])
def test_types_are_not_mixed(name: str) -> None:
    found = all_operators()[name].check
    assert found is not None
    whole, half = torch.zeros(2), torch.zeros(2, dtype=torch.float16)
    assert "float16" in str(found({"tensors": [whole, half], "src": half, "out": whole}))
    assert found({"tensors": [whole, whole], "src": whole, "out": whole}) is None


def test_joined_beyond_the_result(runner: OperatorRunner) -> None:
    part, out = runner.temporary("float32", (3, 2)), runner.temporary("float32", (5, 2))
    with pytest.raises(Error, match="reaches elements"):
        all_operators()["aten.cat.default"].emit(Call("cat", {"tensors": [part, part], "dim": 0}, [out], runner))


@given(shape=small, dtype=dtypes, data=st.data())
@settings(max_examples=EXAMPLES)
def test_padded_with_a_number(
    runner: OperatorRunner, shape: list[int], dtype: torch.dtype, data: st.DataObject
) -> None:
    pads = []
    for size in reversed(shape[data.draw(st.integers(0, len(shape))) :]):
        first = data.draw(st.integers(-size, 3))
        pads += [first, data.draw(st.integers(-size - min(first, 0), 3))]
    value = data.draw(st.sampled_from([0, 1, 3]))
    runner.compare(
        "aten.constant_pad_nd.default", numbered(shape, dtype), pads, bool(value) if dtype == torch.bool else value
    )


@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        (torch.float32, float("-inf")),
        (torch.float32, 1e300),
        (torch.float16, 1e6),
        (torch.float32, float("nan")),
        (torch.int64, -5),
        (torch.int8, -7),
        (torch.uint8, 255),
        (torch.int32, -(1 << 31)),
    ],
)
def test_padded_with_extremes(runner: OperatorRunner, dtype: torch.dtype, value: float) -> None:
    x = numbered((2, 4), dtype)
    if value == 1e300:  # PyTorch's own kernel refuses it
        (found,) = runner.call(
            "aten.constant_pad_nd.default", {"self": x, "pad": [1, 0], "value": value}, [torch.zeros(2, 5)]
        )
        assert found[:, 0].tolist() == [math.inf, math.inf]
        return
    if value == 1e6:
        value = 65504.0
    for pads in ([1, 2], [4, 4], [0, 0, 1, 1]):
        runner.compare("aten.constant_pad_nd.default", x, pads, value)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int64])
@pytest.mark.parametrize("kind", ["reflection", "replication"])
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_padded_with_what_is_there(runner: OperatorRunner, rank: int, kind: str, dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(rank)
    if kind == "replication" and dtype == torch.int64:
        dtype = torch.float32  # PyTorch has no kernel to compare with
    for outer in ([2], [3, 1]):
        sizes = torch.randint(4, 7, (rank,), generator=generator).tolist()
        pads = torch.randint(0, 4, (2 * rank,), generator=generator).tolist()
        runner.compare(f"aten.{kind}_pad{rank}d.default", numbered([*outer, *sizes], dtype), pads)


def test_reflections_of_too_little(runner: OperatorRunner) -> None:
    x, out = runner.temporary("float32", (1, 3)), runner.temporary("float32", (1, 9))
    for name, pads, message in (("reflection", [3, 3], "reflects"), ("replication", [1, 1], "padding")):
        call = Call("pad", {"self": x, "padding": pads}, [out], runner)
        with pytest.raises(Error, match=message):
            all_operators()[f"aten.{name}_pad1d.default"].emit(call)


@given(shape=small, dtype=dtypes, data=st.data())
@settings(max_examples=EXAMPLES)
def test_shifted_around(runner: OperatorRunner, shape: list[int], dtype: torch.dtype, data: st.DataObject) -> None:
    x = numbered(shape, dtype)
    dims = data.draw(st.lists(st.integers(-len(shape), len(shape) - 1), min_size=1, max_size=3))
    shifts = data.draw(st.lists(st.integers(-9, 9), min_size=len(dims), max_size=len(dims)))
    runner.compare("aten.roll.default", x, shifts, dims)
    runner.compare("aten.roll.default", x, shifts[:1])


@given(shape=small.filter(lambda shape: len(shape) > 1), dtype=dtypes, diagonal=st.integers(-10, 10))
@settings(max_examples=EXAMPLES)
def test_triangles(runner: OperatorRunner, shape: list[int], dtype: torch.dtype, diagonal: int) -> None:
    runner.compare("aten.tril.default", numbered(shape, dtype), diagonal)
    runner.compare("aten.triu.default", numbered(shape, dtype), diagonal)
    runner.compare("aten.triu.default", numbered(shape, dtype), 1 << 40)


class Joined(torch.nn.Module):
    """Pieces that lie between each other in the result."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.relu(torch.stack([torch.cat([x, y, x], 1), torch.cat([y, x, x], 1)], 1))


def test_pieces_do_not_wait_for_each_other(device: vulkan.Device) -> None:
    x, y = numbered((2, 3)), numbered((2, 5))
    graph = lower_graph(to_edge(torch.export.export(Joined(), (x, y))).exported_program())
    program, weights = SizeProgram(graph.n_symbols, graph.code), Weights(device, graph)
    bound = BoundGraph(graph, program, weights, device.info.limits, [(2, 3), (2, 5)])
    # Three pieces each for two tensors, two for the stack, relu; what is joined is waited for.
    assert len(bound.dispatches) == 9
    assert sum(bound.barriers) == 2
    assert not any(bound.barriers[:6])
