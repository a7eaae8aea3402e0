// Scratch outside a plan: kept from call to call, grown when more is asked for.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>

#include "staging.h"

namespace etarena {

constexpr uint64_t kCanary = 64;  // bytes behind a scratch that must not change
constexpr unsigned char kCanaryByte = 0xC5;
constexpr int kGarbage = 0xDD;

class ScratchMemory {
 public:
  ScratchMemory() = default;
  ScratchMemory(const ScratchMemory&) = delete;
  ScratchMemory& operator=(const ScratchMemory&) = delete;
  ~ScratchMemory() {
    std::free(block_);
    unmap();
  }

  // `nbytes` bytes and `extra` behind them, or with a fence at most 63 bytes behind them and `extra` elsewhere. Null if
  // the system refuses. The address is a multiple of 64.
  char* get(uint64_t nbytes, uint64_t extra, bool fenced) {
    const uint64_t wanted = round_up((fenced ? 0 : nbytes) + extra, kLine) + 2 * kLine;
    if (wanted > room_) {
      std::free(block_);  // before the new one is there: the sum of both is never held
      block_ = static_cast<char*>(std::aligned_alloc(kLine, wanted));
      room_ = block_ == nullptr ? 0 : wanted;
      if (block_ == nullptr) return nullptr;
    }
    return fenced ? behind_fence(nbytes) : block_;
  }

  char* beside() const { return block_; }  // where `extra` is when there is a fence

 private:
  char* behind_fence(uint64_t nbytes) {
    const uint64_t page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
    const uint64_t pages = round_up(nbytes > 0 ? nbytes : 1, page);
    if (pages != fenced_) {
      unmap();
      void* const start = mmap(nullptr, pages + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      if (start == MAP_FAILED) return nullptr;
      mapping_ = static_cast<char*>(start);
      fenced_ = pages;
      if (mprotect(mapping_ + page, pages, PROT_READ | PROT_WRITE) != 0) return nullptr;
    }
    return mapping_ + page + pages - round_up(nbytes, kLine);
  }

  void unmap() {
    if (mapping_ != nullptr) munmap(mapping_, fenced_ + 2 * static_cast<uint64_t>(sysconf(_SC_PAGESIZE)));
    mapping_ = nullptr;
    fenced_ = 0;
  }

  char* block_ = nullptr;
  uint64_t room_ = 0;
  char* mapping_ = nullptr;
  uint64_t fenced_ = 0;
};

}  // namespace etarena
