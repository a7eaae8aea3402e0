// One heap block of an arena that several result tensors may stand on.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace etarena {

struct HeapShare {
  void* arena;  // a reference to the Python object whose memory this is
  void* address;
  size_t nbytes;
  std::atomic<int> users;
};

inline void add_user(HeapShare* share) { share->users.fetch_add(1, std::memory_order_relaxed); }
inline bool remove_user(HeapShare* share) { return share->users.fetch_sub(1, std::memory_order_acq_rel) == 1; }

// Whether `nbytes` bytes from `address` on are mapped. Costs a system call only when they cross into another page.
inline bool readable_range(const void* address, size_t nbytes) {
  static const uintptr_t page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const uintptr_t begin = reinterpret_cast<uintptr_t>(address);
  const uintptr_t last = (begin + nbytes - 1) & ~(page - 1);
  if (begin == 0 || last == ((begin - 1) & ~(page - 1))) return true;
  unsigned char resident;
  return mincore(reinterpret_cast<void*>(last), page, &resident) == 0;
}

}  // namespace etarena
