/* Workspaces of runtimes that are not ours, which XNNPACK allocates itself: they are counted. */
#pragma once

#include <cstddef>

namespace etarena::xnnpack {

// Bytes of those workspaces: now, and the most at once since asked last.
struct Held {
  size_t now;
  size_t most;
};
Held held_by_others();

// Has XNNPACK plan the memory of such a runtime: an aligned allocation meanwhile is its workspace.
int plan_for_others(void* runtime);

// What the allocator that XNNPACK is given reports: every aligned allocation, and before it is freed.
void note_aligned(void* pointer, size_t size);
void drop_aligned(void* pointer);

}  // namespace etarena::xnnpack
