# distutils: language = c++
"""Tensors on any device: made from and handed to torch, NumPy and DLPack without copies."""

cimport cython
from libc.stdint cimport int32_t, int64_t, uint8_t, uintptr_t
from libc.string cimport memcpy

from etarena.device.abi cimport (
    ETARENA_RESOURCE_HOST,
    ETARENA_RESOURCE_VK_BUFFER,
    ETARENA_RESOURCE_VK_IMAGE,
    etarena_argument,
    etarena_resource,
)
from etarena.device.dlpack_export cimport dlpack_device, plain_capsule, torch_tensor_of, versioned_capsule
from etarena.device.resource cimport Resource, resource_from_c
from etarena.device.scalar_types cimport buffer_format, item_bytes
from etarena.device.sources cimport read_any, read_buffer, read_dlpack, read_torch
from etarena.device.tensor_core cimport TensorCore, pin

from ..allocator.errors import DeviceError, InputError, InputTypeError
from .device import Device, DeviceType
from .dtypes import dtype_number
from .kinds import kind_name

__all__ = ["ETensor"]

cdef object numpy_asarray = None


@cython.final
cdef class ETensor(TensorCore):
    """A tensor on any device, on memory of somebody else.

    Parameters
    ----------
    value
        A torch tensor, a NumPy array or any other buffer, or anything with ``__dlpack__``: read in place, kept alive.

    Raises
    ------
    InputTypeError
        No such thing, or of a dtype that ExecuTorch does not have.
    InputError
        A layout that a tensor cannot have, such as negative strides. Nothing is copied.
    DeviceError
        A closed tensor.

    Notes
    -----
    The device tag says how to read the memory: only tensors on ``cpu`` have an address. Arrays, tensors and memoryviews
    made from this one keep its memory alive and keep `close` from working. Neither this class nor its views are locked:
    whoever writes while another thread reads must order the two, as with arrays.
    """

    def __init__(self, value):
        if self.owner is not None or not self.is_closed:
            raise TypeError("an ETensor is filled once: make another")
        read_any(self, value)
        self.is_closed = False

    @staticmethod
    def from_torch(tensor) -> ETensor:
        """The memory of a torch tensor, on the CPU or CUDA."""
        cdef ETensor out = ETensor.__new__(ETensor)
        read_torch(out, tensor)
        out.is_closed = False
        return out

    @staticmethod
    def from_numpy(array) -> ETensor:
        """The memory of a NumPy array or any other buffer; read-only if that is."""
        cdef ETensor out = ETensor.__new__(ETensor)
        read_buffer(out, array)
        out.is_closed = False
        return out

    @staticmethod
    def from_dlpack(source) -> ETensor:
        """The memory of anything with ``__dlpack__``, or of a DLPack capsule, on any device."""
        cdef ETensor out = ETensor.__new__(ETensor)
        read_dlpack(out, source)
        out.is_closed = False
        return out

    @staticmethod
    def from_pointer(
        address, dtype, shape, *, strides=None, dim_order=None, readonly=False, owner=None
    ) -> ETensor:
        """CPU memory at an address, which must stay mapped while the tensor or anything made from it lives.

        Parameters
        ----------
        address
            A number, or a ctypes or cffi pointer.
        dtype
            A name (``"float32"``), ExecuTorch's number, or a dtype of torch or NumPy.
        shape : sequence of int
            Sizes.
        strides : sequence of int, optional
            In items; row-major by default.
        dim_order : sequence of int, optional
            Instead of strides: dimensions from the outermost to the innermost, without gaps.
        readonly : bool, optional
            Refuse writers.
        owner : object, optional
            Kept alive as long as the memory is used.

        Raises
        ------
        InputError, SizeOverflowError
            Sizes or strides that are negative or do not fit; more than 16 dimensions.
        DeviceError
            A null or misaligned address.
        """
        cdef ETensor out = ETensor.__new__(ETensor)
        out.set_layout(dtype, shape, strides, dim_order)
        resource = Resource.host(address, out.span(), owner=owner)
        return place(out, resource, Device("cpu"), readonly)

    @staticmethod
    def from_resource(
        resource, dtype, shape, device=None, *, strides=None, dim_order=None, readonly=False
    ) -> ETensor:
        """A tensor in a `Resource`, which is kept alive.

        Parameters
        ----------
        resource : Resource
            Where the items lie.
        dtype, shape, strides, dim_order, readonly
            As for `from_pointer`.
        device : Device, str or int, optional
            The tag. By default the CPU for host memory and ``vulkan:0`` for Vulkan's handles.

        Raises
        ------
        DeviceError
            The items do not lie inside the resource or not at a multiple of their size, or the device cannot have such
            a resource.
        """
        cdef ETensor out = ETensor.__new__(ETensor)
        if not isinstance(resource, Resource):
            raise InputTypeError(f"expected a Resource, got {type(resource).__name__}")
        out.set_layout(dtype, shape, strides, dim_order)
        return place(out, resource, device_for(resource, device), readonly)

    @staticmethod
    def from_vulkan_buffer(where, *what, **details) -> ETensor:
        """A tensor in a VkBuffer: ``from_vulkan_buffer(device, buffer, dtype, shape, *, offset=0, ...)``.

        With an `etarena.vulkan.Device` first all is checked; see `etarena.vulkan.Device.buffer_tensor`. Without,
        ``from_vulkan_buffer(handle, dtype, shape, *, offset=0, nbytes=None, index=0, strides=None, dim_order=None,
        readonly=False, ...)`` takes the caller's word; `details` as for `Resource.vk_buffer`, `nbytes` by default what
        the tensor needs.
        """
        if hasattr(where, "buffer_tensor"):
            return where.buffer_tensor(*what, **details)
        return _buffer_of_handle(where, *what, **details)

    @staticmethod
    def from_vulkan_image(where, *what, **details) -> ETensor:
        """The colours of a VkImage: ``from_vulkan_image(device, image, width, height, format, *, layout, ...)``.

        With an `etarena.vulkan.Device` first the tensor is float32 (1, channels, height, width), and all is checked;
        see `etarena.vulkan.Device.image_tensor`. Without, ``from_vulkan_image(handle, dtype, shape, *, index=0,
        dim_order=None, readonly=False, ...)`` is a tensor of the texels' bytes, and takes the caller's word; `details`
        as for `Resource.vk_image`.
        """
        if hasattr(where, "image_tensor"):
            return where.image_tensor(*what, **details)
        return _image_of_handle(where, *what, **details)

    @staticmethod
    def empty(dtype, shape, device="cpu", *, dim_order=None) -> ETensor:
        """A tensor on new memory of a device's allocator, with whatever lies there.

        Raises
        ------
        DeviceError
            Nobody registered an allocator for the device, or it failed.
        ArenaFullError
            No room.
        """
        from .registry import device_heap

        cdef ETensor out = ETensor.__new__(ETensor)
        out.set_layout(dtype, shape, None, dim_order)
        heap = device_heap(device)
        return place(out, heap.allocate(out.span()), heap.device, False)

    def numpy(self):
        """A NumPy array on the same memory; read-only if this is."""
        global numpy_asarray
        self.require_cpu("numpy()")
        if buffer_format(self.code) == NULL:
            raise InputTypeError(f"NumPy has no dtype like {self.dtype}; use .torch(), or .view() for the bits")
        if numpy_asarray is None:
            from numpy import asarray as numpy_asarray
        return numpy_asarray(self)

    def torch(self):
        """A torch tensor on the same memory. Torch has no read-only tensors: do not write if this one is read-only.

        Raises
        ------
        DeviceError
            The memory is a device's that torch cannot use.
        InputTypeError
            Torch cannot take such a dtype.
        """
        self.require_open()
        if not self.is_cpu() and not torch_has(self):
            self.require_cpu("torch()")
        try:
            return torch_tensor_of(self)
        except BufferError as error:
            raise InputTypeError(f"{error}; .view('uint8') gives the bits") from error

    def view(self, dtype=None) -> ETensor:
        """The same memory as another tensor, which counts as an export of this one.

        Parameters
        ----------
        dtype : optional
            Read the bits as this dtype. One of another item size needs row-major memory, and the last dimension
            changes with it.
        """
        cdef ETensor out = ETensor.__new__(ETensor)
        self.require_open()
        code = self.code if dtype is None else dtype_number(dtype)
        shape, strides = list(self.shape), list(self.strides)
        if item_bytes(code) != item_bytes(self.code):
            if not self.is_row_major() or not shape or shape[-1] * self.itemsize % item_bytes(code):
                raise InputError(
                    f"a {self.dtype} tensor of shape {self.shape} and strides {self.strides} cannot be read as items "
                    f"of {item_bytes(code)} bytes"
                )
            shape[-1] = shape[-1] * self.itemsize // item_bytes(code)
            strides = None
        out.set_layout(code, shape, strides, None)
        out.data, out.source, out.place, out.readonly = self.data, self.source, self.place, self.readonly
        out.owner, out.is_closed = pin(self), False
        return out

    def to(self, device) -> ETensor:
        """This tensor on a device: itself if it is there already, otherwise a counted copy.

        Raises
        ------
        CopyRefusedError
            Inside ``zero_copy()``.
        DeviceError
            Nobody registered an allocator for one of the devices, or it failed.
        """
        from .transfer import move

        return move(self, device)

    def cpu(self) -> ETensor:
        """``to("cpu")``."""
        return self.to("cpu")

    def clone(self) -> ETensor:
        """A counted copy on the same device, without gaps, in the same dim order."""
        from .transfer import clone

        return clone(self)

    def copy_(self, source) -> ETensor:
        """Overwrite the items with those of a tensor, array or buffer of the same dtype and shape: a counted copy.

        Raises
        ------
        InputError, InputTypeError
            Another shape or dtype, or this tensor is read-only.
        CopyRefusedError
            Inside ``zero_copy()``.
        """
        from .transfer import overwrite

        overwrite(self, source if isinstance(source, ETensor) else ETensor(source))
        return self

    def map(self, access="rw"):
        """A context manager that gives a CPU tensor of the same items.

        Parameters
        ----------
        access : {"rw", "r", "w"}
            What is done with them. Memory that the CPU cannot map is copied in unless it is ``"w"``, and out unless it
            is ``"r"``; both are counted.

        Raises
        ------
        BufferError
            At the end: something made from the CPU tensor is still alive; the memory stays mapped.
        """
        from .transfer import Mapping

        self.require_open()
        return Mapping(self, access)

    def __dlpack_device__(self):
        return dlpack_device(self)

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        self.require_open()
        here = dlpack_device(self)
        if stream is not None and self.is_cpu():
            raise BufferError("a tensor on the CPU has no stream")
        if not self.is_cpu() and stream != -1:   # -1: the consumer orders the work itself
            from .registry import synchronize

            synchronize(self.device)
        if dl_device is not None and tuple(dl_device) != here:
            if tuple(dl_device) != (1, 0) or copy is False:
                raise BufferError(f"this tensor lies on {self.device}, not on DLPack's device {tuple(dl_device)}")
            return capsule_of(self.cpu(), max_version, True)
        return capsule_of(self.clone() if copy else self, max_version, bool(copy))


cdef object capsule_of(ETensor tensor, max_version, bint copied):
    if max_version is not None and max_version[0] >= 1:
        return versioned_capsule(tensor, copied)
    return plain_capsule(tensor)


cdef bint torch_has(ETensor tensor) except -1:
    """Whether torch can use the device's memory."""
    if tensor.place.type != DeviceType.CUDA:
        return False
    import torch

    return torch.cuda.is_available()


cdef object device_for(Resource resource, device):
    """The tag asked for, or the one that the kind of resource implies."""
    kind = resource.c_obj.kind
    vulkan = kind in (ETARENA_RESOURCE_VK_BUFFER, ETARENA_RESOURCE_VK_IMAGE)
    if device is None and not vulkan and kind != ETARENA_RESOURCE_HOST:
        raise DeviceError(f"which device is a {kind_name(kind)} on? Pass device=")
    found = Device(("vulkan" if vulkan else "cpu") if device is None else device)
    if vulkan != (found.type == DeviceType.VULKAN) and (vulkan or kind < ETARENA_RESOURCE_HOST):
        raise DeviceError(f"a {kind_name(kind)} lies on a vulkan device, not on {found}")
    if found.is_cpu and kind != ETARENA_RESOURCE_HOST:
        raise DeviceError(f"a {kind_name(kind)} is not the CPU's memory: give the device it lies on")
    return found


def _buffer_of_handle(
    handle, dtype, shape, *, offset=0, nbytes=None, index=0, strides=None, dim_order=None, readonly=False, **details
):
    cdef ETensor out = ETensor.__new__(ETensor)
    out.set_layout(dtype, shape, strides, dim_order)
    resource = Resource.vk_buffer(handle, out.span() if nbytes is None else nbytes, offset=offset, **details)
    return place(out, resource, Device(DeviceType.VULKAN, index), readonly)


def _image_of_handle(handle, dtype, shape, *, index=0, dim_order=None, readonly=False, **details):
    resource = Resource.vk_image(handle, **details)
    return ETensor.from_resource(
        resource, dtype, shape, Device(DeviceType.VULKAN, index), dim_order=dim_order, readonly=readonly
    )


cdef ETensor place(ETensor out, Resource resource, device, bint readonly):
    """Put a tensor that has its layout into a resource."""
    cdef int item = item_bytes(out.code)
    start = resource.c_obj.offset + (resource.c_obj.handle if resource.c_obj.kind == ETARENA_RESOURCE_HOST else 0)
    cdef int64_t has = <int64_t> resource.c_obj.nbytes
    if out.span() > has and not (resource.c_obj.kind == ETARENA_RESOURCE_VK_IMAGE and has == 0):
        raise DeviceError(
            f"a {out.dtype} tensor of shape {out.shape} and strides {out.strides} takes {out.span()} bytes, "
            f"{resource!r} has {has}"
        )
    if start % alignment_of(item):
        raise DeviceError(f"{resource!r} does not begin at a multiple of the {item} bytes of an item")
    if device.is_cpu:
        out.data = <void*> <uintptr_t> (resource.c_obj.handle + resource.c_obj.offset)
        out.owner = resource.owner
    else:
        out.owner = resource
    out.source = resource
    out.place.type, out.place.index = device.type, device.index
    out.readonly, out.is_closed = readonly, False
    return out


cdef int alignment_of(int item) noexcept:
    """Complex numbers are aligned as their parts are; 8 bytes are the most that any part has."""
    return min(item, 8)


cdef ETensor borrow(
    void* data, int dtype, int rank, const int32_t* sizes, const int32_t* strides, const uint8_t* dim_order,
    object owner, bint readonly,
):
    cdef ETensor out = ETensor.__new__(ETensor)
    out.data, out.code, out.rank, out.owner, out.readonly = data, dtype, rank, owner, readonly
    memcpy(out.sizes, sizes, rank * sizeof(int32_t))
    memcpy(out.steps, strides, rank * sizeof(int32_t))
    memcpy(out.order, dim_order, rank)
    out.is_closed = False
    return out


cdef ETensor from_argument(const etarena_argument* argument, object owner, bint readonly):
    cdef ETensor out = borrow(
        argument.data, argument.dtype, argument.rank, argument.sizes, argument.strides, argument.dim_order, owner,
        readonly,
    )
    out.place = argument.device
    if argument.device.type != 0:
        out.data = NULL
        out.source = resource_from_c(<const etarena_resource*> argument.data, owner)
    return out
