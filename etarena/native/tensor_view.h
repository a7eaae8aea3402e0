// What one tensor value of a loaded method looks like. Needs no ExecuTorch header, so that modules which do not link
// against ExecuTorch can speak of it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace etarena {

// Pointers are valid until the next rebind or run.
struct TensorView {
  void* data;
  const int32_t* sizes;
  const int32_t* strides;
  const uint8_t* dim_order;
  int32_t rank;
  int32_t dtype;
  int32_t dynamism;
  size_t nbytes;
  int32_t device_type;  // 0: the CPU; otherwise `data` is nothing the CPU may read
  int32_t device_index;
};

}  // namespace etarena
