#include "kernels.h"

#include <executorch/runtime/kernel/operator_registry.h>

#include <cstring>

namespace etarena {

bool register_kernels() noexcept {
  using executorch::runtime::Error;
  using executorch::runtime::Kernel;
  static const bool done = [] {
    for (const Kernel& known : executorch::runtime::get_registered_kernels()) {
      if (std::strcmp(known.name_, "etarena::append.out") == 0) return true;  // asking for one by name prints an error
    }
    static const Kernel kernels[] = {Kernel("etarena::append.out", append_out),
                                     Kernel("etarena::attention.out", attention_out),
                                     Kernel("etarena::resize2d.out", resize2d_out),
                                     Kernel("etarena::to_device.out", to_device_out)};
    return executorch::runtime::register_kernels({kernels, 4}) == Error::Ok;
  }();
  return done;
}

}  // namespace etarena
