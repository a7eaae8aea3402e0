/* Where the inner values of an XNNPACK runtime lie in its scratch, for sizes that XNNPACK need not plan itself.
 *
 * XNNPACK's plan of a runtime's memory takes longer than many a reshape, and is needed twice for a new shape: to learn
 * what the shape needs, and to have it at the address it gets. But what lives at the same time is the same for all
 * shapes: a plan of XNNPACK's is read once, as who lies below whom, and replayed for other sizes. The replay is
 * taken if it is as close to what lives at once as XNNPACK's own plan was. */
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "orientation.h"
#include "xnnpack_abi.h"

namespace etarena::xnnpack {

class Layout {
 public:
  Layout() = default;
  Layout(const Layout&) = delete;
  Layout& operator=(const Layout&) = delete;
  ~Layout();

  // Whether memory can be planned here for the sizes that the values have now. If so, `nbytes` is what it takes.
  bool measure(const RuntimeObject& runtime, size_t* nbytes);

  // Whether the sizes measured last were planned here.
  bool has_plan() const { return current_ != kNone; }

  // Points the values at their places in scratch at `base`, if has_plan().
  void place(const RuntimeObject& runtime, char* base) const;

  // Whether there is room for one more plan.
  bool can_learn() const { return !foreign_ && plans_.size() < kMostPlans; }

  // Reads the plan that XNNPACK has just made for the sizes that the values have now, in scratch at `base`, of which it
  // wanted `nbytes`. If that is not what it should be by our reading, XNNPACK plans this runtime for good.
  void learn(const RuntimeObject& runtime, const char* base, size_t nbytes);

 private:
  static constexpr size_t kMostPlans = 4;
  static constexpr size_t kNone = SIZE_MAX;

  struct Life {  // from the first operator that uses something to before the one after the last
    int32_t first;
    int32_t last;
  };
  struct Pair {
    uint32_t input;
    uint32_t output;
  };
  struct Plan {
    // In one piece, because a call at a new shape finds nothing of this in the cache:
    std::vector<int32_t> numbers;
    size_t n_buffers = 0;
    int32_t* same_size = nullptr;  // of each pair: whether its sizes are equal, which decides who shares memory
    int32_t* buffer = nullptr;     // of each item: those that share memory have the same; -1 if it was empty
    int32_t* item = nullptr;       // of each buffer: one of those
    int32_t* first = nullptr;
    int32_t* last = nullptr;
    Orientation orientation = {};
    double excess = 0;  // of its peak above what lives at once
  };

  bool list(const RuntimeObject& runtime);
  bool note_use(const RuntimeObject& runtime, uint32_t id, int32_t position);
  bool take_sizes(const RuntimeObject& runtime) const;
  bool same_size(const RuntimeObject& runtime, const Pair& pair) const;
  const char* address(const RuntimeObject& runtime, size_t item) const;
  bool read(const RuntimeObject& runtime, const char* base, Plan* plan) const;
  bool is_possible(const Plan& plan) const;
  bool suits(const RuntimeObject& runtime, const Plan& plan) const;
  int64_t peak(const Plan& plan) const;
  void take_buffer_sizes(const Plan& plan) const;

  bool listed_ = false;
  bool foreign_ = false;
  std::vector<uint32_t> values_;  // ids of the values in scratch: these are the items, followed by the operators
  std::vector<int32_t> item_of_;  // of each value; -1
  std::vector<Life> lives_;       // of each item
  std::vector<Pair> pairs_;       // values in scratch that go into and out of the same operator
  std::vector<Plan> plans_;       // the oldest first
  size_t current_ = kNone;        // the one that was replayed last
  std::vector<int64_t> offsets_;  // of its buffers
};

}  // namespace etarena::xnnpack
