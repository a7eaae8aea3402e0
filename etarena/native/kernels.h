// Kernels of etarena's own operators, for ExecuTorch's kernel registry.
#pragma once

#include <executorch/runtime/kernel/kernel_includes.h>

namespace etarena {

using Stack = executorch::runtime::Span<executorch::runtime::EValue*>;

// etarena::append.out(cache, new, dim, past, window, out): `out` lies where `cache` lies; only the new rows are
// written.
void append_out(executorch::runtime::KernelRuntimeContext& context, Stack stack);
// etarena::attention.out(query, key, value, mask, causal, scale, window, out)
void attention_out(executorch::runtime::KernelRuntimeContext& context, Stack stack);
// etarena::resize2d.out(x, size, scale_h, scale_w, mode, align_corners, out)
void resize2d_out(executorch::runtime::KernelRuntimeContext& context, Stack stack);
// etarena::to_device.out(x, type, index, out)
void to_device_out(executorch::runtime::KernelRuntimeContext& context, Stack stack);

// Registers all, once per process. False if ExecuTorch refuses.
bool register_kernels() noexcept;

}  // namespace etarena
