"""The application's own device, made with the vulkan package, and handles that are wrong."""

import ctypes
import mmap
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
import vulkan as vk

import etarena
from etarena import vulkan

LAYER = "VK_LAYER_KHRONOS_validation"


@dataclass
class Application:
    """A VkDevice of somebody else, with a queue, and what the validation layer says about it."""

    instance: Any
    physical_device: Any
    device: Any
    queue: Any
    said: list[str] = field(default_factory=list)

    def handles(self, **more: Any) -> dict[str, Any]:
        return {
            "instance": self.instance,
            "physical_device": self.physical_device,
            "device": self.device,
            "queue": self.queue,
            "queue_family_index": 0,
            "api_version": (1, 2),
            **more,
        }


def make_application(extensions: list[str], timeline: bool) -> Iterator[Application]:
    said: list[str] = []

    def listen(severity: int, kinds: int, data: Any, user: Any) -> int:
        said.append(vk.ffi.string(data.pMessage).decode())
        return 0

    instance = vk.vkCreateInstance(
        vk.VkInstanceCreateInfo(
            pApplicationInfo=vk.VkApplicationInfo(apiVersion=vk.VK_MAKE_VERSION(1, 2, 0)),
            ppEnabledLayerNames=[LAYER],
            ppEnabledExtensionNames=["VK_EXT_debug_utils"],
        ),
        None,
    )
    messenger = vk.vkGetInstanceProcAddr(instance, "vkCreateDebugUtilsMessengerEXT")(
        instance,
        vk.VkDebugUtilsMessengerCreateInfoEXT(
            messageSeverity=0x1100, messageType=0x2, pfnUserCallback=listen, pUserData=None
        ),
        None,
    )
    physical = vk.vkEnumeratePhysicalDevices(instance)[0]
    features = vk.VkPhysicalDeviceTimelineSemaphoreFeatures(timelineSemaphore=int(timeline))
    queue = vk.VkDeviceQueueCreateInfo(queueFamilyIndex=0, pQueuePriorities=[1.0])  # a name keeps the priorities
    device = vk.vkCreateDevice(
        physical,
        vk.VkDeviceCreateInfo(
            pNext=features,
            pQueueCreateInfos=[queue],
            ppEnabledExtensionNames=extensions,
        ),
        None,
    )
    yield Application(instance, physical, device, vk.vkGetDeviceQueue(device, 0, 0), said)
    vk.vkDestroyDevice(device, None)
    vk.vkGetInstanceProcAddr(instance, "vkDestroyDebugUtilsMessengerEXT")(instance, messenger, None)
    vk.vkDestroyInstance(instance, None)
    assert said == []


@pytest.fixture
def plain() -> Iterator[Application]:
    yield from make_application([], timeline=False)


@pytest.fixture
def rich() -> Iterator[Application]:
    yield from make_application(["VK_EXT_external_memory_host", "VK_KHR_external_memory_fd"], timeline=True)


def test_the_applications_device_is_used(plain: Application) -> None:
    with vulkan.Device.from_handles(**plain.handles()) as device:
        assert device.core.handle == int(vk.ffi.cast("uintptr_t", plain.device))
        assert device.core.queue_handle == int(vk.ffi.cast("uintptr_t", plain.queue))
        with device.buffer(64) as buffer, device.image(4, 4, "rgba8") as image:
            out = bytearray(64)
            device.copy(buffer, bytes(range(64)))
            device.copy(image, buffer)
            device.copy(out, image)
            assert out == bytes(range(64))
    vk.vkDeviceWaitIdle(plain.device)  # still the application's


def test_the_applications_buffer_is_read_in_place(plain: Application) -> None:
    made = vk.vkCreateBuffer(plain.device, vk.VkBufferCreateInfo(size=256, usage=3), None)
    needs = vk.vkGetBufferMemoryRequirements(plain.device, made)
    memory = vk.vkAllocateMemory(
        plain.device, vk.VkMemoryAllocateInfo(allocationSize=needs.size, memoryTypeIndex=0), None
    )
    vk.vkBindBufferMemory(plain.device, made, memory, 0)
    mapped = vk.vkMapMemory(plain.device, memory, 0, 256, 0)
    mapped[0:256] = bytes(range(256))
    with vulkan.Device.from_handles(**plain.handles()) as device:
        tensor = etarena.ETensor.from_vulkan_buffer(made, "uint8", (100,), offset=50, device=plain.device)
        out = bytearray(100)
        device.copy(out, tensor)
        assert out == bytes(range(50, 150))
        device.copy(tensor, bytes(100))
        del tensor
    assert bytes(mapped[0:256]) == bytes(range(50)) + bytes(100) + bytes(range(150, 256))
    vk.vkUnmapMemory(plain.device, memory)
    vk.vkDestroyBuffer(plain.device, made, None)
    vk.vkFreeMemory(plain.device, memory, None)


def test_what_the_application_did_not_enable_is_named(plain: Application) -> None:
    with vulkan.Device.from_handles(**plain.handles()) as device:
        for use, name in [
            (lambda: device.import_host(1 << 20, 4096), "the extension VK_EXT_external_memory_host"),
            (lambda: vulkan.ArenaImport(device, etarena.Arena(1 << 20)), "the extension VK_EXT_external_memory_host"),
            (lambda: device.buffer(64, export=True), "the extension VK_KHR_external_memory_fd"),
            (lambda: device.import_fd(0, 64), "the extension VK_KHR_external_memory_fd"),
            (device.timeline, "the feature timelineSemaphore"),
            (lambda: device.adopt_semaphore(1, timeline=True), "the feature timelineSemaphore"),
        ]:
            with pytest.raises(NotImplementedError, match=f"needs {name}, which the application is not known"):
                use()
        assert not vulkan.VulkanAllocator(device).capabilities(0).exports_fd


def test_what_the_application_enabled_works(rich: Application) -> None:
    told = rich.handles(
        extensions=["VK_EXT_external_memory_host", "VK_KHR_external_memory_fd"], features=["timelineSemaphore"]
    )
    with vulkan.Device.from_handles(**told) as device:
        shared = vulkan.ArenaImport(device, etarena.Arena(1 << 30))
        span = shared.range(0, 64)
        device.copy(span, b"\1" * 64)
        del span
        shared.close()
        info = vk.VkSemaphoreTypeCreateInfo(semaphoreType=1, initialValue=4)
        made = vk.vkCreateSemaphore(rich.device, vk.VkSemaphoreCreateInfo(pNext=info), None)
        with device.adopt_semaphore(made, timeline=True) as semaphore:
            assert semaphore.value == 4
            semaphore.signal(5)
            assert semaphore.value == 5
        vk.vkDestroySemaphore(rich.device, made, None)


def test_extensions_that_are_not_enabled_after_all(plain: Application) -> None:
    told = plain.handles(extensions=["VK_EXT_external_memory_host"], api_version=(1, 1), features=["timelineSemaphore"])
    pages = mmap.mmap(-1, 1 << 16)
    address = ctypes.addressof(ctypes.c_ubyte.from_buffer(pages))
    with vulkan.Device.from_handles(**told) as device:
        with pytest.raises(vulkan.MissingFeatureError, match="no vkGetMemoryHostPointerPropertiesEXT"):
            device.import_host(address, 1 << 16, owner=pages)
        assert device.live_objects == {}


def test_a_lock_of_the_application_is_held(plain: Application) -> None:
    class Lock:
        entered = 0

        def __enter__(self) -> None:
            Lock.entered += 1

        def __exit__(self, *_: object) -> None:
            pass

    with (
        vulkan.Device.from_handles(**plain.handles(queue_lock=Lock())) as device,
        device.buffer(64) as first,
        device.buffer(64) as second,
    ):
        device.copy(second, first)
    assert Lock.entered == 1


def test_who_holds_the_lock_may_ask_what_is_done(plain: Application) -> None:
    """While another thread waits for the lock to submit."""

    class Lock:
        def __init__(self) -> None:
            self.held, self.asked = threading.Lock(), threading.Event()

        def __enter__(self) -> None:
            self.asked.set()
            self.held.acquire()

        def __exit__(self, *_: object) -> None:
            self.held.release()

    lock = Lock()
    with vulkan.Device.from_handles(**plain.handles(queue_lock=lock)) as device:
        submitted = device.submit_nothing()
        lock.asked.clear()
        others = [threading.Thread(target=work, daemon=True) for work in (device.submit_nothing, submitted.done)]
        with lock.held:
            others[0].start()
            assert lock.asked.wait(30)
            others[1].start()
            others[1].join(30)
            assert not others[1].is_alive()
        others[0].join()
        del submitted, others  # which keep what the device must not have when it is closed


def test_numbers_and_ctypes_are_handles_too(plain: Application) -> None:
    numbers = {
        name: int(vk.ffi.cast("uintptr_t", getattr(plain, name)))
        for name in ("instance", "physical_device", "device", "queue")
    }
    for kind in (int, ctypes.c_void_p, ctypes.c_uint64):
        given = {name: kind(value) for name, value in numbers.items()}
        with vulkan.Device.from_handles(**given, queue_family_index=0) as device, device.buffer(4) as buffer:
            device.copy(buffer, b"abcd")
    without_queue = {name: value for name, value in numbers.items() if name != "queue"}
    with vulkan.Device.from_handles(**without_queue, queue_family_index=0) as device:
        assert device.core.queue_handle == numbers["queue"]


@pytest.mark.parametrize("name", ["instance", "physical_device", "device"])
def test_null_handles_are_refused(plain: Application, name: str) -> None:
    for null in (0, None, ctypes.c_void_p(), vk.ffi.NULL):
        with pytest.raises(etarena.DeviceError, match=name):
            vulkan.Device.from_handles(**plain.handles(**{name: null}))


def test_wrong_handles_are_refused(plain: Application) -> None:
    for change, message in [
        ({"physical_device": 0x1234}, "is none of VkInstance"),
        ({"physical_device": "gpu"}, "physical_device: a str is no handle"),
        ({"queue_family_index": 99}, "families"),
        ({"queue_family_index": -1}, "families"),
        ({"api_version": (1, 0)}, "too old"),
        ({"extensions": ["VK_EXT_made_up"]}, "'VK_EXT_made_up' cannot be enabled"),
    ]:
        with pytest.raises(etarena.DeviceError, match=message):
            vulkan.Device.from_handles(**plain.handles(**change))
    device = vulkan.Device.from_handles(**plain.handles())
    with pytest.raises(etarena.DeviceError, match="null handle"):
        device.adopt_semaphore(0, timeline=False)
    device.close()


def test_things_left_on_the_applications_device(plain: Application) -> None:
    device = vulkan.Device.from_handles(**plain.handles())
    buffer = device.buffer(64)
    with pytest.raises(etarena.DeviceError, match="still has 1 buffer, 1 memory block"):
        device.close()
    buffer.close()
    device.close()
