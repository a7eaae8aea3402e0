"""Arithmetic of the measurements of memory, new shapes and stages; the models themselves run in make bench-all."""

from pathlib import Path
from typing import Any

from bench import reshape, savings, sharing, stages
from bench.models import MODELS
from bench.savings import CASES, Row, keep
from etarena.demo.catalogue import ALL

KIB = 1024


def row(name: str = "unet", sizes: str = "fixed", **figures: Any) -> Row:
    return Row(name, "1 x 8", sizes, 3, 4, **figures)


SAVED = row(arena=60 * KIB, bound=60 * KIB, scratch=20 * KIB, planned=80 * KIB, workspace=20 * KIB)
EVEN = row("vit", "varying", arena=50 * KIB, bound=50 * KIB, planned=50 * KIB, workspace=0)
WORSE = row("detr", arena=66 * KIB, bound=60 * KIB, planned=40 * KIB, workspace=20 * KIB)


def test_every_case_is_a_model_that_exists() -> None:
    for name in CASES:
        assert name in MODELS or name.removeprefix("demo ") in ALL
    assert set(sharing.PROGRAMS) <= set(MODELS)


def test_savings_are_of_what_stock_plans_and_holds() -> None:
    text = savings.section([SAVED, EVEN, WORSE])
    assert "| unet | 1 x 8 | fixed | 3 (4) | 20.0 | 60.0 | 60.0 | 1.0000 | 80.0 | 20.0 | 40.0% | 40.0% |" in text
    assert (
        "| vit | 1 x 8 | varying | 3 (4) | 0.0 | 50.0 | 50.0 | 1.0000 | 50.0 | 0.0 | 0.0% | the bound allows none |"
        in text
    )
    assert "| 1.1000 | 40.0 | 20.0 | -10.0% | the bound allows none |" in text
    assert "1 of 3 models take at least 20 % less" in text
    assert "More than stock: detr (fixed). The largest arena / bound is 1.1000." in text


def test_a_model_without_figures_says_why() -> None:
    text = savings.section([SAVED, Row("dpt", "2 x 4", "fixed", failure="it cannot be exported")])
    assert "dpt (fixed): it cannot be exported" in text
    assert "1 of 1 models" in text


def test_a_model_that_stock_cannot_export_has_our_figures_alone() -> None:
    ours = row("dpt", "varying", arena=66 * KIB, bound=60 * KIB, failure="stock ExecuTorch: RuntimeError: no")
    text = savings.section([SAVED, ours])
    assert "| dpt | 1 x 8 | varying | 3 | 0.0 | 66.0 | 60.0 | 1.1000 |  |  | no stock |  |" in text
    assert "1 of 1 models take at least 20 % less" in text
    assert "More than stock: none. The largest arena / bound is 1.1000." in text
    assert "dpt (varying): stock ExecuTorch: RuntimeError: no" in text


def test_rows_replace_their_own_and_keep_their_order(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "savings.json"
    assert keep([EVEN], path) == [EVEN]
    assert keep([SAVED], path) == [SAVED, EVEN]
    better = row("vit", "varying", arena=40 * KIB, bound=40 * KIB, planned=50 * KIB)
    assert keep([better], path) == [SAVED, better]


def test_a_shared_arena_is_compared_with_the_largest_alone() -> None:
    alone = dict(zip(sharing.PROGRAMS, (2 * KIB, 5 * KIB, 3 * KIB), strict=True))
    text = sharing.section(sharing.Shared(alone, 6 * KIB))
    assert "6 KiB, 1.2000 x the largest alone" in text.replace("\n", " ")
    assert "they take 10 KiB." in text


def test_a_new_shape_is_compared_with_the_stock_runtimes() -> None:
    text = reshape.section([reshape.Cost("bert", 12, 50.0, 30.0, 40.0, 700.0, 800.0, 62.5)])
    assert "| bert | 12 | 30 | 40 | 0.750 | 50 | 1.250 | 62 | 0.800 | 700 | 800 | 0.875 |" in text
    text = reshape.section([reshape.Cost("large", 12, -50.0, 30.0, 40.0, 20000.0, 16000.0, 620.0)])
    assert "| large | 12 | 30 | 40 | 0.750 | ? | ? | ? | ? | 20000 | 16000 | 1.250 |" in text


def test_new_shapes_shrink_and_differ() -> None:
    sizes = reshape._between((4,), (64,), 13)
    assert sizes == sorted(set(sizes), reverse=True)
    assert len(sizes) == 13
    assert sizes[-1] == (4,)
    assert sizes[0] < (64,)


def test_a_stage_costs_what_a_stop_adds() -> None:
    figures = stages.Figures(400, 2, plain=30.0, known=41.0, fresh=90.0, planning=25.0, again=60.0)
    assert figures.stage == 11.0
    assert figures.fresh_stage == 16.0  # 90 - 25 - 60 beyond the same numbers again, and the stop itself
    assert "costs 11.0 us" in stages.section(figures).replace("\n", " ")
