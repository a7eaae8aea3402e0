"""The demo's models, inputs and checks. The oracle is eager PyTorch; public figures are those reported for stock."""

import json
import re
from collections.abc import Callable
from io import StringIO
from pathlib import Path

import pytest
import torch
from rich.console import Console
from torch import Tensor, nn

import etarena
from etarena.demo import main as demo_main
from etarena.demo.catalogue import make
from etarena.demo.initialise import fold_batch_norms, initialise, layer_scales
from etarena.demo.inputs import PHOTOGRAPHS, VOCABULARY, photograph, tokenise, tokens
from etarena.demo.models import MODELS, DemoModel, Size
from etarena.demo.results import DemoResult, ModelResult
from etarena.demo.runs import SizeResult, relative_error, run_sizes, there_and_back
from etarena.demo.steps import Steps
from etarena.demo.stock import planned_beside
from etarena.memory_plan import MemoryPlan


@pytest.fixture(scope="module", params=sorted(MODELS))
def model(request: pytest.FixtureRequest) -> DemoModel:
    return make(request.param)


@pytest.mark.parametrize(("height", "width"), [(1, 1), (61, 125), (427, 640), (500, 700)])
@pytest.mark.parametrize("name", PHOTOGRAPHS)
def test_photographs_come_in_any_size(name: str, height: int, width: int) -> None:
    pixels = photograph(name, height, width)
    assert pixels.shape == (1, 3, height, width)
    assert pixels.dtype == torch.float32
    assert pixels.is_contiguous()
    assert pixels.isfinite().all()


def test_a_photograph_is_normalised_and_not_noise() -> None:
    pixels = photograph("china", 427, 640)
    assert pixels.mean((2, 3)).abs().max() < 1e-4
    torch.testing.assert_close(pixels.std((2, 3)), torch.ones(1, 3), atol=1e-3, rtol=0)
    neighbours = (pixels[..., 1:] - pixels[..., :-1]).std()
    assert neighbours < 0.5  # white noise of deviation one would give 1.4


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: photograph("moon", 8, 8), "no photograph 'moon'; choose one of china, flower"),
        (lambda: photograph("china", 0, 8), "at least one pixel a side, not 0 x 8"),
        (lambda: photograph("china", 8, -1), "at least one pixel a side, not 8 x -1"),
        (lambda: tokens(0), "at least one token, not 0"),
        (lambda: make("gpt"), "no model 'gpt'; it has mobilenet_v2"),
    ],
)
def test_bad_input_is_named(call: Callable[[], object], message: str) -> None:
    with pytest.raises(etarena.InputError, match=message):
        call()


def test_tokens_are_stable_words_of_the_readme() -> None:
    assert tokenise("The arena, the ARENA!") == [tokenise("the")[0], *tokenise("arena , the arena !")]
    assert tokenise("ab") == [(ord("a") * 257 + ord("b")) % VOCABULARY]
    long = tokens(5000)
    assert long.shape == (1, 5000)
    assert long.dtype == torch.int64
    assert torch.equal(tokens(17), long[:, :17])
    assert 0 <= long.min() <= long.max() < VOCABULARY
    assert len(long.unique()) > 50


def test_activations_stay_near_one_layer_by_layer(model: DemoModel) -> None:
    scales = layer_scales(model.module, model.input(model.sizes[2]))
    assert len(scales) > 10
    assert min(scales.values()) > 0.3
    assert max(scales.values()) < 4


def test_answers_depend_on_the_input(model: DemoModel) -> None:
    size = model.sizes[2]
    one = model.input(size, "china")
    other = model.input(size, "flower") if model.unit == "px" else one.flip(1)
    with torch.no_grad():
        assert relative_error(model.module(other), model.module(one)) > 0.1


def test_models_are_the_same_every_time_and_leave_the_generator_alone() -> None:
    before = torch.random.get_rng_state()
    first, second = make("bert"), make("bert")
    assert torch.equal(torch.random.get_rng_state(), before)
    for one, other in zip(first.module.state_dict().values(), second.module.state_dict().values(), strict=True):
        assert torch.equal(one, other)


def test_sizes_grow_and_reach_far(model: DemoModel) -> None:
    elements = [torch.Size(size).numel() for size in model.sizes]
    assert elements == sorted(elements)
    assert len(elements) >= 8
    assert elements[-1] >= (2_000_000 if model.unit == "px" else 2000)


def test_initialise_revives_a_dead_network() -> None:
    layers = [layer for _ in range(6) for layer in (nn.Conv2d(8, 8, 3, padding=1, bias=False), nn.ReLU())]
    model = nn.Sequential(*layers)
    for parameter in model.parameters():
        parameter.data.mul_(1e-6)
    x = torch.randn(1, 8, 16, 16, generator=torch.Generator().manual_seed(1))
    assert model(x).abs().max() < 1e-20
    initialise(model, x)
    assert 0.2 < model(x).square().mean().sqrt() < 2


def test_folding_batch_norms_changes_no_answer() -> None:
    body = nn.Sequential(nn.Conv2d(3, 8, 3, bias=False), nn.BatchNorm2d(8), nn.ReLU(), nn.BatchNorm2d(8))
    model = nn.Sequential(body, nn.Conv2d(8, 4, 1), nn.BatchNorm2d(4))
    x = photograph("china", 20, 30)
    initialise(model, x)
    wanted = model(x)
    assert fold_batch_norms(model) is model
    assert relative_error(model(x), wanted) < 1e-5
    # The second normalisation of the body follows no convolution and stays.
    assert [name for name, layer in model.named_modules() if isinstance(layer, nn.BatchNorm2d)] == ["0.3"]


def test_sizes_go_there_and_back() -> None:
    assert there_and_back([(1,), (2,), (3,)]) == [(1,), (2,), (3,), (2,), (1,), (2,), (3,)]
    assert there_and_back([(1,)]) == [(1,)]


@pytest.mark.parametrize(
    ("got", "wanted", "error"),
    [
        (torch.tensor([1.0, 4.0]), torch.tensor([1.0, 5.0]), 0.2),
        (torch.tensor([float("nan"), 5.0]), torch.tensor([1.0, 5.0]), float("inf")),
        (torch.tensor([[1.0, 5.0]]), torch.tensor([1.0, 5.0]), float("inf")),
        (torch.tensor([1.0], dtype=torch.float64), torch.tensor([1.0]), float("inf")),
    ],
)
def test_relative_error(got: Tensor, wanted: Tensor, error: float) -> None:
    assert relative_error(got, wanted) == pytest.approx(error)


def test_a_failing_stock_export_is_reported() -> None:
    with planned_beside(["gpt"]) as plans, pytest.raises(etarena.Error, match="the demo has no model 'gpt'"):
        next(plans)


def small_result(peak: int, error: float | None) -> DemoResult:
    model = make("embedding_linear")
    plan = MemoryPlan("forward", ((1, 7),), peak, 1000, 0, 0, 0, (), ())
    return DemoResult([ModelResult(model, 1, 1.0, [SizeResult(model.name, (7,), plan, peak, error)])])


@pytest.mark.parametrize(
    ("peak", "error", "message"),
    [
        (1000, 2e-4, "Embedding . Linear at 7 tokens: error 2.0e-04 is above 1e-04"),
        (1000, float("nan"), "error nan is above"),
        (1031, 0.0, "the arena is 1.031 x its lower bound"),
    ],
)
def test_figures_outside_their_limits_fail_the_demo(peak: int, error: float, message: str) -> None:
    with pytest.raises(etarena.Error, match=message):
        small_result(peak, error).check()


@pytest.mark.parametrize("error", [9e-5, None])
def test_figures_within_their_limits_pass(error: float | None) -> None:
    small_result(1030, error).check()


def shown(result: DemoResult) -> str:
    console = Console(file=StringIO(), width=250)
    result.show(console)
    return console.file.getvalue()  # type: ignore[attr-defined, no-any-return]


def test_the_table_shows_figures_and_faults() -> None:
    text = shown(small_result(1031, 2e-4))
    assert re.search(r"Embedding \+ Linear \(CPU kernels\) +7 tokens +2.0e-04 +1.01 KiB +1000 B ", text)
    assert text.count("outside its limit: Embedding + Linear at 7 tokens") == 2
    assert "planned only" in shown(small_result(1000, None))


def test_a_terminal_sees_bars_and_a_file_sees_lines() -> None:
    texts = {}
    for terminal in (True, False):
        console = Console(file=StringIO(), width=80, force_terminal=terminal)
        with Steps.on(console) as steps, steps.step("Counting", total=2) as advance:
            advance()
            advance()
        texts[terminal] = console.file.getvalue()  # type: ignore[attr-defined]
    assert "2/2" in texts[True]
    assert texts[False] == "Counting ...\n"


class Spoiled(nn.Module):
    """What eager would answer if it were wrong at one size."""

    def __init__(self, model: nn.Module, size: Size) -> None:
        super().__init__()
        self.model, self.size = model, size

    def forward(self, ids: Tensor) -> Tensor:
        output: Tensor = self.model(ids)
        return output + 1 if ids.shape[1] == self.size[0] else output


def test_runs_find_the_size_that_differs() -> None:
    model = make("embedding_linear")
    exported = etarena.export(model.module, (model.input((5,)),), dynamic_shapes=model.dynamic_shapes())
    fields = {name: getattr(model, name) for name in DemoModel.__dataclass_fields__}
    wrong = DemoModel(**fields | {"module": Spoiled(model.module, (7,))})
    results = run_sizes(wrong, etarena.load(exported.buffer), [(1,), (7,), (64,)])
    assert [len(result.run_seconds) for result in results.values()] == [2, 3, 2]
    errors = {size: result.error or 0.0 for size, result in results.items()}
    assert errors[(7,)] > 0.1
    assert max(errors[(1,)], errors[(64,)]) < 1e-5
    # The result itself, 512 values a token, lies outside the arena; the total counts it and the ids.
    assert results[(7,)].plan.output_bytes == 7 * 512 * 4
    assert results[(7,)].total_bytes == results[(7,)].plan.peak + 7 * 512 * 4 + 7 * 8


def test_the_whole_demo_on_two_models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo_main, "QUICK", ("embedding_linear", "conv_mean"))
    said = Console(file=StringIO(), width=200)
    result = demo_main.run(tmp_path / "new" / "folder", quick=True, console=said)
    result.check()
    assert "Exporting Embedding + Linear, every size unbounded ...\n" in said.file.getvalue()  # type: ignore[attr-defined]
    # What stock ExecuTorch is publicly reported to reserve for these two models.
    assert [model.stock_bytes for model in result.models] == [8_388_608, 1_061_683_200]
    figures = json.loads(result.figures.read_text())
    assert [size["size"] for size in figures["models"][0]["sizes"]] == [[1], [7], [64], [512], [2048]]
    planned_only = figures["models"][1]["sizes"][-1]
    assert (planned_only["size"], planned_only["error"], planned_only["run_seconds"]) == ([2160, 3840], None, [])
    assert figures["failures"] == []
    assert result.picture.read_bytes().startswith(b"\x89PNG")
    assert "Embedding + Linear" in result.page.read_text()
