// Calls of Vulkan's functions, without the GIL where they may need it.
//
// An application's VkInstance can call the application back in the middle of any call: its debug messenger, which may
// be written in Python and waits for the GIL then. The validation layer calls it with locks held. So no thread may wait
// for such a lock with the GIL: an application's Vulkan is called without it.
#ifndef ETARENA_VK_CALL_H
#define ETARENA_VK_CALL_H

#include <Python.h>

#define VK_NO_PROTOTYPES
#include <vulkan/vulkan_core.h>

#include <cstddef>
#include <mutex>

namespace etvk {

// Whether this thread has the GIL. PyGILState_Check says yes to everybody once there was a second interpreter.
inline bool has_gil() {
#if PY_VERSION_HEX >= 0x030D0000
  return PyThreadState_GetUnchecked() != nullptr;
#else
  PyThreadState* const now = _PyThreadState_UncheckedGet();  // before 3.12 of whichever thread has the GIL
  return now != nullptr && now == PyGILState_GetThisThreadState();
#endif
}

// Lets go of the GIL while it lives, if that is wanted and this thread has it.
class WithoutGil {
 public:
  explicit WithoutGil(bool wanted) : state_(wanted && has_gil() ? PyEval_SaveThread() : nullptr) {}
  WithoutGil(const WithoutGil&) = delete;
  WithoutGil& operator=(const WithoutGil&) = delete;
  ~WithoutGil() noexcept(false) {  // a thread that outlives the interpreter ends here
    if (state_ != nullptr) PyEval_RestoreThread(state_);
  }

 private:
  PyThreadState* const state_;
};

// For objects that Vulkan wants used by one thread at a time: the GIL, which may be gone, does not see to it.
class Alone {
 public:
  Alone(bool calls_back, std::recursive_mutex& mutex) : released_(calls_back), lock_(mutex) {}

 private:
  const WithoutGil released_;  // before the lock is waited for, and until it is given back
  const std::lock_guard<std::recursive_mutex> lock_;
};

// One of Vulkan's functions.
template <class Function>
class Call;

template <class Result, class... Arguments>
class Call<Result(VKAPI_PTR*)(Arguments...)> {
 public:
  using Function = Result(VKAPI_PTR*)(Arguments...);

  Call() = default;
  // `calls_back`: it may call an application's Python.
  Call(Function function, bool calls_back) : function_(function), calls_back_(calls_back) {}

  Result operator()(Arguments... arguments) const {
    const WithoutGil released(calls_back_);
    return function_(arguments...);
  }
  bool operator==(std::nullptr_t) const { return function_ == nullptr; }
  bool operator!=(std::nullptr_t) const { return function_ != nullptr; }

 private:
  Function function_ = nullptr;
  bool calls_back_ = false;
};

}  // namespace etvk
#endif
