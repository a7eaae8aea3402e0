"""The registry of device allocators, memory taken through it, and copies between devices."""

import gc
import os
import subprocess
import sys
import threading

import numpy as np
import pytest
import torch

import etarena
from etarena import ArenaFullError, Capabilities, DeviceAllocator, DeviceError, ETensor, Resource
from etarena.device import registry
from etarena.device.adaptors import FailingAllocator, LimitAllocator, LogAllocator, TrackAllocator
from etarena.device.cpu_allocator import CpuAllocator
from etarena.device.registry import device_heap
from etarena.testing.forked import in_child

from ..helpers.simulated_device import KIND, SimulatedDevice


@pytest.fixture
def device():
    allocator = etarena.register_device_allocator(SimulatedDevice())
    yield allocator
    if etarena.device_allocator("custom64") is allocator:
        etarena.unregister_device_allocator(allocator)


@pytest.fixture
def tracker():
    allocator = etarena.register_device_allocator(TrackAllocator(SimulatedDevice()))
    yield allocator
    etarena.unregister_device_allocator("custom64")


def test_tensors_share_blocks_and_give_them_back(tracker) -> None:
    tensors = [ETensor.empty("float32", (1000,), "custom64") for _ in range(10)]
    heap = device_heap("custom64")
    assert tracker.stats.live_blocks == 1
    assert heap.stats.live_allocations == 10
    assert len({tensor.resource.offset for tensor in tensors}) == 10
    assert all(tensor.resource.offset % SimulatedDevice.alignment == 0 for tensor in tensors)
    large = ETensor.empty("float32", (1 << 16,), "custom64")
    assert tracker.stats.live_blocks == 2
    del large
    tensors.clear()
    gc.collect()
    assert heap.stats.live_bytes == 0
    assert heap.trim() > 0
    assert tracker.stats.live_bytes == 0


def test_a_tensor_that_is_closed_gives_its_memory_back(tracker) -> None:
    tensor = ETensor.empty("float32", (1000,), "custom64")
    tensor.close()
    assert device_heap("custom64").stats.live_allocations == 0


def test_memory_returns_to_the_allocator_it_came_from() -> None:
    first = etarena.register_device_allocator(TrackAllocator(SimulatedDevice()))
    old = ETensor(torch.arange(4.0)).to("custom64")
    second = etarena.register_device_allocator(TrackAllocator(SimulatedDevice()), replace=True)
    new = ETensor(torch.ones(4)).to("custom64")
    etarena.unregister_device_allocator("custom64")
    assert (first.stats.live_blocks, second.stats.live_blocks) == (1, 1)
    assert old.cpu().numpy().tolist() == [0, 1, 2, 3]
    old.copy_(torch.full((4,), 9.0))
    assert old.cpu().numpy().tolist() == [9] * 4
    del old
    assert (first.stats.live_blocks, second.stats.live_blocks) == (0, 1)
    new.close()
    assert second.stats.live_blocks == 0
    with pytest.raises(DeviceError, match="no allocator is registered for custom64"):
        ETensor(torch.ones(4)).to("custom64")


def test_registering_twice_is_refused(device) -> None:
    with pytest.raises(DeviceError, match=r"has the allocator .* replace=True"):
        etarena.register_device_allocator(SimulatedDevice())
    assert etarena.device_allocator("custom64") is device
    with pytest.raises(DeviceError, match="is not registered"):
        etarena.unregister_device_allocator(SimulatedDevice())
    with pytest.raises(DeviceError, match="is not registered"):
        etarena.unregister_device_allocator("vulkan")


@pytest.mark.parametrize(
    "change",
    [
        lambda: etarena.register_device_allocator(SimulatedDevice(), replace=True),
        lambda: etarena.unregister_device_allocator("custom64"),
    ],
    ids=["replace", "unregister"],
)
def test_memory_is_given_back_though_a_listener_raises(tracker, monkeypatch, change) -> None:
    ETensor.empty("float32", (4,), "custom64").close()
    assert tracker.stats.live_blocks == 1  # kept for later

    def listener(kind, allocator):
        raise ValueError("mine")

    monkeypatch.setattr(registry, "_listeners", [listener])
    with pytest.raises(ValueError, match="mine"):
        change()
    assert tracker.stats.live_blocks == 0
    monkeypatch.undo()
    etarena.register_device_allocator(tracker, replace=True)


def test_the_cpus_allocator_can_be_replaced() -> None:
    built_in = etarena.device_allocator("cpu")
    with pytest.raises(DeviceError, match="is not registered"):
        etarena.unregister_device_allocator("cpu")
    tracker = etarena.register_device_allocator(TrackAllocator(CpuAllocator()))
    try:
        tensor = ETensor.empty("float32", (3, 4))
        assert tensor.address % 64 == 0
        assert tracker.stats.live_bytes == 48
        tensor.numpy()[...] = 1
        del tensor
        assert tracker.stats.live_bytes == 0
    finally:
        etarena.unregister_device_allocator("cpu")
    assert type(etarena.device_allocator("cpu")) is type(built_in)


@pytest.mark.parametrize("what", [3, None, "vulkan", object(), 1.5, DeviceAllocator])
def test_what_is_no_allocator_is_refused(what) -> None:
    if what == 3:
        what = 0
    with pytest.raises(DeviceError):
        etarena.register_device_allocator(what)


def test_allocators_must_describe_themselves() -> None:
    class Wrong(SimulatedDevice):
        device_type = 63

    class Many(SimulatedDevice):
        device_count = 1000

        def __init__(self):
            pass

    class Vague(SimulatedDevice):
        def capabilities(self, index):
            return {"alignment": 4}

    for wrong in (Wrong, Many):
        with pytest.raises(DeviceError):
            etarena.register_device_allocator(wrong)
    etarena.register_device_allocator(Vague)
    try:
        with pytest.raises(DeviceError, match="gave a dict"):
            ETensor.empty("float32", (4,), "custom64")
    finally:
        etarena.unregister_device_allocator("custom64")


@pytest.mark.parametrize(
    "options",
    [{"alignment": 0}, {"alignment": 3}, {"alignment": 1 << 40}, {"max_allocation": -1}, {"import_kinds": {64}}],
)
def test_capabilities_make_sense(options) -> None:
    with pytest.raises(DeviceError, match="capabilities"):
        Capabilities(**options)


def test_there_are_only_so_many_devices(device) -> None:
    with pytest.raises(DeviceError, match=r"there is no custom64:2: .* has 2 devices"):
        ETensor.empty("float32", (4,), "custom64:2")


class Returns(SimulatedDevice):
    """Returns what a test tells it to."""

    def __init__(self, answer):
        super().__init__()
        self.answer, self.returned = answer, []

    def allocate(self, index, nbytes, alignment):
        answer = self.answer(self.page, nbytes)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def deallocate(self, index, resource):
        self.returned.append(resource)


BAD_ANSWERS = {
    "nothing": (lambda page, nbytes: None, DeviceError, "returned a NoneType"),
    "an address": (lambda page, nbytes: page, DeviceError, "returned a int"),
    "too little": (lambda page, nbytes: Resource.custom(KIND, page, nbytes - 1), DeviceError, "bytes were asked for"),
    "misaligned offset": (
        lambda page, nbytes: Resource.custom(KIND, page, nbytes, offset=4),
        DeviceError,
        "multiple of 256",
    ),
    "misaligned pointer": (
        lambda page, nbytes: Resource.device_pointer(page + 8, nbytes),
        DeviceError,
        "multiple of 256",
    ),
    "null": (lambda page, nbytes: Resource.device_pointer(0, nbytes), DeviceError, "is null"),
    "throws": (lambda page, nbytes: KeyError("mine"), DeviceError, "allocate of .*KeyError: 'mine'"),
    "no memory": (lambda page, nbytes: MemoryError("mine"), ArenaFullError, "no memory mine"),
}


@pytest.mark.parametrize("case", BAD_ANSWERS)
def test_what_an_allocator_must_not_return_is_refused(case: str) -> None:
    answer, error, text = BAD_ANSWERS[case]
    allocator = etarena.register_device_allocator(Returns(answer))
    try:
        with pytest.raises(error, match=text) as caught:
            ETensor.empty("float32", (4,), "custom64")
        assert "Returns object" in str(caught.value)
        assert "custom64:0" in str(caught.value)
        assert len(allocator.returned) == (case in ("too little", "misaligned offset", "misaligned pointer"))
        allocator.answer = lambda page, nbytes: Resource.custom(KIND, page, nbytes)
        assert ETensor.empty("float32", (4,), "custom64").shape == (4,)
    finally:
        etarena.unregister_device_allocator("custom64")


def test_overlapping_memory_is_refused_and_stays_where_it_is() -> None:
    allocator = etarena.register_device_allocator(Returns(lambda page, nbytes: Resource.custom(KIND, page, nbytes)))
    try:
        first = ETensor.empty("uint8", (1 << 16,), "custom64")
        with pytest.raises(DeviceError, match="overlaps bytes 0 to 65536 that are in use"):
            ETensor.empty("uint8", (1 << 16,), "custom64")
        assert allocator.returned == []
        del first
    finally:
        etarena.unregister_device_allocator("custom64")
    assert len(allocator.returned) == 1


def test_memory_of_others_needs_an_allocator_that_imports_it(device) -> None:
    foreign = ETensor.from_resource(Resource.custom(KIND + 1, device.page, 64), "float32", (4, 4), "custom64")
    with pytest.raises(DeviceError, match=r"was not allocated by .* cannot import a custom kind"):
        foreign.cpu()
    with pytest.raises(DeviceError, match="no allocator is registered for metal"):
        ETensor.from_resource(Resource.device_pointer(device.page, 64), "float32", (4, 4), "metal").cpu()


def test_handles_of_another_vulkan_device_are_refused() -> None:
    class Vulkan(SimulatedDevice):
        device_type = "vulkan"

        def capabilities(self, index):
            return Capabilities(import_kinds={2})

        def allocate(self, index, nbytes, alignment):
            found = super().allocate(index, nbytes, alignment)
            return Resource.vk_buffer(found.handle, nbytes, device=0x77)

        def bytes_of(self, index, resource, offset, nbytes):
            return super().bytes_of(
                index, Resource.custom(KIND, resource.handle, resource.nbytes, offset=resource.offset), offset, nbytes
            )

    etarena.register_device_allocator(Vulkan())
    try:
        mine = ETensor(torch.ones(4)).to("vulkan")
        own = mine.resource
        adopted = ETensor.from_vulkan_buffer(own.handle, "float32", (4,), offset=own.offset, device=0x77)
        assert adopted.cpu().numpy().tolist() == [1.0] * 4
        other = ETensor.from_vulkan_buffer(own.handle, "float32", (4,), offset=own.offset, device=0x78)
        with pytest.raises(DeviceError, match="belongs to VkDevice 0x78, memory of vulkan:0 to 0x77"):
            other.cpu()
    finally:
        etarena.unregister_device_allocator("vulkan")


def test_the_largest_allocation_is_respected() -> None:
    class Small(SimulatedDevice):
        def capabilities(self, index):
            return Capabilities(alignment=256, max_allocation=10000)

    tracker = etarena.register_device_allocator(TrackAllocator(Small()))
    try:
        held = [ETensor.empty("uint8", (size,), "custom64") for size in (100, 9000, 10000)]
        assert tracker.stats.peak_bytes <= 3 * 10000
        with pytest.raises(ArenaFullError, match="10001 bytes are more than the 10000"):
            ETensor.empty("uint8", (10001,), "custom64")
        del held
    finally:
        etarena.unregister_device_allocator("custom64")
    assert tracker.stats.live_blocks == 0


def test_adaptors_stack() -> None:
    lines: list[str] = []
    failing = FailingAllocator(SimulatedDevice())
    tracker = TrackAllocator(failing)
    stack = LogAllocator(LimitAllocator(tracker, 100_000), lines.append)
    assert repr(stack).startswith("LogAllocator(LimitAllocator(TrackAllocator(FailingAllocator(")
    etarena.register_device_allocator(stack)
    try:
        tensor = ETensor(torch.ones(4)).to("custom64")
        with pytest.raises(ArenaFullError, match="the limit of 100000 bytes leaves"):
            ETensor.empty("uint8", (90_000,), "custom64")
        failing.fail_at(0)
        with pytest.raises(DeviceError, match="told to fail when 16 bytes come"):
            tensor.cpu()
        assert tensor.cpu().numpy().tolist() == [1.0] * 4
        assert tracker.stats.bytes_to_device == 16
        assert tracker.stats.bytes_to_host == 16
        del tensor
    finally:
        etarena.unregister_device_allocator("custom64")
    assert tracker.stats.live_bytes == 0
    assert [line.split()[1] for line in lines] == [
        "allocate",
        "copy_to_device",
        "allocate",
        "copy_to_host",
        "copy_to_host",
        "deallocate",
    ]
    with pytest.raises(DeviceError, match="negative"):
        LimitAllocator(SimulatedDevice(), -1)
    with pytest.raises(DeviceError, match="freed before, or came from elsewhere"):
        tracker.deallocate(0, Resource.custom(KIND, 1, 1))


def test_threads_take_copy_and_drop_tensors(tracker) -> None:
    faults: list[BaseException] = []

    def work(seed: int) -> None:
        try:
            for turn in range(20):
                source = np.full(100 + turn, seed, dtype=np.int32)
                assert (ETensor(source).to("custom64").cpu().numpy() == source).all()
        except BaseException as error:
            faults.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not faults
    gc.collect()
    assert device_heap("custom64").stats.live_bytes == 0


def test_memory_in_cycles_is_given_back_in_the_middle_of_anything(tracker) -> None:
    for _ in range(50):
        loop: list = [ETensor.empty("float32", (10,), "custom64")]
        loop.append(loop)
    del loop
    gc.collect()
    assert device_heap("custom64").stats.live_allocations == 0


def test_a_deallocator_that_throws_is_a_warning() -> None:
    class Stubborn(SimulatedDevice):
        def deallocate(self, index, resource):
            raise OSError("mine")

    etarena.register_device_allocator(Stubborn())
    first, second = (ETensor.empty("float32", (4,), place) for place in ("custom64:0", "custom64:1"))
    second.close()
    with pytest.warns(ResourceWarning, match="memory of custom64:1 is lost: .*OSError: mine"):
        etarena.unregister_device_allocator("custom64")
    with pytest.warns(ResourceWarning, match="memory of custom64:0 is lost: .*OSError: mine"):
        first.close()


def test_a_forked_child_leaves_the_parents_memory_alone(tracker) -> None:
    tensor = ETensor(torch.arange(4.0)).to("custom64")

    def use() -> None:
        nonlocal tensor
        with pytest.raises(DeviceError, match="belongs to the process that forked"):
            tensor.cpu()
        with pytest.raises(DeviceError, match="belongs to the process that forked"):
            ETensor.empty("float32", (4,), "custom64")
        tensor = None
        assert tracker.stats.frees == 0

    assert in_child(use) == 0
    assert tensor.cpu().numpy().tolist() == [0, 1, 2, 3]


def test_a_program_ends_cleanly_with_tensors_alive() -> None:
    code = (
        "import torch, etarena\n"
        "from tests.helpers.simulated_device import SimulatedDevice\n"
        "etarena.register_device_allocator(SimulatedDevice)\n"
        "held = etarena.ETensor(torch.ones(4)).to('custom64'); array = etarena.ETensor(torch.ones(3)).numpy()\n"
        "view = etarena.ETensor(array).torch(); loop = [held, view]; loop.append(loop)\n"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=os.getcwd(), check=False)
    assert (result.returncode, result.stderr) == (0, "")
