// XNNPACK's scratch at addresses of ours, with the stock backend of the executorch wheel.
//
// Loaded with RTLD_GLOBAL before the XNNPACK library, whose calls between its own parts go through its procedure
// linkage table: the functions defined here win. Each runtime made while a method loads gets a workspace object of its
// own. It claims to be as large as the place it was given, so XNNPACK neither allocates nor clears nor moves one. What
// a shape needs is learned by refusing the allocation that XNNPACK then asks for. XNNPACK lets sizes only grow from
// reshape to reshape, so those of inner values are set to 0 before each: scratch follows the shape. Runtimes that
// others make are left alone.
//
// Only the workspace is scratch: operators keep other memory from reshape to reshape, which stays with malloc.

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "layout.h"
#include "library.h"
#include "others.h"
#include "scratch.h"
#include "xnnpack_abi.h"

namespace etarena::xnnpack {
namespace {

struct Runtime {
  Workspace* workspace = nullptr;
  std::vector<Shape> shapes;  // of the inputs, as XNNPACK was told last
  char* address = nullptr;
  size_t room = 0;
  size_t wanted = 0;      // bytes of scratch for `shapes`
  bool reshaped = false;  // operators know `shapes`
  bool measured = false;  // and `wanted` is theirs
  bool planned = false;   // and their scratch lies at `address`
  Layout layout;

  void forget_plan() { measured = planned = false; }
};

std::mutex mutex;
std::atomic<uint64_t> generation{1};  // of the map below: counts its changes
std::unordered_map<void*, std::unique_ptr<Runtime>>& runtimes() {
  static auto* map = new std::unordered_map<void*, std::unique_ptr<Runtime>>;  // outlives every static destructor
  return *map;
}

thread_local std::vector<void*>* captured = nullptr;
thread_local std::vector<uint32_t>* subgraph_inputs = nullptr;
thread_local size_t* refused = nullptr;  // set: an aligned allocation is the workspace, and only its size is wanted

// ---- the allocator XNNPACK gets

void* plain(void*, size_t size) { return malloc(size); }
void* again(void*, void* pointer, size_t size) { return realloc(pointer, size); }
void release(void*, void* pointer) { free(pointer); }
void* aligned(void*, size_t alignment, size_t size) {
  if (refused != nullptr) {
    *refused = size;
    return nullptr;
  }
  void* pointer = nullptr;
  if (posix_memalign(&pointer, alignment, size) != 0) return nullptr;
  note_aligned(pointer, size);
  return pointer;
}
void release_aligned(void*, void* pointer) {
  drop_aligned(pointer);
  free(pointer);
}
const Allocator allocator = {nullptr, plain, again, release, aligned, release_aligned};
bool initialized = false;

// ---- our runtimes

// What is known of a runtime; nullptr if it is not ours. XNNPACK asks several times in a row for the same one, which
// then needs neither the lock nor the map.
Runtime* find(void* runtime) {
  thread_local void* last = nullptr;
  thread_local Runtime* answer = nullptr;
  thread_local uint64_t seen = 0;
  if (runtime == last && seen == generation.load(std::memory_order_acquire)) return answer;
  const std::lock_guard<std::mutex> lock(mutex);
  const auto found = runtimes().find(runtime);
  last = runtime;
  answer = found == runtimes().end() ? nullptr : found->second.get();
  seen = generation.load(std::memory_order_relaxed);
  return answer;
}

void add(void* runtime, std::unique_ptr<Runtime> known) {
  const std::lock_guard<std::mutex> lock(mutex);
  runtimes()[runtime] = std::move(known);
  ++generation;
}

// Leaves the memory of a runtime to XNNPACK again, which must not free what is not its own.
void remove(void* runtime) {
  const std::lock_guard<std::mutex> lock(mutex);
  const auto found = runtimes().find(runtime);
  if (found == runtimes().end()) return;
  found->second->workspace->data = nullptr;
  found->second->workspace->size = 0;
  runtimes().erase(found);
  ++generation;
}

bool same(const Shape& shape, size_t rank, const size_t* dims) {
  return shape.dims.size() == rank && memcmp(shape.dims.data(), dims, rank * sizeof(size_t)) == 0;
}

// Tells XNNPACK the sizes of an input unless it knows them.
int reshape_value(void* runtime, Runtime* known, uint32_t id, size_t rank, const size_t* dims) {
  Shape* shape = nullptr;
  for (Shape& one : known->shapes) {
    if (one.id == id) shape = &one;
  }
  if (shape != nullptr && same(*shape, rank, dims)) return kSuccess;
  const int status = real_reshape_value(runtime, id, rank, dims);
  if (status != kSuccess) return status;
  if (shape == nullptr) shape = &known->shapes.emplace_back(Shape{id, {}});
  shape->dims.assign(dims, dims + rank);
  known->reshaped = false;
  known->forget_plan();
  return kSuccess;
}

// Whether a new runtime has the layout that we write to.
bool is_understood(const void* runtime, const Workspace* workspace, const std::vector<uint32_t>& inputs) {
  const auto* const object = static_cast<const RuntimeObject*>(runtime);
  if (object->workspace != workspace || object->values == nullptr) return false;
  for (size_t i = 0; i < object->n_values; ++i) {
    const Value& value = object->values[i];
    if (value.type == kInvalidType) continue;
    if (value.id != i || value.rank > kMaxDims) return false;
    if ((value.flags & kExternalInput) != 0 && value.allocation_type != kExternal) return false;
  }
  for (const uint32_t id : inputs) {
    if (id >= object->n_values || (object->values[id].flags & kExternalInput) == 0) return false;
  }
  return true;
}

void forget_sizes(void* runtime) {
  auto* const object = static_cast<RuntimeObject*>(runtime);
  for (size_t i = 0; i < object->n_values; ++i) {
    Value& value = object->values[i];
    if (value.type != kInvalidType && value.allocation_type == kInWorkspace) value.size = 0;
  }
}

// Reshapes the operators unless they know the shapes. Memory is planned afterwards, by plan().
int reshape(void* runtime, Runtime* known) {
  if (known->reshaped) return kSuccess;
  known->forget_plan();
  forget_sizes(runtime);
  const int status = real_reshape(runtime);
  known->reshaped = status == kSuccess;
  return status;
}

// Has XNNPACK plan in `room` bytes at `address`. If it wants more it asks for them, and is refused: `asked`.
int plan_within(void* runtime, Runtime* known, char* address, size_t room, size_t* asked) {
  *asked = 0;
  known->workspace->data = address;
  known->workspace->size = room;
  refused = asked;
  const int status = real_plan(runtime);
  refused = nullptr;
  return status;
}

const RuntimeObject& object_of(void* runtime) { return *static_cast<const RuntimeObject*>(runtime); }

// Shows our layout how XNNPACK plans memory for the sizes that were measured: as if there were endless room somewhere,
// where nothing is touched.
void teach(void* runtime, Runtime* known) {
  static char* const nowhere = reinterpret_cast<char*>(size_t{1} << 40);
  size_t asked = 0;
  if (plan_within(runtime, known, nowhere, SIZE_MAX / 2, &asked) != kSuccess) return;
  known->layout.learn(object_of(runtime), nowhere, known->wanted);
  size_t nbytes = 0;
  if (known->layout.measure(object_of(runtime), &nbytes)) known->wanted = nbytes;
}

// Bytes of scratch: as in a plan that we have seen, or XNNPACK plans once with no room at all. It asks for none if it
// needs none.
int needed(void* runtime, Runtime* known, size_t* nbytes) {
  if (!known->measured) {
    known->planned = false;
    if (!known->layout.measure(object_of(runtime), &known->wanted)) {
      const int status = plan_within(runtime, known, nullptr, 0, &known->wanted);
      if (status != kSuccess && (status != kOutOfMemory || known->wanted == 0)) return status;
      if (known->wanted != 0 && known->layout.can_learn()) teach(runtime, known);
    }
    known->measured = true;
  }
  *nbytes = known->wanted;
  return kSuccess;
}

int plan(void* runtime, Runtime* known) {
  if (known->planned) return kSuccess;
  if (!known->measured) known->measured = known->layout.measure(object_of(runtime), &known->wanted);
  int status = kSuccess;
  if (!known->measured || !known->layout.has_plan()) {
    size_t asked = 0;
    const bool empty = known->measured && known->wanted == 0;  // XNNPACK would find nothing to place
    if (!empty) status = plan_within(runtime, known, known->address, known->room, &asked);
  } else if (known->wanted <= known->room) {
    known->layout.place(object_of(runtime), known->address);
  } else {
    status = kOutOfMemory;
  }
  known->planned = status == kSuccess;
  return status;
}

int set_shapes(void* runtime, Runtime* known, const std::vector<Shape>& shapes) {
  for (const Shape& shape : shapes) {
    const int status = reshape_value(runtime, known, shape.id, shape.dims.size(), shape.dims.data());
    if (status != kSuccess) return status;
  }
  return kSuccess;
}

// A workspace of XNNPACK's making, if it is what we take it for.
Workspace* make_workspace() {
  static const auto create = real<int (*)(void**)>("xnn_create_workspace");
  void* made = nullptr;
  if (create(&made) != kSuccess) return nullptr;
  auto* const workspace = static_cast<Workspace*>(made);
  const bool expected = workspace->data == nullptr && workspace->size == 0 && workspace->first_user == nullptr &&
                        workspace->ref_count == 1;
  if (expected) return workspace;
  release_workspace(made);
  return nullptr;
}

void note_input(uint32_t external_id, uint32_t flags) {
  if (subgraph_inputs != nullptr && (flags & kExternalInput)) subgraph_inputs->push_back(external_id);
}

}  // namespace

bool active() { return initialized; }

void begin_capture() {
  if (captured == nullptr) {
    captured = new std::vector<void*>;
    subgraph_inputs = new std::vector<uint32_t>;
  }
  captured->clear();
  subgraph_inputs->clear();
}

std::vector<void*> end_capture() {
  if (captured == nullptr) return {};
  const std::vector<void*> made = *captured;
  delete captured;
  delete subgraph_inputs;
  captured = nullptr;
  subgraph_inputs = nullptr;
  return made;
}

std::vector<uint32_t> inputs_of(void* runtime) {
  std::vector<uint32_t> ids;
  if (const Runtime* const known = find(runtime)) {
    for (const Shape& shape : known->shapes) ids.push_back(shape.id);
  }
  return ids;
}

void leave(void* runtime) { remove(runtime); }

int measure(void* runtime, const std::vector<Shape>& shapes, size_t* nbytes) {
  Runtime* const known = find(runtime);
  *nbytes = 0;
  if (known == nullptr) return kInvalidState;
  int status = set_shapes(runtime, known, shapes);
  if (status == kSuccess) status = reshape(runtime, known);
  if (status == kSuccess) status = needed(runtime, known, nbytes);
  return status;
}

int place(void* runtime, const std::vector<Shape>& shapes, char* address, size_t nbytes) {
  Runtime* const known = find(runtime);
  if (known == nullptr) return kInvalidState;
  int status = set_shapes(runtime, known, shapes);
  if (status != kSuccess) return status;
  if (known->address != address || known->room != nbytes) known->planned = false;
  known->address = address;
  known->room = nbytes;
  status = reshape(runtime, known);
  return status == kSuccess ? plan(runtime, known) : status;
}

}  // namespace etarena::xnnpack

// ---- the functions that take XNNPACK's place

using namespace etarena::xnnpack;
#define INTERPOSED extern "C" __attribute__((visibility("default")))

INTERPOSED int xnn_initialize(const Allocator* given) {
  if (given == nullptr) initialized = true;
  return real<int (*)(const Allocator*)>("xnn_initialize")(given == nullptr ? &allocator : given);
}

INTERPOSED int xnn_define_tensor_value(void* subgraph, int datatype, size_t rank, const size_t* dims, const void* data,
                                       uint32_t external_id, uint32_t flags, uint32_t* id) {
  note_input(external_id, flags);
  static const auto function =
      real<int (*)(void*, int, size_t, const size_t*, const void*, uint32_t, uint32_t, uint32_t*)>(
          "xnn_define_tensor_value");
  return function(subgraph, datatype, rank, dims, data, external_id, flags, id);
}

INTERPOSED int xnn_define_quantized_tensor_value(void* subgraph, int datatype, int32_t zero_point, float scale,
                                                 size_t rank, const size_t* dims, const void* data,
                                                 uint32_t external_id, uint32_t flags, uint32_t* id) {
  note_input(external_id, flags);
  static const auto function =
      real<int (*)(void*, int, int32_t, float, size_t, const size_t*, const void*, uint32_t, uint32_t, uint32_t*)>(
          "xnn_define_quantized_tensor_value");
  return function(subgraph, datatype, zero_point, scale, rank, dims, data, external_id, flags, id);
}

INTERPOSED int xnn_create_runtime_v4(void* subgraph, void* cache, void* workspace, void* threads, uint32_t flags,
                                     void** out) {
  static const auto create = real<int (*)(void*, void*, void*, void*, uint32_t, void**)>("xnn_create_runtime_v4");
  Workspace* const own = captured != nullptr && initialized ? make_workspace() : nullptr;
  const int status = create(subgraph, cache, own == nullptr ? workspace : own, threads, flags, out);
  const bool ours = own != nullptr && status == kSuccess && is_understood(*out, own, *subgraph_inputs);
  if (ours) {
    auto known = std::make_unique<Runtime>();
    known->workspace = own;
    for (const uint32_t id : *subgraph_inputs) known->shapes.push_back({id, {}});
    add(*out, std::move(known));
  }
  if (captured != nullptr) {
    if (status == kSuccess) captured->push_back(ours ? *out : nullptr);
    subgraph_inputs->clear();
  }
  if (own != nullptr) release_workspace(own);  // the runtime keeps it
  return status;
}

INTERPOSED int xnn_delete_runtime(void* runtime) {
  remove(runtime);
  static const auto function = real<RuntimeFn>("xnn_delete_runtime");
  return function(runtime);
}

INTERPOSED int xnn_reshape_external_value(void* runtime, uint32_t id, size_t rank, const size_t* dims) {
  Runtime* const known = find(runtime);
  return known == nullptr ? real_reshape_value(runtime, id, rank, dims) : reshape_value(runtime, known, id, rank, dims);
}

INTERPOSED int xnn_reshape_runtime(void* runtime) {
  Runtime* const known = find(runtime);
  if (known == nullptr) return reshape_for_others(runtime);
  const int status = reshape(runtime, known);
  return status == kSuccess ? plan(runtime, known) : status;
}

INTERPOSED int xnn_plan_memory(void* runtime) {
  return find(runtime) == nullptr ? plan_for_others(runtime)
                                  : static_cast<int>(kSuccess);  // plan() does it after the reshape
}
