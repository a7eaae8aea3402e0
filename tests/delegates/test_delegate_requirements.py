"""What delegates want of their arguments: joined in the plan, or staged by copies that are counted or refused."""

from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from executorch.exir import to_edge_transform_and_lower

import etarena
from etarena.quiet import quiet

from ..helpers.backends import SINE, Interleaved, OperatorPartitioner, TorchDelegate

BACKEND = "WishesOfTheTests"
N = torch.export.Dim.DYNAMIC
READ, WRITE = 1, 2


class Selected(torch.nn.Module):
    """Delegates before and after a size that data tells."""

    def forward(self, x):
        x = torch.sin(x)
        return torch.sin(torch.cumsum(x[x.sum(1) > 0], -1))


class Wishes(TorchDelegate):
    """Notes where its arguments are and how they are laid out."""

    read: Any = None
    write: Any = None
    seen: ClassVar[list[Any]] = []

    def requirements(self, shapes):
        return [self.read, self.write]

    def execute(self, args, scratch):
        for argument in args:
            array = np.asarray(argument)
            self.seen.append((array.ctypes.data, array.strides, array.nbytes))
        np.sin(np.asarray(args[0]), out=np.asarray(args[1]))


@pytest.fixture(scope="module")
def program():
    return export(Interleaved())


def export(model):
    exported = etarena.export(
        model, (torch.randn(6, 50),), dynamic_shapes={"x": {0: N}}, partitioners=[OperatorPartitioner(BACKEND, SINE)]
    )
    return exported.buffer


@pytest.fixture
def use():
    registered = []

    def register(read=None, write=None):
        made = type("Made", (Wishes,), {"read": read, "write": write, "seen": []})
        if registered:
            etarena.unregister_delegate(registered.pop())
        etarena.register_delegate(BACKEND, made)
        registered.append(BACKEND)
        return made

    yield register
    if registered:
        etarena.unregister_delegate(BACKEND)


def load(file, **options):
    return etarena.load(file, etarena.Arena(1 << 32, **options)).method()


def assert_right(method, x, model=None):
    method.arena.scribble()
    torch.testing.assert_close(method.execute([x])[0], (model or Interleaved())(x), rtol=1e-4, atol=1e-4)


def unaligned(rows):
    """A tensor four bytes behind a multiple of 64."""
    room = torch.zeros(rows * 50 + 32)
    start = (-room.data_ptr() % 64) // 4 + 1
    x = room[start : start + rows * 50].view(rows, 50)
    x.copy_(torch.randn(rows, 50))
    return x


@pytest.mark.parametrize("alignment", [128, 1024, 4096])
def test_planned_buffers_are_aligned(alignment, program, use):
    wish = etarena.Requirement(alignment=alignment)
    made = use(wish, wish)
    method = load(program)
    for rows in (6, 33, 200):
        made.seen.clear()
        assert_right(method, unaligned(rows))
        assert len(made.seen) == 6
        assert all(address % alignment == 0 for address, _, _ in made.seen)
        # Only the caller's input is not the plan's to align.
        (copy,) = method.last_run.copies
        assert copy.nbytes == 2 * rows * 200  # read and written: it did not say that it only reads
        assert copy.cause == (
            f"argument 0 (x) of delegate '{BACKEND}' at instruction 0 does not meet the delegate's requirement "
            "alignment"
        )


def test_an_input_that_is_aligned_is_not_copied(program, use):
    use(etarena.Requirement(alignment=64, access=READ), etarena.Requirement(alignment=64, access=WRITE))
    method = load(program)
    x = unaligned(8)
    assert_right(method, x)
    assert [copy.nbytes for copy in method.last_run.copies] == [8 * 200]
    y = torch.empty(8 * 50 + 16)
    y = y[(-y.data_ptr() % 64) // 4 :][: 8 * 50].view(8, 50).copy_(x)
    with etarena.zero_copy():
        assert_right(method, y)
    assert method.last_run.copies == ()


def test_copies_can_be_refused_before_anything_runs(program, use):
    made = use(etarena.Requirement(alignment=64, access=READ))
    method = load(program)
    with etarena.zero_copy(), pytest.raises(etarena.CopyRefusedError, match=f"delegate '{BACKEND}'.*alignment"):
        method.execute([unaligned(4)])
    assert made.seen == []
    assert_right(method, unaligned(4))


@pytest.mark.parametrize("multiple", [256, 100, 4096])
def test_planned_buffers_are_padded(multiple, program, use):
    wish = etarena.Requirement(size_multiple=multiple)
    made = use(None, wish)
    method = load(program)
    assert_right(method, torch.randn(3, 50))
    assert method.last_run.copies == ()
    plan = method.plan_for([(3, 50)])
    ends = sorted(buffer.offset for buffer in plan.buffers)
    for buffer in plan.buffers:
        if buffer.definition == BACKEND and not buffer.name.startswith("scratch"):
            room = -(-600 // multiple) * multiple
            others = [
                other
                for other in plan.buffers
                if other is not buffer and other.first < buffer.last and buffer.first < other.last
            ]
            assert all(
                other.offset >= buffer.offset + room or other.offset + other.nbytes <= buffer.offset for other in others
            )
    assert made.seen
    assert ends


@pytest.mark.parametrize("pitch", [64, 256, 512])
def test_row_pitch_is_staged(pitch, program, use):
    made = use(etarena.Requirement(row_pitch=pitch, access=READ), etarena.Requirement(row_pitch=pitch, access=WRITE))
    method = load(program)
    for rows in (5, 1):
        made.seen.clear()
        assert_right(method, torch.randn(rows, 50))
        if rows == 1:  # there is no second row
            assert method.last_run.copies == ()
            continue
        expected = -(-200 // pitch) * pitch
        assert {strides for _, strides, _ in made.seen} == {(expected, 4)}
        assert [copy.nbytes for copy in method.last_run.copies] == [rows * 200] * 6
        assert {copy.cause.rsplit(" ", 1)[1] for copy in method.last_run.copies} == {"row_pitch"}
        assert method.last_run.scratch_outside_arena == ()
        with etarena.zero_copy(), pytest.raises(etarena.CopyRefusedError, match="row_pitch"):
            method.execute([torch.randn(rows, 50)])


def test_a_plan_tells_what_is_staged(program, use):
    use(etarena.Requirement(alignment=64, access=READ), etarena.Requirement(row_pitch=256, access=WRITE))
    method = load(program)
    text = "argument {} ({}) of delegate '{}' at instruction {} does not meet the delegate's requirement {}"
    results = [f"executorch_call_delegate{suffix}" for suffix in ("", "_1", "_2")]
    pitched = [text.format(1, name, BACKEND, at, "row_pitch") for name, at in zip(results, (0, 3, 6), strict=True)]
    assert method.plan_for([(5, 50)]).staged == (text.format(0, "x", BACKEND, 0, "alignment"), *pitched)
    assert method.plan_for([(1, 50)]).staged == (text.format(0, "x", BACKEND, 0, "alignment"),)
    method.execute([unaligned(5)])
    assert [copy.cause for copy in method.last_run.copies] == list(method.plan_for([(5, 50)]).staged)


def test_rows_that_have_the_pitch_already(program, use):
    use(etarena.Requirement(row_pitch=100), etarena.Requirement(row_pitch=200))
    method = load(program)
    assert_right(method, torch.randn(7, 50))
    assert method.last_run.copies == ()


@pytest.mark.parametrize("options", [{"poison": True}, {"guard": True}])
def test_staged_arguments_in_watched_arenas(options, program, use):
    use(etarena.Requirement(row_pitch=256), etarena.Requirement(alignment=8192))
    method = load(program, **options)
    for rows in (5, 40):
        assert_right(method, unaligned(rows))


def test_alignment_beyond_a_page_is_staged(program, use):
    made = use(None, etarena.Requirement(alignment=1 << 16, access=WRITE))
    method = load(program)
    assert_right(method, torch.randn(9, 50))
    assert all(address % (1 << 16) == 0 for address, _, _ in made.seen[1::2])
    assert method.last_run.scratch_outside_arena == ()


def test_sizes_told_by_data(use):
    made = use(etarena.Requirement(alignment=512), etarena.Requirement(row_pitch=256, size_multiple=1024))
    method = load(export(Selected()))
    for rows in (9, 60, 4):
        assert_right(method, unaligned(rows), Selected())
    assert made.seen
    assert method.last_run.stages == 2


def test_stock_files_stage_in_memory_of_their_own(use):
    made = use(etarena.Requirement(row_pitch=256, access=READ), etarena.Requirement(alignment=1 << 14, access=WRITE))
    with quiet():
        rows = torch.export.Dim("rows", min=1, max=64)
        captured = torch.export.export(Interleaved(), (torch.randn(6, 50),), dynamic_shapes={"x": {0: rows}})
        partitioner = OperatorPartitioner(BACKEND, SINE)
        file = to_edge_transform_and_lower(captured, partitioner=[partitioner]).to_executorch().buffer
    method = load(file)
    assert_right(method, torch.randn(6, 50))
    assert {strides for _, strides, _ in made.seen[::2]} == {(256, 4)}
    causes = [copy for copy in method.last_run.copies if BACKEND in copy.cause]
    assert [copy.nbytes for copy in causes if "row_pitch" in copy.cause] == [6 * 200] * 3


@pytest.mark.parametrize(
    ("wish", "text"),
    [
        ({"alignment": 3}, "alignment 3 is no power of two"),
        ({"alignment": 1 << 40}, "no power of two up to"),
        ({"row_pitch": 6}, "no multiple of an element"),
        ({"size_multiple": 1 << 40}, "more than 2"),
        ({"access": 9}, "access 9"),
        ({"devices": 1 << 7}, "other devices only"),
        ({"alignment": -1}, "OverflowError"),
        ({"alignment": "much"}, "TypeError"),
    ],
)
def test_impossible_wishes(wish, text, program, use):
    use(etarena.Requirement(**wish))
    with pytest.raises(etarena.RuntimeFailure, match=f"requirements: .*{text}"):
        load(program)


@pytest.mark.parametrize("answer", [[1], [None] * 3, 5, "ab"])
def test_nonsense_requirements(answer, program, use):
    use()
    etarena.unregister_delegate(BACKEND)
    etarena.register_delegate(BACKEND, type("Lies", (TorchDelegate,), {"requirements": lambda self, shapes: answer}))
    with pytest.raises(etarena.RuntimeFailure, match="requirements"):
        load(program)
