/* etarena's C interface: opaque resources, device allocators and delegates without Python.
 *
 * Plain C99, no dependency. Everything a table points at must outlive its registration and every method or tensor made
 * while it was registered. Functions are called without Python's GIL, from any thread; calls with the same `handle`
 * never overlap.
 *
 * Every struct that crosses the border begins with its size in bytes, set by whoever fills it. Fields are only ever
 * added at the end: a reader takes what both sides know and the rest as zero. A size smaller than version 1 of a
 * struct, or a table with another `abi`, is refused.
 */
#ifndef ETARENA_H
#define ETARENA_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ETARENA_ABI 1u

typedef int32_t etarena_status;
enum {
  ETARENA_OK = 0,
  ETARENA_INVALID_ARGUMENT = 1,
  ETARENA_NOT_SUPPORTED = 2,
  ETARENA_OUT_OF_MEMORY = 3,
  ETARENA_FAILED = 4,
  ETARENA_DEVICE_LOST = 5,
  ETARENA_TIMEOUT = 6
};

/* What went wrong, for people. A function that fails may write a text that ends with a zero byte; the caller has zeroed
 * the first byte. */
typedef struct etarena_error {
  char message[1024];
} etarena_error;

/* ---- devices and resources ---- */

/* ExecuTorch's numbers where it has one (CPU 0, CUDA 1), otherwise DLPack's (OpenCL 4, Vulkan 7, Metal 8, ...);
 * authors' own types are 64 to 127. */
typedef struct etarena_device {
  int32_t type;
  int32_t index; /* >= 0 */
} etarena_device;

enum {
  ETARENA_RESOURCE_HOST = 1,           /* handle: address the CPU may read and write */
  ETARENA_RESOURCE_VK_BUFFER = 2,      /* handle: VkBuffer; next: etarena_vk_buffer or null */
  ETARENA_RESOURCE_VK_IMAGE = 3,       /* handle: VkImage; next: etarena_vk_image */
  ETARENA_RESOURCE_DEVICE_POINTER = 4, /* handle: address in a device's memory, such as CUDA's */
  ETARENA_RESOURCE_FD = 5,             /* handle: file descriptor of a dma-buf or an opaque export */
  ETARENA_RESOURCE_CUSTOM = 0x10000    /* this and above: kinds of a delegate's author */
};

/* Memory of a device as an opaque handle: bytes [offset, offset + nbytes) of it. The data pointer of a tensor whose
 * device is not the CPU points at one of these. */
typedef struct etarena_resource {
  uint32_t struct_size;
  uint32_t kind;
  uint64_t handle;
  uint64_t offset;
  uint64_t nbytes;
  const void* next; /* more about this kind, or null; begins with its struct_size */
} etarena_resource;

typedef struct etarena_vk_buffer {
  uint32_t struct_size;
  uint32_t usage;  /* VkBufferUsageFlags it was made with; 0: unknown */
  uint64_t memory; /* VkDeviceMemory, or 0 */
  uint64_t memory_offset;
  uint64_t device; /* VkDevice it belongs to */
} etarena_vk_buffer;

typedef struct etarena_vk_image {
  uint32_t struct_size;
  uint32_t format;               /* VkFormat */
  uint64_t view;                 /* VkImageView, or 0 */
  uint64_t device;               /* VkDevice it belongs to */
  uint32_t layout;               /* VkImageLayout it is in now */
  uint32_t usage;                /* VkImageUsageFlags it was made with; 0: unknown */
  uint32_t width, height, depth; /* texels */
  uint32_t colour_space;         /* 0: linear, 1: sRGB */
} etarena_vk_image;

/* ---- device allocators ---- */

enum {
  ETARENA_HOST_VISIBLE = 1,  /* the CPU can map it */
  ETARENA_HOST_COHERENT = 2, /* mapped memory needs no flush */
  ETARENA_UNIFIED = 4,       /* the device's memory is the CPU's */
  ETARENA_EXPORTS_FD = 8
};

typedef struct etarena_capabilities {
  uint32_t struct_size;
  uint32_t flags;
  uint64_t alignment;        /* of every allocation, a power of two, bytes */
  uint64_t max_allocation;   /* bytes of the largest single allocation; 0: no limit known */
  uint64_t total_bytes;      /* of the device's memory; 0: unknown */
  uint64_t row_pitch;        /* rows of images and pitched buffers begin at multiples of this, bytes; 0: dense */
  uint64_t import_alignment; /* of host memory that the device can import, address and size, bytes; 0: cannot */
  uint64_t import_kinds;     /* bit 1 << kind for each resource kind below 64 that can be imported */
  uint32_t queue_families;   /* number of them; 0: no queues */
} etarena_capabilities;

typedef struct etarena_device_allocator {
  uint32_t struct_size;
  uint32_t abi; /* ETARENA_ABI */
  void* context;
  int32_t device_type;
  uint32_t device_count;
  etarena_status (*capabilities)(void* context, int32_t index, etarena_capabilities* out, etarena_error* error);
  etarena_status (*allocate)(void* context, int32_t index, uint64_t nbytes, uint64_t alignment, etarena_resource* out,
                             etarena_error* error);
  void (*deallocate)(void* context, int32_t index, const etarena_resource* resource);
  etarena_status (*copy_to_device)(void* context, int32_t index, const etarena_resource* destination, uint64_t offset,
                                   const void* source, uint64_t nbytes, etarena_error* error);
  etarena_status (*copy_to_host)(void* context, int32_t index, void* destination, const etarena_resource* source,
                                 uint64_t offset, uint64_t nbytes, etarena_error* error);
  /* The rest may be null. */
  etarena_status (*map)(void* context, int32_t index, const etarena_resource* resource, void** address,
                        etarena_error* error);
  etarena_status (*unmap)(void* context, int32_t index, const etarena_resource* resource, etarena_error* error);
  etarena_status (*synchronize)(void* context, int32_t index, etarena_error* error);
} etarena_device_allocator;

/* ---- delegates ---- */

enum { ETARENA_NONE = 0, ETARENA_TENSOR = 1, ETARENA_INT = 2, ETARENA_DOUBLE = 3, ETARENA_BOOL = 4 };

/* One argument of a delegate's call; valid during the call. Arguments are the call's inputs, then its outputs. */
typedef struct etarena_argument {
  uint32_t struct_size;
  int32_t kind;
  int64_t integer; /* INT, BOOL */
  double number;   /* DOUBLE */
  int32_t dtype;   /* TENSOR: ExecuTorch's ScalarType code (float32 6, int64 4, uint8 0, ...) */
  int32_t rank;
  const int32_t* sizes;     /* rank of them */
  const int32_t* strides;   /* in elements */
  const uint8_t* dim_order; /* outermost dimension first */
  void* data;               /* CPU: address; other devices: const etarena_resource*. Null before execution */
  uint64_t nbytes;
  etarena_device device;
} etarena_argument;

enum { ETARENA_READ = 1, ETARENA_WRITE = 2 };
enum { ETARENA_PLANNED = 1 }; /* memory of the plan: a part of the arena that belongs to the running method */

/* What a delegate wants of one argument. Zero means no wish. What the plan cannot give, a copy into the delegate's
 * scratch gives, which is counted. */
typedef struct etarena_requirement {
  uint32_t struct_size;
  uint32_t access;        /* READ and WRITE; 0: both */
  uint64_t alignment;     /* of the address, a power of two, bytes */
  uint64_t size_multiple; /* memory of the CPU ends at a multiple of this from its address, bytes */
  uint64_t row_pitch;     /* rows (the innermost dimension) begin at multiples of this, bytes */
  uint64_t devices;       /* bit 1 << type for each device type below 64 that it takes; 0: the CPU */
  uint64_t memory;        /* of a tensor on the CPU: PLANNED, or 0 for any; without a plan not asked for */
} etarena_requirement;

typedef struct etarena_spec {
  const char* key;
  const void* value;
  uint64_t nbytes;
} etarena_spec;

typedef struct etarena_delegate {
  uint32_t struct_size;
  uint32_t abi; /* ETARENA_ABI */
  void* context;
  /* One instance of the delegate. `blob` stays valid until close(). */
  etarena_status (*init)(void* context, const void* blob, uint64_t nbytes, const etarena_spec* specs, uint32_t count,
                         void** handle, etarena_error* error);
  etarena_status (*execute)(void* context, void* handle, const etarena_argument* arguments, uint32_t count,
                            void* scratch, uint64_t scratch_bytes, etarena_error* error);
  void (*close)(void* context, void* handle);
  /* The rest may be null. Bytes of scratch that a call with arguments of these sizes needs;
   * asked when a plan is made, without data. A number that is not known then has kind NONE. */
  etarena_status (*scratch_bytes)(void* context, void* handle, const etarena_argument* arguments, uint32_t count,
                                  uint64_t* nbytes, etarena_error* error);
  /* `out` has one entry for each argument, zeroed but for its struct_size. Asked once after init, when a size that
   * differs from call to call may be -1. */
  etarena_status (*requirements)(void* context, void* handle, const etarena_argument* arguments, uint32_t count,
                                 etarena_requirement* out, etarena_error* error);
  /* Sizes of the outputs. `sizes` lists those of all tensor arguments one after another; write those of the outputs
   * over it. With a plan they must be what the plan says; without one the outputs are resized. */
  etarena_status (*output_sizes)(void* context, void* handle, const etarena_argument* arguments, uint32_t count,
                                 int32_t* sizes, etarena_error* error);
} etarena_delegate;

#ifdef __cplusplus
}
#endif
#endif
