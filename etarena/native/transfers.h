// Copies between devices that a program's instructions make, and who makes and counts them.
#pragma once

#include <etarena.h>

#include <cstddef>
#include <vector>

namespace etarena {

struct Transfer {
  const void* source;  // the tensors' TensorImpls
  const void* target;
  size_t nbytes;
};

// Of the run in progress on a thread: the allocators of the devices in the plan, and the copies made so far.
struct TransferLedger {
  std::vector<const etarena_device_allocator*> allocators;
  std::vector<Transfer> made;
  bool refuse = false;   // the first copy fails
  bool refused = false;  // and this one, the last in `made`, did

  const etarena_device_allocator* find(int32_t type) const {
    for (const auto* allocator : allocators) {
      if (allocator->device_type == type) return allocator;
    }
    return nullptr;
  }
};

inline thread_local TransferLedger* current_transfers = nullptr;

// Makes a ledger the current one while it lives.
class CountingTransfers {
 public:
  explicit CountingTransfers(TransferLedger* ledger) : outer_(current_transfers) { current_transfers = ledger; }
  ~CountingTransfers() { current_transfers = outer_; }
  CountingTransfers(const CountingTransfers&) = delete;
  CountingTransfers& operator=(const CountingTransfers&) = delete;

 private:
  TransferLedger* outer_;
};

}  // namespace etarena
