"""The list of models and the report of which of them run. The oracle of results is eager PyTorch."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from bench import coverage
from bench.coverage import LARGEST_ERROR, Row, apart, cover, keep, section
from bench.models import MODELS, Model, Recipe

QUICK = ["graph_convolution", "beam_step", "point_net", "mamba2", "routed_experts", "fast_suppression", "fast_speech"]


class _Twice(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * 2


class _Forgetful(nn.Module):
    """Gives another answer in the exported program than in eager PyTorch."""

    def forward(self, x: Tensor) -> Tensor:
        return x * 2 if torch.compiler.is_exporting() else x * 3


def doubled(module: nn.Module) -> Model:
    return Model(module, lambda size: (torch.ones(size),), ({0: "n"},), ((1,), (2,), (3,)), (5,))


@pytest.fixture
def register(monkeypatch: pytest.MonkeyPatch) -> Callable[[nn.Module], None]:
    def put(module: nn.Module) -> None:
        monkeypatch.setitem(MODELS, "tried", Recipe("trial", lambda: doubled(module), data_dependent=False))

    return put


def test_the_list_is_wide() -> None:
    assert len(MODELS) >= 24
    assert len({recipe.family for recipe in MODELS.values()}) >= 8


@pytest.mark.parametrize("name", QUICK)
def test_a_model_is_the_same_every_time(name: str) -> None:
    state = torch.random.get_rng_state()
    model, again = MODELS[name].make(), MODELS[name].make()
    assert torch.equal(state, torch.random.get_rng_state())
    for one, other in zip(model.module.state_dict().values(), again.module.state_dict().values(), strict=True):
        assert torch.equal(one, other)
    for one, other in zip(model.inputs(model.sizes[1]), again.inputs(model.sizes[1]), strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("name", QUICK)
def test_sizes_vary_and_results_are_numbers_worth_comparing(name: str) -> None:
    model = MODELS[name].make()
    assert len(set(model.sizes)) >= 6
    assert model.example not in model.sizes
    for size in model.sizes:
        with torch.no_grad():
            results = [
                result for result in tree_leaves(model.module(*model.inputs(size))) if result.is_floating_point()
            ]
        assert all(result.isfinite().all() for result in results)
        assert all(1e-2 < result.abs().max() < 1e3 for result in results if result.numel())


def test_a_model_that_runs_has_its_figures() -> None:
    row = cover("graph_convolution")
    assert (row.failure, row.sizes, row.family) == ("", 6, "graph")
    assert 0 < row.error <= LARGEST_ERROR
    assert row.buffers > 3
    assert row.ratio >= 1
    assert row.export_seconds > 0


def test_a_model_that_cannot_be_exported_has_the_reason(register: Callable[[nn.Module], None]) -> None:
    class Branching(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x if x.sum() > 0 else -x

    register(Branching())
    row = cover("tried")
    assert row.failure.startswith("ExportError: torch.export failed for Branching: ")
    assert "\n" not in row.failure


def test_a_wrong_result_is_seen(register: Callable[[nn.Module], None]) -> None:
    register(_Twice())
    assert cover("tried").failure == ""
    register(_Forgetful())
    assert cover("tried").failure == "wrong result at size (1,): error 3.3e-01"


@pytest.mark.parametrize(
    ("got", "wanted", "error"),
    [
        (torch.tensor([1.0, 2.0]), torch.tensor([1.0, 4.0]), 0.5),
        (torch.tensor([1, 2]), torch.tensor([1, 2]), 0.0),
        (torch.tensor([1, 2]), torch.tensor([1, 3]), float("inf")),
        (torch.tensor([1.0]), torch.tensor([1.0, 1.0]), float("inf")),
        (torch.tensor([1.0]), torch.tensor([1.0], dtype=torch.float64), float("inf")),
        (torch.tensor([float("nan")]), torch.tensor([1.0]), float("inf")),
        (torch.zeros(2), torch.zeros(2), float("inf")),  # a dead result proves nothing
        (torch.zeros(0), torch.zeros(0), 0.0),
        (7, torch.tensor(7), 0.0),
    ],
)
def test_errors_are_relative_and_integers_exact(got: object, wanted: Tensor, error: float) -> None:
    assert coverage.error_of(got, wanted) == error


def test_a_process_that_dies_or_hangs_is_a_row(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = tmp_path / "python"
    program.write_text("#!/bin/sh\nsleep 0.2\necho out of luck >&2\nexit 3\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    assert apart("dlrm") == Row("dlrm", "recommender", failure="the process ended with 3: out of luck")
    monkeypatch.setattr(coverage, "SECONDS", 0.01)
    assert apart("dlrm") == Row("dlrm", "recommender", failure="took more than 0.01 s")


def test_rows_are_kept_by_model(tmp_path: Path) -> None:
    path = tmp_path / "out" / "coverage.json"
    keep([Row("dlrm", "recommender"), Row("clip", "picture and text", failure="why")], path)
    rows = keep([Row("clip", "picture and text", buffers=7, sizes=6, error=1e-6)], path)
    assert {row.name: row.buffers for row in rows} == {"dlrm": 0, "clip": 7}


def test_the_section_has_what_runs_and_what_does_not() -> None:
    rows = [
        Row("clip", "picture and text", 7, 6, 1e-6, 1.25, 40, 3.21),
        Row("dlrm", "recommender", failure="ExportError: a | b"),
    ]
    text = section(rows)
    assert text.startswith("## Every model\n")
    assert "1 of 2 models of 2 families run." in text
    assert "| clip | picture and text | 7 | 6 | 1.0e-06 | 1.2500 | 40 | 3.2 |" in text
    assert "| dlrm | recommender | ExportError: a / b |" in text
    assert "These do not run" not in section(rows[:1])
