from dataclasses import replace

import pytest

from etarena.allocator import FaultKind, PlanError, find_faults, plan_offsets, verify

SIZES, FIRST, LAST = [128, 64, 256], [0, 0, 1], [2, 1, 2]


def kinds(offsets, peak, **options):
    return [fault.kind for fault in find_faults(offsets, peak, SIZES, FIRST, LAST, **options)]


def test_a_sound_plan_has_no_faults():
    assert kinds([0, 128, 128], 384, lower_bound=384) == []


@pytest.mark.parametrize(
    ("offsets", "peak", "options", "expected"),
    [
        ([0, 128], 384, {}, FaultKind.LENGTH),
        ([0, 64, 128], 384, {}, FaultKind.OVERLAP),
        ([0, 128, 127], 383, {}, FaultKind.OVERLAP),
        ([0, 130, 128], 384, {}, FaultKind.MISALIGNED),
        ([0, 128, 128], 300, {}, FaultKind.OUT_OF_RANGE),
        ([0, -64, 128], 384, {}, FaultKind.OUT_OF_RANGE),
        ([0, 128, 128], 400, {}, FaultKind.PEAK),
        ([0, 128, 128], 384, {"lower_bound": 383}, FaultKind.LOWER_BOUND),
        ([0, 128, 128], 384, {"pinned": {1: 192}}, FaultKind.MOVED),
    ],
)
def test_each_fault_is_named(offsets, peak, options, expected):
    assert expected in kinds(offsets, peak, **options)


def test_buffers_that_only_touch_do_not_overlap():
    assert find_faults([0, 64], 128, [64, 64], [0, 0], [1, 1]) == []  # in space
    assert find_faults([0, 0], 64, [64, 64], [0, 1], [1, 2]) == []  # in time


def test_empty_buffers_overlap_nothing():
    assert find_faults([0, 0], 64, [64, 0], [0, 0], [1, 1]) == []


def test_verify_raises_with_the_numbers():
    plan = plan_offsets(SIZES, FIRST, LAST)
    verify(plan, SIZES, FIRST, LAST)
    with pytest.raises(PlanError, match="overlap: buffers 0 and 1 both live at position 0 and share bytes from 0"):
        verify(replace(plan, offsets=[0, 0, 128]), SIZES, FIRST, LAST)


@pytest.mark.parametrize(
    ("first", "last", "options", "message"),
    [
        ([0, 0], LAST, {}, "3 sizes"),
        (FIRST, [2, 1], {}, "3 sizes"),
        (FIRST, LAST, {"alignment": [64, 64]}, "3 sizes"),
        (FIRST, LAST, {"alignment": [64, 0, 64]}, "alignment 0"),
        (FIRST, LAST, {"alignment": 0}, "alignment 0"),
        (FIRST, LAST, {"groups": [[0, 3]]}, "buffer 3"),
        (FIRST, LAST, {"groups": [[-1, 0]]}, "buffer -1"),
    ],
)
def test_questions_that_make_no_sense_are_refused(first, last, options, message):
    with pytest.raises(ValueError, match=message):
        find_faults([0, 128, 128], 384, SIZES, first, last, **options)
