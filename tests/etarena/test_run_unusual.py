"""Unusual tensors and uses: each works like in eager PyTorch or is refused before anything runs."""

import gc
import os
import pickle

import numpy as np
import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.export import Dim

import etarena

from ..helpers.oracle import assert_same


class Affine(nn.Module):
    def forward(self, x):
        return x * 2 + 1


class WritesFirst(nn.Module):
    def forward(self, x, y):
        x.mul_(2)
        return x + y


@pytest.fixture(scope="module")
def affine():
    return etarena.export(Affine(), (torch.ones(6, 4),), dynamic_shapes=({0: Dim.DYNAMIC},))


@pytest.fixture(scope="module")
def writer():
    return etarena.export(WritesFirst(), (torch.ones(5), torch.ones(5)), dynamic_shapes=({0: Dim.DYNAMIC},) * 2)


@pytest.fixture
def method(affine):
    return etarena.load(affine.buffer, etarena.Arena(1 << 30)).method()


@pytest.mark.parametrize(
    "index",
    [(slice(None, None, -1),), (slice(None), slice(None, None, -1)), (slice(None, None, -1), slice(None, None, -1))],
    ids=["rows", "columns", "both"],
)
def test_flipped_numpy_arrays_are_copied_and_counted(method, index):
    flipped = np.arange(12, dtype=np.float32).reshape(3, 4)[index]
    assert_same(method.execute([flipped])[0], torch.from_numpy(flipped.copy()) * 2 + 1)
    assert method.last_run.bytes_copied == 48
    with etarena.zero_copy(), pytest.raises(etarena.CopyRefusedError):
        method.execute([flipped])


def test_fields_between_items_are_copied(method):
    records = np.zeros(12, dtype=[("tag", "u1"), ("value", "f4")])
    records["value"] = np.arange(12)
    column = records["value"].reshape(3, 4)
    assert_same(method.execute([column])[0], torch.arange(12.0).reshape(3, 4) * 2 + 1)


def test_tensors_without_memory_of_their_own_are_refused(method):
    with FakeTensorMode() as mode:
        fake = mode.from_tensor(torch.zeros(3, 4))
    with pytest.raises(etarena.InputTypeError, match="FakeTensor"):
        method.execute([fake])
    for room in (8, 0):
        short = torch.zeros(3, 4)
        short.untyped_storage().resize_(room)
        with pytest.raises(etarena.InputError, match=f"storage of {room} bytes"):
            method.execute([short])
    assert_same(method.execute([torch.ones(2, 4)])[0], torch.full((2, 4), 3.0))


def test_messages_carry_no_stack_of_cpp(method):
    for wrong in (torch.ones(3, 4, device="meta"), torch.ones(3, 4).to_sparse()):
        with pytest.raises(etarena.InputTypeError) as caught:
            method.execute([wrong])
        assert "\n" not in str(caught.value)


def test_negated_views_in_and_out(method):
    x = torch._neg_view(torch.ones(5, 4))
    assert_same(method.execute([x])[0], torch.full((5, 4), -1.0))
    room = torch._neg_view(torch.zeros(5, 4))
    method.execute([torch.ones(5, 4)], outputs=[room])
    assert_same(room.resolve_neg(), torch.full((5, 4), 3.0))


def test_output_tensors_that_cannot_be_written(method):
    x = torch.ones(3, 4)
    short = torch.zeros(3, 4)
    short.untyped_storage().resize_(8)
    for room, message in (
        (torch.zeros(1, 4).expand(3, 4), "expanded"),
        (nn.Parameter(torch.zeros(3, 4)), "requires grad"),
        (short, "larger than its storage"),
    ):
        with pytest.raises(etarena.InputError, match=message):
            method.execute([x], outputs=[room])
    assert_same(method.execute([x])[0], torch.full((3, 4), 3.0))


def test_autograd_learns_of_what_was_written(method):
    weight = torch.ones(3, 4, requires_grad=True)
    room = torch.ones(3, 4)
    loss = (weight * room).sum()
    method.execute([torch.ones(3, 4)], outputs=[room])
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_mutated_inputs_that_cannot_be_written(writer):
    method = etarena.load(writer.buffer, etarena.Arena(1 << 30)).method()
    base = torch.ones(10)
    read_only = np.ones(5, dtype=np.float32)
    read_only.setflags(write=False)
    for x, message in (
        (torch.ones(1).expand(5), "expanded"),
        (np.ones(5, dtype=np.float32)[::-1], "cannot be written"),
        (read_only, "read-only"),
        (torch.ones(5, requires_grad=True), "requires grad"),
    ):
        with pytest.raises(etarena.InputError, match=message):
            method.execute([x, torch.ones(5)])
    with pytest.raises(etarena.InputError, match=r"'x'.*shares memory"):
        method.execute([base[:5], base[3:8]])
    x = torch.ones(5)
    assert method.execute([x, base[:5]])[0].tolist() == [3.0] * 5
    assert x.tolist() == [2.0] * 5


def test_programs_are_released_without_the_collector(affine, tmp_path):
    affine.save(tmp_path / "model.pte")
    before = len(os.listdir("/proc/self/fd"))
    gc.collect()
    gc.disable()
    try:
        for _ in range(20):
            etarena.load(tmp_path / "model.pte", etarena.Arena(1 << 24)).method().execute([torch.ones(3, 4)])
        assert len(os.listdir("/proc/self/fd")) <= before + 1
    finally:
        gc.enable()


def test_default_arena_is_made_anew_after_it_was_closed(affine):
    with etarena.load(affine.buffer).arena:
        pass
    assert_same(etarena.load(affine.buffer).method().execute([torch.ones(1, 4)])[0], torch.full((1, 4), 3.0))


def test_bytes_at_an_odd_address(affine):
    shifted = memoryview(b"a" + affine.buffer)[1:]
    assert_same(etarena.load(shifted).method().execute([torch.ones(1, 4)])[0], torch.full((1, 4), 3.0))


def test_pickling_is_refused_with_advice(affine):
    program = etarena.load(affine.buffer)
    for item in (program, program.method()):
        with pytest.raises(TypeError, match="load it there"):
            pickle.dumps(item)


def test_arguments_of_load_and_plan_for(affine, method):
    with pytest.raises(etarena.InputError, match="plan_cache"):
        etarena.load(affine.buffer, plan_cache=-1)
    assert method.plan_for([(np.int64(3), 4)]).peak == method.plan_for([(3, 4)]).peak
    for shapes, kind in (
        ([(True, 4)], etarena.InputError),
        (iter([(3, 4)]), etarena.InputTypeError),
        ([(2**63, 4)], etarena.SizeOverflowError),
        ([(2**31, 4)], etarena.SizeOverflowError),
    ):
        with pytest.raises(kind):
            method.plan_for(shapes)
