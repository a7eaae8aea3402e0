// Delegates behind function tables: what is registered, one instance in a loaded method, and the call of one.
//
// Needs neither ExecuTorch nor Python, so that modules which link against neither can speak of it.
#pragma once

#include <etarena.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "scratch_memory.h"
#include "staging.h"

namespace etarena {

// What stands behind a name while it is registered, and behind every instance made meanwhile.
struct Registration {
  std::string name;
  etarena_delegate table{};
  void* owner = nullptr;                   // what keeps the table alive
  void (*release)(void* owner) = nullptr;  // gives the owner back; may be null
  void (*report)() = nullptr;              // shows what a failed function left pending on this thread; may be null

  Registration() = default;
  Registration(const Registration&) = delete;
  Registration& operator=(const Registration&) = delete;
  ~Registration() {
    if (release != nullptr) release(owner);
  }
};

// Where one call of a delegate has its scratch in the plan.
struct Place {
  int32_t instruction = -1;
  char* address = nullptr;
  uint64_t nbytes = 0;          // that the delegate may use
  uint64_t room = 0;            // with the canary and the staged arguments behind it
  std::vector<uint8_t> joined;  // of each argument: the plan has done what is wished
  bool has_numbers = false;     // so that the bytes may differ from run to run
  bool watched = false;         // fill the scratch with garbage before the call
  bool guarded = false;         // use pages of its own with a fence behind them
};

struct CopyMade {
  int32_t instruction;
  uint32_t argument;
  uint64_t nbytes;
  int32_t why;  // a Misfit
};

// One delegate of one loaded method. Calls never overlap.
struct Instance {
  std::shared_ptr<const Registration> registration;
  void* handle = nullptr;
  bool open = false;
  const void* method = nullptr;  // the method of etarena's that it belongs to
  bool planned_devices = false;  // tensors on devices point at resources; in files of ExecuTorch's own at memory
  bool has_wishes = false;
  std::vector<etarena_requirement> wishes;  // one for each argument, once asked
  std::vector<Place> places;
  std::vector<CopyMade> copies;  // since the ledger was read
  bool ran_outside = false;      // a call used memory of its own
  std::vector<etarena_argument> arguments;
  std::vector<etarena_resource> wrapped;  // of the arguments that point at memory of a device
  std::vector<Staged> staged;
  ScratchMemory own;

  const etarena_delegate& table() const { return registration->table; }

  const Place* place_of(int32_t instruction) const {
    for (const Place& place : places) {
      if (place.instruction == instruction) return &place;
    }
    return nullptr;
  }

  void put(Place place) {
    for (Place& known : places) {
      if (known.instruction == place.instruction) {
        known = std::move(place);
        return;
      }
    }
    places.push_back(std::move(place));
  }

  void close() {
    if (open) table().close(table().context, handle);
    open = false;
  }

  ~Instance() { close(); }
};

inline std::string text_of(etarena_error& error, etarena_status status) {
  error.message[sizeof error.message - 1] = 0;
  if (error.message[0] != 0) return error.message;
  static const char* const names[] = {"no error",  "invalid argument", "not supported", "out of memory",
                                      "it failed", "device lost",      "timeout"};
  return status > 0 && status < 7 ? names[status] : "status " + std::to_string(status);
}

// Asks what is wished of the arguments, once. False: `reason` says why not.
inline bool ask_wishes(Instance& self, const etarena_argument* arguments, uint32_t count, std::string* reason) {
  if (self.has_wishes) return true;
  std::vector<etarena_requirement> wishes(count);
  for (etarena_requirement& wish : wishes) wish.struct_size = sizeof wish;
  if (self.table().requirements != nullptr && count > 0) {
    etarena_error error;
    error.message[0] = 0;
    const etarena_status status =
        self.table().requirements(self.table().context, self.handle, arguments, count, wishes.data(), &error);
    if (status != ETARENA_OK) {
      *reason = text_of(error, status);
      return false;
    }
    for (uint32_t i = 0; i < count; ++i) {
      *reason = wrong_wish(wishes[i], arguments[i]);
      if (!reason->empty()) {
        *reason = "argument " + std::to_string(i) + ": " + *reason;
        return false;
      }
    }
  }
  self.wishes = std::move(wishes);
  self.has_wishes = true;
  return true;
}

// Bytes of scratch for these arguments. False: `reason` says why not.
inline bool ask_bytes(const Instance& self, const etarena_argument* arguments, uint32_t count, uint64_t* nbytes,
                      std::string* reason) {
  *nbytes = 0;
  if (self.table().scratch_bytes == nullptr) return true;
  etarena_error error;
  error.message[0] = 0;
  const etarena_status status =
      self.table().scratch_bytes(self.table().context, self.handle, arguments, count, nbytes, &error);
  if (status != ETARENA_OK) {
    *reason = text_of(error, status);
  } else if (*nbytes > kMostScratch) {
    *reason = "it asks for " + std::to_string(*nbytes) + " bytes of scratch";
  } else {
    return true;
  }
  return false;
}

// The sizes that the delegate gives its outputs, all tensors one after another; as they are where it does not say.
// False: `reason` says why not.
inline bool ask_sizes(const Instance& self, const etarena_argument* arguments, uint32_t count,
                      std::vector<int32_t>* sizes, std::string* reason) {
  sizes->clear();
  for (uint32_t i = 0; i < count; ++i) {
    if (arguments[i].kind == ETARENA_TENSOR) {
      sizes->insert(sizes->end(), arguments[i].sizes, arguments[i].sizes + arguments[i].rank);
    }
  }
  if (self.table().output_sizes == nullptr || sizes->empty()) return true;
  etarena_error error;
  error.message[0] = 0;
  const etarena_status status =
      self.table().output_sizes(self.table().context, self.handle, arguments, count, sizes->data(), &error);
  if (status == ETARENA_OK) return true;
  *reason = text_of(error, status);
  return false;
}

// Bytes that the plan must reserve beside the scratch itself, whatever its size.
inline uint64_t extra_room(const Instance& self, const etarena_argument* arguments, uint32_t count,
                           const uint8_t* joined, bool watched) {
  uint64_t room = watched ? kCanary : 0;
  for (uint32_t i = 0; i < count && i < self.wishes.size(); ++i) {
    if (may_stage(self.wishes[i], arguments[i], joined != nullptr && joined[i])) {
      room += staged_room(self.wishes[i], arguments[i]);
    }
  }
  return room;
}

// Runs the delegate on its filled `arguments`. Empty: done; otherwise what went wrong, and `step` names the function.
inline std::string call(Instance& self, int32_t instruction, const char** step) {
  const uint32_t count = static_cast<uint32_t>(self.arguments.size());
  etarena_argument* const arguments = self.arguments.data();
  std::string reason;
  *step = "requirements";
  if (!self.has_wishes && !ask_wishes(self, arguments, count, &reason)) return reason;
  const Place* place = self.place_of(instruction);
  uint64_t nbytes = place != nullptr ? place->nbytes : 0;
  if (place == nullptr || place->has_numbers) {
    *step = "scratch_bytes";
    if (!ask_bytes(self, arguments, count, &nbytes, &reason)) return reason;
  }
  *step = "execute";
  self.staged.clear();
  uint64_t room = nbytes + kCanary;
  for (uint32_t i = 0; i < count && i < self.wishes.size(); ++i) {
    const bool joined = place != nullptr && i < place->joined.size() && place->joined[i];
    etarena_requirement wish = self.wishes[i];
    if (place == nullptr) wish.memory = 0;
    const Misfit why = misfit(wish, arguments[i], joined);
    if (why == Misfit::Device) {
      return "argument " + std::to_string(i) + " is on device type " + std::to_string(arguments[i].device.type) +
             ", which it does not take";
    }
    if (why == Misfit::Fixed) {
      return "argument " + std::to_string(i) + " lies on device type " + std::to_string(arguments[i].device.type) +
             " in another layout or at another alignment than it wants";
    }
    if (why == Misfit::None) continue;
    self.staged.push_back({i, why, arguments[i].data, arguments[i].nbytes, {}});
    room += staged_room(self.wishes[i], arguments[i]);
  }
  char* scratch = place != nullptr ? place->address : nullptr;
  uint64_t canary = 0;
  const bool fits = place != nullptr && !place->guarded && nbytes <= place->nbytes &&
                    (self.staged.empty() || room - kCanary <= place->room);
  if (fits) {
    if (place->watched) canary = kCanary;
  } else if (nbytes > 0 || !self.staged.empty()) {
    const bool fenced = place != nullptr && place->guarded;
    scratch = self.own.get(nbytes, room - nbytes, fenced);
    if (scratch == nullptr) return "no memory for " + std::to_string(nbytes) + " bytes of scratch";
    canary = fenced ? (kLine - nbytes % kLine) % kLine : kCanary;
    self.ran_outside = self.ran_outside || !fenced;
  }
  if (nbytes == 0) canary = 0;
  if (place != nullptr && place->watched && nbytes > 0) std::memset(scratch, kGarbage, nbytes);
  if (canary > 0) std::memset(scratch + nbytes, kCanaryByte, canary);
  char* next = scratch == nullptr ? nullptr : scratch + nbytes + canary;
  if (place != nullptr && place->guarded) next = self.own.beside();
  for (Staged& entry : self.staged) {
    const etarena_requirement& wish = self.wishes[entry.argument];
    next = stage_in(entry, wish, arguments[entry.argument], next);
    if (self.method == nullptr) continue;
    self.copies.push_back(
        {instruction, entry.argument, moved_bytes(wish, entry.nbytes), static_cast<int32_t>(entry.why)});
  }
  etarena_error error;
  error.message[0] = 0;
  const etarena_status status = self.table().execute(self.table().context, self.handle, arguments, count,
                                                     nbytes > 0 ? scratch : nullptr, nbytes, &error);
  if (status != ETARENA_OK) return text_of(error, status);
  for (uint64_t i = 0; i < canary; ++i) {
    if (static_cast<unsigned char>(scratch[nbytes + i]) != kCanaryByte) {
      return "it wrote past the end of its scratch of " + std::to_string(nbytes) +
             " bytes: let scratch_bytes ask for what it uses";
    }
  }
  for (const Staged& entry : self.staged) {
    stage_out(entry, self.wishes[entry.argument], arguments[entry.argument]);
  }
  return reason;
}

}  // namespace etarena
