from etarena.delegates.table cimport Table


cdef object take_exception()
cdef void set_blob_owner(object owner) noexcept
