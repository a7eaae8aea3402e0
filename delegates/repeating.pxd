from libc.stdint cimport uint32_t, uint64_t

from etarena.device.abi cimport etarena_argument


cdef class Repeating:
    # True: the call was done. False: it needs `execute`. Arguments as for the table's execute.
    cdef bint repeat(
        self, const etarena_argument* arguments, uint32_t count, void* scratch, uint64_t nbytes
    ) except -1
