// Turns what ExecuTorch does on failure (print and abort the process) into something a caller can raise.
//
// While a GuardedCall is alive on a thread, error messages of the runtime are collected there instead of printed, and a
// failed ET_CHECK unwinds as RuntimeAborted instead of ending the process. The wheel's libraries are built with
// unwind tables and cleanups, so locks and buffers on the way are released.
#pragma once

#include <executorch/runtime/core/error.h>
#include <executorch/runtime/platform/platform.h>

#include <cstdint>
#include <exception>
#include <mutex>
#include <string>

namespace etarena {

struct RuntimeAborted : std::exception {
  const char* what() const noexcept override { return "a check of the ExecuTorch runtime failed"; }
};

// What a native call reports: ExecuTorch's error code (0 is success), its messages, whether a check failed hard, and
// which function of which delegate behind a function table failed with what words, if one did.
struct Failure {
  uint32_t code = 0;
  bool aborted = false;
  std::string log;
  std::string backend;
  std::string step;
  std::string reason;
};

inline thread_local Failure* current_call = nullptr;

inline executorch::runtime::PalImpl& previous_platform() {
  static executorch::runtime::PalImpl previous{};
  return previous;
}

inline void collect_message(et_timestamp_t timestamp, et_pal_log_level_t level, const char* filename,
                            const char* function, size_t line, const char* message, size_t length) {
  if (current_call == nullptr) {
    previous_platform().emit_log_message(timestamp, level, filename, function, line, message, length);
    return;
  }
  constexpr size_t kLongestLog = 16384;
  if ((level == kError || level == kFatal) && current_call->log.size() < kLongestLog) {
    current_call->log.append(message, length).push_back('\n');
  }
}

inline void unwind_instead_of_abort() {
  if (current_call == nullptr) previous_platform().abort();
  throw RuntimeAborted();
}

// Puts both hooks in place, keeping the platform functions that were there for calls that are not ours. Called before
// every guarded call, because ExecuTorch's Python bindings install theirs when they are imported, at any time. The
// table is written in place: register_pal would print an error message the second time.
inline void install_runtime_guard() {
  auto* const platform = const_cast<executorch::runtime::PalImpl*>(executorch::runtime::get_pal_impl());
  if (platform->emit_log_message == collect_message && platform->abort == unwind_instead_of_abort) return;
  static std::mutex mutex;
  const std::lock_guard<std::mutex> lock(mutex);
  if (platform->emit_log_message != collect_message) {
    previous_platform().emit_log_message = platform->emit_log_message;
    platform->emit_log_message = collect_message;
  }
  if (platform->abort != unwind_instead_of_abort) {
    previous_platform().abort = platform->abort;
    platform->abort = unwind_instead_of_abort;
  }
}

// Runs `call`, which returns an ExecuTorch Error, and fills `failure`. Nothing is thrown.
template <typename Call>
bool guarded(Failure* failure, Call&& call) noexcept {
  install_runtime_guard();
  Failure* const outer = current_call;
  *failure = Failure();
  current_call = failure;
  try {
    failure->code = static_cast<uint32_t>(call());
  } catch (const RuntimeAborted&) {
    failure->code = static_cast<uint32_t>(executorch::runtime::Error::Internal);
    failure->aborted = true;
  } catch (const std::exception& error) {
    failure->code = static_cast<uint32_t>(executorch::runtime::Error::Internal);
    failure->aborted = true;
    failure->log.append(error.what()).push_back('\n');
  } catch (...) {
    failure->code = static_cast<uint32_t>(executorch::runtime::Error::Internal);
    failure->aborted = true;
  }
  current_call = outer;
  return failure->code == 0;
}

}  // namespace etarena
