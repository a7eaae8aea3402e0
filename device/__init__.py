"""Devices, tensors on them and the registry of device allocators: installed as ``etarena.device``."""
