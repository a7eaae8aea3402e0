#include "layout.h"

#include <algorithm>
#include <optional>

namespace etarena::xnnpack {
namespace {

struct Life {  // from the first operator that uses something to before the one after the last
  int32_t first;
  int32_t last;
};

struct Pair {
  uint32_t input;
  uint32_t output;
};

bool in_scratch(const Value& value) { return value.type != kInvalidType && value.allocation_type == kInWorkspace; }

}  // namespace

// What is in scratch and when it lives, which shapes do not change.
struct Structure {
  std::vector<uint32_t> values;  // ids of those in scratch: these are the items, followed by the operators
  std::vector<int32_t> item_of;  // of each value; -1
  std::vector<Life> lives;       // of each item
  std::vector<Pair> pairs;       // values in scratch that go into and out of the same operator

  bool list(const RuntimeObject& runtime);
  bool note_use(const RuntimeObject& runtime, uint32_t id, int32_t position);
  void note_pairs(const RuntimeObject& runtime, const Operator& one);
  size_t size_of(const RuntimeObject& runtime, size_t item) const;
  const char* address(const RuntimeObject& runtime, size_t item) const;
};

bool Structure::note_use(const RuntimeObject& runtime, uint32_t id, int32_t position) {
  if (id == kNoValue) return true;
  if (id >= runtime.n_values) return false;
  if (!in_scratch(runtime.values[id])) return true;
  if (item_of[id] < 0) {
    item_of[id] = static_cast<int32_t>(values.size());
    values.push_back(id);
    lives.push_back({position, position});
  }
  lives[item_of[id]].last = position + 1;
  return true;
}

void Structure::note_pairs(const RuntimeObject& runtime, const Operator& one) {
  for (uint32_t k = 0; k < one.n_inputs && one.n_outputs > 0; ++k) {
    const uint32_t input = one.inputs[k], output = one.outputs[0];
    if (input == kNoValue || output == kNoValue) continue;
    if (in_scratch(runtime.values[input]) && in_scratch(runtime.values[output])) pairs.push_back({input, output});
  }
}

// False if this is not the runtime that we know, or it is larger than our numbers are.
bool Structure::list(const RuntimeObject& runtime) {
  if (runtime.n_values + runtime.n_operators > PackedPlan::kMostNumbers) return false;
  item_of.assign(runtime.n_values, -1);
  for (size_t i = 0; i < runtime.n_operators; ++i) {
    const Operator& one = runtime.operators[i];
    if (one.n_inputs > std::size(one.inputs) || one.n_outputs > std::size(one.outputs)) return false;
    for (uint32_t k = 0; k < one.n_inputs; ++k) {
      if (!note_use(runtime, one.inputs[k], static_cast<int32_t>(i))) return false;
    }
    for (uint32_t k = 0; k < one.n_outputs; ++k) {
      if (!note_use(runtime, one.outputs[k], static_cast<int32_t>(i))) return false;
    }
    note_pairs(runtime, one);
  }
  for (const uint32_t id : values) {
    const uint32_t type = runtime.values[id].datatype;
    if (type == kDynamicInt8 || type == kDynamicUint8) return false;
  }
  for (size_t i = 0; i < runtime.n_operators; ++i) {
    lives.push_back({static_cast<int32_t>(i), static_cast<int32_t>(i) + 1});
  }
  return pairs.size() <= PackedPlan::kMostNumbers;
}

size_t Structure::size_of(const RuntimeObject& runtime, size_t item) const {
  return item < values.size() ? runtime.values[values[item]].size
                              : runtime.operators[item - values.size()].workspace_size;
}

const char* Structure::address(const RuntimeObject& runtime, size_t item) const {
  return static_cast<const char*>(item < values.size() ? runtime.values[values[item]].data
                                                       : runtime.operators[item - values.size()].workspace);
}

namespace {

// XNNPACK's plan: an output that lies where an input of its operator does shares that one's memory.
class Reading {
 public:
  Reading(const Structure& structure, const RuntimeObject& runtime, const char* base)
      : structure_(structure), runtime_(runtime), base_(base) {}
  ~Reading() { forget_orientation(&parts_.orientation); }
  Reading(const Reading&) = delete;
  Reading& operator=(const Reading&) = delete;

  // False if an item is so large that it goes to XNNPACK, which no sum then overflows.
  bool take_sizes();

  // False if this is not a plan that XNNPACK makes.
  bool read();
  bool is_empty() const { return offsets_.empty(); }

  // Whether nothing that lives at the same time overlaps, and XNNPACK wanted what the plan takes.
  bool is_possible(size_t nbytes) const;

  // The plan for other sizes; none if there is no memory for it.
  PackedPlan::Owner pack(const std::vector<uint32_t>& inner);

 private:
  std::optional<int32_t> shared(size_t item) const;
  int64_t peak() const;

  const Structure& structure_;
  const RuntimeObject& runtime_;
  const char* const base_;
  PlanParts parts_;
  std::vector<int64_t> sizes_;           // of each item, in bytes, rounded as XNNPACK does
  std::vector<int64_t> buffer_sizes_;    // and of each buffer
  std::vector<int64_t> offsets_;         // of each buffer
  std::vector<int32_t> firsts_, lasts_;  // of each buffer: its life
};

bool Reading::take_sizes() {
  for (size_t i = 0; i < structure_.lives.size(); ++i) {
    const size_t size = structure_.size_of(runtime_, i);
    if (size > PackedPlan::kMostBytes) return false;
    sizes_.push_back(static_cast<int64_t>((size + kRounding - 1) / kRounding * kRounding));
  }
  return true;
}

// The buffer that an item shares with one before it; -1 if it has one of its own; nothing in an order that XNNPACK does
// not make.
std::optional<int32_t> Reading::shared(size_t item) const {
  const auto one = static_cast<int32_t>(item);
  int32_t buffer = -1;
  for (const Pair& pair : structure_.pairs) {
    const int32_t input = structure_.item_of[pair.input], output = structure_.item_of[pair.output];
    const int32_t other = input == one ? output : output == one ? input : -1;
    if (other < 0 || parts_.buffer[other] < 0) continue;
    if (structure_.address(runtime_, other) != structure_.address(runtime_, item)) continue;
    if (sizes_[other] != sizes_[item]) return std::nullopt;
    if (buffer >= 0 && buffer != parts_.buffer[other]) return std::nullopt;
    buffer = parts_.buffer[other];
  }
  return buffer;
}

bool Reading::read() {
  parts_.buffer.assign(structure_.lives.size(), -1);
  for (size_t i = 0; i < structure_.lives.size(); ++i) {
    if (sizes_[i] == 0) continue;
    const Life& life = structure_.lives[i];
    const std::optional<int32_t> found = shared(i);
    if (!found) return false;
    int32_t buffer = *found;
    if (buffer < 0) {
      buffer = static_cast<int32_t>(offsets_.size());
      offsets_.push_back(structure_.address(runtime_, i) - base_);
      buffer_sizes_.push_back(sizes_[i]);
      firsts_.push_back(life.first);
      lasts_.push_back(life.last);
    }
    parts_.buffer[i] = buffer;
    firsts_[buffer] = std::min(firsts_[buffer], life.first);
    lasts_[buffer] = std::max(lasts_[buffer], life.last);
  }
  return true;
}

bool Reading::is_possible(size_t nbytes) const {
  for (size_t i = 0; i < offsets_.size(); ++i) {
    if (offsets_[i] < 0 || static_cast<uint64_t>(offsets_[i]) > PackedPlan::kMostBytes) return false;
    for (size_t j = 0; j < i; ++j) {
      const bool meet = firsts_[i] < lasts_[j] && firsts_[j] < lasts_[i];
      if (meet && offsets_[i] < offsets_[j] + buffer_sizes_[j] && offsets_[j] < offsets_[i] + buffer_sizes_[i]) {
        return false;
      }
    }
  }
  return peak() + static_cast<int64_t>(kBeyond) == static_cast<int64_t>(nbytes);
}

int64_t Reading::peak() const {
  int64_t largest = 0;
  for (size_t i = 0; i < offsets_.size(); ++i) largest = std::max(largest, offsets_[i] + buffer_sizes_[i]);
  return largest;
}

PackedPlan::Owner Reading::pack(const std::vector<uint32_t>& inner) {
  if (!orient(&parts_.orientation, static_cast<int32_t>(offsets_.size()), firsts_.data(), lasts_.data(),
              static_cast<int32_t>(runtime_.n_operators), buffer_sizes_.data(), offsets_.data())) {
    return nullptr;
  }
  int64_t live = 0, rounded = 0;  // equal, since sizes are rounded already
  if (!measure_live(&parts_.orientation, buffer_sizes_.data(), nullptr, kRounding, &live, &rounded)) return nullptr;
  parts_.excess = static_cast<double>(peak()) / static_cast<double>(live) - 1;
  parts_.inner = structure_.values;
  parts_.n_values = structure_.values.size();
  for (const uint32_t id : inner) {
    if (structure_.item_of[id] < 0) parts_.inner.push_back(id);
  }
  for (const Pair& pair : structure_.pairs) {
    const bool same_size = runtime_.values[pair.input].size == runtime_.values[pair.output].size;
    parts_.pairs.push_back({pair.input, pair.output, same_size});
  }
  return PackedPlan::pack(parts_);
}

}  // namespace

Layout::Layout(const RuntimeObject& runtime) {
  for (size_t id = 0; id < runtime.n_values; ++id) {
    if (in_scratch(runtime.values[id])) inner_.push_back(static_cast<uint32_t>(id));
  }
}

Layout::~Layout() = default;

bool Layout::measure_empty(const RuntimeObject& runtime, size_t* nbytes) {
  for (size_t i = 0; i < runtime.n_operators; ++i) {
    if (runtime.operators[i].workspace_size != 0) return false;
  }
  *nbytes = 0;
  return true;
}

void Layout::refuse() {
  foreign_ = true;
  n_plans_ = 0;
  for (PackedPlan::Owner& plan : plans_) plan.reset();
  structure_.reset();
}

void Layout::learn(const RuntimeObject& runtime, const char* base, size_t nbytes) {
  if (!can_learn()) return;
  if (structure_ == nullptr) {
    auto structure = std::make_unique<Structure>();
    if (!structure->list(runtime)) return refuse();
    structure_ = std::move(structure);
  }
  Reading reading(*structure_, runtime, base);
  if (!reading.take_sizes() || nbytes > PackedPlan::kMostBytes) return;
  if (!reading.read()) return refuse();
  if (reading.is_empty()) return;
  if (!reading.is_possible(nbytes)) return refuse();
  plans_[n_plans_] = reading.pack(inner_);
  if (plans_[n_plans_] != nullptr) ++n_plans_;
}

}  // namespace etarena::xnnpack
