// ExecuTorch's way to spread work over its threads, whose header declares it only with ET_USE_THREADPOOL.
#pragma once

#include <executorch/runtime/kernel/thread_parallel_interface.h>

namespace executorch::extension {
// In libexecutorch_threadpool.so, which is loaded before this module.
bool parallel_for(int64_t begin, int64_t end, int64_t grain_size, runtime::FunctionRef<void(int64_t, int64_t)> work);
}  // namespace executorch::extension
