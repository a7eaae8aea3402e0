"""An `etarena_device_allocator` in ctypes, as an author without Python writes it in C."""

import ctypes
from ctypes import CFUNCTYPE, POINTER, Structure, c_char, c_int32, c_uint32, c_uint64, c_void_p, sizeof

__all__ = ["VERSION_1", "CAllocator", "CTable"]


class CError(Structure):
    _fields_ = [("message", c_char * 1024)]


class CResource(Structure):
    _fields_ = [
        ("struct_size", c_uint32),
        ("kind", c_uint32),
        ("handle", c_uint64),
        ("offset", c_uint64),
        ("nbytes", c_uint64),
        ("next", c_void_p),
    ]


class CCapabilities(Structure):
    _fields_ = [
        ("struct_size", c_uint32),
        ("flags", c_uint32),
        ("alignment", c_uint64),
        ("max_allocation", c_uint64),
        ("total_bytes", c_uint64),
        ("row_pitch", c_uint64),
        ("import_alignment", c_uint64),
        ("import_kinds", c_uint64),
        ("queue_families", c_uint32),
    ]


E, R = POINTER(CError), POINTER(CResource)
CAPABILITIES = CFUNCTYPE(c_int32, c_void_p, c_int32, POINTER(CCapabilities), E)
ALLOCATE = CFUNCTYPE(c_int32, c_void_p, c_int32, c_uint64, c_uint64, R, E)
DEALLOCATE = CFUNCTYPE(None, c_void_p, c_int32, R)
COPY_TO_DEVICE = CFUNCTYPE(c_int32, c_void_p, c_int32, R, c_uint64, c_void_p, c_uint64, E)
COPY_TO_HOST = CFUNCTYPE(c_int32, c_void_p, c_int32, c_void_p, R, c_uint64, c_uint64, E)
MAP = CFUNCTYPE(c_int32, c_void_p, c_int32, R, POINTER(c_void_p), E)
UNMAP = CFUNCTYPE(c_int32, c_void_p, c_int32, R, E)
SYNCHRONIZE = CFUNCTYPE(c_int32, c_void_p, c_int32, E)


class CTable(Structure):
    _fields_ = [
        ("struct_size", c_uint32),
        ("abi", c_uint32),
        ("context", c_void_p),
        ("device_type", c_int32),
        ("device_count", c_uint32),
        ("capabilities", CAPABILITIES),
        ("allocate", ALLOCATE),
        ("deallocate", DEALLOCATE),
        ("copy_to_device", COPY_TO_DEVICE),
        ("copy_to_host", COPY_TO_HOST),
        ("map", MAP),
        ("unmap", UNMAP),
        ("synchronize", SYNCHRONIZE),
        ("of_a_newer_version", c_uint64),
    ]


VERSION_1 = sizeof(CTable) - sizeof(c_uint64)


class CAllocator:
    """Device pointers that are host memory of ctypes; the same calls as C would make."""

    def __init__(self, device_type: int = 66) -> None:
        self.blocks: dict[int, ctypes.Array] = {}
        self.status, self.text, self.kind = 0, b"", 4
        self.calls: list[str] = []
        self.table = CTable(
            struct_size=VERSION_1,
            abi=1,
            context=0x5A,
            device_type=device_type,
            device_count=1,
            capabilities=CAPABILITIES(self.capabilities),
            allocate=ALLOCATE(self.allocate),
            deallocate=DEALLOCATE(self.deallocate),
            copy_to_device=COPY_TO_DEVICE(self.copy_to_device),
            copy_to_host=COPY_TO_HOST(self.copy_to_host),
        )

    @property
    def address(self) -> int:
        return ctypes.addressof(self.table)

    def fails(self, context, error) -> int:
        assert context == 0x5A
        assert error.contents.message == b""
        error.contents.message = self.text
        return self.status

    def capabilities(self, context, index, out, error):
        assert out.contents.struct_size == sizeof(CCapabilities)
        out.contents.alignment = 64
        out.contents.flags = 0
        out.contents.import_kinds = 1 << 4
        return 0

    def allocate(self, context, index, nbytes, alignment, out, error):
        if self.status:
            return self.fails(context, error)
        block = ctypes.create_string_buffer(nbytes + alignment)
        address = -(-ctypes.addressof(block) // alignment) * alignment
        self.blocks[address] = block
        out.contents.kind, out.contents.handle, out.contents.nbytes = self.kind, address, nbytes
        return 0

    def deallocate(self, context, index, resource):
        del self.blocks[resource.contents.handle]

    def copy_to_device(self, context, index, destination, offset, source, nbytes, error):
        if self.status:
            return self.fails(context, error)
        ctypes.memmove(destination.contents.handle + destination.contents.offset + offset, source, nbytes)
        return 0

    def copy_to_host(self, context, index, destination, source, offset, nbytes, error):
        if self.status:
            return self.fails(context, error)
        ctypes.memmove(destination, source.contents.handle + source.contents.offset + offset, nbytes)
        return 0
