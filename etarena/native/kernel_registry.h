// Names of the kernels that have registered themselves with ExecuTorch, in this process.

#pragma once

#include <executorch/runtime/kernel/operator_registry.h>

#include <string>
#include <vector>

namespace etarena {

inline std::vector<std::string> registered_kernels() {
  std::vector<std::string> names;
  for (const auto& kernel : executorch::runtime::get_registered_kernels()) {
    names.emplace_back(kernel.name_);
  }
  return names;
}

}  // namespace etarena
