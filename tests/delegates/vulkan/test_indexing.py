"""Elements found by numbers in a tensor on Vulkan, against PyTorch."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from etarena.allocator.errors import Error, InputError
from etarena.delegates.vulkan.operators.call import Call
from etarena.delegates.vulkan.operators.registry import all_operators
from tests.helpers.vulkan_operators import DTYPES, OperatorRunner

EXAMPLES = 40
shapes = st.lists(st.sampled_from([1, 2, 3, 4, 8]), min_size=1, max_size=6).filter(lambda s: math.prod(s) <= 5000)
dtypes = st.sampled_from(list(DTYPES))
index_types = st.sampled_from([torch.int32, torch.int64])


def numbered(shape: list[int] | tuple[int, ...], dtype: torch.dtype = torch.float32) -> torch.Tensor:
    count = torch.arange(math.prod(shape)).reshape(shape)
    return count % 3 == 0 if dtype == torch.bool else (count % 113).to(dtype)


@st.composite
def numbers(draw: st.DrawFn, size: int, shape: list[int], dtype: torch.dtype, least: int = 0) -> torch.Tensor:
    torch.manual_seed(draw(st.integers(0, 99)))
    return torch.randint(least, size, shape).to(dtype)


@given(dtype=dtypes, index_type=index_types, width=st.sampled_from([0, 1, 3, 4, 8, 16]), data=st.data())
@settings(max_examples=EXAMPLES)
def test_embeddings(
    runner: OperatorRunner, dtype: torch.dtype, index_type: torch.dtype, width: int, data: st.DataObject
) -> None:
    shape = data.draw(st.lists(st.integers(0, 4), max_size=3))
    runner.compare("aten.embedding.default", numbered((9, width), dtype), data.draw(numbers(9, shape, index_type)))


@given(shape=shapes, dtype=dtypes, index_type=index_types, data=st.data())
@settings(max_examples=EXAMPLES)
def test_one_dimension(
    runner: OperatorRunner, shape: list[int], dtype: torch.dtype, index_type: torch.dtype, data: st.DataObject
) -> None:
    dim = data.draw(st.integers(-len(shape), len(shape) - 1))
    x, size = numbered(shape, dtype), shape[dim]
    index = data.draw(numbers(size, [data.draw(st.integers(0, 5))], index_type))
    runner.compare("aten.index_select.default", x, dim, index)
    spread = data.draw(numbers(size, [2, 3], index_type, least=-size))
    runner.compare("aten.index.Tensor", x, [None] * (dim % len(shape)) + [spread])


def test_scalars(runner: OperatorRunner) -> None:
    runner.compare("aten.index_select.default", torch.tensor(3.0), 0, torch.tensor([0]))
    runner.compare("aten.index_select.default", numbered((5,)), 0, torch.tensor(2))
    runner.compare("aten.gather.default", torch.tensor(3.0), 0, torch.tensor(0))
    runner.compare("aten.gather.default", torch.tensor(3.0), 0, torch.tensor([0]))


@given(shape=shapes.filter(lambda shape: len(shape) > 1), dtype=dtypes, index_type=index_types, data=st.data())
@settings(max_examples=EXAMPLES)
def test_several_dimensions(
    runner: OperatorRunner, shape: list[int], dtype: torch.dtype, index_type: torch.dtype, data: st.DataObject
) -> None:
    dims = data.draw(st.lists(st.integers(0, len(shape) - 1), min_size=1, max_size=3, unique=True))
    given: list[torch.Tensor | None] = [None] * (max(dims) + 1)
    for dim in dims:
        form = data.draw(st.sampled_from([[3], [2, 1], [2, 3], []]))
        given[dim] = data.draw(numbers(shape[dim], form, index_type, least=-shape[dim]))
    runner.compare("aten.index.Tensor", numbered(shape, dtype), given)


@given(shape=shapes, dtype=dtypes, data=st.data())
@settings(max_examples=EXAMPLES)
def test_gathered_and_scattered(
    runner: OperatorRunner, shape: list[int], dtype: torch.dtype, data: st.DataObject
) -> None:
    dim = data.draw(st.integers(-len(shape), len(shape) - 1))
    x, some = numbered(shape, dtype), [data.draw(st.integers(0, size)) for size in shape]
    chosen = list(some)
    chosen[dim] = data.draw(st.integers(0, 5))
    runner.compare("aten.gather.default", x, dim, data.draw(numbers(shape[dim], chosen, torch.int64)))
    every = list(some)
    every[dim] = shape[dim]
    torch.manual_seed(data.draw(st.integers(0, 99)))
    index = torch.rand(every).argsort(dim).narrow(dim, 0, some[dim])  # no place twice: any order would do
    runner.compare("aten.scatter.src", x, dim, index, numbered([size + 1 for size in some], dtype))
    runner.compare("aten.scatter.value", x, dim, index, 1)


@given(dtype=dtypes, index_type=st.sampled_from([torch.int32, torch.int64]), data=st.data())
@settings(max_examples=EXAMPLES)
def test_put(runner: OperatorRunner, dtype: torch.dtype, index_type: torch.dtype, data: st.DataObject) -> None:
    torch.manual_seed(data.draw(st.integers(0, 99)))
    x, rows = numbered((7, 4, 3), dtype), torch.randperm(7)[:5].to(index_type)
    for form in ((5, 4, 3), (1, 3), (1,), ()):
        runner.compare("aten.index_put.default", x, [rows], numbered(form, dtype))
    columns = (torch.randperm(4)[:2] - 4).to(index_type)
    runner.compare("aten.index_put.default", x, [None, columns], numbered((7, 2, 3), dtype))
    runner.compare("aten.index_put.default", x, [rows.reshape(5, 1), columns], numbered((5, 2, 3), dtype))
    runner.compare("aten.index_put.default", x, [rows[:0]], numbered((0, 4, 3), dtype))


@pytest.mark.parametrize("index_type", [torch.int32, torch.int64])
def test_numbers_outside_read_the_nearest(runner: OperatorRunner, index_type: torch.dtype) -> None:
    """PyTorch raises an error; a shader must not read outside of the tensor."""
    x = torch.arange(4.0).reshape(4, 1)
    wild = torch.tensor([4, 1 << 30, -5, -(1 << 31), 3, -4]).to(index_type)
    nearest = [3.0, 3.0, 0.0, 0.0, 3.0, 0.0]
    for name, arguments in (
        ("embedding.default", {"weight": x, "indices": wild}),
        ("index_select.default", {"self": x, "dim": 0, "index": wild}),
        ("index.Tensor", {"self": x, "indices": [wild]}),
        ("index.Tensor", {"self": x, "indices": [wild, torch.zeros_like(wild)]}),
        ("gather.default", {"self": x, "dim": 0, "index": wild.reshape(6, 1)}),
    ):
        (found,) = runner.call(f"aten.{name}", arguments, [torch.empty(6, 1)])
        assert found.flatten().tolist() == nearest


def test_numbers_outside_write_nothing(runner: OperatorRunner) -> None:
    x, wild = torch.zeros(3, 1), torch.tensor([3, -4, 1 << 30, 1])
    expected = [0.0, 4.0, 0.0]
    values = torch.arange(1.0, 5.0).reshape(4, 1)
    (found,) = runner.call(
        "aten.index_put.default", {"self": x, "indices": [wild], "values": values, "accumulate": False}, [x]
    )
    assert found.flatten().tolist() == expected
    (found,) = runner.call("aten.scatter.src", {"self": x, "dim": 0, "index": wild.reshape(4, 1), "src": values}, [x])
    assert found.flatten().tolist() == expected


def test_nothing_to_choose_from(runner: OperatorRunner) -> None:
    empty, index, out = (
        runner.temporary("float32", (0, 2)),
        runner.temporary("int64", (3,)),
        runner.temporary("float32", (3, 2)),
    )
    matrix = runner.temporary("int64", (3, 2))
    for name, arguments in (
        ("embedding.default", {"weight": empty, "indices": index}),
        ("index_select.default", {"self": empty, "dim": 0, "index": index}),
        ("index.Tensor", {"self": empty, "indices": [index]}),
        ("gather.default", {"self": empty, "dim": 0, "index": matrix}),
    ):
        with pytest.raises(InputError, match="without any"):
            all_operators()[f"aten.{name}"].emit(Call(name, arguments, [out], runner))


def test_damaged_shapes(runner: OperatorRunner) -> None:
    x, index, out = (
        runner.temporary("float32", (4, 2)),
        runner.temporary("int64", (3,)),
        runner.temporary("float32", (5, 2)),
    )
    wide = runner.temporary("int64", (5, 3))
    for name, arguments in (
        ("embedding.default", {"weight": x, "indices": index}),
        ("index.Tensor", {"self": x, "indices": [index]}),
        ("gather.default", {"self": x, "dim": 0, "index": wide}),
    ):
        with pytest.raises(Error):
            all_operators()[f"aten.{name}"].emit(Call(name, arguments, [out], runner))


@pytest.mark.parametrize(
    ("name", "values", "reason"),
    [
        ("index.Tensor", {"indices": [torch.ones(2, dtype=torch.bool)]}, "mask"),
        ("index.Tensor", {"indices": [None]}, "no indices"),
        ("index.Tensor", {"indices": [torch.ones(2, dtype=torch.int8)]}, "int8"),
        ("index_put.default", {"indices": [torch.ones(2, dtype=torch.int64)], "accumulate": True}, "adds up"),
        (
            "index_put.default",
            {"indices": [torch.ones(1).long(), None, torch.ones(1).long()], "accumulate": False},
            "neighbours",
        ),
        ("gather.default", {"index": torch.ones(2, dtype=torch.int8)}, "int8"),
        ("gather.default", {"self": torch.zeros([1] * 7)}, "rank 7"),
    ],
)
def test_refused(name: str, values: dict[str, object], reason: str) -> None:
    check = all_operators()[f"aten.{name}"].check
    assert check is not None
    assert reason in str(check({"self": torch.zeros(2, 2), "out": torch.zeros(1), "values": torch.zeros(1), **values}))


@pytest.mark.parametrize(
    ("name", "arguments", "shape"),
    [
        ("aten.slice_copy.Tensor", {"dim": 0, "start": 1, "end": 4, "step": 1}, (3, 4)),
        ("aten.constant_pad_nd.default", {"pad": [1, 0], "value": 0}, (4, 5)),
        ("aten.tril.default", {"diagonal": 0}, (4, 4)),
        ("aten.roll.default", {"shifts": [1], "dims": [0]}, (4, 4)),
        ("aten.index_select.default", {"dim": 0}, (4, 4)),
        ("aten.gather.default", {"dim": 0}, (4,)),
        ("aten.upsample_nearest1d.default", {"scales": None}, (4, 8)),
    ],
)
def test_types_are_not_taken_for_others(
    runner: OperatorRunner, name: str, arguments: dict[str, object], shape: tuple[int, ...]
) -> None:
    """A damaged file may say anything; wider elements would end outside of the buffer."""
    x, index = runner.temporary("float32", (4, 4)), runner.temporary("int64", (4,))
    if name == "aten.gather.default":
        x = runner.temporary("float32", (4,))
    emit = all_operators()[name].emit
    emit(Call(name, {"self": x, "index": index, **arguments}, [runner.temporary("float32", shape)], runner))
    with pytest.raises(Error, match="float32, int8"):
        emit(Call(name, {"self": x, "index": index, **arguments}, [runner.temporary("int8", shape)], runner))
