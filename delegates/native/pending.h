// The Python exception that a delegate left on this thread, until whoever called the runtime takes it.
#pragma once

#include <Python.h>

namespace etarena {

inline thread_local PyObject* pending_exception = nullptr;  // owned
inline thread_local PyObject* blob_owner = nullptr;         // borrowed: keeps the file's bytes during a load

}  // namespace etarena
