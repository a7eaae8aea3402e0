"""ExecuTorch's own registry of device allocators takes memory from what is registered with etarena."""

import ctypes

import pytest

import etarena
from etarena import Capabilities, DeviceAllocator, Resource
from etarena.device.cpu_allocator import CpuAllocator
from etarena.device.host_memory import host_bytes
from etarena.libraries import load_libraries

CUDA = 1


@pytest.fixture(scope="module")
def runtime():
    load_libraries()
    from etarena import _runtime

    return _runtime


class Pointers(DeviceAllocator):
    """A device whose addresses are host memory, as a simulated CUDA has."""

    device_type = "cuda"
    device_count = 2

    def __init__(self):
        self.inner = CpuAllocator()
        self.live = 0

    def capabilities(self, index):
        return Capabilities(alignment=256)

    def allocate(self, index, nbytes, alignment):
        host = self.inner.allocate(0, nbytes, alignment)
        self.live += 1
        return Resource.device_pointer(host.handle, nbytes)

    def deallocate(self, index, resource):
        self.inner.deallocate(0, resource)
        self.live -= 1

    def copy_to_device(self, index, destination, offset, source):
        host_bytes(Resource.host(destination.handle + destination.offset, destination.nbytes))[
            offset : offset + source.nbytes
        ] = source

    def copy_to_host(self, index, destination, source, offset):
        found = host_bytes(Resource.host(source.handle + source.offset, source.nbytes))
        destination[:] = found[offset : offset + destination.nbytes]


@pytest.fixture
def cuda(runtime):
    allocator = etarena.register_device_allocator(Pointers())
    yield allocator
    etarena.unregister_device_allocator(allocator)


def test_memory_of_the_runtime_comes_from_the_registered_allocator(runtime, cuda) -> None:
    address = runtime.runtime_allocate(CUDA, 1, 1000, 64)
    assert address % 64 == 0
    assert cuda.live == 1
    source, target = ctypes.create_string_buffer(b"planned!", 8), ctypes.create_string_buffer(8)
    assert runtime.runtime_copy(CUDA, 1, address + 100, ctypes.addressof(source), 8, True)
    assert runtime.runtime_copy(CUDA, 1, ctypes.addressof(target), address + 100, 8, False)
    assert target.raw == b"planned!"
    runtime.runtime_free(CUDA, 1, address)
    assert cuda.live == 0


def test_nothing_is_registered_is_refused(runtime) -> None:
    assert runtime.runtime_allocate(CUDA, 0, 64) == 0


def test_refusals_reach_the_runtime(runtime, cuda) -> None:
    for index in (2, -1):
        assert runtime.runtime_allocate(CUDA, index, 64) == 0
    assert runtime.runtime_allocate(CUDA, 0, 1 << 60) == 0
    address = runtime.runtime_allocate(CUDA, 0, 64)
    buffer = ctypes.create_string_buffer(64)
    for start, nbytes in [(address + 60, 5), (address + 1000, 1), (0, 1)]:
        assert not runtime.runtime_copy(CUDA, 0, start, ctypes.addressof(buffer), nbytes, True)
    runtime.runtime_free(CUDA, 0, address)
    runtime.runtime_free(CUDA, 0, address)
    assert cuda.live == 0


def test_memory_returns_to_where_it_came_from(runtime) -> None:
    first = etarena.register_device_allocator(Pointers())
    address = runtime.runtime_allocate(CUDA, 0, 64)
    second = etarena.register_device_allocator(Pointers(), replace=True)
    other = runtime.runtime_allocate(CUDA, 0, 64)
    assert (first.live, second.live) == (1, 1)
    runtime.runtime_free(CUDA, 0, address)
    assert (first.live, second.live) == (0, 1)
    etarena.unregister_device_allocator("cuda")
    runtime.runtime_free(CUDA, 0, other)
    assert second.live == 0


def test_handles_that_are_no_addresses_are_refused(runtime) -> None:
    class Opaque(Pointers):
        def allocate(self, index, nbytes, alignment):
            self.live += 1
            return Resource.custom(0x10001, 5, nbytes)

        def deallocate(self, index, resource):
            assert resource.kind == 0x10001
            self.live -= 1

    allocator = etarena.register_device_allocator(Opaque())
    try:
        assert runtime.runtime_allocate(CUDA, 0, 64) == 0
        assert allocator.live == 0
    finally:
        etarena.unregister_device_allocator(allocator)


def test_the_cpu_has_its_slot_too(runtime) -> None:
    address = runtime.runtime_allocate(0, 0, 100, 128)
    assert address % 128 == 0
    assert address != 0
    runtime.runtime_free(0, 0, address)


def test_types_that_executorch_does_not_know_have_no_slot(runtime) -> None:
    assert not runtime.connect_device_allocator(7, None)
    assert not runtime.connect_device_allocator(-1, None)
