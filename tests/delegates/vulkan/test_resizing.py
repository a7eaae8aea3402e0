"""Images of other sizes on Vulkan, against PyTorch."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import etarena.ops.resize  # noqa: F401 - defines the operator
from etarena.allocator.errors import Error
from etarena.delegates.vulkan.operators.call import Call
from etarena.delegates.vulkan.operators.registry import all_operators
from tests.helpers.vulkan_operators import DTYPES, OperatorRunner

EXAMPLES = 40
FLOATS = [torch.float32, torch.float16]
sizes = st.tuples(st.integers(1, 12), st.integers(1, 12))
factors = st.tuples(st.floats(0.5, 3), st.sampled_from([1.0, 1.5, 2.0, 3.0]))


@st.composite
def images(draw: st.DrawFn, *dtypes: torch.dtype) -> torch.Tensor:
    torch.manual_seed(draw(st.integers(0, 99)))
    shape = (draw(st.integers(0, 2)), draw(st.integers(1, 3)), *draw(sizes))
    dtype = draw(st.sampled_from(dtypes))
    return torch.rand(shape).to(dtype) if dtype.is_floating_point else torch.randint(0, 256, shape).to(dtype)


@given(x=images(torch.float32, torch.uint8), size=sizes, given=factors)
@settings(max_examples=EXAMPLES)
def test_nearest(runner: OperatorRunner, x: torch.Tensor, size: tuple[int, int], given: tuple[float, float]) -> None:
    runner.compare("aten.upsample_nearest2d.vec", x, list(size), None)
    if min(x.shape[-2] * given[0], x.shape[-1] * given[1]) >= 1:
        runner.compare("aten.upsample_nearest2d.vec", x, None, list(given))
        runner.compare("aten.upsample_nearest2d.default", x, [3, 5], *given)
    runner.compare("aten.upsample_nearest1d.vec", x[0] if len(x) else x[:, 0], [size[0]], None)


@pytest.mark.parametrize("dtype", DTYPES)
def test_nearest_moves_any_type(runner: OperatorRunner, dtype: torch.dtype) -> None:
    """PyTorch's kernel knows few types: numbers that all have are compared with those of float32."""
    x = torch.arange(24).reshape(1, 2, 3, 4) % 2
    expected = torch.ops.aten.upsample_nearest2d.vec(x.float(), [6, 7], None).to(dtype)
    arguments = {"input": x.to(dtype), "output_size": [6, 7], "scale_factors": None}
    (found,) = runner.call("aten.upsample_nearest2d.vec", arguments, [expected])
    assert torch.equal(found, expected)


@given(x=images(*FLOATS), size=sizes, given=factors, corners=st.booleans())
@settings(max_examples=EXAMPLES)
def test_linear(
    runner: OperatorRunner, x: torch.Tensor, size: tuple[int, int], given: tuple[float, float], corners: bool
) -> None:
    runner.compare("aten.upsample_bilinear2d.vec", x, list(size), corners, None)
    if min(x.shape[-2] * given[0], x.shape[-1] * given[1]) >= 1:
        runner.compare("aten.upsample_bilinear2d.vec", x, None, corners, list(given))
    runner.compare("aten.upsample_bilinear2d.default", x, [4, 6], corners, 1.3, None)
    runner.compare("aten.upsample_linear1d.vec", x[0] if len(x) else x[:, 0], [size[1]], corners, None)


@given(
    x=images(*FLOATS),
    size=sizes,
    given=factors,
    mode=st.sampled_from(["nearest", "nearest-exact", "bilinear", "bicubic"]),
    corners=st.booleans(),
)
@settings(max_examples=3 * EXAMPLES)
def test_own_operator(
    runner: OperatorRunner,
    x: torch.Tensor,
    size: tuple[int, int],
    given: tuple[float, float],
    mode: str,
    corners: bool,
) -> None:
    if mode == "bicubic":
        runner.compare("aten.upsample_bicubic2d.vec", x, list(size), corners, None)
    if mode == "nearest-exact":
        runner.compare("aten._upsample_nearest_exact2d.vec", x, list(size), None)
    corners = corners and not mode.startswith("nearest")
    runner.compare("etarena.resize2d.default", x, list(size), None, None, mode, corners)
    if min(x.shape[-2] * given[0], x.shape[-1] * given[1]) >= 1:
        runner.compare("etarena.resize2d.default", x, None, *given, mode, corners)


@pytest.mark.parametrize("corners", [True, False])
@pytest.mark.parametrize("padding", [0, 1, 2])
@pytest.mark.parametrize("mode", [0, 1])
def test_grids(runner: OperatorRunner, mode: int, padding: int, corners: bool) -> None:
    torch.manual_seed(mode * 3 + padding)
    for shape in ((2, 3, 5, 7), (1, 1, 1, 4)):
        grid = torch.rand(shape[0], 4, 3, 2) * 4 - 2
        runner.compare("aten.grid_sampler_2d.default", torch.randn(shape), grid, mode, padding, corners)
    half = torch.randn(1, 2, 4, 4).half()
    if mode == 0:
        places = torch.tensor([[[[0.0, 0.5], [-1.0, 1.0], [0.25, -0.75]]]]).half()
        runner.compare("aten.grid_sampler_2d.default", half, places, mode, padding, corners)


def test_grids_far_outside(runner: OperatorRunner) -> None:
    """Whatever the grid says, the shader stays inside the image: 0 there, as for any place outside."""
    grid = torch.tensor([float("nan"), float("inf"), -1e30, 1e30, 5.0, -5.0]).reshape(1, 1, 3, 2)
    arguments = {"input": torch.ones(1, 1, 2, 2), "grid": grid, "interpolation_mode": 0, "padding_mode": 0}
    (found,) = runner.call(
        "aten.grid_sampler_2d.default", {**arguments, "align_corners": False}, [torch.empty(1, 1, 1, 3)]
    )
    assert found.tolist() == [[[[0.0, 0.0, 0.0]]]]


@pytest.mark.parametrize(
    ("name", "values", "reason"),
    [
        ("upsample_bilinear2d.vec", {"out": torch.zeros(1, dtype=torch.uint8)}, "uint8"),
        ("grid_sampler_2d.default", {"interpolation_mode": 2}, "bicubic"),
        (
            "grid_sampler_2d.default",
            {"interpolation_mode": 0, "out": torch.zeros(1), "grid": torch.zeros(1).half()},
            "float16",
        ),
    ],
)
def test_refused(name: str, values: dict[str, object], reason: str) -> None:
    check = all_operators()[f"aten.{name}"].check
    assert check is not None
    assert reason in str(check(values))


def test_damaged_shapes(runner: OperatorRunner) -> None:
    x, grid, out = (runner.temporary("float32", shape) for shape in ((1, 2, 3, 3), (1, 2, 2, 2), (1, 3, 2, 2)))
    scaled = Call(
        "resize", {"input": x, "output_size": [2, 2], "scale_factors": None, "align_corners": False}, [out], runner
    )
    placed = Call(
        "grid",
        {"input": x, "grid": grid, "interpolation_mode": 0, "padding_mode": 0, "align_corners": False},
        [out],
        runner,
    )
    for name, call in (
        ("upsample_nearest2d.vec", scaled),
        ("upsample_bilinear2d.vec", scaled),
        ("grid_sampler_2d.default", placed),
    ):
        with pytest.raises(Error, match="makes the shape"):
            all_operators()[f"aten.{name}"].emit(call)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("corners", [False, True])
@pytest.mark.parametrize("size", [(3, 8), (11, 100), (4, 4), (40, 16)])
def test_rows_several_times_as_wide(
    runner: OperatorRunner, dtype: torch.dtype, corners: bool, size: tuple[int, int]
) -> None:
    """Results that lie between three columns of the source are made four at a time."""
    torch.manual_seed(size[0])
    for width in (1, 2, 3, 5, 24):
        runner.compare("aten.upsample_bilinear2d.vec", torch.rand(2, 3, 4, width).to(dtype), list(size), corners, None)
