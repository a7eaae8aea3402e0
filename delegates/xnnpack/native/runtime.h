/* What is known of a runtime whose scratch we place. */
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "layout.h"
#include "xnnpack_abi.h"

namespace etarena::xnnpack {

// Each in a cache line of its own: none of this is in the cache when a new shape comes.
struct alignas(64) Input {
  static constexpr uint8_t kNothing = UINT8_MAX;

  const int32_t* sizes = nullptr;  // as the plan has them
  uint32_t id = 0;
  uint8_t rank = 0;              // more than kMaxDims if it is too large
  uint8_t told_rank = kNothing;  // what XNNPACK was told last
  uint8_t order[kMaxDims] = {};  // of the plan's sizes in memory
  uint32_t told[kMaxDims] = {};

  // The sizes that the plan has, and whether XNNPACK knows them. The rank is not too large.
  bool read(size_t* dims) const {
    bool same = told_rank == rank;
    for (size_t d = 0; d < rank; ++d) {
      dims[d] = static_cast<size_t>(sizes[order[d]]);
      same = same && told[d] == dims[d];
    }
    return same;
  }
  bool is_told(size_t other_rank, const size_t* dims) const {
    if (told_rank != other_rank) return false;
    for (size_t d = 0; d < other_rank; ++d) {
      if (told[d] != dims[d]) return false;
    }
    return true;
  }
  // Nothing is noted of sizes so large that no tensor has them.
  void note_told(size_t other_rank, const size_t* dims) {
    told_rank = static_cast<uint8_t>(other_rank);
    for (size_t d = 0; d < other_rank; ++d) {
      told[d] = static_cast<uint32_t>(dims[d]);
      if (told[d] != dims[d]) told_rank = kNothing;
    }
  }
};

struct alignas(64) Runtime {
  explicit Runtime(RuntimeObject* made) : object(made), layout(*made) {}

  // What a new shape needs comes first, in one cache line; it goes on at the beginning of the layout.
  RuntimeObject* object;  // nullptr once it is no longer ours
  std::unique_ptr<Input[]> inputs;
  char* address = nullptr;
  size_t room = 0;
  size_t wanted = 0;  // bytes of scratch for what XNNPACK was told
  uint32_t n_inputs = 0;
  bool reshaped = false;  // operators know that
  bool measured = false;  // and `wanted` is theirs
  bool planned = false;   // and their scratch lies at `address`
  bool refused = false;   // XNNPACK cannot run the sizes that were measured last
  Layout layout;
  Workspace* workspace = nullptr;
  std::vector<int32_t> position;  // of each id among the inputs; -1

  void forget_plan() { measured = planned = false; }
};

}  // namespace etarena::xnnpack
