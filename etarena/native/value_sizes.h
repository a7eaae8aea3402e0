// Sizes and bytes of the values of a model, from the registers that hold its symbolic sizes.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace etarena {

struct ValueShape {
  uint8_t rank = 0;
  uint8_t item_bytes = 0;

  ValueShape() = default;
  ValueShape(uint8_t rank, uint8_t item_bytes) : rank(rank), item_bytes(item_bytes) {}
};

// Fills in the sizes (flat) and bytes of values from `begin` on, up to the first one that is not ordinary: with a
// negative size, empty, or of 2**31 bytes or more, which needs a closer look. Gives its position, or `count`.
// `registers_of` names the register of each dimension of all values, one value after another; `dim` is where those of
// `begin` begin, and on return those of the result.
inline size_t measure_ordinary(const ValueShape* shapes, size_t begin, size_t count, const int32_t* registers_of,
                               const int64_t* registers, int32_t* sizes, int64_t* nbytes, size_t* dim) {
  size_t at = *dim;
  for (size_t value = begin; value < count; ++value) {
    const ValueShape shape = shapes[value];
    int64_t total = shape.item_bytes;
    for (size_t d = at; d < at + shape.rank; ++d) {
      const int64_t size = registers[registers_of[d]];
      if (size <= 0 || size > INT32_MAX || total > INT32_MAX) {  // so that the product fits 64 bits
        *dim = at;
        return value;
      }
      sizes[d] = static_cast<int32_t>(size);
      total *= size;
    }
    if (total > INT32_MAX) {
      *dim = at;
      return value;
    }
    nbytes[value] = total;
    at += shape.rank;
  }
  *dim = at;
  return count;
}

}  // namespace etarena
