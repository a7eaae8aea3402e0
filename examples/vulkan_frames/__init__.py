"""Frames of `examples.vulkan_renderer` go through a model and onto the screen of the next ones, on the GPU alone.

The model runs partly on Vulkan and partly on XNNPACK. Images of the application's own device go in and come out.
"""
