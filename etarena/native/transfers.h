// Who makes the copies between devices that a program's instructions ask for.
#pragma once

#include <cstddef>

namespace etarena {

// Of a method: a function that copies between two of its tensors, named by their TensorImpls. `data` is an address on
// the CPU and a resource anywhere else. Gives 0 on success.
struct Transfers {
  void* owner = nullptr;
  int (*copy)(void* owner, const void* source, void* source_data, const void* target, void* target_data,
              size_t nbytes) = nullptr;
};

inline thread_local const Transfers* current_transfers = nullptr;  // of the run in progress on this thread

// Makes one the current one while it lives.
class MakingTransfers {
 public:
  explicit MakingTransfers(const Transfers* transfers) : outer_(current_transfers) { current_transfers = transfers; }
  ~MakingTransfers() { current_transfers = outer_; }
  MakingTransfers(const MakingTransfers&) = delete;
  MakingTransfers& operator=(const MakingTransfers&) = delete;

 private:
  const Transfers* outer_;
};

}  // namespace etarena
