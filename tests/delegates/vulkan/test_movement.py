"""Operators of the Vulkan delegate that only move elements, against PyTorch."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from etarena.allocator.errors import Error
from etarena.delegates.vulkan.operators.call import Call
from etarena.delegates.vulkan.operators.registry import all_operators
from etarena.delegates.vulkan.operators.strided_copy import coalesce, copy_strided
from tests.helpers.vulkan_operators import DTYPES, OperatorRunner

EXAMPLES = 40
shapes = st.lists(st.sampled_from([0, 1, 2, 3, 4, 5, 8]), max_size=6).filter(lambda shape: math.prod(shape) <= 20_000)
dtypes = st.sampled_from(list(DTYPES))


def numbered(shape: list[int] | tuple[int, ...], dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Elements that differ from their neighbours."""
    count = torch.arange(math.prod(shape)).reshape(shape)
    return count % 3 == 0 if dtype == torch.bool else (count % 113).to(dtype)


@st.composite
def tensors(draw: st.DrawFn, least_rank: int = 0) -> torch.Tensor:
    return numbered(draw(shapes.filter(lambda shape: len(shape) >= least_rank)), draw(dtypes))


@st.composite
def tensors_and_dims(draw: st.DrawFn) -> tuple[torch.Tensor, int]:
    tensor = draw(tensors(least_rank=1))
    return tensor, draw(st.integers(-tensor.dim(), tensor.dim() - 1))


@given(x=tensors(), data=st.data())
@settings(max_examples=EXAMPLES)
def test_permutations(runner: OperatorRunner, x: torch.Tensor, data: st.DataObject) -> None:
    order = data.draw(st.permutations(range(x.dim())))
    runner.compare("aten.permute_copy.default", x, [dim - x.dim() if dim % 2 else dim for dim in order])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(64, 48), (3, 20, 28), (2, 4, 5, 8), (7, 9)])
def test_transpositions_in_blocks_and_without(
    runner: OperatorRunner, shape: tuple[int, ...], dtype: torch.dtype
) -> None:
    runner.compare("aten.transpose_copy.int", numbered(shape, dtype), -1, -2)
    runner.compare("aten.transpose_copy.int", numbered(shape, dtype), 0, -1)


@pytest.mark.parametrize(
    ("shape", "dtype", "shader"),
    [
        ((64, 48), torch.float32, "copy_blocks_b4"),
        ((3, 20, 28), torch.float16, "copy_blocks_b2"),
        ((64, 48), torch.int8, "copy_blocks_b1"),
        ((64, 48), torch.int64, "copy_strided_b8"),
        ((63, 48), torch.float32, "copy_strided_b4"),
    ],
)
def test_blocks_are_chosen(runner: OperatorRunner, shape: tuple[int, ...], dtype: torch.dtype, shader: str) -> None:
    runner.compare("aten.transpose_copy.int", numbered(shape, dtype), -1, -2)
    assert [dispatch.shader for dispatch in runner.dispatches] == [shader]


@pytest.mark.parametrize(
    ("start", "shape", "shader"),
    [(0, (4, 8), "copy_strided_b16"), (2, (4, 8), "copy_strided_b8"), (1, (4, 8), "copy_strided_b4")],
)
def test_neighbours_move_together(runner: OperatorRunner, start: int, shape: tuple[int, int], shader: str) -> None:
    runner.compare("aten.slice_copy.Tensor", numbered(shape), 1, start, start + 4, 1)
    assert [dispatch.shader for dispatch in runner.dispatches] == [shader]


def test_small_transpositions(runner: OperatorRunner) -> None:
    runner.compare("aten.t_copy.default", numbered((5, 3)))
    runner.compare("aten.t_copy.default", numbered((5,)))
    runner.compare("aten.t_copy.default", numbered(()))
    runner.compare("aten.transpose_copy.int", numbered(()), 0, -1)


@given(given=tensors_and_dims(), data=st.data())
@settings(max_examples=EXAMPLES)
def test_slices(runner: OperatorRunner, given: tuple[torch.Tensor, int], data: st.DataObject) -> None:
    x, dim = given
    places = st.none() | st.integers(-10, 10) | st.sampled_from([(1 << 63) - 1, -(1 << 63)])
    runner.compare("aten.slice_copy.Tensor", x, dim, data.draw(places), data.draw(places), data.draw(st.integers(1, 4)))


@given(given=tensors_and_dims(), data=st.data())
@settings(max_examples=EXAMPLES)
def test_selections_and_splits(runner: OperatorRunner, given: tuple[torch.Tensor, int], data: st.DataObject) -> None:
    x, dim = given
    size = x.shape[dim]
    if size:
        runner.compare("aten.select_copy.int", x, dim, data.draw(st.integers(-size, size - 1)))
        runner.compare("aten.unbind_copy.int", x, dim)
    cuts = sorted(data.draw(st.lists(st.integers(0, size), max_size=3)))
    sizes = [b - a for a, b in zip([0, *cuts], [*cuts, size], strict=True)]
    runner.compare("aten.split_with_sizes_copy.default", x, sizes, dim)
    runner.compare("aten.split_copy.Tensor", x, 2, dim)
    start = data.draw(st.integers(0, size))
    runner.compare("aten.narrow_copy.default", x, dim, start, data.draw(st.integers(0, size - start)))


@given(x=tensors(), data=st.data())
@settings(max_examples=EXAMPLES)
def test_flips_repetitions_and_expansions(runner: OperatorRunner, x: torch.Tensor, data: st.DataObject) -> None:
    dims = data.draw(
        st.lists(st.integers(-x.dim(), x.dim() - 1), unique_by=lambda dim: dim % x.dim()) if x.dim() else st.just([])
    )
    runner.compare("aten.flip.default", x, dims)
    front = data.draw(st.lists(st.integers(0, 2), max_size=1))
    repeats = data.draw(st.lists(st.integers(0, 2), min_size=x.dim(), max_size=x.dim()))
    runner.compare("aten.repeat.default", x, [*front, *repeats])
    sizes = [data.draw(st.integers(0, 3)) if size == 1 else data.draw(st.sampled_from([size, -1])) for size in x.shape]
    runner.compare("aten.expand_copy.default", x, [*front, *sizes])


def test_repeating_six_dimensions(runner: OperatorRunner) -> None:
    """Twelve dimensions on the way, more than the shader walks through."""
    runner.compare("aten.repeat.default", numbered((2, 3, 2, 3, 2, 3)), [2, 1, 2, 3, 2, 2])


@given(x=tensors(least_rank=2), offset=st.integers(-3, 3))
@settings(max_examples=EXAMPLES)
def test_diagonals(runner: OperatorRunner, x: torch.Tensor, offset: int) -> None:
    runner.compare("aten.diagonal_copy.default", x, offset, 0, -1)
    runner.compare("aten.diagonal_copy.default", x, offset, 1, 0)


@given(given=tensors_and_dims(), size=st.integers(0, 4), step=st.integers(1, 3))
@settings(max_examples=EXAMPLES)
def test_windows(runner: OperatorRunner, given: tuple[torch.Tensor, int], size: int, step: int) -> None:
    x, dim = given
    runner.compare("aten.unfold_copy.default", x, dim, min(size, x.shape[dim]), step)


def test_any_strides(runner: OperatorRunner) -> None:
    runner.compare("aten.as_strided_copy.default", numbered((40,)), [2, 3, 4], [0, 5, 1], 7)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("factor", "outer", "size"), [(2, (2, 3), (4, 6)), (3, (1,), (3, 5)), (2, (2, 0), (4, 4))])
def test_pixels_and_channels(
    runner: OperatorRunner, factor: int, outer: tuple[int, ...], size: tuple[int, int], dtype: torch.dtype
) -> None:
    channels = (*outer[:-1], outer[-1] * factor * factor, *size)
    runner.compare("aten.pixel_shuffle.default", numbered(channels, dtype), factor)
    runner.compare(
        "aten.pixel_unshuffle.default", numbered((*outer, size[0] * factor, size[1] * factor), dtype), factor
    )


@given(x=tensors())
@settings(max_examples=EXAMPLES)
def test_reshapes_move_nothing(runner: OperatorRunner, x: torch.Tensor) -> None:
    for name, *arguments in (
        ("view_copy.default", [x.numel()]),
        ("_unsafe_view.default", [1, x.numel()]),
        ("unsqueeze_copy.default", -1),
        ("squeeze_copy.default",),
        ("clone.default",),
        ("alias_copy.default",),
    ):
        runner.compare(f"aten.{name}", x, *arguments)
        assert runner.dispatches == []
    if x.dim():
        runner.compare("aten.squeeze_copy.dim", x, 0)
        runner.compare("aten.squeeze_copy.dims", x, [0, -1] if x.dim() > 1 else [0])


@pytest.mark.parametrize(
    ("name", "shape", "arguments"),
    [
        ("permute_copy.default", (1, 5, 1, 3), ([2, 1, 0, 3],)),
        ("slice_copy.Tensor", (4, 3), (0, 0, 100, 1)),
        ("select_copy.int", (1, 6), (0, 0)),
        ("expand_copy.default", (2, 3), ([-1, 3],)),
        ("repeat.default", (2, 3), ([1, 1],)),
        ("flip.default", (1, 4), ([0],)),
    ],
)
def test_what_stays_in_its_place_is_not_copied(
    runner: OperatorRunner, name: str, shape: tuple[int, ...], arguments: tuple[object, ...]
) -> None:
    runner.compare(f"aten.{name}", numbered(shape), *arguments)
    assert runner.dispatches == []


def test_copy_into_a_shape(runner: OperatorRunner) -> None:
    runner.compare("aten.copy.default", torch.zeros(2, 3, 4), numbered((3, 1)))
    check = all_operators()["aten.copy.default"].check
    assert check is not None
    zeros = torch.zeros(2)
    assert "float16" in str(check({"src": zeros.half(), "out": zeros}))


@given(
    sizes=st.lists(st.integers(1, 4), min_size=1, max_size=5),
    strides=st.data(),
)
@settings(max_examples=100)
def test_merged_dimensions_visit_the_same_places(sizes: list[int], strides: st.DataObject) -> None:
    steps = strides.draw(st.lists(st.integers(-6, 12), min_size=len(sizes), max_size=len(sizes)))
    dense = [math.prod(sizes[i + 1 :]) for i in range(len(sizes))]

    def visited(extents: list[int], *many: list[int]) -> list[tuple[int, ...]]:
        places = torch.cartesian_prod(*(torch.arange(extent) for extent in extents)).reshape(-1, len(extents))
        return [tuple(int(place @ torch.tensor(found)) for found in many) for place in places]

    merged = coalesce(sizes, steps, dense)
    columns = [list(column) for column in zip(*merged, strict=True)]
    assert visited(columns[0], columns[1], columns[2]) == visited(sizes, steps, dense)


@pytest.mark.parametrize(
    ("sizes", "source", "target", "offsets"),
    [
        ((4, 4), (4, 2), (4, 1), (0, 0)),
        ((4, 4), (4, 1), (4, 1), (0, 1)),
        ((4,), (-1,), (1,), (2, 0)),
        ((4,), (1,), (1,), (13, 0)),
    ],
)
def test_a_copy_that_leaves_a_tensor_is_refused(
    runner: OperatorRunner,
    sizes: tuple[int, ...],
    source: tuple[int, ...],
    target: tuple[int, ...],
    offsets: tuple[int, int],
) -> None:
    """Files may come from anywhere: no shader reads or writes beside its tensors."""
    a, b = runner.temporary("int8", (16,)), runner.temporary("int8", (16,))
    call = Call("aten.slice_copy.Tensor", {}, [b], runner)
    with pytest.raises(Error, match="reaches elements"):
        copy_strided(call, a, b, sizes, source, target, *offsets)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("aten.permute_copy.default", {"dims": [0, 5]}),
        ("aten.permute_copy.default", {"dims": [0, -3]}),
        ("aten.select_copy.int", {"dim": 0, "index": 4}),
        ("aten.select_copy.int", {"dim": 0, "index": -5}),
        ("aten.slice_copy.Tensor", {"dim": 2, "start": 0, "end": 1, "step": 1}),
        ("aten.slice_copy.Tensor", {"dim": 0, "start": 1, "end": 9, "step": 1}),
        ("aten.view_copy.default", {"size": [3]}),
        ("aten.expand_copy.default", {"size": [4, 4]}),
    ],
)
def test_damaged_arguments_are_refused(runner: OperatorRunner, name: str, arguments: dict[str, object]) -> None:
    a, out = runner.temporary("float32", (4, 2)), runner.temporary("float32", (4, 4))
    with pytest.raises(Error):
        all_operators()[name].emit(Call(name, {"self": a, **arguments}, [out], runner))
