#include "layout.h"

#include <algorithm>

namespace etarena::xnnpack {
namespace {

constexpr int64_t kLargest = int64_t{1} << 48;  // bytes of an item; more goes to XNNPACK, so that no sum overflows

bool in_scratch(const Value& value) { return value.type != kInvalidType && value.allocation_type == kInWorkspace; }

}  // namespace

Layout::~Layout() {
  for (Plan& plan : plans_) forget_orientation(&plan.orientation);
}

bool Layout::note_use(const RuntimeObject& runtime, uint32_t id, int32_t position) {
  if (id == kNoValue) return true;
  if (id >= runtime.n_values) return false;
  if (!in_scratch(runtime.values[id])) return true;
  if (item_of_[id] < 0) {
    item_of_[id] = static_cast<int32_t>(values_.size());
    values_.push_back(id);
    lives_.push_back({position, position});
  }
  lives_[item_of_[id]].last = position + 1;
  return true;
}

// Notes what is in scratch and when it lives, which shapes do not change. False if this is not the runtime that we know.
bool Layout::list(const RuntimeObject& runtime) {
  item_of_.assign(runtime.n_values, -1);
  for (size_t i = 0; i < runtime.n_operators; ++i) {
    const Operator& one = runtime.operators[i];
    if (one.n_inputs > std::size(one.inputs) || one.n_outputs > std::size(one.outputs)) return false;
    for (uint32_t k = 0; k < one.n_inputs; ++k) {
      if (!note_use(runtime, one.inputs[k], static_cast<int32_t>(i))) return false;
    }
    for (uint32_t k = 0; k < one.n_outputs; ++k) {
      if (!note_use(runtime, one.outputs[k], static_cast<int32_t>(i))) return false;
    }
    for (uint32_t k = 0; k < one.n_inputs && one.n_outputs > 0; ++k) {
      const uint32_t input = one.inputs[k], output = one.outputs[0];
      if (input == kNoValue || output == kNoValue) continue;
      if (in_scratch(runtime.values[input]) && in_scratch(runtime.values[output])) pairs_.push_back({input, output});
    }
  }
  for (const uint32_t id : values_) {
    const uint32_t type = runtime.values[id].datatype;
    if (type == kDynamicInt8 || type == kDynamicUint8) return false;
  }
  for (size_t i = 0; i < runtime.n_operators; ++i) {
    lives_.push_back({static_cast<int32_t>(i), static_cast<int32_t>(i) + 1});
  }
  return true;
}

bool Layout::take_sizes(const RuntimeObject& runtime) {
  sizes_.resize(lives_.size());
  size_t largest = 0;
  for (size_t i = 0; i < lives_.size(); ++i) {
    const size_t size = i < values_.size() ? runtime.values[values_[i]].size
                                           : runtime.operators[i - values_.size()].workspace_size;
    largest = std::max(largest, size);
    sizes_[i] = static_cast<int64_t>((size + kRounding - 1) / kRounding * kRounding);
  }
  return largest <= static_cast<size_t>(kLargest);
}

bool Layout::same_size(const RuntimeObject& runtime, const Pair& pair) const {
  return runtime.values[pair.input].size == runtime.values[pair.output].size;
}

const char* Layout::address(const RuntimeObject& runtime, size_t item) const {
  return static_cast<const char*>(item < values_.size() ? runtime.values[values_[item]].data
                                                        : runtime.operators[item - values_.size()].workspace);
}

// Reads XNNPACK's plan: an output that lies where an input of its operator does shares that one's memory.
bool Layout::read(const RuntimeObject& runtime, const char* base, Plan* plan) const {
  plan->buffer.assign(lives_.size(), -1);
  for (const Pair& pair : pairs_) plan->same_size.push_back(same_size(runtime, pair));
  for (size_t i = 0; i < lives_.size(); ++i) {
    if (sizes_[i] == 0) continue;
    int32_t buffer = -1;
    for (const Pair& pair : pairs_) {
      const int32_t input = item_of_[pair.input], output = item_of_[pair.output];
      const int32_t other = input == static_cast<int32_t>(i) ? output : output == static_cast<int32_t>(i) ? input : -1;
      if (other < 0 || plan->buffer[other] < 0 || address(runtime, other) != address(runtime, i)) continue;
      if (sizes_[other] != sizes_[i]) return false;
      if (buffer >= 0 && buffer != plan->buffer[other]) return false;  // an order that XNNPACK does not make
      buffer = plan->buffer[other];
    }
    if (buffer < 0) {
      buffer = static_cast<int32_t>(plan->item.size());
      plan->item.push_back(static_cast<int32_t>(i));
      plan->first.push_back(lives_[i].first);
      plan->last.push_back(lives_[i].last);
      plan->offsets.push_back(address(runtime, i) - base);
    }
    plan->buffer[i] = buffer;
    plan->first[buffer] = std::min(plan->first[buffer], lives_[i].first);
    plan->last[buffer] = std::max(plan->last[buffer], lives_[i].last);
  }
  return true;
}

// Whether nothing that lives at the same time overlaps.
bool Layout::is_possible(const Plan& plan) const {
  for (size_t i = 0; i < plan.item.size(); ++i) {
    if (plan.offsets[i] < 0 || plan.offsets[i] > kLargest) return false;
    for (size_t j = 0; j < i; ++j) {
      const bool meet = plan.first[i] < plan.last[j] && plan.first[j] < plan.last[i];
      if (meet && plan.offsets[i] < plan.offsets[j] + sizes_[plan.item[j]] &&
          plan.offsets[j] < plan.offsets[i] + sizes_[plan.item[i]]) {
        return false;
      }
    }
  }
  return true;
}

int64_t Layout::peak(const Plan& plan) const {
  int64_t largest = 0;
  for (size_t i = 0; i < plan.item.size(); ++i) largest = std::max(largest, plan.offsets[i] + sizes_[plan.item[i]]);
  return largest;
}

void Layout::take_buffer_sizes(const Plan& plan) {
  buffer_sizes_.clear();
  for (const int32_t item : plan.item) buffer_sizes_.push_back(sizes_[item]);
}

int64_t Layout::most_live(const Plan& plan, int32_t operators) {
  change_.assign(operators + 1, 0);
  for (size_t i = 0; i < plan.item.size(); ++i) {
    change_[plan.first[i]] += sizes_[plan.item[i]];
    change_[plan.last[i]] -= sizes_[plan.item[i]];
  }
  int64_t live = 0, most = 0;
  for (const int64_t change : change_) most = std::max(most, live += change);
  return most;
}

void Layout::learn(const RuntimeObject& runtime, const char* base, size_t nbytes) {
  if (!listed_) foreign_ = !list(runtime);
  listed_ = true;
  if (!can_learn() || !take_sizes(runtime)) return;
  Plan plan = {};
  foreign_ = !read(runtime, base, &plan) || !is_possible(plan);
  const int64_t most = foreign_ ? 0 : most_live(plan, static_cast<int32_t>(runtime.n_operators));
  if (most == 0) return;
  foreign_ = peak(plan) + static_cast<int64_t>(kBeyond) != static_cast<int64_t>(nbytes);
  plan.excess = static_cast<double>(peak(plan)) / static_cast<double>(most) - 1;
  const auto count = static_cast<int32_t>(plan.item.size());
  take_buffer_sizes(plan);
  const bool kept = !foreign_ && orient(&plan.orientation, count, plan.first.data(), plan.last.data(),
                                        static_cast<int32_t>(runtime.n_operators), buffer_sizes_.data(),
                                        plan.offsets.data());
  if (kept) plans_.push_back(std::move(plan));
}

// Whether the same things share memory and the same are empty as in this plan.
bool Layout::suits(const RuntimeObject& runtime, const Plan& plan) const {
  for (size_t i = 0; i < pairs_.size(); ++i) {
    if (same_size(runtime, pairs_[i]) != (plan.same_size[i] != 0)) return false;
  }
  for (size_t i = 0; i < lives_.size(); ++i) {
    if ((plan.buffer[i] < 0) != (sizes_[i] == 0)) return false;
  }
  return true;
}

bool Layout::measure(const RuntimeObject& runtime, size_t* nbytes) {
  current_ = kNone;
  if (foreign_ || plans_.empty() || !take_sizes(runtime)) return false;
  for (size_t k = 0; k < plans_.size(); ++k) {
    const Plan& plan = plans_[k];
    if (!suits(runtime, plan)) continue;
    take_buffer_sizes(plan);
    steps_.assign(plan.item.size(), kRounding);
    ends_.resize(plan.item.size());
    offsets_.resize(plan.item.size());
    const auto most = static_cast<double>(most_live(plan, static_cast<int32_t>(runtime.n_operators)));
    const int64_t found = replay_orientation(&plan.orientation, buffer_sizes_.data(), steps_.data(),
                                             static_cast<int64_t>(most * (1 + plan.excess)) + 1, ends_.data(),
                                             offsets_.data());
    if (found < 0) continue;
    current_ = k;
    *nbytes = static_cast<size_t>(found) + kBeyond;
    return true;
  }
  return false;
}

void Layout::place(const RuntimeObject& runtime, char* base) const {
  const Plan& plan = plans_[current_];
  for (size_t i = 0; i < lives_.size(); ++i) {
    char* const address = plan.buffer[i] < 0 ? base : base + offsets_[plan.buffer[i]];
    if (i < values_.size()) {
      runtime.values[values_[i]].data = address;
    } else {
      runtime.operators[i - values_.size()].workspace = address;
    }
  }
}

}  // namespace etarena::xnnpack
