"""Device allocators behind C tables: called as the header says, and refused when they are not what it says."""

import ctypes
import datetime

import cffi
import numpy as np
import pytest
import torch

import etarena
from etarena import ArenaFullError, DeviceError, ETensor, InputError
from etarena.device.exported_table import ExportedTable
from etarena.device.tables import TableAllocator

from ..helpers.c_allocator import VERSION_1, CAllocator, CTable
from ..helpers.simulated_device import SimulatedDevice


@pytest.fixture
def author():
    made = CAllocator()
    etarena.register_device_allocator(made.address)
    yield made
    etarena.unregister_device_allocator("custom66")
    assert made.blocks == {}


def test_tensors_go_there_and_back(author) -> None:
    source = torch.randn(6, 5)
    there = ETensor(source).to("custom66")
    assert there.resource.kind == etarena.ResourceKind.DEVICE_POINTER
    assert torch.equal(there.cpu().torch(), source)
    assert len(author.blocks) == 1


def capsule_of(address: int):
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    return new(address, b"etarena_device_allocator", None)


@pytest.mark.parametrize(
    "form",
    [
        lambda made: made.address,
        lambda made: made.table,
        lambda made: ctypes.pointer(made.table),
        lambda made: ctypes.c_void_p(made.address),
        lambda made: capsule_of(made.address),
        lambda made: cffi.FFI().cast("void *", made.address),
    ],
)
def test_a_table_is_given_in_any_form(form) -> None:
    made = CAllocator()
    assert TableAllocator(form(made)).device_type == 66


def test_a_newer_table_is_read_as_far_as_it_is_known() -> None:
    made = CAllocator()
    made.table.struct_size = ctypes.sizeof(CTable)
    made.table.of_a_newer_version = 2**64 - 1
    allocator = TableAllocator(made.address)
    resource = allocator.allocate(0, 64, 64)
    allocator.deallocate(0, resource)
    assert made.blocks == {}


@pytest.mark.parametrize(
    ("field", "value", "text"),
    [
        ("struct_size", 0, "older than version 1"),
        ("struct_size", VERSION_1 - 1, "older than version 1"),
        ("abi", 0, "ABI 0"),
        ("abi", 2, "ABI 2"),
        ("device_type", 63, "no device type"),
        ("device_type", -1, "no device type"),
        ("device_count", 0, "device_count=0"),
        ("device_count", 2**31, "device_count"),
        ("allocate", type(CTable().allocate)(), "has no allocate"),
        ("deallocate", type(CTable().deallocate)(), "has no deallocate"),
        ("capabilities", type(CTable().capabilities)(), "has no capabilities"),
        ("copy_to_device", type(CTable().copy_to_device)(), "has no copy_to_device"),
        ("copy_to_host", type(CTable().copy_to_host)(), "has no copy_to_host"),
    ],
)
def test_a_wrong_table_is_refused(field: str, value, text: str) -> None:
    made = CAllocator()
    setattr(made.table, field, value)
    with pytest.raises(DeviceError, match=text):
        etarena.register_device_allocator(made.address)


def test_wrong_pointers_are_refused() -> None:
    for wrong in (0, ctypes.c_void_p(), capsule_of.__doc__, object(), datetime.datetime_CAPI):
        with pytest.raises(DeviceError):
            TableAllocator(wrong)


@pytest.mark.parametrize(
    ("status", "error", "name"),
    [
        (1, DeviceError, "ETARENA_INVALID_ARGUMENT"),
        (2, DeviceError, "ETARENA_NOT_SUPPORTED"),
        (3, ArenaFullError, "ETARENA_OUT_OF_MEMORY"),
        (4, DeviceError, "ETARENA_FAILED"),
        (5, DeviceError, "ETARENA_DEVICE_LOST"),
        (6, DeviceError, "ETARENA_TIMEOUT"),
        (77, DeviceError, "unknown status 77"),
        (-1, DeviceError, "unknown status -1"),
    ],
)
def test_failures_keep_their_text(author, status: int, error, name: str) -> None:
    there = ETensor(torch.ones(4)).to("custom66")
    author.status, author.text = status, b"the author's words"
    with pytest.raises(error, match=f"custom66:0: allocate of .* bytes: .*{name}: the author's words"):
        ETensor.empty("uint8", (1 << 26,), "custom66")
    with pytest.raises(error, match=f"copy_to_host of 16 bytes: .*{name}"):
        there.cpu()
    author.status = 0
    assert there.cpu().numpy().tolist() == [1.0] * 4


def test_a_text_without_an_end_is_cut(author) -> None:
    author.status, author.text = 4, b"x" * 1024
    with pytest.raises(DeviceError, match="x{1023}$"):
        ETensor.empty("uint8", (64,), "custom66")
    author.status = 0


@pytest.mark.parametrize("kind", [0, 6, 63, 0xFFFF])
def test_unknown_kinds_are_refused(author, kind: int) -> None:
    author.kind = kind
    with pytest.raises(DeviceError, match="unknown kind"):
        ETensor.empty("uint8", (64,), "custom66")
    author.kind = 4


def test_bytes_outside_never_reach_the_author(author) -> None:
    allocator = TableAllocator(author.address)
    resource = allocator.allocate(0, 64, 64)
    for offset, nbytes in [(0, 65), (64, 1), (60, 5), (2**63, 1)]:
        with pytest.raises(DeviceError, match="not inside"):
            allocator.copy_to_device(0, resource, offset, memoryview(bytes(nbytes)))
        with pytest.raises(DeviceError, match="not inside"):
            allocator.copy_to_host(0, memoryview(bytearray(nbytes)), resource, offset)
    with pytest.raises(BufferError):
        allocator.copy_to_host(0, memoryview(bytes(4)), resource, 0)
    with pytest.raises(OverflowError):
        allocator.allocate(0, -1, 64)
    allocator.deallocate(0, resource)
    assert allocator.map(0, resource) is None
    allocator.unmap(0, resource)
    allocator.synchronize(0)


def test_exceptions_of_python_come_through_a_table_as_statuses() -> None:
    class Fails(SimulatedDevice):
        error: Exception = ValueError("mine")

        def allocate(self, index, nbytes, alignment):
            raise self.error

    table = ExportedTable(Fails())
    allocator = TableAllocator(table.capsule())
    for error, expected, text in [
        (ValueError("mine"), InputError, "INVALID_ARGUMENT: ValueError: mine"),
        (MemoryError("mine"), ArenaFullError, "OUT_OF_MEMORY: MemoryError: mine"),
        (NotImplementedError("mine"), DeviceError, "NOT_SUPPORTED: NotImplementedError: mine"),
        (KeyError("mine"), DeviceError, "FAILED: KeyError: 'mine'"),
        (KeyError("ä" * 2000), DeviceError, "FAILED: KeyError: 'ä+"),
    ]:
        table.allocator.error = error
        with pytest.raises(expected, match=text):
            allocator.allocate(0, 64, 64)
    assert allocator.capabilities(0) == SimulatedDevice().capabilities(0)


def test_an_etensor_fills_an_array_from_a_table(author) -> None:
    there = ETensor.empty("float64", (3,), "custom66")
    there.copy_(np.arange(3.0))
    with there.map("r") as mapped:
        assert mapped.numpy().tolist() == [0, 1, 2]
