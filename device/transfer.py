"""Copies of tensors between devices; each is written into the ledger before it is made."""

from __future__ import annotations

from typing import Any

from ..allocator.errors import DeviceError, InputError, InputTypeError
from .copies import allow_copy
from .device import Device
from .device_heap import Allocation, DeviceHeap
from .etensor import ETensor
from .registry import device_heap
from .resource import Resource
from .strided import copy_strided, item_range

__all__ = ["Mapping", "clone", "move", "overwrite"]


def heap_of(tensor: ETensor) -> DeviceHeap:
    """Where a tensor's memory came from; for memory of others, what is registered for the device."""
    owner: object = tensor.resource
    while isinstance(owner, Resource):
        owner = owner.owner
    return owner.heap if isinstance(owner, Allocation) else device_heap(tensor.device)


def like(tensor: ETensor, device: Device) -> ETensor:
    return ETensor.empty(tensor.dtype, tensor.shape, device, dim_order=tensor.dim_order)


def described(tensor: ETensor) -> str:
    return f"a {tensor.dtype} tensor of shape {list(tensor.shape)}"


def move(tensor: ETensor, device: Any) -> ETensor:
    """See `ETensor.to`."""
    target = Device(device)
    if target == tensor.device:
        return tensor
    out = like(tensor, target)
    overwrite(out, tensor)
    return out


def clone(tensor: ETensor) -> ETensor:
    """See `ETensor.clone`."""
    out = like(tensor, tensor.device)
    overwrite(out, tensor)
    return out


def overwrite(out: ETensor, source: ETensor) -> None:
    """See `ETensor.copy_`."""
    if out.is_closed or source.is_closed:
        raise DeviceError("this ETensor is closed")
    if out.readonly:
        raise InputError(f"{out!r} is read-only")
    if out.dtype != source.dtype:
        raise InputTypeError(f"{described(source)} cannot be copied into {described(out)}: convert it first")
    if out.shape != source.shape:
        raise InputError(f"{described(source)} cannot be copied into {described(out)}")
    if any(size > 1 and stride == 0 for size, stride in zip(out.shape, out.strides, strict=True)):
        raise InputError(f"{out!r} is expanded: several of its items are one in memory")
    if out.device.is_cpu and source.device.is_cpu:
        overwrite_on_cpu(out, source)
    elif out.device.is_cpu:
        download(out, source)
    elif source.device.is_cpu:
        upload(out, source)
    else:
        across(out, source)


def overwrite_on_cpu(out: ETensor, source: ETensor) -> None:
    begin, end = item_range(out)
    other_begin, other_end = item_range(source)
    if begin < other_end and other_begin < end and (begin != other_begin or out.strides != source.strides):
        source = clone(source)  # counted; the items would be overwritten while they are read
    allow_copy(f"{described(source)} is copied on the CPU", source.nbytes)
    copy_strided(out, source)


def bytes_of(tensor: ETensor) -> memoryview:
    """All bytes of a dense CPU tensor."""
    begin, end = item_range(tensor)
    view = ETensor.from_pointer(begin or 1, "uint8", (end - begin,), readonly=tensor.readonly, owner=tensor)
    return memoryview(view)


def download(out: ETensor, source: ETensor) -> None:
    """From a device; through CPU memory of the source's layout if the two differ."""
    cause = f"{described(source)} goes from {source.device} to {out.device}"
    direct = dense_alike(out, source)
    target = out if direct else like(source, Device("cpu"))
    require_dense(source)
    allow_copy(cause, source.nbytes)
    if source.nbytes:
        heap_of(source).read(bytes_of(target), source.resource, 0)
    if not direct:
        overwrite_on_cpu(out, target)


def upload(out: ETensor, source: ETensor) -> None:
    """To a device; through CPU memory of the destination's layout if the two differ."""
    require_dense(out)
    if not dense_alike(out, source):
        packed = like(out, Device("cpu"))
        overwrite_on_cpu(packed, source)
        source = packed
    allow_copy(f"{described(source)} goes from {source.device} to {out.device}", source.nbytes)
    if source.nbytes:
        heap_of(out).write(out.resource, 0, bytes_of(source))


def across(out: ETensor, source: ETensor) -> None:
    """From one device to another, through the CPU."""
    staged = like(source, Device("cpu"))
    download(staged, source)
    upload(out, staged)


def is_dense(tensor: ETensor) -> bool:
    step = 1
    for dim in reversed(tensor.dim_order):
        if tensor.shape[dim] > 1 and tensor.strides[dim] != step:
            return tensor.numel == 0
        step *= tensor.shape[dim]
    return True


def dense_alike(one: ETensor, other: ETensor) -> bool:
    """Whether the items of both lie in the same order without gaps."""
    steps = [
        [stride for size, stride in zip(tensor.shape, tensor.strides, strict=True) if size > 1]
        for tensor in (one, other)
    ]
    return is_dense(one) and is_dense(other) and steps[0] == steps[1]


def require_dense(tensor: ETensor) -> None:
    if not is_dense(tensor):
        raise InputError(f"{tensor!r} has gaps between its items; only dense tensors of a device can be copied")
    if tensor.resource.details.get("width"):
        raise DeviceError(f"{tensor!r} is an image, whose texels only its delegate can read")


class Mapping:
    """A device's tensor as CPU memory, for a ``with`` block; see `ETensor.map`."""

    def __init__(self, tensor: ETensor, access: str) -> None:
        if access not in ("rw", "r", "w"):
            raise InputError(f"access={access!r}: expected 'rw', 'r' or 'w'")
        if tensor.readonly and access != "r":
            raise InputError(f"{tensor!r} is read-only: map it with access='r'")
        self.tensor, self.access = tensor, access
        self.mapped: ETensor | None = None
        self._heap: DeviceHeap | None = None
        self._staged = False

    def __enter__(self) -> ETensor:
        if self.mapped is not None:
            raise DeviceError(f"{self.tensor!r} is mapped already")
        self.mapped = self._begin()
        return self.mapped

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        mapped = self.mapped
        if mapped is None:
            return
        if self._staged and self.access != "r" and kind is None:
            overwrite(self.tensor, mapped)
        mapped.close()
        self.mapped = None
        if self._heap is not None:
            self._heap.unmap(self.tensor.resource)

    def _begin(self) -> ETensor:
        tensor = self.tensor
        if tensor.device.is_cpu:
            return tensor.view()
        heap = heap_of(tensor)
        address = heap.map(tensor.resource)
        if address is not None:
            self._heap = heap
            return ETensor.from_pointer(
                address,
                tensor.dtype,
                tensor.shape,
                strides=tensor.strides,
                readonly=self.access == "r",
                owner=tensor,
            )
        staged = like(tensor, Device("cpu"))
        if self.access != "w":
            overwrite(staged, tensor)
        self._staged = True
        return staged
