/* The part of XNNPACK's public interface that is interposed, from xnnpack.h of the version in the executorch 1.5.1 wheel,
 * and the first words of its workspace object, which is checked when one is made. */
#pragma once

#include <cstddef>
#include <cstdint>

namespace etarena::xnnpack {

enum Status : int { kSuccess = 0, kInvalidState = 3, kOutOfMemory = 6 };

constexpr uint32_t kExternalInput = 1;
constexpr size_t kMaxDims = 6;
constexpr size_t kAlignment = 64;

struct Allocator {
  void* context;
  void* (*allocate)(void*, size_t);
  void* (*reallocate)(void*, void*, size_t);
  void (*deallocate)(void*, void*);
  void* (*aligned_allocate)(void*, size_t alignment, size_t size);
  void (*aligned_deallocate)(void*, void*);
};

struct Workspace {
  void* data;
  size_t size;
  void* first_user;
  size_t ref_count;
};

}  // namespace etarena::xnnpack
