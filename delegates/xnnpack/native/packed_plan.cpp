#include "packed_plan.h"

#include <algorithm>
#include <new>

namespace etarena::xnnpack {
namespace {

constexpr std::align_val_t kLine{64};
constexpr size_t kOnStack = 512;  // buffers whose sizes lie on the stack, which is in the cache

uint16_t number(size_t value) { return static_cast<uint16_t>(value); }
uint16_t marked(size_t value, bool mark) { return static_cast<uint16_t>(value << 1 | static_cast<size_t>(mark)); }

// Where each buffer is in the plan's order, and -1, which stands for no buffer, at the end.
std::vector<size_t> positions_of(const Orientation& orientation) {
  std::vector<size_t> positions(static_cast<size_t>(orientation.n) + 1, static_cast<size_t>(orientation.n));
  for (int32_t k = 0; k < orientation.n; ++k) positions[orientation.order[k]] = static_cast<size_t>(k);
  return positions;
}

// The numbers that lie behind a plan.
std::vector<uint16_t> list_numbers(const PlanParts& parts) {
  const Orientation& orientation = parts.orientation;
  const std::vector<size_t> positions = positions_of(orientation);
  std::vector<uint16_t> numbers;
  for (const uint32_t id : parts.inner) numbers.push_back(number(id));
  for (const PlanParts::Pair& pair : parts.pairs) {
    numbers.push_back(marked(pair.input, pair.same_size));
    numbers.push_back(number(pair.output));
  }
  for (const int32_t buffer : parts.buffer) {
    numbers.push_back(number(buffer < 0 ? positions.back() : positions[buffer]));
  }
  for (int32_t e = 0; e < 2 * orientation.n; ++e) {
    const int32_t event = orientation.events[e];
    numbers.push_back(marked(positions[event < 0 ? ~event : event], event < 0));
  }
  for (int32_t k = 0; k < orientation.n; ++k) {
    const int32_t end = orientation.start[k + 1];
    for (int32_t e = orientation.start[k]; e < end; ++e) {
      numbers.push_back(marked(static_cast<size_t>(orientation.below[e]), e + 1 == end));
    }
    if (orientation.start[k] == end) numbers.push_back(marked(positions.back(), true));
  }
  return numbers;
}

}  // namespace

void PackedPlan::Free::operator()(PackedPlan* plan) const { ::operator delete(plan, kLine); }

PackedPlan::Owner PackedPlan::pack(const PlanParts& parts) {
  const std::vector<uint16_t> numbers = list_numbers(parts);
  const size_t n_buffers = static_cast<size_t>(parts.orientation.n);
  const size_t offsets_at = (numbers.size() + 1) / 2;
  const size_t behind = offsets_at + (n_buffers + 1) * (n_buffers < kOnStack ? 1 : 2);
  void* const memory = ::operator new(sizeof(PackedPlan) + behind * sizeof(uint32_t), kLine);
  Owner plan(new (memory) PackedPlan);
  plan->excess_ = parts.excess;
  plan->offsets_at_ = static_cast<uint32_t>(offsets_at);
  plan->n_inner_ = number(parts.inner.size());
  plan->n_values_ = number(parts.n_values);
  plan->n_pairs_ = number(parts.pairs.size());
  plan->n_items_ = number(parts.buffer.size());
  plan->n_buffers_ = number(n_buffers);
  std::copy(numbers.begin(), numbers.end(), reinterpret_cast<uint16_t*>(plan.get() + 1));
  std::fill_n(plan->offsets(), n_buffers + 1, 0);
  return plan;
}

[[gnu::hot]] void PackedPlan::forget_sizes(Value* values) const {
  const uint16_t* const inner = numbers();
  for (size_t i = 0; i < n_inner_; ++i) values[inner[i]].size = 0;
}

// Writes the size of each buffer, which is that of the first of its items. False if the plan does not suit.
[[gnu::hot]] inline bool PackedPlan::take_sizes(const RuntimeObject& runtime, uint32_t* sizes) const {
  const uint16_t* const ids = numbers();
  const uint16_t* pair = ids + n_inner_;
  const uint16_t* const buffers = pair + 2 * n_pairs_;
  for (; pair != buffers; pair += 2) {
    const bool same_size = runtime.values[pair[0] >> 1].size == runtime.values[pair[1]].size;
    if (same_size != (pair[0] & 1)) return false;
  }
  for (size_t i = n_items_; i-- > 0;) {
    const size_t size = i < n_values_ ? runtime.values[ids[i]].size : runtime.operators[i - n_values_].workspace_size;
    const size_t buffer = buffers[i];
    if ((size == 0) != (buffer == n_buffers_) || size > kMostBytes) return false;
    sizes[buffer] = static_cast<uint32_t>((size + kRounding - 1) / kRounding);
  }
  return true;
}

[[gnu::hot]] bool PackedPlan::measure(const RuntimeObject& runtime, size_t* nbytes) {
  const size_t n = n_buffers_;
  uint32_t on_stack[kOnStack];
  uint32_t* const offsets = this->offsets();
  uint32_t* const ends = n < kOnStack ? on_stack : offsets + n + 1;  // of those placed; sizes of all others
  if (!take_sizes(runtime, ends)) return false;
  ends[n] = 0;
  const uint16_t* next = numbers() + n_inner_ + 2 * n_pairs_ + n_items_;
  int64_t live = 0, most = 0;
  for (const uint16_t* const last = next + 2 * n; next != last; ++next) {
    const int64_t size = ends[*next >> 1];
    live += *next & 1 ? -size : size;
    if (live > most) most = live;
  }
  const double bytes = static_cast<double>(most * static_cast<int64_t>(kRounding));
  const int64_t limit = (static_cast<int64_t>(bytes * (1 + excess_)) + 1) / static_cast<int64_t>(kRounding);
  int64_t peak = 0;
  for (size_t k = 0; k < n; ++k) {
    uint32_t offset = 0;
    do {
      if (ends[*next >> 1] > offset) offset = ends[*next >> 1];
    } while ((*next++ & 1) == 0);
    const int64_t end = int64_t{offset} + ends[k];
    if (end > limit || end > int64_t{UINT32_MAX}) return false;
    if (end > peak) peak = end;
    offsets[k] = offset;
    ends[k] = static_cast<uint32_t>(end);
  }
  *nbytes = static_cast<size_t>(peak) * kRounding + kBeyond;
  return true;
}

[[gnu::hot]] void PackedPlan::place(const RuntimeObject& runtime, char* base) const {
  const uint16_t* const ids = numbers();
  const uint16_t* const buffers = ids + n_inner_ + 2 * n_pairs_;
  const uint32_t* const offsets = const_cast<PackedPlan*>(this)->offsets();
  for (size_t i = 0; i < n_items_; ++i) {
    char* const address = base + size_t{offsets[buffers[i]]} * kRounding;
    if (i < n_values_) {
      runtime.values[ids[i]].data = address;
    } else {
      runtime.operators[i - n_values_].workspace = address;
    }
  }
}

}  // namespace etarena::xnnpack
