#include "others.h"

#include <time.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <unordered_map>

#include "library.h"

namespace etarena::xnnpack {
namespace {

thread_local bool plans = false;
std::mutex mutex;
std::atomic<size_t> count{0};  // of the map below
Held held = {0, 0};
std::atomic<int64_t> reshape_ns{0};

int64_t now_ns() {
  timespec moment;
  clock_gettime(CLOCK_MONOTONIC, &moment);
  return int64_t{moment.tv_sec} * 1000000000 + moment.tv_nsec;
}

std::unordered_map<void*, size_t>& workspaces() {
  static auto* map = new std::unordered_map<void*, size_t>;  // outlives every static destructor
  return *map;
}

}  // namespace

Held held_by_others() {
  const std::lock_guard<std::mutex> lock(mutex);
  const Held answer = held;
  held.most = held.now;
  return answer;
}

int plan_for_others(void* runtime) {
  plans = true;
  const int status = real_plan(runtime);
  plans = false;
  return status;
}

int reshape_for_others(void* runtime) {
  const int64_t begin = now_ns();
  const int status = real_reshape(runtime);
  reshape_ns += now_ns() - begin;
  return status;
}

int64_t reshape_ns_of_others() { return reshape_ns.exchange(0); }

void note_aligned(void* pointer, size_t size) {
  if (!plans) return;
  const std::lock_guard<std::mutex> lock(mutex);
  workspaces()[pointer] = size;
  count = workspaces().size();
  held.now += size;
  held.most = std::max(held.most, held.now);
}

void drop_aligned(void* pointer) {
  if (count == 0) return;
  const std::lock_guard<std::mutex> lock(mutex);
  const auto found = workspaces().find(pointer);
  if (found == workspaces().end()) return;
  held.now -= found->second;
  workspaces().erase(found);
  count = workspaces().size();
}

}  // namespace etarena::xnnpack
