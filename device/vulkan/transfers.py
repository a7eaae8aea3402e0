"""Copies between buffers, images and the CPU on a device's queue."""

from __future__ import annotations

import ctypes
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...allocator.errors import DeviceError, InputError
from ..copies import allow_copy
from ..etensor import ETensor
from ..kinds import ResourceKind
from ..resource import Resource
from .formats import format_of
from .memory import Buffer, Image, known_object

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .device import Device
    from .submission import Submission

__all__ = ["Span", "Transfers", "address_bytes"]

STAGING_BYTES = 16 << 20  # of one piece that goes through staging memory
TRANSFER_BOTH = 3  # VK_BUFFER_USAGE_TRANSFER_SRC_BIT and DST_BIT; of images too


@dataclass(frozen=True)
class Span:
    """Bytes ``[offset, offset + nbytes)`` of a buffer.

    Raises
    ------
    DeviceError
        They are not inside.
    """

    buffer: Buffer
    offset: int
    nbytes: int

    def __post_init__(self) -> None:
        if not 0 <= self.offset <= self.buffer.nbytes or not 0 <= self.nbytes <= self.buffer.nbytes - self.offset:
            end = self.offset + self.nbytes
            raise DeviceError(f"bytes {self.offset} to {end} are not inside a buffer of {self.buffer.nbytes} bytes")

    def part(self, offset: int, nbytes: int) -> Span:
        """Some of them."""
        return Span(self.buffer, self.offset + offset, nbytes)


Place = Span | Image | memoryview


def address_bytes(address: int, nbytes: int) -> memoryview:
    """Bytes at an address, which must stay mapped."""
    return memoryview((ctypes.c_ubyte * nbytes).from_address(address)).cast("B")


def image_bytes(image: Image) -> int:
    return image.width * image.height * image.depth * format_of(image.format).texel_bytes


def size_of(place: Place) -> int:
    return image_bytes(place) if isinstance(place, Image) else place.nbytes


class Transfers:
    """The copies of one device.

    Parameters
    ----------
    device
        Whose.
    """

    def __init__(self, device: Device) -> None:
        self._device = device
        self._staging: Buffer | None = None
        self._lock = threading.Lock()

    def close(self) -> None:
        """Drop the staging memory."""
        with self._lock:
            self._staging = None

    def copy(
        self, to: Any, source: Any, wait: Iterable[Any], signal: Iterable[Any], timeout: float | None, blocking: bool
    ) -> Submission | None:
        """See `Device.copy`."""
        self._device.core.handle  # noqa: B018 - refuses closed devices and those of another process
        target, origin = self.place(to, writable=True), self.place(source)
        if size_of(target) != size_of(origin):
            raise InputError(f"{size_of(origin)} bytes cannot be copied into {size_of(target)} bytes")
        on_host = [place for place in (target, origin) if isinstance(place, memoryview)]
        if not on_host:
            submission = self._submit(target, origin, wait, signal)
            if not blocking:
                return submission
            submission.wait(timeout)
            return None
        if not blocking or tuple(wait) or tuple(signal):
            raise InputError(
                "a copy from or to the CPU is done when it returns: semaphores and blocking=False do not fit"
            )
        if len(on_host) == 2:
            raise InputError("neither end of the copy is on the Vulkan device")
        if size_of(target):
            self.move(target, origin, timeout)
        return None

    def move(self, target: Place, origin: Place, timeout: float | None) -> None:
        """Copy between the CPU and the device, counted."""
        upload = isinstance(origin, memoryview)
        allow_copy(f"{size_of(target)} bytes go {'to' if upload else 'from'} {self._device}", size_of(target))
        self._move(target, origin, timeout)

    def write(self, target: Span, source: memoryview) -> None:
        """Copy from the CPU; whoever calls has counted it."""
        self._move(target, source, 10.0)

    def read(self, to: memoryview, source: Span) -> None:
        """Copy to the CPU; whoever calls has counted it."""
        self._move(to, source, 10.0)

    def place(self, what: Any, *, writable: bool = False) -> Place:
        """See what a copy can begin or end at."""
        if isinstance(what, Buffer):
            return Span(what, 0, what.nbytes)
        if isinstance(what, Span | Image):
            return what
        if isinstance(what, ETensor) and not what.device.is_cpu:
            if writable and what.readonly:
                raise InputError(f"{what!r} is read-only")
            return self.place_of_resource(what.resource)
        try:
            view = memoryview(what)
        except TypeError as error:
            raise InputError(
                f"a {type(what).__name__} is no Buffer, Image, ETensor or memory of the CPU that can be copied"
            ) from error
        if not view.c_contiguous or (writable and view.readonly):
            raise InputError("memory of the CPU must be contiguous, and writable if it is written")
        return view.cast("B")

    def place_of_resource(self, resource: Resource) -> Span | Image:
        """See a resource of this device as a buffer or an image; those of the application are adopted.

        Raises
        ------
        DeviceError
            It belongs to another device, or is of another kind.
        """
        details = resource.details
        core = self._device.core
        if resource.kind not in (ResourceKind.VK_BUFFER, ResourceKind.VK_IMAGE):
            raise DeviceError(f"{resource!r} is no Vulkan buffer or image")
        if details.get("device") != core.handle:
            raise DeviceError(
                f"{resource!r} belongs to VkDevice 0x{details.get('device', 0):x}, not to 0x{core.handle:x}: pass "
                "device= when the resource is made"
            )
        kind = Image if resource.kind == ResourceKind.VK_IMAGE else Buffer
        found = owner_of(resource) or known_object(core, kind, resource.handle)
        if resource.kind == ResourceKind.VK_IMAGE:
            if found is not None:
                return found
            return Image(
                core,
                details["width"],
                details["height"],
                details["depth"],
                details["format"],
                details["usage"] or TRANSFER_BOTH,
                layout=details["layout"],
                handle=resource.handle,
            )
        if found is None:
            end = resource.offset + resource.nbytes
            found = Buffer(core, max(end, 1), details["usage"] or TRANSFER_BOTH, handle=resource.handle)
        return Span(found, resource.offset, resource.nbytes)

    def _submit(self, target: Place, origin: Place, wait: Iterable[Any] = (), signal: Iterable[Any] = ()) -> Submission:
        """Record and submit a copy on the device."""
        images = {place: place.layout for place in (target, origin) if isinstance(place, Image)}
        for place in (target, origin):
            if isinstance(place, Span) and images:
                require_texel_offset(place, next(iter(images)))
        commands = self._device.work.begin()
        try:
            if isinstance(target, Image) and isinstance(origin, Image):
                commands.copy_image(origin, target)
            elif isinstance(target, Image) and isinstance(origin, Span):
                commands.copy_to_image(origin.buffer, origin.offset, origin.nbytes, target)
            elif isinstance(target, Span) and isinstance(origin, Image):
                commands.copy_from_image(origin, target.buffer, target.offset, target.nbytes)
            elif isinstance(target, Span) and isinstance(origin, Span):
                commands.copy_buffer(origin.buffer, target.buffer, origin.offset, target.offset, target.nbytes)
            commands.end()
            return self._device.work.submit(commands, wait, signal, recycle=True)
        except BaseException:
            for image, layout in images.items():
                image.layout = layout
            commands.close()
            raise

    def _move(self, target: Place, origin: Place, timeout: float | None) -> None:
        with self._lock:
            if not self._move_mapped(target, origin):
                self._move_staged(target, origin, timeout)

    def _move_mapped(self, target: Place, origin: Place) -> bool:
        """Copy by the CPU where it sees the memory and no work of the device may touch it."""
        span, view, upload = (target, origin, True) if isinstance(target, Span) else (origin, target, False)
        if not isinstance(span, Span) or not isinstance(view, memoryview):
            return False
        memory = span.buffer.memory
        if memory is None or not memory.host_visible or span.buffer.uses.get("recorded commands"):
            return False
        mapped = address_bytes(memory.map() + span.buffer.memory_offset + span.offset, span.nbytes)
        if upload:
            mapped[:] = view
            memory.flush()
        else:
            memory.invalidate()
            view[:] = mapped
        return True

    def _move_staged(self, target: Place, origin: Place, timeout: float | None) -> None:
        nbytes = size_of(target)
        piece = nbytes if isinstance(target, Image) or isinstance(origin, Image) else min(nbytes, STAGING_BYTES)
        staging = self._staging_buffer(piece)
        memory = staging.memory
        for first in range(0, nbytes, piece):
            count = min(piece, nbytes - first)
            mapped = address_bytes(memory.map(), count)
            staged = Span(staging, 0, count)
            if isinstance(origin, memoryview):
                mapped[:] = origin[first : first + count]
                memory.flush()
                self._wait(self._submit(part_of(target, first, count), staged), timeout)
            else:
                self._wait(self._submit(staged, part_of(origin, first, count)), timeout)
                memory.invalidate()
                target[first : first + count] = mapped  # type: ignore[index]

    def _wait(self, submission: Submission, timeout: float | None) -> None:
        try:
            submission.wait(timeout)
        except BaseException:
            self._staging = None  # still in use by the device, which keeps it open
            raise

    def _staging_buffer(self, nbytes: int) -> Buffer:
        if self._staging is None or self._staging.nbytes < nbytes:
            self._staging = None
            self._staging = self._device.buffer(nbytes, host_visible=True)
        return self._staging


def part_of(place: Place, offset: int, nbytes: int) -> Place:
    return place.part(offset, nbytes) if isinstance(place, Span) else place


def owner_of(resource: Resource) -> Any:
    """Our buffer or image behind a resource; None if it is the application's."""
    owner: object = resource
    while isinstance(owner, Resource):
        owner = owner.owner
    return owner[0] if isinstance(owner, tuple) and isinstance(owner[0], Buffer | Image) else None


def require_texel_offset(span: Span, image: Image) -> None:
    step = max(4, format_of(image.format).texel_bytes)
    if span.offset % step:
        raise DeviceError(f"texels in a buffer begin at a multiple of {step} bytes, not at {span.offset}")
