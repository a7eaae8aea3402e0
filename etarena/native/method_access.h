// The private parts of executorch::runtime::Method that etarena needs, reached without touching ExecuTorch.
//
// Naming a private member in an explicit template instantiation is legal C++ ([temp.spec.general]/6): access is not
// checked there. Every member used is exported by libexecutorch.so or a plain field of the shipped header.
#pragma once

#include <executorch/runtime/executor/method.h>

namespace etarena {

using executorch::runtime::EValue;
using executorch::runtime::Method;

template <auto MutableValue, auto InputIndex, auto OutputIndex, auto ValueCount, auto StepState, auto ChainCount>
struct MethodAccess {
  friend EValue& mutable_value(Method& method, size_t index) { return (method.*MutableValue)(index); }
  friend size_t input_value_index(const Method& method, size_t position) { return (method.*InputIndex)(position); }
  friend size_t output_value_index(const Method& method, size_t position) { return (method.*OutputIndex)(position); }
  friend size_t value_count(const Method& method) { return method.*ValueCount; }
  friend size_t next_instruction(const Method& method) { return (method.*StepState).instr_idx; }
  friend bool is_finished(const Method& method) { return (method.*StepState).chain_idx == method.*ChainCount; }
};

EValue& mutable_value(Method& method, size_t index);
size_t input_value_index(const Method& method, size_t position);
size_t output_value_index(const Method& method, size_t position);
size_t value_count(const Method& method);
size_t next_instruction(const Method& method);
bool is_finished(const Method& method);  // past the last instruction

template struct MethodAccess<&Method::mutable_value, &Method::get_input_index, &Method::get_output_index,
                             &Method::n_value_, &Method::step_state_, &Method::n_chains_>;

}  // namespace etarena
