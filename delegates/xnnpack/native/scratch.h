/* What etarena asks of XNNPACK runtimes whose scratch it places: see interpose.cpp. */
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "xnnpack_abi.h"

namespace etarena::xnnpack {

// A runtime that is ours, until XNNPACK deletes it.
struct Runtime;
using Handle = std::shared_ptr<Runtime>;

// Whether XNNPACK calls the functions defined here: false if its library was loaded before this one.
bool active();

// Between these two calls, runtimes that this thread makes become ours, in the order of their making. An empty handle
// stands for one that keeps its scratch to itself.
void begin_capture();
std::vector<Handle> end_capture();

// External ids of a runtime's inputs, which are positions among the delegate's arguments.
std::vector<uint32_t> inputs_of(const Handle& known);

// Says where the sizes of one of them, in that order, are read from now on. `order` is that of its dimensions in
// memory.
void read_sizes_from(const Handle& known, size_t input, const int32_t* sizes, const uint8_t* order, size_t rank);

// The sizes of the inputs as they are there.
std::vector<std::vector<int32_t>> sizes_of(const Handle& known);

// Reshapes the runtime of a handle for those sizes and says how many bytes of scratch it wants: none of sizes
// that XNNPACK refuses, because the call itself will fail. A Status.
int measure(void* known, int64_t* nbytes) noexcept;

// Gives the runtime its scratch for those sizes; `nbytes` is what `measure` said or more: none for those
// that were refused. A Status.
int place(void* known, char* address, int64_t nbytes) noexcept;

// Leaves the runtime's workspace to XNNPACK again.
void leave(const Handle& known);

}  // namespace etarena::xnnpack
