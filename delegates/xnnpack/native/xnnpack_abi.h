/* The part of XNNPACK's public interface that is interposed, from xnnpack.h of the version in the executorch 1.5.1
 * wheel (commit 92a7ad50), and the layout of four of its objects, from subgraph.h there. Objects are checked against
 * what is known of them before anything is written: see is_understood() and Layout::learn(). */
#pragma once

#include <cstddef>
#include <cstdint>

namespace etarena::xnnpack {

enum Status : int { kSuccess = 0, kInvalidParameter = 2, kInvalidState = 3, kOutOfMemory = 6 };

constexpr uint32_t kExternalInput = 1;
constexpr size_t kMaxDims = 6;

struct Allocator {
  void* context;
  void* (*allocate)(void*, size_t);
  void* (*reallocate)(void*, void*, size_t);
  void (*deallocate)(void*, void*);
  void* (*aligned_allocate)(void*, size_t alignment, size_t size);
  void (*aligned_deallocate)(void*, void*);
};

// What XNNPACK rounds the size of everything in its workspace to, and what it wants beyond it: common.h and runtime.c.
#if defined(__x86_64__) || defined(__i386__)
constexpr size_t kRounding = 64;
#else
constexpr size_t kRounding = 16;
#endif
constexpr size_t kBeyond = 2 * 16;

struct Workspace {
  void* data;
  size_t size;
  void* first_user;
  size_t ref_count;
};

struct Value {
  void* data;
  const void* gemm_config;
  const void* fp32_data;
  size_t rank;
  size_t dims[kMaxDims];
  size_t size;
  uint64_t quantization[6];
  uint32_t id;
  uint32_t type;
  uint32_t datatype;
  uint32_t allocation_type;
  uint32_t flags;
  uint32_t first_consumer;
};
static_assert(sizeof(Value) == 160);

constexpr uint32_t kInvalidType = 0;
constexpr uint32_t kInWorkspace = 2;
constexpr uint32_t kExternal = 3;

constexpr uint32_t kNoValue = UINT32_MAX;
constexpr uint32_t kDynamicInt8 = 9;  // datatypes whose values have parameters behind them
constexpr uint32_t kDynamicUint8 = 15;

struct Operator {
  uint32_t type;
  uint32_t id;
  void* objects[5];
  void* reshape;
  void* setup;
  uint64_t parameters[12];
  uint32_t n_inputs;
  uint32_t inputs[5];
  uint32_t n_outputs;
  uint32_t outputs[4];
  void* end_time;
  void* workspace;
  size_t workspace_size;
  uint32_t flags;
};
static_assert(sizeof(Operator) == 240);

struct RuntimeObject {
  uint32_t external_values;
  uint32_t flags;
  Operator* operators;
  size_t n_operators;
  Value* values;
  size_t n_values;
  Workspace* workspace;
};

}  // namespace etarena::xnnpack
