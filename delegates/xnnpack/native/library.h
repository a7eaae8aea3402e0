/* XNNPACK's own functions, behind those that take their place. */
#pragma once

#include <dlfcn.h>
#include <link.h>

#include <cstdint>
#include <cstring>

namespace etarena::xnnpack {

// A function of the XNNPACK library, not the one of that name that stands before it; nullptr if it is not loaded.
template <typename F>
F real(const char* symbol) {
  const char* path = nullptr;
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* out) {
        if (strstr(info->dlpi_name, "libexecutorch_backend_xnnpack")) *static_cast<const char**>(out) = info->dlpi_name;
        return 0;
      },
      &path);
  void* const library = path == nullptr ? nullptr : dlopen(path, RTLD_NOLOAD | RTLD_LAZY);
  return reinterpret_cast<F>(library == nullptr ? nullptr : dlsym(library, symbol));
}

using RuntimeFn = int (*)(void*);
using ReshapeValueFn = int (*)(void*, uint32_t, size_t, const size_t*);

inline int real_plan(void* runtime) {
  static const auto function = real<RuntimeFn>("xnn_plan_memory");
  return function(runtime);
}
inline int real_reshape(void* runtime) {
  static const auto function = real<RuntimeFn>("xnn_reshape_runtime");
  return function(runtime);
}
inline int real_reshape_value(void* runtime, uint32_t id, size_t rank, const size_t* dims) {
  static const auto function = real<ReshapeValueFn>("xnn_reshape_external_value");
  return function(runtime, id, rank, dims);
}

inline void release_workspace(void* workspace) {
  static const auto function = real<RuntimeFn>("xnn_release_workspace");
  function(workspace);
}

}  // namespace etarena::xnnpack
