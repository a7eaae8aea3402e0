"""Copies of tensors between devices, and mappings: what arrives, and what is written into the ledger."""

import numpy as np
import pytest
import torch

import etarena
from etarena import DeviceError, ETensor
from etarena.device.cpu_allocator import CpuAllocator

from ..helpers.simulated_device import SimulatedDevice


@pytest.fixture
def device():
    allocator = etarena.register_device_allocator(SimulatedDevice())
    yield allocator
    if etarena.device_allocator("custom64") is allocator:
        etarena.unregister_device_allocator(allocator)


def test_a_round_trip_brings_every_item_back_and_is_counted(device) -> None:
    source = torch.randn(5, 7, 3).permute(2, 0, 1)
    with etarena.record_copies() as ledger:
        there = ETensor(source).to("custom64:1")
        across = there.to("custom64:0")
        back = across.cpu()
    assert torch.equal(back.torch(), source)
    assert there.dim_order == source.dim_order()
    assert there.device == etarena.Device("custom64", 1)
    assert [entry.nbytes for entry in ledger] == [420] * 4
    assert "goes from cpu to custom64:1" in ledger[0].cause
    assert there.to("custom64:1") is there


def test_what_has_gaps_is_packed_first(device) -> None:
    source = torch.arange(20.0).reshape(4, 5)[::2, ::2]
    with etarena.record_copies() as ledger:
        there = ETensor(source).to("custom64")
    assert torch.equal(there.cpu().torch(), source)
    assert [entry.nbytes for entry in ledger] == [24, 24]
    there.copy_(source.t().contiguous().t())
    assert torch.equal(there.cpu().torch(), source)
    target = torch.zeros(3, 2).t()
    ETensor(target).copy_(there)
    assert torch.equal(target, source)
    assert torch.equal(there.clone().cpu().torch(), source)


@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (1,)])
def test_small_and_empty_tensors(device, shape) -> None:
    source = np.full(shape, 3, dtype=np.int64)
    there = ETensor(source).to("custom64")
    assert there.shape == shape
    assert np.array_equal(there.cpu().numpy(), source)


def test_zero_copy_refuses_before_memory_is_taken(device) -> None:
    there = ETensor(torch.ones(4)).to("custom64")
    with etarena.zero_copy():
        for act in (there.cpu, there.clone, lambda: there.copy_(torch.ones(4)), lambda: there.map().__enter__()):
            with pytest.raises(etarena.CopyRefusedError, match="16 bytes"):
                act()
    assert there.cpu().numpy().tolist() == [1.0] * 4


def test_mapping_goes_in_and_out(device) -> None:
    there = ETensor(torch.arange(4.0)).to("custom64")
    with etarena.record_copies() as ledger, there.map() as mapped:
        mapped.numpy()[...] *= 2
    assert [entry.nbytes for entry in ledger] == [16, 16]
    with there.map("r") as mapped:
        assert mapped.numpy().tolist() == [0, 2, 4, 6]
        mapped.numpy()[...] = 9
    assert there.cpu().numpy().tolist() == [0, 2, 4, 6]
    with etarena.record_copies() as ledger, there.map("w") as mapped:
        mapped.numpy()[...] = 5
    assert len(ledger) == 1
    assert there.cpu().numpy().tolist() == [5] * 4
    with pytest.raises(ZeroDivisionError), there.map() as mapped:  # noqa: PT012
        mapped.numpy()[...] = 7
        1 / 0  # noqa: B018
    assert there.cpu().numpy().tolist() == [5] * 4
    with pytest.raises(etarena.InputError, match="access='x'"):
        there.map("x")


def test_an_array_that_outlives_its_mapping_is_an_error(device) -> None:
    there = ETensor(torch.zeros(4)).to("custom64")
    mapping = there.map()
    array = mapping.__enter__().numpy()
    with pytest.raises(BufferError, match="still use"):
        mapping.__exit__(None, None, None)
    array[...] = 1
    del array
    mapping.__exit__(None, None, None)
    assert there.cpu().numpy().tolist() == [1] * 4


class Visible(CpuAllocator):
    """A device whose memory the CPU can map."""

    device_type = 65
    maps = 0

    def map(self, index, resource):
        self.maps += 1
        return super().map(index, resource)

    def unmap(self, index, resource):
        self.maps -= 1


def test_a_mapped_tensor_stays_open() -> None:
    etarena.register_device_allocator(Visible())
    try:
        there = ETensor(torch.ones(4)).to("custom65")
        with there.map() as mapped:
            with pytest.raises(BufferError, match="still use"):
                there.close()
            mapped.numpy()[...] = 2
        there.close()
    finally:
        etarena.unregister_device_allocator("custom65")


def test_consumers_of_dlpack_wait_for_the_device() -> None:
    class Busy(Visible):
        device_type = "metal"
        waits = 0

        def synchronize(self, index):
            self.waits += 1

    busy = etarena.register_device_allocator(Busy())
    try:
        there = ETensor.empty("float32", (4,), "metal")
        for stream, waits in [(None, 1), (2, 2), (-1, 2)]:
            assert ETensor.from_dlpack(there.__dlpack__(stream=stream)).device == there.device
            assert busy.waits == waits
    finally:
        etarena.unregister_device_allocator("metal")


def test_memory_that_the_cpu_sees_is_mapped_without_a_copy() -> None:
    allocator = etarena.register_device_allocator(Visible())
    try:
        there = ETensor(torch.ones(4)).to("custom65")
        with pytest.raises(DeviceError, match="map"):
            there.numpy()
        with etarena.zero_copy(), there.map() as mapped:
            assert allocator.maps == 1
            mapped.numpy()[...] = 6
        assert allocator.maps == 0
        assert there.cpu().numpy().tolist() == [6] * 4
    finally:
        etarena.unregister_device_allocator("custom65")
