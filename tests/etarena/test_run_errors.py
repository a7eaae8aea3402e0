"""Wrong inputs and damaged files: one clear exception, and the method works again afterwards."""

import subprocess
import sys

import numpy as np
import pytest
import torch
from torch import nn
from torch.export import Dim

import etarena

from ..helpers.oracle import assert_same, load_exported


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 3)

    def forward(self, x, mask):
        return torch.relu(self.layer(x)) * mask


def inputs(n: int) -> list[torch.Tensor]:
    return [torch.arange(4.0 * n).reshape(n, 4), torch.full((n, 1), 2.0)]


@pytest.fixture(scope="module")
def model() -> Net:
    torch.manual_seed(0)
    return Net().eval()


@pytest.fixture(scope="module")
def exported(model):
    return etarena.export(model, tuple(inputs(3)), dynamic_shapes=({0: Dim.DYNAMIC}, {0: Dim.DYNAMIC}))


@pytest.fixture
def method(exported):
    return etarena.load(exported.buffer, etarena.Arena(1 << 30)).method()


def assert_still_works(method, model, n: int = 5) -> None:
    assert_same(method.execute(inputs(n))[0], model(*inputs(n)))


WRONG_INPUTS = {
    "dtype": (
        [torch.ones(2, 4, dtype=torch.float64), torch.ones(2, 1)],
        TypeError,
        r"'x' has dtype torch.float64, exp.*float32",
    ),
    "integer dtype": (
        [torch.ones(2, 4), torch.ones(2, 1, dtype=torch.int64)],
        TypeError,
        "'mask' has dtype torch.int64",
    ),
    "rank": ([torch.ones(4), torch.ones(2, 1)], ValueError, r"'x' has shape \(4,\) of rank 1, expected rank 2"),
    "zero rank": ([torch.tensor(1.0), torch.ones(2, 1)], ValueError, "rank 0, expected rank 2"),
    "fixed dimension": (
        [torch.ones(2, 5), torch.ones(2, 1)],
        ValueError,
        "dimension 1 of input 'x' is 5, but must be 4",
    ),
    "one symbol, two sizes": (
        [torch.ones(2, 4), torch.ones(3, 1)],
        ValueError,
        "dimension 0 of input 'mask' is 3, but must be 2",
    ),
    "too few": ([torch.ones(2, 4)], ValueError, r"takes 2 inputs \(x, mask\), got 1"),
    "too many": ([torch.ones(2, 4)] * 3, ValueError, "takes 2 inputs"),
    "not a list": (torch.ones(2, 4), TypeError, "must be a list or tuple"),
    "not a tensor": ([1.0, torch.ones(2, 1)], TypeError, "input 'x': expected a tensor"),
    "none": ([None, torch.ones(2, 1)], TypeError, "input 'x': expected a tensor"),
    "a list": ([[1.0, 2.0], torch.ones(2, 1)], TypeError, "input 'x': expected a tensor"),
    "strings": ([np.array(["a", "b"]), torch.ones(2, 1)], TypeError, "input 'x'"),
    "meta device": ([torch.ones(2, 4, device="meta"), torch.ones(2, 1)], TypeError, "input 'x'.*meta"),
    "sparse": ([torch.ones(2, 4).to_sparse(), torch.ones(2, 1)], TypeError, "input 'x'"),
    "rank 17": ([torch.ones([1] * 17), torch.ones(2, 1)], ValueError, "rank 17"),
}


@pytest.mark.parametrize("case", WRONG_INPUTS)
def test_wrong_inputs_are_named_and_the_method_works_again(method, model, case):
    wrong, kind, message = WRONG_INPUTS[case]
    assert_still_works(method, model, 3)
    with pytest.raises(kind, match=message) as caught:
        method.execute(wrong)
    assert isinstance(caught.value, etarena.Error)
    assert_still_works(method, model, 3)
    assert_still_works(method, model, 8)


def test_sizes_that_no_memory_holds(exported, model):
    method = etarena.load(exported.buffer, etarena.Arena(1 << 24)).method()
    huge = torch.ones(1, 1).expand(2**31 - 1, 4)
    with pytest.raises(etarena.ArenaFullError, match="arena"):
        method.execute([huge, torch.ones(1, 1).expand(2**31 - 1, 1)])
    assert_still_works(method, model)


def test_sizes_beyond_what_executorch_counts(method, model):
    wide = torch.ones(1, 1)
    with pytest.raises(etarena.SizeOverflowError, match=r"2\*\*31"):
        method.execute([wide.expand(2**31, 4), wide.expand(2**31, 1)])
    with pytest.raises(etarena.SizeOverflowError):
        method.plan_for([(2**62, 4), (2**62, 1)])
    assert_still_works(method, model)


def test_products_that_wrap():
    class Product(nn.Module):
        def forward(self, x, y):
            return (x @ y).sum()

    example = (torch.ones(2, 4), torch.ones(4, 6))
    method = load_exported(Product(), example, ({0: Dim.DYNAMIC}, {1: Dim.DYNAMIC})).method()
    column, row = torch.ones(1, 1).expand(2**31 - 1, 4), torch.ones(1, 1).expand(4, 2**31 - 1)
    with pytest.raises((etarena.SizeOverflowError, etarena.ArenaFullError)):
        method.execute([column, row])
    assert float(method.execute([torch.ones(3, 4), torch.ones(4, 5)])[0]) == 60.0


def test_negative_and_malformed_shapes_for_plan_for(method):
    for shapes in (
        [(-1, 4), (-1, 1)],
        [(3, 4)],
        [(3,), (3, 1)],
        [(3, 4), (4, 1)],
        [(3, 5), (3, 1)],
        [3, 3],
        [(2.5, 4), (2, 1)],
    ):
        with pytest.raises(ValueError):  # noqa: PT011 - any of ours; the messages are tested elsewhere
            method.plan_for(shapes)
    assert method.plan_for({"x": (3, 4), "mask": (3, 1)}).peak == method.plan_for([(3, 4), (3, 1)]).peak


def test_limits_of_dims_are_checked_one_by_one():
    class Sum(nn.Module):
        def forward(self, x):
            return x + 1

    a, b = Dim("a", max=4), Dim("b", max=4)
    method = load_exported(Sum(), (torch.ones(3, 2),), ({0: a, 1: b},)).method()
    for shape, culprit in (
        ((2, 8), "dimension 1.*'x' is 8.*b must be at most 4"),
        ((8, 2), "dimension 0.*a must be"),
        ((5, 1), "a"),
    ):
        with pytest.raises(etarena.ShapeError, match=culprit):
            method.execute([torch.ones(shape)])
    assert method.execute([torch.ones(4, 4)])[0].sum() == 32


def test_minimum_multiple_and_shared_symbol():
    class Two(nn.Module):
        def forward(self, image, mask):
            return image.sum() + mask.sum()

    k = Dim("k", min=2)
    method = load_exported(Two(), (torch.ones(96, 3), torch.ones(24, 3)), ({0: 32 * k}, {0: 8 * k})).method()
    with pytest.raises(etarena.ShapeError, match=r"dimension 0 of input 'image' is 33, but must be 64"):
        method.execute([torch.ones(33, 3), torch.ones(16, 3)])
    with pytest.raises(etarena.ShapeError, match=r"dimension 0 of input 'mask' is 17, but must be 8\*k"):
        method.execute([torch.ones(64, 3), torch.ones(17, 3)])
    with pytest.raises(etarena.ShapeError, match="k must be at least 2"):
        method.execute([torch.ones(32, 3), torch.ones(8, 3)])
    assert float(method.execute([torch.ones(64, 3), torch.ones(16, 3)])[0]) == 240.0


def test_constant_inputs_take_only_their_value():
    class Scaled(nn.Module):
        def forward(self, x, factor: float, flag: bool):
            return x * factor if flag else x

    method = load_exported(Scaled(), (torch.ones(2), 2.5, True), None).method()
    assert method.execute([torch.ones(2), 2.5, True])[0].tolist() == [2.5, 2.5]
    for wrong in ([torch.ones(2), 3.5, True], [torch.ones(2), 2.5, False], [torch.ones(2), "2.5", True]):
        with pytest.raises(etarena.InputError, match="exported with"):
            method.execute(wrong)


class TestDamagedFiles:
    def test_truncated_at_every_scale(self, exported):
        for size in (0, 1, 7, 16, 100, len(exported.buffer) // 2, len(exported.buffer) - 1):
            with pytest.raises(etarena.Error):
                etarena.load(exported.buffer[:size]).method()

    def test_every_region_flipped_bit_by_bit(self, exported):
        step = max(len(exported.buffer) // 400, 1)
        for position in range(0, len(exported.buffer), step):
            damaged = bytearray(exported.buffer)
            damaged[position] ^= 1 << (position % 8)
            with pytest.raises(etarena.Error):
                etarena.load(bytes(damaged)).method()

    def test_not_a_program(self):
        for data in (b"", b"hello", bytes(1000), b"\xff" * 5000):
            with pytest.raises(etarena.Error):
                etarena.load(data)

    def test_empty_file_and_missing_file(self, tmp_path):
        (tmp_path / "empty.pte").touch()
        with pytest.raises(etarena.PlanError, match="empty"):
            etarena.load(tmp_path / "empty.pte")
        with pytest.raises(FileNotFoundError):
            etarena.load(tmp_path / "missing.pte")

    def test_source_of_another_kind(self):
        with pytest.raises(TypeError):
            etarena.load(3)
        with pytest.raises(TypeError):
            etarena.load(b"abc", arena="default")

    def test_plan_of_another_program(self, exported):
        from etarena.allocator import plan

        other = etarena.export(nn.Sequential(nn.Linear(4, 3), nn.ReLU()), (torch.ones(3, 4),)).buffer
        start, end = (data.index(plan.MAGIC) for data in (exported.buffer, other))
        length = min(len(exported.buffer) - start, len(other) - end)
        mixed = bytearray(other)
        mixed[end : end + length] = exported.buffer[start : start + length]
        with pytest.raises(etarena.PlanError, match="digest"):
            etarena.load(bytes(mixed))
        # Even with a digest made to fit, the section and the program do not agree.
        with pytest.raises(etarena.Error):
            etarena.load(plan.seal(bytes(mixed))).method()

    def test_sections_that_lie_about_memory(self, monkeypatch):
        from etarena.allocator import plan

        class Weighted(nn.Module):
            def __init__(self):
                super().__init__()
                self.weight = nn.Parameter(torch.ones(4))

            def forward(self, x):
                return torch.relu(x * 2) * 3, self.weight

        data = etarena.export(Weighted(), (torch.ones(4),)).buffer
        honest = plan.decode

        def larger_constant(blob):
            section = honest(blob)
            (constant,) = [value for value in section.values if value.kind == plan.Kind.CONSTANT]
            section.size_code.append(plan.SizeInstruction(0, 10**6))
            constant.sizes = [len(section.symbols) + len(section.size_code) - 1]
            return section

        def missing_value(blob):
            section = honest(blob)
            one, other = [item for item in section.values if item.kind == plan.Kind.ACTIVATION and len(item.sizes) == 1]
            one.index = other.index
            return section

        def constant_without_data(blob):
            section = honest(blob)
            position = next(i for i, item in enumerate(section.values) if item.kind == plan.Kind.ACTIVATION)
            section.values[position].kind = plan.Kind.CONSTANT
            section.order = [other for other in section.order if other != position]
            return section

        for lie, message in (
            (larger_constant, "its memory has 16"),
            (missing_value, "has no memory"),
            (constant_without_data, "the file has no data"),
        ):
            monkeypatch.setattr(plan, "decode", lie)
            with pytest.raises(etarena.PlanError, match=message):
                etarena.load(data).method().execute([torch.ones(4)])
        monkeypatch.setattr(plan, "decode", honest)
        assert etarena.load(data).method().execute([torch.ones(4)])[0].tolist() == [6.0] * 4

    def test_unknown_method(self, exported):
        with pytest.raises(etarena.Error, match="no method 'backward'; it has forward"):
            etarena.load(exported.buffer).method("backward")


STOCK_OPENS = """
import sys
{first}
from executorch.runtime import Runtime
program = Runtime.get().load_program(open(sys.argv[1], "rb").read())
try:
    program.load_method("forward")
except RuntimeError as error:
    print("refused:", error)
else:
    print("loaded")
"""


@pytest.mark.parametrize(
    ("first", "reason"),
    [
        ("", "Backend EtarenaPlan is not registered"),
        ("import etarena; etarena.load(sys.argv[1]).method()", "etarena.load"),
    ],
    ids=["without etarena", "with etarena in the process"],
)
def test_stock_runtime_refuses_a_runtime_planned_file(exported, tmp_path, first, reason):
    exported.save(tmp_path / "model.pte")
    script = STOCK_OPENS.format(first=first)
    done = subprocess.run([sys.executable, "-c", script, str(tmp_path / "model.pte")], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "refused:" in done.stdout
    assert reason in done.stdout + done.stderr


class Lookup(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(16, 4)

    def forward(self, ids):
        return self.table(ids) + 1


LOOKUP = Lookup().eval()


@pytest.fixture(scope="module")
def lookup():
    return etarena.export(LOOKUP, (torch.tensor([1, 2, 3]),), dynamic_shapes=({0: Dim.DYNAMIC},))


def test_failing_kernel_names_instruction_and_operator(lookup):
    method = etarena.load(lookup.buffer).method()
    for _ in range(3):
        with pytest.raises(etarena.RuntimeFailure, match="aten::embedding") as caught:
            method.execute([torch.tensor([1, 99])])
        assert caught.value.instruction == 0
        assert caught.value.operator == "aten::embedding.out"
        assert caught.value.code_name == "InvalidArgument"
        ids = torch.tensor([5, 15, 0])
        assert_same(method.execute([ids])[0], LOOKUP(ids))


BESIDE_STOCK = """
import sys, torch
{first}
import etarena
method = etarena.load(sys.argv[1]).method()
method.execute([torch.tensor([1, 2])])
{then}
from executorch.runtime import Runtime
try:
    method.execute([torch.tensor([1, 99])])
except etarena.RuntimeFailure as error:
    print(error.operator, error.code_name)
print(tuple(method.execute([torch.tensor([3])])[0].shape))
"""


@pytest.mark.parametrize(
    ("first", "then"), [("import executorch.runtime", ""), ("", "import executorch.runtime")], ids=["first", "later"]
)
def test_works_beside_the_stock_bindings(lookup, tmp_path, first, then):
    lookup.save(tmp_path / "model.pte")
    script = BESIDE_STOCK.format(first=first, then=then)
    done = subprocess.run([sys.executable, "-c", script, str(tmp_path / "model.pte")], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "aten::embedding.out InvalidArgument\n(1, 4)\n"
    assert "register_pal" not in done.stderr
