"""An application of its own with Vulkan: a moving scene, drawn into images that nobody shows on a window.

It is written on the ``vulkan`` package and knows nothing of etarena but for `Context.adopt`, by which etarena uses its
device.
"""
