/* A plan of a runtime's scratch for all sizes, in one piece of memory.
 *
 * A call at a new shape finds nothing of this in the cache, so what counts is how many cache lines it takes. Numbers
 * are short and lie one after another as they are read, and buffers are numbered from the bottom of the plan up, so
 * that nothing says in which order to place them. Sizes and offsets are in units of kRounding bytes. */
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "orientation.h"
#include "xnnpack_abi.h"

namespace etarena::xnnpack {

// What a plan is made of. Items are values in scratch, followed by the operators for theirs.
struct PlanParts {
  struct Pair {  // values in scratch that go into and out of the same operator
    uint32_t input;
    uint32_t output;
    bool same_size;  // which decides who shares memory
  };
  std::vector<uint32_t> inner;  // ids of all values in scratch; those that are items come first
  size_t n_values = 0;          // that are items
  std::vector<Pair> pairs;
  std::vector<int32_t> buffer;  // of each item: those that share memory have the same; -1 if it is empty
  Orientation orientation = {};
  double excess = 0;  // of its peak above what lives at once
};

class PackedPlan {
 public:
  struct Free {
    void operator()(PackedPlan* plan) const;
  };
  using Owner = std::unique_ptr<PackedPlan, Free>;

  static constexpr size_t kMostNumbers = 0x7fff;  // of values and items: one bit of each number says more
  static constexpr uint64_t kMostBytes = (uint64_t{kRounding} << 31) - 1;  // of an item, and of what is learned

  static Owner pack(const PlanParts& parts);

  // Sets the sizes of the values in scratch to 0.
  void forget_sizes(Value* values) const;

  // Places everything for the sizes that the values have now, and says how many bytes XNNPACK wants for that. False if
  // it does not suit them: other things share memory or are empty, or it is less close to what lives at once than it
  // was when XNNPACK made it.
  bool measure(const RuntimeObject& runtime, size_t* nbytes);

  // Points the values and operators at their places, in scratch at `base`.
  void place(const RuntimeObject& runtime, char* base) const;

 private:
  PackedPlan() = default;
  const uint16_t* numbers() const { return reinterpret_cast<const uint16_t*>(this + 1); }
  uint32_t* offsets() { return reinterpret_cast<uint32_t*>(this + 1) + offsets_at_; }
  const uint16_t* take_sizes(const RuntimeObject& runtime, uint32_t* sizes) const;

  double most_ = 0;          // times what lives at once, of its peak
  uint32_t offsets_at_ = 0;  // how many times four bytes behind this
  uint16_t n_inner_ = 0;
  uint16_t n_values_ = 0;
  uint16_t n_pairs_ = 0;
  uint16_t n_operators_ = 0;
  uint16_t n_buffers_ = 0;
  // Behind it, as 16-bit numbers: the ids of values that are items, the last one first, and of other inner values; the
  // ids of each pair, and in the first one's lowest bit whether their sizes are the same; the buffer of each value and
  // operator, `n_buffers_` if it is empty; 2 n_buffers_ events, with the lowest bit set where a buffer ends to live; of
  // each buffer what it lies on, with the lowest bit set in the last one, which is `n_buffers_` at the bottom. Then, as
  // 32-bit numbers, the offset of each buffer, and 0; and in a large plan as many for sizes.
};

}  // namespace etarena::xnnpack
