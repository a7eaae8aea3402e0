/* What etarena asks of XNNPACK runtimes whose scratch it places: see interpose.cpp. */
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace etarena::xnnpack {

// An input of a delegate: its argument position, which is its external id, and its sizes in memory order.
struct Shape {
  uint32_t id;
  std::vector<size_t> dims;
};

// Whether XNNPACK calls the functions defined here: false if its library was loaded before this one.
bool active();

// Between these two calls, runtimes that this thread makes become ours, in the order of their making.
void begin_capture();
std::vector<void*> end_capture();

// External ids of a runtime's inputs.
std::vector<uint32_t> inputs_of(void* runtime);

// Reshapes the runtime and says how many bytes of scratch it wants; a Status.
int measure(void* runtime, const std::vector<Shape>& shapes, size_t* nbytes);

// Gives the runtime its scratch for these shapes; `nbytes` is what `measure` said or more. A Status.
int place(void* runtime, const std::vector<Shape>& shapes, char* address, size_t nbytes);

// Leaves the runtime's workspace to XNNPACK again.
void leave(void* runtime);

}  // namespace etarena::xnnpack
