/* Where the inner values of an XNNPACK runtime lie in its scratch, for sizes that XNNPACK need not plan itself.
 *
 * XNNPACK's plan of a runtime's memory takes longer than many a reshape, and is needed twice for a new shape: to learn
 * what the shape needs, and to have it at the address it gets. But what lives at the same time is the same for all
 * shapes: a plan of XNNPACK's is read once, as who lies below whom, and replayed for other sizes. The replay is
 * taken if it is as close to what lives at once as XNNPACK's own plan was. */
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "packed_plan.h"
#include "xnnpack_abi.h"

namespace etarena::xnnpack {

struct Structure;

class Layout {
 public:
  explicit Layout(const RuntimeObject& runtime);
  ~Layout();
  Layout(const Layout&) = delete;
  Layout& operator=(const Layout&) = delete;

  // Sets the sizes of the values in scratch to 0: XNNPACK lets them only grow.
  void forget_sizes(const RuntimeObject& runtime) const {
    if (n_plans_ > 0) return plans_[0]->forget_sizes(runtime.values);
    for (const uint32_t id : inner_) runtime.values[id].size = 0;
  }

  // Whether memory can be planned here for the sizes that the values have now. If so, `nbytes` is what it takes.
  bool measure(const RuntimeObject& runtime, size_t* nbytes) {
    for (current_ = 0; current_ < n_plans_; ++current_) {
      if (plans_[current_]->measure(runtime, nbytes)) return true;
    }
    current_ = kMostPlans;
    return empty_ && measure_empty(runtime, nbytes);
  }

  // Whether the sizes measured last were planned here.
  bool has_plan() const { return current_ < n_plans_; }

  // Points the values at their places in scratch at `base`, if has_plan().
  void place(const RuntimeObject& runtime, char* base) const { plans_[current_]->place(runtime, base); }

  // Says that XNNPACK has just wanted nothing. A runtime without inner values needs not be asked again, unless one of
  // its operators wants scratch.
  void learn_empty() { empty_ = inner_.empty(); }

  // Whether there is room for one more plan.
  bool can_learn() const { return !foreign_ && n_plans_ < kMostPlans; }

  // Reads the plan that XNNPACK has just made for the sizes that the values have now, in scratch at `base`, of which it
  // wanted `nbytes`. If that is not what it should be by our reading, XNNPACK plans this runtime for good.
  void learn(const RuntimeObject& runtime, const char* base, size_t nbytes);

 private:
  static constexpr uint8_t kMostPlans = 4;

  void refuse();
  static bool measure_empty(const RuntimeObject& runtime, size_t* nbytes);

  uint8_t n_plans_ = 0;
  uint8_t current_ = kMostPlans;  // the one that was replayed last
  bool foreign_ = false;
  bool empty_ = false;                               // without values in scratch, as far as we have seen
  std::array<PackedPlan::Owner, kMostPlans> plans_;  // the oldest first
  std::vector<uint32_t> inner_;                      // ids of the values in scratch
  std::unique_ptr<const Structure> structure_;       // once something was learned
};

}  // namespace etarena::xnnpack
