"""Device allocators with one fault each, and the check of the conformance suite that must find it."""

import mmap
import threading
from collections.abc import Callable
from typing import Any

from etarena import Capabilities, Resource

from .simulated_device import KIND, SimulatedDevice

__all__ = ["BROKEN"]


class ForgetsItsCapabilities(SimulatedDevice):
    def capabilities(self, index: int) -> Capabilities:
        self.alignment *= 2
        return super().capabilities(index)


class LosesTheLastByte(SimulatedDevice):
    def copy_to_device(self, index, destination, offset, source):
        super().copy_to_device(index, destination, offset, source[:-1])


class ReturnsNothing(SimulatedDevice):
    def allocate(self, index, nbytes, alignment):
        super().allocate(index, nbytes, alignment)


class IgnoresAlignment(SimulatedDevice):
    def allocate(self, index, nbytes, alignment):
        whole = super().allocate(index, nbytes + 64, alignment)
        return Resource.custom(KIND, whole.handle, nbytes, offset=64 if alignment > 64 else 0)

    def deallocate(self, index, resource):
        del self.memory[index][resource.handle]


class RefusesZeroBytes(SimulatedDevice):
    def allocate(self, index, nbytes, alignment):
        if nbytes == 0:
            raise ValueError("nothing was asked for")
        return super().allocate(index, nbytes, alignment)


class Overlaps(SimulatedDevice):
    """Every block lies in the same memory."""

    def __init__(self):
        super().__init__()
        self.whole = super().allocate(0, 1 << 20, 64)

    def allocate(self, index, nbytes, alignment):
        return Resource.custom(KIND, self.whole.handle, nbytes)

    def deallocate(self, index, resource):
        pass


class CopiesFromEvenOffsets(SimulatedDevice):
    def copy_to_device(self, index, destination, offset, source):
        super().copy_to_device(index, destination, offset & ~1, source)


class IgnoresTheOffsetOfParts(SimulatedDevice):
    def bytes_of(self, index, resource, offset, nbytes):
        return memoryview(self.memory[index][resource.handle])[offset : offset + nbytes]


class CopiesLater(SimulatedDevice):
    """Copies when the bytes are read, by when the source has changed."""

    def __init__(self):
        super().__init__()
        self.pending: list[tuple] = []

    def copy_to_device(self, *call):
        self.pending.append(call)

    def copy_to_host(self, *call):
        for pending in self.pending:
            super().copy_to_device(*pending)
        self.pending = []
        super().copy_to_host(*call)


class CopiesAnything(SimulatedDevice):
    """Looks at no bounds; Python's slices keep it from crashing."""

    def copy_to_device(self, index, destination, offset, source):
        start = destination.offset + offset
        self.memory[index][destination.handle][start : start + source.nbytes] = source

    def copy_to_host(self, index, destination, source, offset):
        start = source.offset + offset
        found = bytes(self.memory[index][source.handle][start : start + destination.nbytes])
        destination[: len(found)] = found


class PromisesEverything(SimulatedDevice):
    def allocate(self, index, nbytes, alignment):
        if nbytes > self.total:
            return super().allocate(index, 64, alignment)
        return super().allocate(index, nbytes, alignment)


class TakesAnyAlignment(SimulatedDevice):
    def allocate(self, index, nbytes, alignment):
        return super().allocate(index, nbytes, 64)


class TakesAnyIndex(SimulatedDevice):
    def allocate(self, index, nbytes, alignment):
        return super().allocate(0, nbytes, alignment)

    def deallocate(self, index, resource):
        super().deallocate(0, resource)


class TakesBackTwice(SimulatedDevice):
    def deallocate(self, index, resource):
        self.memory[index].pop(resource.handle, None)


class TakesBackStrangers(SimulatedDevice):
    def deallocate(self, index, resource):
        if resource.kind == KIND:
            super().deallocate(index, resource)


class ForgetsWhenItGrows(SimulatedDevice):
    """Clears what there is as soon as a larger block than ever is asked for."""

    largest = 0

    def allocate(self, index, nbytes, alignment):
        if nbytes > self.largest:
            self.largest = nbytes
            for block in self.memory[index].values():
                block[:] = bytes(len(block))
        return super().allocate(index, nbytes, alignment)


class NeverUsesMemoryAgain(SimulatedDevice):
    """Counts what was ever taken, as a bump allocator does."""

    taken = 0

    def allocate(self, index, nbytes, alignment):
        self.taken += nbytes
        if self.taken > self.total:
            raise MemoryError("used up")
        return super().allocate(index, nbytes, alignment)


class WantsTheLastBlockFirst(SimulatedDevice):
    def deallocate(self, index, resource):
        if resource.handle != max(self.memory[index]):
            raise ValueError("blocks are given back in the reverse order")
        super().deallocate(index, resource)


class KeepsWhatIsGivenBack(SimulatedDevice):
    def __init__(self):
        super().__init__()
        self.kept = 0

    def deallocate(self, index, resource):
        super().deallocate(index, resource)
        self.kept += resource.nbytes

    @property
    def live(self):
        return super().live + self.kept


class FreesOnlyWhatWasWritten(SimulatedDevice):
    """Stumbles over blocks that were never written, as after a failure."""

    def deallocate(self, index, resource):
        if not any(self.memory[index][resource.handle]):
            raise ValueError("this block was never written")
        super().deallocate(index, resource)


class BelongsToOneThread(SimulatedDevice):
    def __init__(self):
        self.own = threading.local()
        super().__init__()

    @property
    def memory(self) -> Any:
        if not hasattr(self.own, "memory"):
            self.own.memory = [{}, {}]
        return self.own.memory

    @memory.setter
    def memory(self, value):
        self.own.memory = value


class MapsACopy(SimulatedDevice):
    """Maps memory that is not the device's."""

    def __init__(self):
        super().__init__()
        self.copies: list[Any] = []

    def map(self, index, resource):
        import ctypes

        content = bytes(self.memory[index][resource.handle])
        self.copies.append(ctypes.create_string_buffer(content, len(content)))
        return ctypes.addressof(self.copies[-1])


class SharesItsMemoryWithChildren(SimulatedDevice):
    """Says that its memory is the CPU's, but a forked child frees the parent's."""

    def __init__(self):
        super().__init__()
        self.shared = mmap.mmap(-1, 1 << 20)

    def capabilities(self, index):
        return Capabilities(alignment=self.alignment, host_visible=True)

    def deallocate(self, index, resource):
        super().deallocate(index, resource)
        self.shared[:] = b"\xdd" * len(self.shared)

    def copy_to_device(self, index, destination, offset, source):
        self.shared[offset : offset + source.nbytes] = bytes(source)

    def copy_to_host(self, index, destination, source, offset):
        destination[:] = self.shared[offset : offset + destination.nbytes]


# A class, the check that must find its fault, and further arguments of the check.
BROKEN: list[tuple[Callable[[], SimulatedDevice], str, tuple]] = [
    (ForgetsItsCapabilities, "test_describes_itself", ()),
    (LosesTheLastByte, "test_memory_keeps_what_is_written", (64,)),
    (ReturnsNothing, "test_memory_keeps_what_is_written", (64,)),
    (IgnoresAlignment, "test_alignment", (1,)),
    (RefusesZeroBytes, "test_zero_bytes", ()),
    (Overlaps, "test_blocks_do_not_overlap", ()),
    (CopiesFromEvenOffsets, "test_odd_offsets", ()),
    (IgnoresTheOffsetOfParts, "test_parts_of_a_block", ()),
    (CopiesLater, "test_copies_are_ordered", ()),
    (CopiesAnything, "test_copies_outside_are_refused", ()),
    (PromisesEverything, "test_too_large_is_refused", ()),
    (TakesAnyAlignment, "test_bad_alignment_is_refused", ()),
    (TakesAnyIndex, "test_unknown_device_is_refused", ()),
    (TakesBackTwice, "test_double_free_is_refused", ()),
    (TakesBackStrangers, "test_foreign_handles_are_refused", ()),
    (ForgetsWhenItGrows, "test_growth_with_live_blocks", ()),
    (NeverUsesMemoryAgain, "test_memory_is_used_again", ()),
    (WantsTheLastBlockFirst, "test_trim_and_reuse", ()),
    (KeepsWhatIsGivenBack, "test_no_leaks", ()),
    (FreesOnlyWhatWasWritten, "test_failure_at_any_call", ()),
    (BelongsToOneThread, "test_threads", ()),
    (MapsACopy, "test_map", ()),
    (SharesItsMemoryWithChildren, "test_fork", ()),
]
