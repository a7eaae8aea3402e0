// What the wrappers throw, and how it becomes a Python exception.
#ifndef ETARENA_VK_FAILURE_H
#define ETARENA_VK_FAILURE_H

#include <Python.h>

#include <exception>
#include <new>
#include <stdexcept>
#include <string>

#include "vk_functions.h"

namespace etvk {

// A call that Vulkan refused (`code` below or above zero), or that was not made because it could not succeed.
class Failure : public std::runtime_error {
 public:
  Failure(int code, std::string call, const std::string& text)
      : std::runtime_error(text), code_(code), call_(std::move(call)) {}
  int code() const noexcept { return code_; }
  const std::string& call() const noexcept { return call_; }

 private:
  int code_;
  std::string call_;
};

// Something that is missing here: the loader, a feature, an extension.
class Missing : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Called by Cython with the GIL inside a catch block; sets the Python exception.
inline void raise_python() {
  const char* where = "etarena.device.vulkan.errors";
  PyObject* module = PyImport_ImportModule(where);
  if (module == nullptr) return;
  PyObject* result = nullptr;
  try {
    throw;
  } catch (const Failure& failure) {
    result =
        PyObject_CallMethod(module, "raise_failure", "iss", failure.code(), failure.call().c_str(), failure.what());
  } catch (const Missing& missing) {
    result = PyObject_CallMethod(module, "raise_missing", "s", missing.what());
  } catch (const std::bad_alloc&) {
    PyErr_NoMemory();
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
  }
  Py_XDECREF(result);
  Py_DECREF(module);
}

}  // namespace etvk
#endif
