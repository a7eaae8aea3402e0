"""The table of plans fixed at export."""

from bench import static_plans
from bench.branching import BRANCHING
from bench.models import MODELS
from bench.static_plans import IN_PARTS, Row, measure

KIB = 1024
GOOD = Row("crops", "cpu", "6 x 8", 0, 1, 0, 60 * KIB, 100 * KIB, 60 * KIB, 20, 100, 1e-7)
LARGER = Row("unet", "xnnpack", "1 x 8", 2, 0, 0, 66 * KIB, 60 * KIB, 60 * KIB, 50, 100, 1e-7)
LOOPING = Row("greedy_suppression", "cpu", "4", 0, 2, 1, 50 * KIB, 10 * KIB, 50 * KIB, 10, 100, 0.0)
REFUSED = Row("fast_speech", "cpu", failure="no upper bound")


def test_plans_are_compared_where_both_plan_everything() -> None:
    text = static_plans.section([GOOD, LARGER, LOOPING, REFUSED])
    assert "| crops | 6 x 8 | 0 | 1 | 60.0 | 60.0 | 1.0000 | 100.0 | 40.0% | 0.20 | 1.0e-07 |" in text
    assert "| unet (xnnpack) | 1 x 8 | 2 | 0 | 66.0 | 60.0 | 1.1000 | 60.0 | -10.0% | 0.50 | 1.0e-07 |" in text
    assert "| 50.0 | 50.0 | 1.0000 | no plan |  | 0.10 | 0.0e+00 |" in text
    assert "3 of 4 exports. The largest ours / bound is 1.1000, the largest time 0.50 x stock's." in text
    assert "More than stock: unet (xnnpack). At least 25 % smaller, with bodies or parts: crops." in text
    assert "fast_speech (cpu): no upper bound" in text


def test_every_case_is_there() -> None:
    assert set(IN_PARTS) <= set(MODELS)
    assert not set(BRANCHING) & set(MODELS)


def test_a_network_of_branches_is_measured() -> None:
    row = measure("two experts", "cpu")
    assert (row.bodies, row.failure) == (6, "")
    assert row.bound <= row.ours <= 0.75 * row.stock
    assert 0 < row.error < 1e-4
