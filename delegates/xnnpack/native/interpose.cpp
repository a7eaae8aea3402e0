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

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <new>
#include <unordered_map>

#include "library.h"
#include "others.h"
#include "runtime.h"
#include "scratch.h"
#include "xnnpack_abi.h"

namespace etarena::xnnpack {

namespace {

std::mutex mutex;
std::atomic<uint64_t> generation{1};  // of the map below: counts its changes
std::unordered_map<void*, Handle>& runtimes() {
  static auto* map = new std::unordered_map<void*, Handle>;  // outlives every static destructor
  return *map;
}

// XNNPACK's own functions, for runtimes that are ours: looked up before there is one.
struct Functions {
  RuntimeFn plan;
  RuntimeFn reshape;
  ReshapeValueFn reshape_value;
};
Functions functions = {nullptr, nullptr, nullptr};

void look_up() {
  static const bool done = [] {
    functions = {real<RuntimeFn>("xnn_plan_memory"), real<RuntimeFn>("xnn_reshape_runtime"),
                 real<ReshapeValueFn>("xnn_reshape_external_value")};
    return true;
  }();
  static_cast<void>(done);
}

thread_local std::vector<Handle>* captured = nullptr;
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
  struct Last {
    void* runtime;
    Runtime* answer;
    uint64_t seen;
  };
  thread_local Last last = {nullptr, nullptr, 0};
  Last* const known = &last;  // looked up once
  if (runtime == known->runtime && known->seen == generation.load(std::memory_order_acquire)) return known->answer;
  const std::lock_guard<std::mutex> lock(mutex);
  const auto found = runtimes().find(runtime);
  known->runtime = runtime;
  known->answer = found == runtimes().end() ? nullptr : found->second.get();
  known->seen = generation.load(std::memory_order_relaxed);
  return known->answer;
}

void add(const Handle& known) {
  const std::lock_guard<std::mutex> lock(mutex);
  runtimes()[known->object] = known;
  ++generation;
}

// Leaves the memory of a runtime to XNNPACK again, which must not free what is not its own.
void remove(void* runtime) {
  const std::lock_guard<std::mutex> lock(mutex);
  const auto found = runtimes().find(runtime);
  if (found == runtimes().end()) return;
  Runtime* const known = found->second.get();
  known->workspace->data = nullptr;
  known->workspace->size = 0;
  known->object = nullptr;
  runtimes().erase(found);
  ++generation;
}

// Tells XNNPACK the sizes of an input.
[[gnu::hot]] int tell(Runtime* known, uint32_t id, size_t rank, const size_t* dims) {
  const int status = functions.reshape_value(known->object, id, rank, dims);
  if (status != kSuccess) return status;
  known->reshaped = false;
  known->forget_plan();
  return kSuccess;
}

// Tells it those of one that may have been told before. The rank is at most kMaxDims.
[[gnu::hot]] int tell(Runtime* known, Input* input, size_t rank, const size_t* dims) {
  const int status = tell(known, input->id, rank, dims);
  if (status == kSuccess) input->note_told(rank, dims);
  return status;
}

int reshape_value(Runtime* known, uint32_t id, size_t rank, const size_t* dims) {
  const int32_t position = id < known->position.size() ? known->position[id] : -1;
  if (position < 0 || rank > kMaxDims) return tell(known, id, rank, dims);
  Input* const input = &known->inputs[position];
  return input->is_told(rank, dims) ? static_cast<int>(kSuccess) : tell(known, input, rank, dims);
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

// Reshapes the operators unless they know the shapes. Memory is planned afterwards, by plan().
[[gnu::hot]] inline int reshape(Runtime* known) {
  if (known->reshaped) return kSuccess;
  known->forget_plan();
  known->layout.forget_sizes(*known->object);
  const int status = functions.reshape(known->object);
  known->reshaped = status == kSuccess;
  return status;
}

// Has XNNPACK plan in `room` bytes at `address`. If it wants more it asks for them, and is refused: `asked`.
int plan_within(Runtime* known, char* address, size_t room, size_t* asked) {
  *asked = 0;
  known->workspace->data = address;
  known->workspace->size = room;
  refused = asked;
  const int status = functions.plan(known->object);
  refused = nullptr;
  return status;
}

// Shows our layout how XNNPACK plans memory for the sizes that were measured: as if there were endless room somewhere,
// where nothing is touched.
[[gnu::cold]] void teach(Runtime* known) {
  static char* const nowhere = reinterpret_cast<char*>(size_t{1} << 40);
  size_t asked = 0;
  if (plan_within(known, nowhere, SIZE_MAX / 2, &asked) != kSuccess) return;
  try {
    known->layout.learn(*known->object, nowhere, known->wanted);
  } catch (const std::bad_alloc&) {
    return;  // XNNPACK goes on planning itself
  }
  size_t nbytes = 0;
  if (known->layout.measure(*known->object, &nbytes)) known->wanted = nbytes;
}

// Has XNNPACK plan once with no room at all. It asks for none if it needs none.
[[gnu::cold]] int ask(Runtime* known) {
  const int status = plan_within(known, nullptr, 0, &known->wanted);
  if (status != kSuccess && (status != kOutOfMemory || known->wanted == 0)) return status;
  if (known->wanted == 0) {
    known->layout.learn_empty();
  } else if (known->layout.can_learn()) {
    teach(known);
  }
  return kSuccess;
}

// Bytes of scratch, as in a plan that we have seen or as XNNPACK says.
[[gnu::hot]] inline int needed(Runtime* known, size_t* nbytes) {
  if (!known->measured) {
    known->planned = false;
    if (!known->layout.measure(*known->object, &known->wanted)) {
      const int status = ask(known);
      if (status != kSuccess) return status;
    }
    known->measured = true;
  }
  *nbytes = known->wanted;
  return kSuccess;
}

// Has XNNPACK plan in the place that the runtime was given.
[[gnu::cold]] int plan_anew(Runtime* known) {
  size_t asked = 0;
  const bool empty = known->measured && known->wanted == 0;  // XNNPACK would find nothing to place
  const int status = empty ? static_cast<int>(kSuccess) : plan_within(known, known->address, known->room, &asked);
  known->planned = status == kSuccess;
  return status;
}

[[gnu::hot]] int plan(Runtime* known) {
  if (known->planned) return kSuccess;
  if (!known->measured) known->measured = known->layout.measure(*known->object, &known->wanted);
  // A layout that was learned after these sizes were measured may want more than XNNPACK itself.
  if (!known->measured || !known->layout.has_plan() || known->wanted > known->room) return plan_anew(known);
  known->layout.place(*known->object, known->address);
  known->planned = true;
  return kSuccess;
}

// Tells XNNPACK the sizes that the plan has, unless it knows them.
[[gnu::hot]] int set_inputs(Runtime* known) {
  Input* const end = known->inputs.get() + known->n_inputs;
  for (Input* input = known->inputs.get(); input != end; ++input) {
    if (input->rank > kMaxDims) return kInvalidParameter;
    size_t dims[kMaxDims];
    if (input->read(dims)) continue;
    const int status = tell(known, input, input->rank, dims);
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

Handle describe(RuntimeObject* object, Workspace* workspace, const std::vector<uint32_t>& inputs) {
  const Handle known = std::make_shared<Runtime>(object);
  known->workspace = workspace;
  known->n_inputs = static_cast<uint32_t>(inputs.size());
  known->inputs.reset(new Input[inputs.size()]);
  known->position.assign(object->n_values, -1);
  for (size_t i = 0; i < inputs.size(); ++i) {
    known->inputs[i].id = inputs[i];
    known->position[inputs[i]] = static_cast<int32_t>(i);
  }
  return known;
}

void note_input(uint32_t external_id, uint32_t flags) {
  if (subgraph_inputs != nullptr && (flags & kExternalInput)) subgraph_inputs->push_back(external_id);
}

}  // namespace

bool active() { return initialized; }

void begin_capture() {
  if (captured == nullptr) {
    captured = new std::vector<Handle>;
    subgraph_inputs = new std::vector<uint32_t>;
  }
  captured->clear();
  subgraph_inputs->clear();
}

std::vector<Handle> end_capture() {
  if (captured == nullptr) return {};
  std::vector<Handle> made = std::move(*captured);
  delete captured;
  delete subgraph_inputs;
  captured = nullptr;
  subgraph_inputs = nullptr;
  return made;
}

std::vector<uint32_t> inputs_of(const Handle& known) {
  std::vector<uint32_t> ids;
  for (size_t i = 0; i < known->n_inputs; ++i) ids.push_back(known->inputs[i].id);
  return ids;
}

void read_sizes_from(const Handle& known, size_t i, const int32_t* sizes, const uint8_t* order, size_t rank) {
  Input& input = known->inputs[i];
  input.sizes = sizes;
  input.rank = static_cast<uint8_t>(std::min(rank, kMaxDims + 1));
  std::copy_n(order, std::min(rank, kMaxDims), input.order);
}

std::vector<std::vector<int32_t>> sizes_of(const Handle& known) {
  std::vector<std::vector<int32_t>> sizes;
  for (size_t i = 0; i < known->n_inputs; ++i) {
    const Input& input = known->inputs[i];
    sizes.emplace_back();
    for (size_t d = 0; d < std::min<size_t>(input.rank, kMaxDims); ++d) {
      sizes.back().push_back(input.sizes[input.order[d]]);
    }
  }
  return sizes;
}

void leave(const Handle& known) {
  if (known->object != nullptr) remove(known->object);
}

[[gnu::hot]] int measure(void* runtime, int64_t* nbytes) noexcept {
  auto* const known = static_cast<Runtime*>(runtime);
  size_t wanted = 0;
  int status = known->object == nullptr ? static_cast<int>(kInvalidState) : set_inputs(known);
  if (status == kSuccess) status = reshape(known);
  if (status == kSuccess) status = needed(known, &wanted);
  known->refused = status != kSuccess;
  *nbytes = static_cast<int64_t>(wanted);
  return status;
}

[[gnu::hot]] int place(void* runtime, char* address, int64_t wanted) noexcept {
  auto* const known = static_cast<Runtime*>(runtime);
  const auto nbytes = static_cast<size_t>(wanted);
  if (nbytes == 0 && known->refused) return kSuccess;
  if (known->object == nullptr) return kInvalidState;
  int status = set_inputs(known);
  if (status != kSuccess) return status;
  if (known->address != address || known->room != nbytes) known->planned = false;
  known->address = address;
  known->room = nbytes;
  status = reshape(known);
  return status == kSuccess ? plan(known) : status;
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
  Handle known;
  const bool ours = own != nullptr && status == kSuccess && is_understood(*out, own, *subgraph_inputs);
  if (ours) {
    look_up();
    known = describe(static_cast<RuntimeObject*>(*out), own, *subgraph_inputs);
    add(known);
  }
  if (captured != nullptr) {
    if (status == kSuccess) captured->push_back(known);
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
  return known == nullptr ? real_reshape_value(runtime, id, rank, dims) : reshape_value(known, id, rank, dims);
}

INTERPOSED int xnn_reshape_runtime(void* runtime) {
  Runtime* const known = find(runtime);
  if (known == nullptr) return reshape_for_others(runtime);
  const int status = reshape(known);
  return status == kSuccess ? plan(known) : status;
}

INTERPOSED int xnn_plan_memory(void* runtime) {
  return find(runtime) == nullptr ? plan_for_others(runtime)
                                  : static_cast<int>(kSuccess);  // plan() does it after the reshape
}
