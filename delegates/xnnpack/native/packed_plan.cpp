#include "packed_plan.h"

#include <algorithm>
#include <iterator>
#include <new>

namespace etarena::xnnpack {
namespace {

constexpr std::align_val_t kLine{64};
constexpr double kEndless = 4611686018427387904.0;  // 2**62 bytes
constexpr size_t kOnStack = 512;                    // buffers whose sizes lie on the stack, which is in the cache

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
  std::transform(parts.inner.begin(), parts.inner.end(), std::back_inserter(numbers), number);
  std::reverse(numbers.begin(), numbers.begin() + static_cast<std::ptrdiff_t>(parts.n_values));
  for (const PlanParts::Pair& pair : parts.pairs) {
    numbers.push_back(marked(pair.input, pair.same_size));
    numbers.push_back(number(pair.output));
  }
  for (size_t i = 0; i < parts.buffer.size(); ++i) {
    const int32_t buffer = parts.buffer[i < parts.n_values ? parts.n_values - 1 - i : i];
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
  plan->most_ = 1 + parts.excess;
  plan->offsets_at_ = static_cast<uint32_t>(offsets_at);
  plan->n_inner_ = number(parts.inner.size());
  plan->n_values_ = number(parts.n_values);
  plan->n_pairs_ = number(parts.pairs.size());
  plan->n_operators_ = number(parts.buffer.size() - parts.n_values);
  plan->n_buffers_ = number(n_buffers);
  std::copy(numbers.begin(), numbers.end(), reinterpret_cast<uint16_t*>(plan.get() + 1));
  std::fill_n(plan->offsets(), n_buffers + 1, 0);
  return plan;
}

[[gnu::hot]] void PackedPlan::forget_sizes(Value* values) const {
  const uint16_t* const inner = numbers();
  for (size_t i = 0; i < n_inner_; ++i) values[inner[i]].size = 0;
}

// Writes the size of each buffer, which is that of the first of its items, and of none. Gives the number behind those
// that were read; nullptr if the plan does not suit.
[[gnu::hot]] inline const uint16_t* PackedPlan::take_sizes(const RuntimeObject& runtime, uint32_t* sizes) const {
  const Value* const values = runtime.values;
  const Operator* const operators = runtime.operators;
  const uint16_t* const ids = numbers();
  const uint16_t* next = ids + n_inner_;
  for (size_t k = n_pairs_; k > 0; --k) {
    const uint32_t input = *next++, output = *next++;
    if ((values[input >> 1].size == values[output].size) != ((input & 1) != 0)) return nullptr;
  }
  const size_t n_values = n_values_;
  size_t all = 0;
  for (size_t i = 0; i < n_values + n_operators_; ++i) {
    const size_t size = i < n_values ? values[ids[i]].size : operators[i - n_values].workspace_size;
    const uint32_t buffer = *next++;
    if ((size == 0) != (buffer == n_buffers_)) return nullptr;
    all |= size;
    sizes[buffer] = static_cast<uint32_t>((size + kRounding - 1) / kRounding);
  }
  sizes[n_buffers_] = 0;
  return all <= kMostBytes ? next : nullptr;
}

[[gnu::hot]] bool PackedPlan::measure(const RuntimeObject& runtime, size_t* nbytes) {
  const size_t n = n_buffers_;
  uint32_t on_stack[kOnStack];
  uint32_t* const offsets = this->offsets();
  uint32_t* const ends = n < kOnStack ? on_stack : offsets + n + 1;  // of those placed; sizes of all others
  const uint16_t* next = take_sizes(runtime, ends);
  if (next == nullptr) return false;
  int64_t live = 0, largest = 0;
  for (size_t e = 2 * n; e > 0; --e) {
    const uint32_t event = *next++;
    const int64_t size = ends[event >> 1];
    live += (event & 1) != 0 ? -size : size;
    largest = std::max(largest, live);
  }
  const double bytes = std::min(static_cast<double>(largest * int64_t{kRounding}) * most_, kEndless);
  const uint64_t limit = (static_cast<uint64_t>(bytes) + 1) / kRounding;
  uint64_t peak = 0;
  for (size_t k = 0; k < n; ++k) {
    uint32_t offset = 0, below = 0;
    do {
      below = *next++;
      offset = std::max(offset, ends[below >> 1]);
    } while ((below & 1) == 0);
    offsets[k] = offset;
    const uint64_t end = uint64_t{offset} + ends[k];
    peak = std::max(peak, end);
    ends[k] = static_cast<uint32_t>(end);  // if it does not fit, the peak tells
  }
  if (peak > limit || peak > UINT32_MAX) return false;
  *nbytes = static_cast<size_t>(peak) * kRounding + kBeyond;
  return true;
}

[[gnu::hot]] void PackedPlan::place(const RuntimeObject& runtime, char* base) const {
  const uint32_t* const offsets = const_cast<PackedPlan*>(this)->offsets();
  const uint16_t* const ids = numbers();
  const uint16_t* next = ids + n_inner_ + 2 * size_t{n_pairs_};
  for (const uint16_t* id = ids; id != ids + n_values_; ++id) {
    runtime.values[*id].data = base + size_t{offsets[*next++]} * kRounding;
  }
  for (size_t i = 0; i < n_operators_; ++i) {
    runtime.operators[i].workspace = base + size_t{offsets[*next++]} * kRounding;
  }
}

}  // namespace etarena::xnnpack
