"""Memory predicted from plan sections alone, beside the runs of the same programs."""

import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import etarena
from etarena.propagation.predictors import LoadedPredictor, program_predictors
from etarena.propagation.sections import SectionEstimator, sections_of


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=1)

    def forward(self, image: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
        maps = self.conv(image).relu()
        return (maps * maps.mean((2, 3), keepdim=True)).sum(1), (rows @ rows.T).softmax(-1) @ rows


class Chosen(nn.Module):
    def forward(self, rows: Tensor) -> Tensor:
        kept = rows[rows[:, 0] > 0]
        return (torch.cat([kept, kept]) * 2).sum(1)


@pytest.fixture(scope="module")
def program() -> bytes:
    shapes = ({2: torch.export.Dim("h"), 3: torch.export.Dim("w")}, {0: torch.export.Dim("n", max=500)})
    exported = etarena.export(Net(), (torch.randn(1, 3, 8, 12), torch.randn(5, 4)), dynamic_shapes=shapes)
    return bytes(exported.buffer)


def test_predictions_are_what_runs_take(program: bytes) -> None:
    (section,) = sections_of(program)
    estimator = SectionEstimator(section)
    method = etarena.load(program).method("forward")
    assert estimator.is_exact
    generator = random.Random(0)
    for _ in range(20):
        h, w, n = (generator.randint(1, 60) for _ in range(3))
        found = estimator.memory(estimator.sizes_for([(1, 3, h, w), (n, 4)]))
        (region,) = found.regions
        method.execute([torch.randn(1, 3, h, w), torch.randn(n, 4)])
        # A method that planned other sizes before begins with their order, and may stop at another good plan.
        assert abs(region.peak - method.last_run.arena_bytes) <= method.last_run.arena_bytes / 100
        fresh = etarena.load(program).method("forward")
        fresh.execute([torch.randn(1, 3, h, w), torch.randn(n, 4)])
        run = fresh.last_run
        assert (region.device, region.peak, region.lower_bound) == ("cpu", run.arena_bytes, run.lower_bound_bytes)
        assert (found.output_bytes, found.state_bytes) == (run.output_bytes, run.state_bytes)
        assert found.input_bytes == 4 * (3 * h * w + 4 * n)
        assert found.sizes == {"h": h, "w": w, "n": n}


def test_no_runtime_and_no_torch_are_loaded(program: bytes, tmp_path: Path) -> None:
    path = tmp_path / "model.pte"
    path.write_bytes(program)
    code = (
        "import sys\n"
        "from etarena.propagation.predictors import program_predictors\n"
        f"(one,) = program_predictors({str(path)!r})\n"
        "print(one.memory({'h': 8, 'w': 8, 'n': 3}).peak > 0)\n"
        "print([name for name in ('torch', 'executorch', 'etarena._runtime') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[:2] == ["True", "[]"]


def test_sizes_that_data_tells_need_numbers() -> None:
    exported = etarena.export(Chosen(), (torch.randn(6, 3),), dynamic_shapes=({0: torch.export.Dim("n")},))
    (predictor,) = program_predictors(bytes(exported.buffer))
    assert isinstance(predictor, LoadedPredictor)
    (told,) = predictor.told
    method = etarena.load(exported.buffer).method("forward")
    for n, kept in [(50, 50), (50, 7), (9, 0)]:
        rows = torch.ones(n, 3)
        rows[kept:] = -1
        method.execute([rows])
        found = predictor.memory({**predictor.sizes_for([(n, 3)]), told: kept})
        assert found.peak == method.last_run.arena_bytes
    with pytest.raises(etarena.InputError, match=told):
        predictor.memory(predictor.sizes_for([(50, 3)]))


def test_scratch_of_delegates_is_predicted() -> None:
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner

    module = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 4, 3, padding=1)).eval()
    shapes = ({2: torch.export.Dim("h", max=200), 3: torch.export.Dim("w", max=200)},)
    exported = etarena.export(
        module, (torch.randn(1, 3, 16, 16),), dynamic_shapes=shapes, partitioners=[XnnpackPartitioner()]
    )
    buffer = bytes(exported.buffer)
    (predictor,) = program_predictors(buffer)
    method = etarena.load(buffer).method("forward")
    for size in (9, 64):
        found = predictor.memory(predictor.sizes_for([(1, 3, size, size)]))
        method.execute([torch.randn(1, 3, size, size)])
        assert method.last_run.delegate_scratch_bytes > 0
        assert (found.peak, found.left_out) == (method.last_run.arena_bytes, ())
    alone = SectionEstimator(sections_of(buffer)[0])
    assert alone.memory({"h": 9, "w": 9}).left_out == ("scratch of XnnpackBackend",)


@pytest.mark.parametrize(
    ("shapes", "error", "words"),
    [
        ([(1, 3, 8, 8)], etarena.InputError, r"expected 2 shapes \(image, rows\), got 1"),
        ([(1, 3, 8), (2, 4)], etarena.InputError, "'image' must have 4 sizes"),
        ([(1, 4, 8, 8), (2, 4)], etarena.ShapeError, "dimension 1 of input 'image' is 4, but must be 3"),
        ({"image": (1, 3, 8, 8)}, etarena.InputError, "name each of image, rows once"),
        ([(1, 3, 8, 8), (501, 4)], etarena.ShapeError, "n is 501, but must be at most 500"),
        ([(1, 3, 2**40, 2**40), (2, 4)], etarena.SizeOverflowError, "too large"),
        ("1x3", etarena.InputTypeError, "sequence"),
    ],
)
def test_shapes_that_make_no_sense(program: bytes, shapes: Any, error: type[Exception], words: str) -> None:
    estimator = SectionEstimator(sections_of(program)[0])
    with pytest.raises(error, match=words):
        estimator.memory(estimator.sizes_for(shapes))


@pytest.mark.parametrize(
    ("sizes", "error", "words"),
    [
        ({"h": 3, "w": 3}, etarena.InputError, "no number for n"),
        ({"h": 3, "w": 3, "n": 1, "x": 2}, etarena.InputError, "no symbol 'x'; there are"),
        ({"h": -1, "w": 3, "n": 1}, etarena.ShapeError, "h is -1, but must be at least"),
        ({"h": 2.5, "w": 3, "n": 1}, etarena.InputTypeError, "must be an int"),
    ],
)
def test_sizes_that_make_no_sense(program: bytes, sizes: dict[str, Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        SectionEstimator(sections_of(program)[0]).memory(sizes)


def test_files_that_are_not_what_they_claim(program: bytes, tmp_path: Path) -> None:
    for content in (b"", b"text", b"\0" * 100):
        path = tmp_path / "model.pte"
        path.write_bytes(content)
        with pytest.raises(etarena.PlanError, match=r"model.pte is no .pte program"):
            program_predictors(path)
    at = len(program) // 2
    with pytest.raises(etarena.PlanError, match="does not match"):
        sections_of(program[:at] + bytes([program[at] ^ 1]) + program[at + 1 :])
    with pytest.raises(etarena.PlanError):
        sections_of(program[: len(program) - 40])
    with pytest.raises(FileNotFoundError, match="there is no file"):
        program_predictors(tmp_path / "missing.pte")
    with pytest.raises(etarena.InputError, match="fixed when it was exported"):
        program_predictors(program[:8] + b"\0" * 64)
