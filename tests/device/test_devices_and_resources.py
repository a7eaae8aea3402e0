"""Devices, resources, and tensors in them: the tag says how to read, and nobody reads them as CPU memory."""

import ctypes
import datetime
import os
import pickle

import cffi
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import etarena
from etarena import Device, DeviceError, DeviceType, ETensor, InputTypeError, Resource, ResourceKind
from etarena.device.kinds import FIRST_CUSTOM_KIND

from ..helpers.simulated_device import guard_page


@pytest.mark.parametrize(
    ("given_device", "expected"),
    [
        (("cpu",), ("cpu", 0)),
        (("vulkan:3",), ("vulkan", 3)),
        (("vulkan", 2), ("vulkan", 2)),
        ((DeviceType.METAL,), ("metal", 0)),
        ((7, 1), ("vulkan", 1)),
        (("custom77:5",), ("custom77", 5)),
        ((64,), ("custom64", 0)),
        ((torch.device("cuda:1"),), ("cuda", 1)),
        ((torch.device("cpu"),), ("cpu", 0)),
        ((Device("opencl", 4),), ("opencl", 4)),
    ],
)
def test_devices_have_many_names(given_device, expected) -> None:
    device = Device(*given_device)
    assert repr(device) == "Device({!r}, {})".format(*expected)
    assert Device(str(device)) == device
    assert hash(Device(str(device))) == hash(device)
    assert pickle.loads(pickle.dumps(device)) == device
    with pytest.raises(AttributeError, match="cannot be changed"):
        device.index = 3


@pytest.mark.parametrize(
    "arguments",
    [
        ("tpu",),
        ("",),
        ("cpu:",),
        ("vulkan:128",),
        ("vulkan", -1),
        ("vulkan", 128),
        ("vulkan", 1.5),
        ("vulkan", True),
        ("vulkan:1", 2),
        (2,),
        (63,),
        (128,),
        (-1,),
        (True,),
        (None,),
        (1.0,),
        ("custom63",),
        ("custom128",),
        ("custom",),
        (10**30,),
    ],
)
def test_unknown_devices_are_refused(arguments) -> None:
    with pytest.raises(DeviceError):
        Device(*arguments)


def test_types_have_executorchs_and_dlpacks_numbers() -> None:
    assert {kind.name: int(kind) for kind in DeviceType} == {
        "CPU": 0,
        "CUDA": 1,
        "OPENCL": 4,
        "VULKAN": 7,
        "METAL": 8,
        "VPI": 9,
        "ROCM": 10,
        "EXT_DEV": 12,
        "CUDA_MANAGED": 13,
        "ONEAPI": 14,
        "WEBGPU": 15,
        "HEXAGON": 16,
        "MAIA": 17,
        "TRAINIUM": 18,
    }


def c_resource(resource: Resource):
    class CResource(ctypes.Structure):
        _fields_ = [
            ("struct_size", ctypes.c_uint32),
            ("kind", ctypes.c_uint32),
            ("handle", ctypes.c_uint64),
            ("offset", ctypes.c_uint64),
            ("nbytes", ctypes.c_uint64),
            ("next", ctypes.c_void_p),
        ]

    return CResource.from_address(resource.address)


def test_a_buffer_is_described_as_the_header_says() -> None:
    buffer = Resource.vk_buffer(0xABC, 4096, offset=256, usage=3, memory=0x55, memory_offset=128, device=0x77)
    found = c_resource(buffer)
    assert (found.struct_size, found.kind, found.handle, found.offset, found.nbytes) == (40, 2, 0xABC, 256, 4096)
    details = (ctypes.c_uint64 * 4).from_address(found.next)
    assert list(details) == [32 | 3 << 32, 0x55, 128, 0x77]
    assert buffer.details == {"usage": 3, "memory": 0x55, "memory_offset": 128, "device": 0x77}
    assert buffer.kind is ResourceKind.VK_BUFFER


def test_an_image_is_described_as_the_header_says() -> None:
    image = Resource.vk_image(0xABC, width=64, height=32, format=109, layout=5, view=0x9, device=0x77, srgb=True)
    found = c_resource(image)
    assert (found.kind, found.handle, found.nbytes) == (3, 0xABC, 0)
    assert list((ctypes.c_uint32 * 2).from_address(found.next)) == [48, 109]
    assert list((ctypes.c_uint64 * 2).from_address(found.next + 8)) == [0x9, 0x77]
    assert list((ctypes.c_uint32 * 6).from_address(found.next + 24)) == [5, 0, 64, 32, 1, 1]


def test_custom_kinds_carry_what_their_author_wants() -> None:
    extra = ctypes.create_string_buffer(16)
    owner = object()
    resource = Resource.custom(FIRST_CUSTOM_KIND + 7, 0, 0, next=ctypes.addressof(extra), owner=owner)
    assert c_resource(resource).next == ctypes.addressof(extra)
    assert resource.owner is owner
    assert resource.kind == FIRST_CUSTOM_KIND + 7
    assert repr(resource).startswith("<Resource custom kind 0x10007 ")


@pytest.mark.parametrize(
    "handle", [0x1234, ctypes.c_void_p(0x1234), ctypes.c_uint64(0x1234), ctypes.cast(0x1234, ctypes.POINTER(ctypes.c_int))]
)
def test_handles_of_any_binding_are_numbers(handle) -> None:
    assert Resource.vk_buffer(handle, 16).handle == 0x1234


def test_handles_of_cffi_are_numbers() -> None:
    assert Resource.vk_buffer(cffi.FFI().cast("void *", 0x1234), 16).handle == 0x1234


@pytest.mark.parametrize(
    "make",
    [
        lambda: Resource.host(0, 16),
        lambda: Resource.vk_buffer(0, 16),
        lambda: Resource.vk_image(0, width=1, height=1, format=1),
        lambda: Resource.device_pointer(-1, 16),
        lambda: Resource.device_pointer(2**64, 16),
        lambda: Resource.device_pointer(2**64 - 8, 16),
        lambda: Resource.device_pointer(16, -1),
        lambda: Resource.device_pointer(16, 2**63),
        lambda: Resource.device_pointer(16, 16, offset=-1),
        lambda: Resource.device_pointer(16, 16, offset=2**64),
        lambda: Resource.device_pointer(16, 1.5),
        lambda: Resource.device_pointer(16, True),
        lambda: Resource.device_pointer("16", 16),
        lambda: Resource.device_pointer(None, 16),
        lambda: Resource.custom(6, 1, 16),
        lambda: Resource.custom(1, 1, 16),
        lambda: Resource.custom(2**32, 1, 16),
        lambda: Resource.vk_image(5, width=0, height=1, format=1),
        lambda: Resource.vk_image(5, width=2**32, height=1, format=1),
        lambda: Resource.fd(-1, 16),
        lambda: Resource.fd(2**40, 16),
    ],
)
def test_impossible_resources_are_refused(make) -> None:
    with pytest.raises(DeviceError):
        make()


def test_resources_are_made_by_name_and_not_pickled() -> None:
    with pytest.raises(TypeError, match="class methods|Resource.host"):
        Resource()
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(Resource.host(4096, 16))


def test_a_file_descriptor_is_the_resources_own() -> None:
    number = os.memfd_create("etarena")
    os.truncate(number, 4096)
    resource = Resource.fd(number, 4096)
    assert resource.handle != number
    os.close(number)
    assert os.fstat(resource.handle).st_size == 4096
    duplicate = resource.handle
    tensor = ETensor.from_resource(resource.part(1024, 1024), "float32", (256,), "custom70")
    del resource
    assert os.fstat(duplicate).st_size == 4096
    del tensor
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(duplicate)


@given(st.integers(0, 100), st.integers(0, 100), st.integers(0, 100), st.integers(0, 100))
def test_parts_lie_inside(offset: int, nbytes: int, start: int, size: int) -> None:
    whole = Resource.custom(FIRST_CUSTOM_KIND, 1, nbytes, offset=offset)
    if start + size <= nbytes:
        part = whole.part(start, size)
        assert (part.offset, part.nbytes, part.handle) == (offset + start, size, 1)
        assert part.owner is whole
    else:
        with pytest.raises(DeviceError, match="not inside"):
            whole.part(start, size)


def opaque_tensors() -> dict[str, ETensor]:
    """Tensors of each kind, with an address nobody may touch as the handle."""
    page = guard_page()
    return {
        "vk_buffer": ETensor.from_vulkan_buffer(page, "float32", (4, 4), offset=64, device=0x77),
        "vk_image": ETensor.from_vulkan_image(page, "float32", (4, 4), width=4, height=4, format=100),
        "device_pointer": ETensor.from_resource(Resource.device_pointer(page, 64), "float32", (4, 4), "cuda"),
        "fd": ETensor.from_resource(Resource.fd(0, 64), "float32", (4, 4), "custom64"),
        "custom": ETensor.from_resource(Resource.custom(FIRST_CUSTOM_KIND, page, 64), "float32", (4, 4), "custom64"),
        "host of a device": ETensor.from_resource(Resource.host(page, 64), "float32", (4, 4), "metal"),
    }


READERS = {
    "memoryview": memoryview,
    "bytes": bytes,
    "numpy": ETensor.numpy,
    "asarray": np.asarray,
    "torch": ETensor.torch,
    "array": np.array,
    "address": lambda tensor: tensor.address,
    "interface": lambda tensor: tensor.__array_interface__,
    "np.from_dlpack": np.from_dlpack,
    "map": lambda tensor: tensor.map().__enter__(),
    "cpu": ETensor.cpu,
    "clone": ETensor.clone,
    "copy_": lambda tensor: tensor.copy_(torch.ones(4, 4)),
    "into": lambda tensor: ETensor(torch.ones(4, 4)).copy_(tensor),
}


@pytest.mark.parametrize("reader", READERS)
def test_memory_of_a_device_is_never_read_as_the_cpus(reader: str) -> None:
    for kind, tensor in opaque_tensors().items():
        with pytest.raises((DeviceError, BufferError, RuntimeError, TypeError)):
            READERS[reader](tensor)
        assert "float32[4, 4] on" in repr(tensor), kind


def test_the_error_says_what_to_call() -> None:
    for tensor in opaque_tensors().values():
        with pytest.raises(DeviceError, match=r"lies on \w+:0: numpy\(\) would .* Use .map\(\) or .to\('cpu'\)"):
            tensor.numpy()


@pytest.mark.parametrize(
    ("resource", "arguments", "options", "text"),
    [
        (Resource.vk_buffer(5, 63), ("float32", (4, 4)), {}, "takes 64 bytes, .* has 63"),
        (Resource.vk_buffer(5, 64), ("float32", (4, 4)), {"strides": (5, 1)}, "takes 76 bytes"),
        (Resource.vk_buffer(5, 64, offset=2), ("float32", (4, 4)), {}, "multiple of the 4 bytes"),
        (Resource.vk_buffer(5, 64), ("float32", (4, 4), "cuda"), {}, "lies on a vulkan device, not on cuda:0"),
        (Resource.vk_buffer(5, 64), ("float32", (4, 4), "cpu"), {}, "lies on a vulkan device, not on cpu"),
        (Resource.device_pointer(64, 64), ("float32", (4, 4)), {}, "which device"),
        (Resource.device_pointer(64, 64), ("float32", (4, 4), "cpu"), {}, "not the CPU's memory"),
        (Resource.device_pointer(64, 64), ("float32", (4, 4), "tpu"), {}, "names no device"),
        (Resource.vk_image(5, width=4, height=4, format=1, nbytes=32), ("float32", (4, 4)), {}, "takes 64 bytes"),
    ],
)
def test_tensors_lie_inside_their_resource(resource, arguments, options, text: str) -> None:
    with pytest.raises(DeviceError, match=text):
        ETensor.from_resource(resource, *arguments, **options)


def test_a_resource_is_wanted() -> None:
    with pytest.raises(InputTypeError, match="expected a Resource, got int"):
        ETensor.from_resource(5, "float32", (4,))


def test_host_memory_is_used_in_place_and_kept() -> None:
    memory = np.arange(8, dtype=np.float32)
    resource = Resource.host(memory.ctypes.data, 32, offset=8, owner=memory)
    tensor = ETensor.from_resource(resource.part(0, 24), "float32", (2, 3))
    assert tensor.numpy().tolist() == [[2, 3, 4], [5, 6, 7]]
    assert tensor.resource.handle + tensor.resource.offset == memory.ctypes.data + 8


def test_vulkan_buffers_and_pointers_go_through_dlpack() -> None:
    tensors = opaque_tensors()
    for kind, code in [("vk_buffer", 7), ("device_pointer", 2), ("host of a device", 8)]:
        tensor = tensors[kind]
        assert tensor.__dlpack_device__() == (code, 0)
        back = ETensor.from_dlpack(tensor.__dlpack__(max_version=(1, 0)))
        assert (back.shape, back.device) == (tensor.shape, tensor.device)
        assert back.resource.handle == tensor.resource.handle
        assert back.resource.offset == tensor.resource.offset
        assert tensor.n_exports == 1
        del back
        assert tensor.n_exports == 0
        capsule = tensor.__dlpack__()
        assert ETensor.from_dlpack(capsule).shape == (4, 4)
        with pytest.raises(InputTypeError, match="taken before"):
            ETensor.from_dlpack(capsule)
    for kind in ("vk_image", "fd", "custom"):
        with pytest.raises(BufferError, match="DLPack"):
            tensors[kind].__dlpack__(max_version=(1, 0))


@pytest.mark.parametrize("kind", sorted(set(DeviceType) - {DeviceType.CPU}))
def test_every_device_of_dlpack_comes_in_and_goes_out(kind: int) -> None:
    tensor = ETensor.from_resource(
        (Resource.vk_buffer if kind == DeviceType.VULKAN else Resource.device_pointer)(4096, 64),
        "int16",
        (4, 8),
        Device(kind, 3),
    )
    back = ETensor.from_dlpack(tensor)
    assert back.device == Device(kind, 3)
    assert back.dtype == "int16"


def test_unused_capsules_give_back_what_they_hold() -> None:
    tensor = ETensor(torch.ones(2))
    for capsule in (tensor.__dlpack__(), tensor.__dlpack__(max_version=(1, 1))):
        assert tensor.n_exports >= 1
        del capsule
    tensor.close()


def test_dlpack_says_what_it_cannot_do() -> None:
    tensor = ETensor(torch.ones(2))
    with pytest.raises(BufferError, match="no stream"):
        tensor.__dlpack__(stream=1)
    with pytest.raises(BufferError, match="not on DLPack's device"):
        tensor.__dlpack__(dl_device=(2, 0))
    with etarena.record_copies() as ledger:
        copied = ETensor.from_dlpack(tensor.__dlpack__(max_version=(1, 0), copy=True))
    assert [entry.nbytes for entry in ledger] == [8]
    assert copied.address != tensor.address
    with pytest.raises(InputTypeError, match="no capsule of DLPack"):
        ETensor.from_dlpack(datetime.datetime_CAPI)
    with pytest.raises(InputTypeError, match="has no __dlpack__"):
        ETensor.from_dlpack(3)
