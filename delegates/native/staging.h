// Arguments that are not as a delegate wants them: found, and copied to where they are.
#pragma once

#include <etarena.h>

#include <cstring>
#include <string>
#include <vector>

#include "scalar_types.h"

namespace etarena {

constexpr uint64_t kLine = 64;                   // alignment of every scratch and of every planned buffer, bytes
constexpr uint64_t kPage = 4096;                 // the plan itself can align buffers up to this
constexpr uint64_t kMostScratch = 1ull << 46;    // bytes; more is a mistake
constexpr uint64_t kMostAlignment = 1ull << 30;  // bytes

// Device: the delegate does not take the tensor's; Fixed: on a device, where nothing is copied for a layout.
enum class Misfit : uint8_t { None = 0, Alignment = 1, Size = 2, Pitch = 3, Device = 4, Fixed = 5, Memory = 6 };

struct Staged {
  uint32_t argument;
  Misfit why;
  void* original;
  uint64_t nbytes;  // of the tensor itself
  std::vector<int32_t> strides;
};

struct Rows {
  uint64_t count;
  uint64_t bytes;  // of one
  uint64_t pitch;  // bytes from one to the next, as wished
};

inline uint64_t round_up(uint64_t number, uint64_t step) {
  return step <= 1 ? number : (number + step - 1) / step * step;
}

// Bytes of an element; 1 where the dtype is unknown, so that they divide anything.
inline uint64_t element_bytes(const etarena_argument& argument) {
  const int bytes = item_bytes(argument.dtype);
  return bytes > 0 ? static_cast<uint64_t>(bytes) : 1;
}

inline Rows rows_of(const etarena_requirement& wish, const etarena_argument& argument) {
  const uint64_t item = element_bytes(argument);
  if (argument.rank == 0) return {1, item, item};
  const uint64_t inner = static_cast<uint64_t>(argument.sizes[argument.dim_order[argument.rank - 1]]);
  const uint64_t bytes = inner * item;
  return {bytes == 0 ? 0 : argument.nbytes / bytes, bytes, round_up(bytes, wish.row_pitch)};
}

inline bool takes(const etarena_requirement& wish, const etarena_device& device) {
  const uint64_t types = wish.devices == 0 ? 1 : wish.devices;
  return device.type >= 0 && device.type < 64 && (types >> device.type & 1) != 0;
}

// What is wrong with a wish; empty when nothing is.
inline std::string wrong_wish(const etarena_requirement& wish, const etarena_argument& argument) {
  if (wish.struct_size < sizeof(etarena_requirement)) return "the requirement's struct_size was changed";
  if (wish.access > (ETARENA_READ | ETARENA_WRITE)) return "access " + std::to_string(wish.access) + " is unknown";
  if ((wish.alignment & (wish.alignment - 1)) != 0 || wish.alignment > kMostAlignment) {
    return "alignment " + std::to_string(wish.alignment) + " is no power of two up to 2**30";
  }
  if (wish.size_multiple > kMostAlignment || wish.row_pitch > kMostAlignment) return "more than 2**30 bytes";
  if (wish.memory > ETARENA_PLANNED) return "memory " + std::to_string(wish.memory) + " is unknown";
  if (argument.kind != ETARENA_TENSOR) return {};
  if (wish.row_pitch % element_bytes(argument) != 0) {
    return "a row pitch of " + std::to_string(wish.row_pitch) + " bytes is no multiple of an element's bytes";
  }
  if (!takes(wish, argument.device)) {
    return "it takes tensors of other devices only (types as bits: " + std::to_string(wish.devices) +
           "), the value is on device type " + std::to_string(argument.device.type);
  }
  return {};
}

// Bytes that a tensor takes when it is laid out as wished.
inline uint64_t wished_bytes(const etarena_requirement& wish, const etarena_argument& argument) {
  const Rows rows = rows_of(wish, argument);
  return round_up(rows.count > 1 ? rows.count * rows.pitch : argument.nbytes, wish.size_multiple);
}

inline Misfit layout_misfit(const etarena_requirement& wish, const etarena_argument& argument) {
  if (wish.row_pitch <= 1) return Misfit::None;
  const Rows rows = rows_of(wish, argument);
  return rows.count > 1 && rows.pitch != rows.bytes ? Misfit::Pitch : Misfit::None;
}

// Whether a copy may be needed, before the address is known. `joined`: the plan has aligned and sized the buffer.
inline bool may_stage(const etarena_requirement& wish, const etarena_argument& argument, bool joined) {
  if (argument.kind != ETARENA_TENSOR || argument.nbytes == 0 || argument.device.type != 0) return false;
  if (layout_misfit(wish, argument) != Misfit::None || (!joined && wish.memory == ETARENA_PLANNED)) return true;
  const bool aligned = wish.alignment <= 1 || (joined && wish.alignment <= kPage);
  return !aligned || (!joined && wish.size_multiple > 1 && argument.nbytes % wish.size_multiple != 0);
}

// The data pointer of a tensor on a device is its resource, whose offset has the alignment.
inline Misfit device_misfit(const etarena_requirement& wish, const etarena_argument& argument) {
  const auto* const resource = static_cast<const etarena_resource*>(argument.data);
  if (layout_misfit(wish, argument) != Misfit::None) return Misfit::Fixed;
  if (resource == nullptr) return Misfit::None;
  return wish.alignment > 1 && resource->offset % wish.alignment != 0 ? Misfit::Fixed : Misfit::None;
}

inline Misfit misfit(const etarena_requirement& wish, const etarena_argument& argument, bool joined) {
  if (argument.kind != ETARENA_TENSOR) return Misfit::None;
  if (!takes(wish, argument.device)) return Misfit::Device;
  if (argument.nbytes == 0) return Misfit::None;
  if (argument.device.type != 0) return device_misfit(wish, argument);
  if (layout_misfit(wish, argument) != Misfit::None) return Misfit::Pitch;
  if (!joined && wish.memory == ETARENA_PLANNED) return Misfit::Memory;
  if (wish.alignment > 1 && reinterpret_cast<uintptr_t>(argument.data) % wish.alignment != 0) return Misfit::Alignment;
  if (!joined && wish.size_multiple > 1 && argument.nbytes % wish.size_multiple != 0) return Misfit::Size;
  return Misfit::None;
}

inline uint64_t alignment_of(const etarena_requirement& wish) {
  return wish.alignment > kLine ? wish.alignment : kLine;
}

inline uint64_t staged_room(const etarena_requirement& wish, const etarena_argument& argument) {
  return round_up(wished_bytes(wish, argument), kLine) + alignment_of(wish);
}

inline uint64_t moved_bytes(const etarena_requirement& wish, uint64_t nbytes) {
  const uint32_t access = wish.access == 0 ? ETARENA_READ | ETARENA_WRITE : wish.access;
  return nbytes * ((access & ETARENA_READ ? 1 : 0) + (access & ETARENA_WRITE ? 1 : 0));
}

inline void copy_rows(const Rows& rows, char* target, uint64_t target_pitch, const char* source,
                      uint64_t source_pitch) {
  for (uint64_t i = 0; i < rows.count; ++i) {
    std::memcpy(target + i * target_pitch, source + i * source_pitch, rows.bytes);
  }
}

// Puts an argument at or behind `free`; gives where the next may begin.
inline char* stage_in(Staged& entry, const etarena_requirement& wish, etarena_argument& argument, char* free) {
  const Rows rows = rows_of(wish, argument);
  const uint64_t needed = round_up(wished_bytes(wish, argument), kLine);
  char* const place = reinterpret_cast<char*>(round_up(reinterpret_cast<uintptr_t>(free), alignment_of(wish)));
  entry.original = argument.data;
  entry.nbytes = argument.nbytes;
  const bool pitched = rows.count > 1 && rows.pitch != rows.bytes;
  if (wish.access == 0 || (wish.access & ETARENA_READ) != 0) {
    if (pitched) {
      copy_rows(rows, place, rows.pitch, static_cast<const char*>(argument.data), rows.bytes);
    } else {
      std::memcpy(place, argument.data, argument.nbytes);
    }
  }
  if (pitched) {
    entry.strides.resize(static_cast<size_t>(argument.rank));
    int64_t step = 1;
    for (int32_t d = argument.rank - 1; d >= 0; --d) {
      entry.strides[argument.dim_order[d]] = static_cast<int32_t>(step);
      step = d == argument.rank - 1 ? static_cast<int64_t>(rows.pitch / element_bytes(argument))
                                    : step * argument.sizes[argument.dim_order[d]];
    }
    argument.strides = entry.strides.data();
    argument.nbytes = rows.count * rows.pitch;
  }
  argument.data = place;
  return place + needed;
}

inline void stage_out(const Staged& entry, const etarena_requirement& wish, const etarena_argument& argument) {
  if (wish.access != 0 && (wish.access & ETARENA_WRITE) == 0) return;
  const Rows rows = rows_of(wish, argument);
  if (entry.strides.empty()) {
    std::memcpy(entry.original, argument.data, entry.nbytes);
  } else {
    const uint64_t count = entry.nbytes / rows.bytes;
    copy_rows({count, rows.bytes, rows.pitch}, static_cast<char*>(entry.original), rows.bytes,
              static_cast<const char*>(argument.data), rows.pitch);
  }
}

}  // namespace etarena
