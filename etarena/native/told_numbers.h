// Numbers that data tells while a method runs: how many elements of a mask are not zero, an int, a result's size.
#pragma once

#include <executorch/runtime/core/exec_aten/exec_aten.h>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace etarena {

using executorch::runtime::etensor::ScalarType;
using executorch::runtime::etensor::Tensor;

enum class Teller : int32_t { CountNonzero = 0, Scalar = 1, Size = 2, Forget = 3 };

// One discovery of the plan section; `told number = scale * symbol + offset`. Forget: what a loop told in its last
// round no longer holds.
struct Probe {
  int32_t teller;
  int32_t symbol;
  int32_t instruction;
  int32_t slot;   // CountNonzero, Size: attached value
  int32_t index;  // Scalar: EValue
  int32_t dim;    // Size
  int64_t scale;
  int64_t offset;
};

// What a run stopped for.
enum class StopKind : int32_t { Failed = 0, Done = 1, Told = 2, Uneven = 3 };

struct Stop {
  int32_t position = 0;  // the instruction that comes next in the program
  int32_t probe = -1;    // Uneven: which probe told a number that no symbol gives
  int64_t number = 0;    // and that number
};

template <typename T>
int64_t count_items(const void* data, int64_t count) {
  const T* items = static_cast<const T*>(data);
  int64_t found = 0;
  for (int64_t i = 0; i < count; ++i) found += items[i] != T(0);
  return found;
}

// Items whose bits other than the sign are all zero are zero: half and bfloat16.
inline int64_t count_halves(const void* data, int64_t count) {
  const uint16_t* items = static_cast<const uint16_t*>(data);
  int64_t found = 0;
  for (int64_t i = 0; i < count; ++i) found += (items[i] & 0x7fff) != 0;
  return found;
}

// False when the dtype has no zero to compare with.
inline bool count_nonzero(const Tensor& tensor, int64_t* out) {
  const void* data = tensor.const_data_ptr();
  const int64_t count = tensor.numel();
  switch (tensor.scalar_type()) {
    case ScalarType::Bool:
    case ScalarType::Byte:
    case ScalarType::Char:
      *out = count_items<uint8_t>(data, count);
      return true;
    case ScalarType::Short:
    case ScalarType::UInt16:
      *out = count_items<uint16_t>(data, count);
      return true;
    case ScalarType::Int:
    case ScalarType::UInt32:
      *out = count_items<uint32_t>(data, count);
      return true;
    case ScalarType::Long:
    case ScalarType::UInt64:
      *out = count_items<uint64_t>(data, count);
      return true;
    case ScalarType::Float:
      *out = count_items<float>(data, count);
      return true;
    case ScalarType::Double:
      *out = count_items<double>(data, count);
      return true;
    case ScalarType::Half:
    case ScalarType::BFloat16:
      *out = count_halves(data, count);
      return true;
    default:
      return false;
  }
}

// Symbols as far as they have been told in the run in progress.
struct ToldSymbols {
  std::vector<Probe> probes;
  std::vector<std::vector<int32_t>> before;  // of each instruction: probes to ask just before it runs
  std::vector<std::vector<int32_t>> after;
  std::vector<int64_t> number;  // of each symbol
  std::vector<uint8_t> known;

  void reset() {
    std::fill(number.begin(), number.end(), 0);
    std::fill(known.begin(), known.end(), 0);
  }

  void learn(std::vector<Probe> all, size_t instructions, size_t symbols) {
    probes = std::move(all);
    before.assign(instructions, {});
    after.assign(instructions, {});
    number.assign(symbols, 0);
    known.assign(symbols, 0);
    for (size_t i = 0; i < probes.size(); ++i) {
      const Teller teller = static_cast<Teller>(probes[i].teller);
      const bool first = teller == Teller::CountNonzero || teller == Teller::Forget;
      (first ? before : after)[probes[i].instruction].push_back(static_cast<int32_t>(i));
    }
  }

  // Takes a told number; false when no symbol gives it. `changed` is set when the symbol is another one than before.
  bool take(const Probe& probe, int64_t told, bool* changed) {
    int64_t rest;
    if (__builtin_sub_overflow(told, probe.offset, &rest)) return false;
    if (rest % probe.scale != 0) return false;
    const int64_t value = rest / probe.scale;
    if (!known[probe.symbol] || number[probe.symbol] != value) *changed = true;
    known[probe.symbol] = 1;
    number[probe.symbol] = value;
    return true;
  }

  void forget(const Probe& probe, bool* changed) {
    if (known[probe.symbol]) *changed = true;
    known[probe.symbol] = 0;
    number[probe.symbol] = 0;
  }
};

}  // namespace etarena
