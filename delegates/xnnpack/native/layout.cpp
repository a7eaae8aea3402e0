#include "layout.h"

#include <algorithm>

namespace etarena::xnnpack {
namespace {

constexpr int64_t kLargest = int64_t{1} << 48;  // bytes of an item; more goes to XNNPACK, so that no sum overflows

bool in_scratch(const Value& value) { return value.type != kInvalidType && value.allocation_type == kInWorkspace; }

// What the functions below need for a moment, the same for all runtimes: it stays in the cache from one to the next.
struct Moment {
  std::vector<int64_t> sizes;         // of each item, in bytes, rounded as XNNPACK does
  std::vector<int64_t> buffer_sizes;  // and of each buffer
  std::vector<int64_t> ends;
  std::vector<int64_t> read;  // offsets in XNNPACK's plan
};

Moment& moment() {
  thread_local Moment here;
  return here;
}

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

// Notes what is in scratch and when it lives, which shapes do not change. False if this is not the runtime that we
// know.
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

bool Layout::take_sizes(const RuntimeObject& runtime) const {
  std::vector<int64_t>& sizes = moment().sizes;
  sizes.clear();
  size_t largest = 0;
  const auto take = [&](size_t size) {
    largest = std::max(largest, size);
    sizes.push_back(static_cast<int64_t>((size + kRounding - 1) / kRounding * kRounding));
  };
  for (const uint32_t id : values_) take(runtime.values[id].size);
  for (size_t i = 0; i < runtime.n_operators; ++i) take(runtime.operators[i].workspace_size);
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
  const std::vector<int64_t>& sizes = moment().sizes;
  std::vector<int64_t>& offsets = moment().read;
  offsets.clear();
  plan->numbers.assign(pairs_.size() + 4 * lives_.size(), -1);
  plan->same_size = plan->numbers.data();
  plan->buffer = plan->same_size + pairs_.size();
  plan->item = plan->buffer + lives_.size();
  plan->first = plan->item + lives_.size();
  plan->last = plan->first + lives_.size();
  for (size_t i = 0; i < pairs_.size(); ++i) plan->same_size[i] = same_size(runtime, pairs_[i]);
  for (size_t i = 0; i < lives_.size(); ++i) {
    if (sizes[i] == 0) continue;
    int32_t buffer = -1;
    for (const Pair& pair : pairs_) {
      const int32_t input = item_of_[pair.input], output = item_of_[pair.output];
      const int32_t other = input == static_cast<int32_t>(i) ? output : output == static_cast<int32_t>(i) ? input : -1;
      if (other < 0 || plan->buffer[other] < 0 || address(runtime, other) != address(runtime, i)) continue;
      if (sizes[other] != sizes[i]) return false;
      if (buffer >= 0 && buffer != plan->buffer[other]) return false;  // an order that XNNPACK does not make
      buffer = plan->buffer[other];
    }
    if (buffer < 0) {
      buffer = static_cast<int32_t>(plan->n_buffers++);
      plan->item[buffer] = static_cast<int32_t>(i);
      plan->first[buffer] = lives_[i].first;
      plan->last[buffer] = lives_[i].last;
      offsets.push_back(address(runtime, i) - base);
    }
    plan->buffer[i] = buffer;
    plan->first[buffer] = std::min(plan->first[buffer], lives_[i].first);
    plan->last[buffer] = std::max(plan->last[buffer], lives_[i].last);
  }
  return true;
}

// Whether nothing that lives at the same time overlaps in the plan that was read.
bool Layout::is_possible(const Plan& plan) const {
  const std::vector<int64_t>& sizes = moment().buffer_sizes;
  const std::vector<int64_t>& offsets = moment().read;
  for (size_t i = 0; i < plan.n_buffers; ++i) {
    if (offsets[i] < 0 || offsets[i] > kLargest) return false;
    for (size_t j = 0; j < i; ++j) {
      const bool meet = plan.first[i] < plan.last[j] && plan.first[j] < plan.last[i];
      if (meet && offsets[i] < offsets[j] + sizes[j] && offsets[j] < offsets[i] + sizes[i]) return false;
    }
  }
  return true;
}

int64_t Layout::peak(const Plan& plan) const {
  int64_t largest = 0;
  for (size_t i = 0; i < plan.n_buffers; ++i) {
    largest = std::max(largest, moment().read[i] + moment().buffer_sizes[i]);
  }
  return largest;
}

void Layout::take_buffer_sizes(const Plan& plan) const {
  Moment& here = moment();
  here.buffer_sizes.clear();
  for (size_t i = 0; i < plan.n_buffers; ++i) here.buffer_sizes.push_back(here.sizes[plan.item[i]]);
}

void Layout::learn(const RuntimeObject& runtime, const char* base, size_t nbytes) {
  if (!listed_) foreign_ = !list(runtime);
  listed_ = true;
  if (!can_learn() || !take_sizes(runtime)) return;
  Plan plan;
  foreign_ = !read(runtime, base, &plan);
  if (foreign_ || plan.n_buffers == 0) return;
  take_buffer_sizes(plan);
  foreign_ = !is_possible(plan) || peak(plan) + static_cast<int64_t>(kBeyond) != static_cast<int64_t>(nbytes);
  if (foreign_) return;
  const std::vector<int64_t>& sizes = moment().buffer_sizes;
  if (orient(&plan.orientation, static_cast<int32_t>(plan.n_buffers), plan.first, plan.last,
             static_cast<int32_t>(runtime.n_operators), sizes.data(), moment().read.data())) {
    plan.excess = static_cast<double>(peak(plan)) / static_cast<double>(most_live(&plan.orientation, sizes.data())) - 1;
    plans_.push_back(std::move(plan));
  }
}

// Whether the same things share memory and the same are empty as in this plan.
bool Layout::suits(const RuntimeObject& runtime, const Plan& plan) const {
  for (size_t i = 0; i < pairs_.size(); ++i) {
    if (same_size(runtime, pairs_[i]) != (plan.same_size[i] != 0)) return false;
  }
  const std::vector<int64_t>& sizes = moment().sizes;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if ((plan.buffer[i] < 0) != (sizes[i] == 0)) return false;
  }
  return true;
}

bool Layout::measure(const RuntimeObject& runtime, size_t* nbytes) {
  current_ = kNone;
  if (foreign_ || plans_.empty() || !take_sizes(runtime)) return false;
  Moment& here = moment();
  for (size_t k = 0; k < plans_.size(); ++k) {
    const Plan& plan = plans_[k];
    if (!suits(runtime, plan)) continue;
    take_buffer_sizes(plan);
    here.ends.resize(plan.n_buffers);
    offsets_.resize(plan.n_buffers);
    const auto most = static_cast<double>(most_live(&plan.orientation, here.buffer_sizes.data()));
    const int64_t found =
        replay_orientation(&plan.orientation, here.buffer_sizes.data(), nullptr, kRounding,
                           static_cast<int64_t>(most * (1 + plan.excess)) + 1, here.ends.data(), offsets_.data());
    if (found < 0) continue;
    current_ = k;
    *nbytes = static_cast<size_t>(found) + kBeyond;
    return true;
  }
  return false;
}

void Layout::place(const RuntimeObject& runtime, char* base) const {
  const Plan& plan = plans_[current_];
  const size_t n_values = values_.size();
  const auto place_of = [&](size_t item) { return plan.buffer[item] < 0 ? base : base + offsets_[plan.buffer[item]]; };
  for (size_t i = 0; i < n_values; ++i) runtime.values[values_[i]].data = place_of(i);
  for (size_t i = 0; i < runtime.n_operators; ++i) runtime.operators[i].workspace = place_of(n_values + i);
}

}  // namespace etarena::xnnpack
