// The backend "EtarenaPlan": carries the plan section inside a .pte and guards the door.
//
// No instruction calls it. A stock runtime without etarena refuses the method, because the backend is unknown; with
// etarena in the process it is refused too, unless etarena itself is loading, since a method whose activations are not
// planned would run on null pointers.
#pragma once

#include <executorch/runtime/backend/interface.h>
#include <executorch/runtime/platform/log.h>

namespace etarena {

struct PlanPayload {
  const void* data = nullptr;
  size_t size = 0;
};

// Where the load in progress on this thread wants the section; null when the load is not etarena's.
inline thread_local PlanPayload* expected_plan = nullptr;

class PlanBackend final : public executorch::runtime::BackendInterface {
 public:
  bool is_available() const override { return true; }

  executorch::runtime::Result<executorch::runtime::DelegateHandle*> init(
      executorch::runtime::BackendInitContext&, executorch::runtime::FreeableBuffer* processed,
      executorch::runtime::ArrayRef<executorch::runtime::CompileSpec>) const override {
    if (expected_plan == nullptr) {
      ET_LOG(Error, "this method is planned at run time: load it with etarena.load");
      return executorch::runtime::Error::NotSupported;
    }
    *expected_plan = PlanPayload{processed->data(), processed->size()};
    return nullptr;
  }

  executorch::runtime::Error execute(executorch::runtime::BackendExecutionContext&,
                                     executorch::runtime::DelegateHandle*,
                                     executorch::runtime::Span<executorch::runtime::EValue*>) const override {
    return executorch::runtime::Error::NotSupported;
  }
};

inline bool register_plan_backend() {
  static PlanBackend backend;
  static const auto error = executorch::runtime::register_backend({"EtarenaPlan", &backend});
  return error == executorch::runtime::Error::Ok;
}

}  // namespace etarena
