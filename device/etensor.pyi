from collections.abc import Sequence
from typing import Any, Self, final

import numpy as np
import torch as torch_package

from .device import Device
from .resource import Resource
from .tensor_core import TensorCore
from .transfer import Mapping

__all__ = ["ETensor"]

@final
class ETensor(TensorCore):
    def __init__(self, value: Any) -> None: ...
    @staticmethod
    def from_torch(tensor: torch_package.Tensor) -> ETensor: ...
    @staticmethod
    def from_numpy(array: Any) -> ETensor: ...
    @staticmethod
    def from_dlpack(source: Any) -> ETensor: ...
    @staticmethod
    def from_pointer(
        address: Any,
        dtype: Any,
        shape: int | Sequence[int],
        *,
        strides: Sequence[int] | None = None,
        dim_order: Sequence[int] | None = None,
        readonly: bool = False,
        owner: object = None,
    ) -> ETensor: ...
    @staticmethod
    def from_resource(
        resource: Resource,
        dtype: Any,
        shape: int | Sequence[int],
        device: Any = None,
        *,
        strides: Sequence[int] | None = None,
        dim_order: Sequence[int] | None = None,
        readonly: bool = False,
    ) -> ETensor: ...
    @staticmethod
    def from_vulkan_buffer(where: Any, *what: Any, **details: Any) -> ETensor: ...
    @staticmethod
    def from_vulkan_image(where: Any, *what: Any, **details: Any) -> ETensor: ...
    @staticmethod
    def empty(
        dtype: Any, shape: int | Sequence[int], device: Any = "cpu", *, dim_order: Sequence[int] | None = None
    ) -> ETensor: ...
    def __enter__(self) -> Self: ...
    def numpy(self) -> np.ndarray[Any, Any]: ...
    def torch(self) -> torch_package.Tensor: ...
    def view(self, dtype: Any = None) -> ETensor: ...
    def to(self, device: Device | str | int) -> ETensor: ...
    def cpu(self) -> ETensor: ...
    def clone(self) -> ETensor: ...
    def copy_(self, source: Any) -> ETensor: ...
    def map(self, access: str = "rw") -> Mapping: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...
    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any: ...
