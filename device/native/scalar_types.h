// Bytes of one element of each of ExecuTorch's scalar types: the table that all native code reads.
#pragma once

#include <cstddef>
#include <cstdint>

namespace etarena {

// By ScalarType code; 0 for a code that ExecuTorch does not have.
inline int item_bytes(int code) noexcept {
  static const uint8_t bytes[] = {1, 1, 2, 4, 8, 2, 4, 8, 4, 8, 16, 1, 1, 1, 4,
                                  2, 1, 1, 1, 1, 1, 1, 2, 1, 1, 1,  1, 2, 4, 8};
  return code >= 0 && static_cast<size_t>(code) < sizeof bytes ? bytes[code] : 0;
}

}  // namespace etarena
