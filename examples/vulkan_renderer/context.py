"""The application's VkInstance, VkDevice and queue."""

from __future__ import annotations

import threading
from contextlib import ExitStack
from typing import Any

import vulkan as vk

import etarena

__all__ = ["Context"]

API = (1, 2)
LAYER = "VK_LAYER_KHRONOS_validation"
VALIDATION = 0x2  # VkDebugUtilsMessageTypeFlagBitsEXT
WARNING, ERROR = 0x100, 0x1000  # VkDebugUtilsMessageSeverityFlagBitsEXT
BEST_PRACTICES, SYNCHRONISATION = 2, 4  # VkValidationFeatureEnableEXT

# What etarena can use; each is enabled if the device has it.
EXTENSIONS = [
    "VK_EXT_external_memory_host",
    "VK_KHR_external_memory_fd",
    "VK_EXT_subgroup_size_control",
    "VK_KHR_external_semaphore_fd",
]
FEATURES = {
    "VkPhysicalDeviceFeatures": [
        "shaderInt16",
        "shaderInt64",
        "shaderStorageImageExtendedFormats",
        "shaderStorageImageWriteWithoutFormat",
    ],
    "VkPhysicalDeviceVulkan11Features": ["storageBuffer16BitAccess", "uniformAndStorageBuffer16BitAccess"],
    "VkPhysicalDeviceVulkan12Features": [
        "timelineSemaphore",
        "hostQueryReset",
        "scalarBlockLayout",
        "shaderFloat16",
        "shaderInt8",
        "storageBuffer8BitAccess",
        "uniformAndStorageBuffer8BitAccess",
        "vulkanMemoryModel",
        "vulkanMemoryModelDeviceScope",
    ],
}


class Context:
    """A device with one queue.

    Parameters
    ----------
    validation
        Let the validation layer check core use, synchronisation and best practices.

    Attributes
    ----------
    messages : list of str
        What the layer said.
    memory_types : list of int
        VkMemoryPropertyFlags of each.
    lock : threading.Lock
        Held while the queue is given work.
    """

    def __init__(self, *, validation: bool = False) -> None:
        self.messages: list[str] = []
        self.lock = threading.Lock()
        self._closing = ExitStack()
        try:
            self.instance = self._make_instance(validation)
            found = vk.vkEnumeratePhysicalDevices(self.instance)
            if not found:
                raise RuntimeError("there is no Vulkan device: install a driver such as 'mesa-vulkan-drivers'")
            self.physical_device = found[0]
            self.family = self._choose_family()
            self.device = self._make_device()
            self.queue = vk.vkGetDeviceQueue(self.device, self.family, 0)
        except BaseException:
            self._closing.close()
            raise
        memory = vk.vkGetPhysicalDeviceMemoryProperties(self.physical_device)
        self.memory_types = [memory.memoryTypes[i].propertyFlags for i in range(memory.memoryTypeCount)]

    def __enter__(self) -> Context:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Destroy everything, once the device is done."""
        self._closing.close()

    def adopt(self) -> etarena.vulkan.Device:
        """Let etarena use this device and queue. What is returned is closed before the context."""
        return etarena.vulkan.Device.from_handles(
            instance=self.instance,
            physical_device=self.physical_device,
            device=self.device,
            queue=self.queue,
            queue_family_index=self.family,
            api_version=API,
            extensions=self.extensions,
            features=self.features,
            queue_lock=self.lock,
        )

    def submit(self, commands: Any, wait: list[tuple[Any, int]], signal: list[tuple[Any, int]]) -> None:
        """Give a command buffer to the queue; `wait` and `signal` are timeline semaphores with values."""
        timeline = vk.VkTimelineSemaphoreSubmitInfo(
            pWaitSemaphoreValues=[value for _, value in wait], pSignalSemaphoreValues=[value for _, value in signal]
        )
        info = vk.VkSubmitInfo(
            pNext=timeline,
            pWaitSemaphores=[semaphore for semaphore, _ in wait],
            pWaitDstStageMask=[vk.VK_PIPELINE_STAGE_ALL_COMMANDS_BIT] * len(wait),
            pCommandBuffers=[commands],
            pSignalSemaphores=[semaphore for semaphore, _ in signal],
        )
        with self.lock:
            vk.vkQueueSubmit(self.queue, 1, [info], vk.VK_NULL_HANDLE)

    def _make_instance(self, validation: bool) -> Any:
        checks = vk.VkValidationFeaturesEXT(pEnabledValidationFeatures=[BEST_PRACTICES, SYNCHRONISATION])
        instance = vk.vkCreateInstance(
            vk.VkInstanceCreateInfo(
                pNext=checks if validation else None,
                pApplicationInfo=vk.VkApplicationInfo(
                    pApplicationName="etarena's renderer", apiVersion=vk.VK_MAKE_VERSION(*API, 0)
                ),
                ppEnabledLayerNames=[LAYER] if validation else [],
                ppEnabledExtensionNames=["VK_EXT_debug_utils", "VK_EXT_validation_features"] if validation else [],
            ),
            None,
        )
        self._closing.callback(vk.vkDestroyInstance, instance, None)
        if validation:
            make, destroy = (
                vk.vkGetInstanceProcAddr(instance, f"vk{verb}DebugUtilsMessengerEXT") for verb in ("Create", "Destroy")
            )
            # Advice about performance would call back in the middle of good frames, from Vulkan into Python: see
            # docs/vulkan.md on the GIL.
            listener = vk.VkDebugUtilsMessengerCreateInfoEXT(
                messageSeverity=WARNING | ERROR, messageType=VALIDATION, pfnUserCallback=self._listen
            )
            self._closing.callback(destroy, instance, make(instance, listener, None), None)
        return instance

    def _listen(self, severity: int, kinds: int, data: Any, user: Any) -> int:
        # Best practices have warnings too, advice for devices with slow barriers; their errors count.
        advice = data.pMessageIdName != vk.ffi.NULL and b"BestPractices" in vk.ffi.string(data.pMessageIdName)
        if severity & ERROR or not advice:
            self.messages.append(vk.ffi.string(data.pMessage).decode())
        return 0

    def _choose_family(self) -> int:
        wanted = vk.VK_QUEUE_GRAPHICS_BIT | vk.VK_QUEUE_COMPUTE_BIT
        families = vk.vkGetPhysicalDeviceQueueFamilyProperties(self.physical_device)
        for index, family in enumerate(families):
            if family.queueFlags & wanted == wanted:
                return index
        raise RuntimeError("the Vulkan device has no queue that draws and computes")

    def _make_device(self) -> Any:
        """Make the device and note what was enabled: Vulkan cannot be asked later."""
        there = {item.extensionName for item in vk.vkEnumerateDeviceExtensionProperties(self.physical_device, None)}
        self.extensions = [name for name in EXTENSIONS if name in there]
        newest = vk.ffi.new("VkPhysicalDeviceVulkan12Features *")
        newest.sType = vk.VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES
        newer = vk.ffi.new("VkPhysicalDeviceVulkan11Features *")
        newer.sType, newer.pNext = vk.VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES, newest
        all_of_them = vk.ffi.new("VkPhysicalDeviceFeatures2 *")
        all_of_them.sType, all_of_them.pNext = vk.VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2, newer
        vk.vkGetPhysicalDeviceFeatures2(self.physical_device, all_of_them)
        found = {
            kind: [name for name in FEATURES[kind] if getattr(struct, name)]
            for kind, struct in zip(FEATURES, (all_of_them.features, newer, newest), strict=True)
        }
        self.features = [name for names in found.values() for name in names]
        older, middle, newest_ones = (dict.fromkeys(names, 1) for names in found.values())
        chain = vk.VkPhysicalDeviceVulkan11Features(pNext=vk.VkPhysicalDeviceVulkan12Features(**newest_ones), **middle)
        queue = vk.VkDeviceQueueCreateInfo(queueFamilyIndex=self.family, pQueuePriorities=[1.0])
        device = vk.vkCreateDevice(
            self.physical_device,
            vk.VkDeviceCreateInfo(
                pNext=chain,
                pQueueCreateInfos=[queue],
                ppEnabledExtensionNames=self.extensions,
                pEnabledFeatures=vk.VkPhysicalDeviceFeatures(**older),
            ),
            None,
        )
        self._closing.callback(vk.vkDestroyDevice, device, None)
        self._closing.callback(vk.vkDeviceWaitIdle, device)
        return device
