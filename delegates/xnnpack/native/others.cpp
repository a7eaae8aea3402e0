#include "others.h"

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
