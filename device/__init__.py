"""Devices, tensors on them and the registry of device allocators: installed as ``etarena.device``.

Imports neither torch nor ExecuTorch; torch only where a torch tensor is read or made.
"""
