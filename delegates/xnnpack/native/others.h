/* Runtimes that are not ours: the workspaces that XNNPACK allocates for them, and the time it reshapes them. */
#pragma once

#include <cstddef>
#include <cstdint>

namespace etarena::xnnpack {

// Bytes of those workspaces: now, and the most at once since asked last.
struct Held {
  size_t now;
  size_t most;
};
Held held_by_others();

// Has XNNPACK plan the memory of such a runtime: an aligned allocation meanwhile is its workspace.
int plan_for_others(void* runtime);

// Has XNNPACK reshape such a runtime. All nanoseconds spent so since asked last.
int reshape_for_others(void* runtime);
int64_t reshape_ns_of_others();

// What the allocator that XNNPACK is given reports: every aligned allocation, and before it is freed.
void note_aligned(void* pointer, size_t size);
void drop_aligned(void* pointer);

}  // namespace etarena::xnnpack
