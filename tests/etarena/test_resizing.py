"""Our resizing of pictures, exported and run at any size, against PyTorch's own."""

import pytest
import torch
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.exir._serialize._program import deserialize_pte_binary
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import nn
from torch.export import Dim
from torch.nn.functional import interpolate

import etarena

from ..helpers.oracle import load_exported, run_and_compare

N = Dim.DYNAMIC
WAYS = {
    "nearest": {"mode": "nearest"},
    "nearest-exact": {"mode": "nearest-exact"},
    "bilinear": {"mode": "bilinear"},
    "bilinear, corners aligned": {"mode": "bilinear", "align_corners": True},
    "bicubic": {"mode": "bicubic"},
    "bicubic, corners aligned": {"mode": "bicubic", "align_corners": True},
}
# Of the largest magnitude: rounding of float, and one unit in the last place of the others.
TOLERANCES = {torch.float32: 1e-6, torch.float16: 2**-10, torch.bfloat16: 2**-7}
LAYOUTS = {"planes": torch.contiguous_format, "channels-last": torch.channels_last}
OWN = "etarena::resize2d"


class LikeAnother(nn.Module):
    """Every way of resizing to the size of a second picture."""

    def forward(self, x, like):
        size = like.shape[2:]
        return tuple(interpolate(x, size=size, **way) for way in WAYS.values())


class ByFactors(nn.Module):
    """Every way of resizing by some factors."""

    def __init__(self, factors):
        super().__init__()
        self.factors = factors

    def forward(self, x):
        return tuple(interpolate(x, scale_factor=factor, **way) for factor in self.factors for way in WAYS.values())


class To(nn.Module):
    def __init__(self, **options):
        super().__init__()
        self.options = options

    def forward(self, x):
        return interpolate(x, **self.options)


def picture(shape, dtype=torch.float32, layout="planes", seed=0):
    noise = torch.randn(shape, generator=torch.Generator().manual_seed(seed))
    return noise.to(dtype).contiguous(memory_format=LAYOUTS[layout])


def operators(exported):
    (method,) = deserialize_pte_binary(exported.buffer).program.execution_plan
    return [operator.name for operator in method.operators]


def assert_equal(actual, expected):
    for name, one, other in zip(WAYS, actual, expected, strict=True):
        assert one.shape == other.shape
        difference = (one.double() - other.double()).abs()
        allowed = TOLERANCES[other.dtype] * max(1.0, float(other.abs().max()) if other.numel() else 0.0)
        if name.startswith("bicubic") and other.dtype == torch.float32:
            allowed *= 4  # PyTorch's own cubic weights are up to that far from exact ones
        assert not (difference > allowed).any(), (name, float(difference.max()))
        if name.startswith("nearest"):
            assert torch.equal(one, other), name


@pytest.fixture(scope="module", params=[(dtype, layout) for dtype in TOLERANCES for layout in LAYOUTS], ids=str)
def resizing(request):
    """A method that resizes to any size, with the dtype and layout it takes."""
    dtype, layout = request.param
    example = (picture((2, 3, 5, 6), dtype, layout), picture((2, 1, 8, 4)))
    dynamic = (dict.fromkeys(range(4), N), {2: N, 3: N})
    return load_exported(LikeAnother(), example, dynamic).method(), dtype, layout


side = st.one_of(st.integers(1, 9), st.integers(10, 70))


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    batch=st.integers(1, 3),
    channels=st.sampled_from([1, 2, 3, 16, 33]),
    height=side,
    width=side,
    rows=side,
    columns=side,
)
def test_any_size_to_any_size(resizing, batch, channels, height, width, rows, columns):
    method, dtype, layout = resizing
    x, like = picture((batch, channels, height, width), dtype, layout, seed=height), torch.zeros(2, 1, rows, columns)
    assert_equal(method(x, like), LikeAnother()(x, like))


@pytest.mark.parametrize("sizes", [(300, 2, 5, 2100), (3, 2500, 400, 5), (64, 64, 64, 64), (1, 1, 700, 33)])
def test_pictures_of_several_strips_and_threads(resizing, sizes):
    method, dtype, layout = resizing
    height, width, rows, columns = sizes
    x, like = picture((1, 40, height, width), dtype, layout), torch.zeros(2, 1, rows, columns)
    assert_equal(method(x, like), LikeAnother()(x, like))


def test_no_pictures(resizing):
    method, dtype, layout = resizing
    for result in method(picture((0, 3, 4, 5), dtype, layout), torch.zeros(2, 1, 7, 6)):
        assert tuple(result.shape) == (0, 3, 7, 6)


@pytest.mark.parametrize(("height", "rows"), [(0, 3), (3, 0), (0, 0)])
def test_pictures_without_pixels_are_refused_and_the_method_still_works(resizing, height, rows):
    method, dtype, layout = resizing
    with pytest.raises(etarena.Error):
        method(picture((1, 3, height, 4), dtype, layout), torch.zeros(2, 1, rows, 5))
    x, like = picture((1, 3, 4, 5), dtype, layout), torch.zeros(2, 1, 6, 9)
    assert_equal(method(x, like), LikeAnother()(x, like))


def test_infinities_and_nans_spread_as_far_as_in_pytorch(resizing):
    method, dtype, layout = resizing
    x, like = picture((1, 2, 9, 9), dtype, layout), torch.zeros(2, 1, 13, 7)
    x[0, 0, 4, 4], x[0, 1, 2, 6] = float("nan"), float("inf")
    for one, other in zip(method(x, like), LikeAnother()(x, like), strict=True):
        assert torch.equal(one.isfinite(), other.isfinite())


@pytest.mark.parametrize("layout", LAYOUTS)
def test_factors(layout):
    example = (picture((1, 3, 8, 4), layout=layout),)
    shapes = [(1, 3, 4, 8), (1, 3, 21, 13), (1, 3, 2, 4), (1, 3, 64, 100)]
    calls = [(picture(shape, layout=layout),) for shape in shapes]
    run_and_compare(ByFactors((2.0, (0.5, 3.0), 1.5)), example, ({2: N, 3: N},), calls, tolerance=4e-6)


def test_the_scale_is_the_factor_not_the_ratio_of_the_rounded_sizes():
    model = ByFactors((0.7, (1.1, 2.9), (2.05, 1.05)))
    x = picture((1, 3, 7, 9))
    run_and_compare(model, (x,), None, [(x,)], tolerance=4e-6)


def test_dtypes_of_which_we_have_no_kernel_run_as_before():
    x = picture((1, 2, 4, 6), torch.float64)
    model, shapes = To(scale_factor=2.0, mode="bilinear"), ({2: N, 3: N},)
    assert OWN not in operators(etarena.export(model, (x,), dynamic_shapes=shapes))
    run_and_compare(model, (x,), shapes, [(x,), (picture((1, 2, 9, 5), torch.float64),)])


@pytest.mark.parametrize(
    ("mode", "dynamic", "own"),
    [("bilinear", None, False), ("bilinear", {2: N}, True), ("bicubic", None, True), ("nearest", None, True)],
)
def test_xnnpack_keeps_what_it_can_take(mode, dynamic, own):
    class Between(nn.Module):
        def forward(self, x):
            return interpolate(x * 2, scale_factor=2.0, mode=mode) + 1

    x = picture((1, 3, 8, 6))
    options = {"partitioners": [XnnpackPartitioner()]}
    shapes = (dynamic,) if dynamic else None
    assert (OWN in operators(etarena.export(Between(), (x,), dynamic_shapes=shapes, **options))) == own
    run_and_compare(Between(), (x,), shapes, [(x,)], **options)


def test_a_program_that_was_exported_elsewhere_stays_as_it_is():
    x = picture((1, 3, 8, 6))
    program = torch.export.export(To(scale_factor=2.0, mode="bicubic"), (x,))
    before = [node.target for node in program.graph.nodes]
    etarena.export(program)
    assert [node.target for node in program.graph.nodes] == before


def test_bodies_of_branches():
    class Branches(nn.Module):
        def forward(self, x):
            return torch.cond(
                x.sum() > 0,
                lambda x: interpolate(x, size=(x.shape[2] * 2, x.shape[3] * 2), mode="bilinear"),
                lambda x: interpolate(x, size=(x.shape[2] * 2, x.shape[3] * 2), mode="bicubic") * 2,
                (x,),
            )

    x = picture((1, 3, 8, 6))
    calls = [(x.abs(),), (-picture((1, 3, 5, 9)).abs(),)]
    run_and_compare(Branches(), (x,), ({2: N, 3: N},), calls, tolerance=4e-6)


class TestOperator:
    """The operator in eager mode, and what it refuses there."""

    def test_it_is_pytorchs(self):
        x = picture((1, 3, 5, 6))
        for way in WAYS.values():
            corners = way.get("align_corners", False)
            actual = torch.ops.etarena.resize2d(x, [9, 4], None, None, way["mode"], corners)
            assert torch.equal(actual, interpolate(x, size=(9, 4), **way))

    @pytest.mark.parametrize(
        ("arguments", "said"),
        [
            (([3], None, None, "nearest", False), "height, width"),
            ((None, None, None, "nearest", False), "neither a size nor two scales"),
            ((None, 2.0, None, "nearest", False), "neither a size nor two scales"),
            (([3, 3], None, None, "lanczos", False), "lanczos"),
            (([0, 3], None, None, "bilinear", False), "greater than 0"),
        ],
    )
    def test_bad_arguments(self, arguments, said):
        with pytest.raises(RuntimeError, match=said):
            torch.ops.etarena.resize2d(picture((1, 3, 5, 6)), *arguments)
