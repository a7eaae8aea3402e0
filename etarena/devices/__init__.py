"""Devices of a program's values: what `export` is told, where values are put, and files of ExecuTorch's own.

What a device is and whose memory it has is the matter of ``etarena.device``, the floor below.
"""
