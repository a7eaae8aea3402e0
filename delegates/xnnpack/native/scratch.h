/* What etarena asks of XNNPACK runtimes whose scratch it places: see interpose.cpp. */
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "xnnpack_abi.h"

namespace etarena::xnnpack {

// Sizes of one input of a delegate, in memory order; 0 behind the last.
struct InputSizes {
  size_t rank;
  size_t dims[kMaxDims];
};

// A runtime that is ours, until XNNPACK deletes it.
struct Runtime;
using Handle = std::shared_ptr<Runtime>;

// Whether XNNPACK calls the functions defined here: false if its library was loaded before this one.
bool active();

// Between these two calls, runtimes that this thread makes become ours, in the order of their making. An empty handle
// stands for one that keeps its scratch to itself.
void begin_capture();
std::vector<Handle> end_capture();

// External ids of a runtime's inputs, which are positions among the delegate's arguments. Sizes are given in this
// order.
std::vector<uint32_t> inputs_of(const Handle& known);

// Reshapes the runtime and says how many bytes of scratch it wants; a Status.
int measure(const Handle& known, const InputSizes* inputs, size_t* nbytes);

// Gives the runtime its scratch for these sizes; `nbytes` is what `measure` said or more. A Status.
int place(const Handle& known, const InputSizes* inputs, char* address, size_t nbytes);

// Leaves the runtime's workspace to XNNPACK again.
void leave(const Handle& known);

}  // namespace etarena::xnnpack
