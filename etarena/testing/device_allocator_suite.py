"""The conformance suite of device allocators."""

from __future__ import annotations

import gc
import threading
from typing import Any

import pytest

from ..allocator.errors import ArenaFullError, DeviceError
from ..device.adaptors import FailingAllocator, TrackAllocator
from ..device.allocator import DeviceAllocator
from ..device.capabilities import Capabilities
from ..device.device import Device
from ..device.device_heap import DeviceHeap
from ..device.host_memory import host_bytes
from ..device.kinds import FIRST_CUSTOM_KIND
from ..device.ranges import TakenRanges
from ..device.resource import Resource
from ..device.tables import as_allocator
from .allocator_checks import REFUSALS, pattern, read, start_of, taken, write
from .forked import in_child

__all__ = ["DeviceAllocatorSuite"]


class DeviceAllocatorSuite:
    """Subclass this and give a fixture ``allocator``: a new `DeviceAllocator`, or whatever the registry takes.

    Attributes
    ----------
    largest : int
        Bytes that one check may hold at once; 8 MiB by default.
    impossible : int
        Bytes that no device has; 2**60 by default.
    threads : int
        How many allocate at once; 4 by default.
    checks_double_free : bool
        Whether the allocator promises to refuse what it does not own. C tables cannot say so: their deallocate returns
        nothing.
    supports_fork : bool
        Whether a forked child may drop its memory without harm to the parent's.
    """

    largest = 8 << 20
    impossible = 1 << 60
    threads = 4
    checks_double_free = True
    supports_fork = True

    @pytest.fixture
    def allocator(self) -> Any:
        """The allocator to check."""
        raise NotImplementedError("give a fixture 'allocator' that returns the allocator to check")

    def live_bytes(self, device: DeviceAllocator) -> int | None:
        """Bytes that the allocator itself holds of its device, if it can tell: checked for leaks. None by default."""
        return None

    @pytest.fixture
    def device(self, allocator: Any) -> DeviceAllocator:
        """The same, as a `DeviceAllocator`."""
        return as_allocator(allocator)

    def test_describes_itself(self, device: DeviceAllocator) -> None:
        """Type, count and capabilities are there and make sense, and stay what they are."""
        Device(device.device_type)
        assert 0 < device.device_count <= 128
        for index in range(device.device_count):
            found = device.capabilities(index)
            assert isinstance(found, Capabilities), "capabilities() must return Capabilities"
            assert found == device.capabilities(index), "capabilities() must always say the same"

    @pytest.mark.parametrize("nbytes", [1, 63, 64, 4097, 1 << 20])
    def test_memory_keeps_what_is_written(self, device: DeviceAllocator, nbytes: int) -> None:
        """Bytes come back as they were, on each device."""
        for index in range(device.device_count):
            with taken(device, index, nbytes) as (block,):
                assert block.nbytes >= nbytes, f"{nbytes} bytes were asked for, {block!r} has fewer"
                write(device, index, block, 0, pattern(nbytes))
                assert read(device, index, block, 0, nbytes) == pattern(nbytes), "bytes did not come back"

    @pytest.mark.parametrize("factor", [1, 2, 16])
    def test_alignment(self, device: DeviceAllocator, factor: int) -> None:
        """Blocks begin at multiples of what is asked, and of the device's own alignment."""
        alignment = max(device.capabilities(0).alignment, 64) * factor
        with taken(device, 0, 1, 100, 1, 4097, 3, alignment=alignment) as blocks:
            for block in blocks:
                assert start_of(block) % alignment == 0, f"{block!r} does not begin at a multiple of {alignment}"

    def test_zero_bytes(self, device: DeviceAllocator) -> None:
        """No bytes are a block too, which can be given back; copies of no bytes do nothing."""
        with taken(device, 0, 0, 0) as blocks:
            for block in blocks:
                assert isinstance(block, Resource)
                write(device, 0, block, 0, b"")
                assert read(device, 0, block, 0, 0) == b""

    def test_blocks_do_not_overlap(self, device: DeviceAllocator) -> None:
        """Live blocks share no bytes, and writing one changes no other."""
        sizes = [1, 64, 100, 4096, 5000, 1, 65536]
        ranges = TakenRanges()
        with taken(device, 0, *sizes) as blocks:
            for block in blocks:
                assert ranges.overlapping(block) is None, f"{block!r} overlaps a live block"
                ranges.add(block)
            for seed, block in enumerate(blocks):
                write(device, 0, block, 0, pattern(sizes[seed], seed))
            for seed, block in enumerate(blocks):
                assert read(device, 0, block, 0, sizes[seed]) == pattern(sizes[seed], seed), "a write changed another"

    def test_odd_offsets(self, device: DeviceAllocator) -> None:
        """Copies may begin and end anywhere, and touch nothing else."""
        for offset, nbytes in [(1, 1), (3, 61), (63, 2), (65, 1000), (1023, 1)]:
            with taken(device, 0, 2000) as (block,):
                write(device, 0, block, 0, pattern(2000))
                write(device, 0, block, offset, pattern(nbytes, 9))
                expected = pattern(2000)[:offset] + pattern(nbytes, 9) + pattern(2000)[offset + nbytes :]
                assert read(device, 0, block, 0, 2000) == expected, f"{nbytes} bytes at {offset} went astray"
                assert read(device, 0, block, offset, nbytes) == pattern(nbytes, 9)

    def test_parts_of_a_block(self, device: DeviceAllocator) -> None:
        """Tensors share blocks: a resource may begin inside one that was allocated."""
        with taken(device, 0, 4096) as (block,):
            write(device, 0, block, 0, bytes(4096))
            part = block.part(1024, 512)
            write(device, 0, part, 8, pattern(100))
            assert read(device, 0, part, 8, 100) == pattern(100), "the offset of a part was not read back"
            assert read(device, 0, block, 1032, 100) == pattern(100), "the offset of the resource was ignored"

    def test_copies_are_ordered(self, device: DeviceAllocator) -> None:
        """A copy is done when it returns: the last write wins, and the source may change at once."""
        with taken(device, 0, 1 << 16) as (block,):
            source = bytearray(1 << 16)
            for seed in range(8):
                source[:] = pattern(1 << 16, seed)
                device.copy_to_device(0, block, 0, memoryview(source))
                source[:] = bytes(1 << 16)
                assert read(device, 0, block, 0, 1 << 16) == pattern(1 << 16, seed), "a copy was not done in order"
            device.synchronize(0)

    def test_copies_outside_are_refused(self, device: DeviceAllocator) -> None:
        """Bytes that are not inside the resource are not touched."""
        with taken(device, 0, 256, 256) as (block, _):
            inside = block.part(0, 256)
            for offset, nbytes in [(0, 257), (256, 1), (250, 7), (1 << 40, 1)]:
                with pytest.raises(REFUSALS):
                    write(device, 0, inside, offset, pattern(nbytes))
                with pytest.raises(REFUSALS):
                    read(device, 0, inside, offset, nbytes)

    def test_too_large_is_refused(self, device: DeviceAllocator) -> None:
        """A size that no device has is MemoryError, and the allocator works on."""
        for nbytes in (self.impossible, self.impossible - 1):
            with pytest.raises(MemoryError):
                device.deallocate(0, device.allocate(0, nbytes, 64))
        self.test_memory_keeps_what_is_written(device, 64)

    def test_bad_alignment_is_refused(self, device: DeviceAllocator) -> None:
        """An alignment that is no power of two is refused."""
        for alignment in (0, 3, 48):
            with pytest.raises(REFUSALS):
                device.deallocate(0, device.allocate(0, 64, alignment))

    def test_unknown_device_is_refused(self, device: DeviceAllocator) -> None:
        """Indices end at device_count."""
        for index in (device.device_count, -1):
            with pytest.raises((*REFUSALS, LookupError)):
                device.deallocate(index, device.allocate(index, 64, 64))

    def test_double_free_is_refused(self, device: DeviceAllocator) -> None:
        """What was given back is not taken again, and other blocks are unharmed."""
        if not self.checks_double_free:
            return
        with taken(device, 0, 64) as (other,):
            write(device, 0, other, 0, pattern(64))
            block = device.allocate(0, 64, 64)
            device.deallocate(0, block)
            with pytest.raises((*REFUSALS, LookupError)):
                device.deallocate(0, block)
            assert read(device, 0, other, 0, 64) == pattern(64), "a double free harmed another block"

    def test_foreign_handles_are_refused(self, device: DeviceAllocator) -> None:
        """Handles of others are neither freed nor read."""
        if not self.checks_double_free:
            return
        with taken(device, 0, 64) as (block,):
            unknown = max(block.handle ^ 0x5A5A5A5A5A5A0000, 1)
            for foreign in (
                Resource.custom(FIRST_CUSTOM_KIND + 0xFFFF, unknown, 64),
                Resource.vk_buffer(unknown, 64, device=unknown),
            ):
                with pytest.raises((*REFUSALS, LookupError)):
                    device.deallocate(0, foreign)
                with pytest.raises((*REFUSALS, LookupError)):
                    read(device, 0, foreign, 0, 64)

    def test_growth_with_live_blocks(self, device: DeviceAllocator) -> None:
        """Blocks keep what they hold while more and larger ones are made."""
        sizes = [1 << power for power in range(6, 32) if 2 << power <= self.largest]
        with taken(device, 0, *sizes[:1]) as first:
            write(device, 0, first[0], 0, pattern(sizes[0]))
            with taken(device, 0, *sizes) as blocks:
                for seed, (block, nbytes) in enumerate(zip(blocks, sizes, strict=True)):
                    write(device, 0, block, nbytes - 64, pattern(64, seed))
                for seed, (block, nbytes) in enumerate(zip(blocks, sizes, strict=True)):
                    assert read(device, 0, block, nbytes - 64, 64) == pattern(64, seed), "growth lost bytes"
            assert read(device, 0, first[0], 0, sizes[0]) == pattern(sizes[0]), "growth lost bytes"

    def test_memory_is_used_again(self, device: DeviceAllocator) -> None:
        """What is given back can be had again, many times more than there is."""
        for seed in range(200):
            with taken(device, 0, self.largest // 4) as (block,):
                write(device, 0, block, 0, pattern(64, seed))

    def test_trim_and_reuse(self, device: DeviceAllocator) -> None:
        """A device's heap over the allocator gives everything back, and can be used again."""
        tracker = TrackAllocator(device)
        heap = DeviceHeap(tracker, Device(device.device_type))
        for _ in range(3):
            resources = [heap.allocate(nbytes) for nbytes in (1, 1000, 100000)]
            assert heap.stats.live_allocations == 3
            del resources
            heap.trim()
            assert tracker.stats.live_blocks == 0, "blocks without users were not taken back"

    def test_no_leaks(self, device: DeviceAllocator) -> None:
        """Tensors of a device that are dropped leave nothing behind."""
        before = self.live_bytes(device)
        tracker = TrackAllocator(device)
        heap = DeviceHeap(tracker, Device(device.device_type))
        for turn in range(50):
            held = [heap.allocate(64 * (turn + 1)) for _ in range(4)]
            heap.write(held[0], 0, memoryview(pattern(64)))
            del held
        gc.collect()
        assert heap.stats.live_bytes == 0
        heap.retire()
        assert tracker.stats.live_bytes == 0, "memory is still held after everything was given back"
        assert self.live_bytes(device) == before, "the allocator holds memory that was given back"

    def test_failure_at_any_call(self, device: DeviceAllocator) -> None:
        """Whichever call fails, nothing leaks and the next attempt works."""
        tracker = TrackAllocator(device)
        failing = FailingAllocator(tracker)
        for at in range(5):
            heap = DeviceHeap(failing, Device(device.device_type))
            failing.fail_at(at)
            try:
                first, second = heap.allocate(64), heap.allocate(2 * failing.block_bytes)
                heap.write(first, 0, memoryview(pattern(64)))
                heap.read(memoryview(bytearray(64)), second, 0)
            except (ArenaFullError, DeviceError):
                pass
            failing.fail_at(None)
            first = heap.allocate(64)
            heap.write(first, 0, memoryview(pattern(64, at)))
            out = bytearray(64)
            heap.read(memoryview(out), first, 0)
            assert bytes(out) == pattern(64, at), f"the allocator does not work after call {at} failed"
            first = second = None  # type: ignore[assignment]
            gc.collect()  # exceptions may hold frames in cycles
            heap.retire()
            assert tracker.stats.live_blocks == 0, f"memory leaked when call {at} failed"

    def test_threads(self, device: DeviceAllocator) -> None:
        """Several threads allocate, copy and free through a heap, each on memory of its own."""
        heap = DeviceHeap(device, Device(device.device_type))
        faults: list[BaseException] = []

        def work(seed: int) -> None:
            try:
                for turn in range(30):
                    resource = heap.allocate(1000 + turn)
                    heap.write(resource, 0, memoryview(pattern(1000, seed + turn)))
                    out = bytearray(1000)
                    heap.read(memoryview(out), resource, 0)
                    assert bytes(out) == pattern(1000, seed + turn), "threads share memory"
            except BaseException as error:
                faults.append(error)

        threads = [threading.Thread(target=work, args=(100 * number,)) for number in range(self.threads)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if faults:
            raise faults[0]
        assert heap.stats.live_bytes == 0
        heap.retire()

    def test_map(self, device: DeviceAllocator) -> None:
        """Mapped memory is the memory: writes of one side are seen by the other."""
        with taken(device, 0, 4096) as (block,):
            write(device, 0, block, 0, pattern(4096))
            address = device.map(0, block)
            if address is None:
                assert not device.capabilities(0).host_visible, "memory that the CPU sees must be mappable"
                return
            mapped = Resource.host(address, 4096)
            assert bytes(host_bytes(mapped)) == pattern(4096), "the mapping shows other bytes"
            host_bytes(mapped)[:] = pattern(4096, 1)
            device.unmap(0, block)
            assert read(device, 0, block, 0, 4096) == pattern(4096, 1), "writes through the mapping are lost"

    def test_fork(self, device: DeviceAllocator) -> None:
        """A child that drops what it inherited does not take it from its parent."""
        if not self.supports_fork:
            return
        heap = DeviceHeap(device, Device(device.device_type))
        resource = heap.allocate(4096)
        heap.write(resource, 0, memoryview(pattern(4096)))

        def drop() -> None:
            nonlocal resource
            resource = None  # type: ignore[assignment]
            gc.collect()

        assert in_child(drop) == 0, "a forked child failed when it dropped the memory"
        out = bytearray(4096)
        heap.read(memoryview(out), resource, 0)
        assert bytes(out) == pattern(4096), "a child's drop harmed the parent's memory"
        resource = None  # type: ignore[assignment]
        heap.retire()
