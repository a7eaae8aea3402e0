/* A backend in C for etarena: the sine of every element, or the cosine if the compile spec "cosine" is there.
 *
 * Build:  cc -O2 -shared -fPIC -I$(python -c 'import etarena; print(etarena.get_include())') c_delegate.c -lm -o
 * sine.so Use:    etarena.register_delegate("SineInC", ctypes.CDLL("./sine.so").etarena_sine_table())   with restype
 * c_void_p
 *
 * It computes in its scratch first, only to show that scratch is there: a real backend would keep intermediate results
 * in it.
 */
#include <etarena.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FLOAT32 = 6 }; /* ExecuTorch's ScalarType code */

typedef struct {
  int cosine;
} sine_delegate;

static etarena_status fail(etarena_error* error, etarena_status status, const char* text) {
  snprintf(error->message, sizeof error->message, "%s", text);
  return status;
}

static etarena_status sine_init(void* context, const void* blob, uint64_t nbytes, const etarena_spec* specs,
                                uint32_t count, void** handle, etarena_error* error) {
  (void)context, (void)blob, (void)nbytes;
  sine_delegate* self = calloc(1, sizeof *self);
  if (self == NULL) return fail(error, ETARENA_OUT_OF_MEMORY, "no memory for the delegate");
  for (uint32_t i = 0; i < count; ++i) {
    if (strcmp(specs[i].key, "cosine") == 0) self->cosine = 1;
  }
  *handle = self;
  return ETARENA_OK;
}

static etarena_status sine_scratch_bytes(void* context, void* handle, const etarena_argument* arguments, uint32_t count,
                                         uint64_t* nbytes, etarena_error* error) {
  (void)context, (void)handle;
  if (count != 2) return fail(error, ETARENA_INVALID_ARGUMENT, "expected one input and one output");
  *nbytes = arguments[0].nbytes;
  return ETARENA_OK;
}

static etarena_status sine_output_sizes(void* context, void* handle, const etarena_argument* arguments, uint32_t count,
                                        int32_t* sizes, etarena_error* error) {
  (void)context, (void)handle;
  if (count != 2 || arguments[0].rank != arguments[1].rank) {
    return fail(error, ETARENA_INVALID_ARGUMENT, "expected one input and one output of the same rank");
  }
  for (int32_t d = 0; d < arguments[0].rank; ++d) sizes[arguments[0].rank + d] = arguments[0].sizes[d];
  return ETARENA_OK;
}

static etarena_status sine_execute(void* context, void* handle, const etarena_argument* arguments, uint32_t count,
                                   void* scratch, uint64_t scratch_bytes, etarena_error* error) {
  (void)context;
  const sine_delegate* self = handle;
  if (count != 2 || arguments[0].dtype != FLOAT32 || arguments[1].nbytes != arguments[0].nbytes) {
    return fail(error, ETARENA_NOT_SUPPORTED, "expected one float32 input and one float32 output of the same size");
  }
  if (scratch_bytes < arguments[0].nbytes) return fail(error, ETARENA_FAILED, "less scratch than was asked for");
  const uint64_t n = arguments[0].nbytes / sizeof(float);
  const float* x = arguments[0].data;
  float* room = scratch;
  for (uint64_t i = 0; i < n; ++i) room[i] = self->cosine ? cosf(x[i]) : sinf(x[i]);
  if (n > 0) memcpy(arguments[1].data, room, n * sizeof(float));
  return ETARENA_OK;
}

static void sine_close(void* context, void* handle) {
  (void)context;
  free(handle);
}

/* The table, which must live as long as any method that was loaded while it was registered. */
const etarena_delegate* etarena_sine_table(void) {
  static const etarena_delegate table = {
      .struct_size = sizeof(etarena_delegate),
      .abi = ETARENA_ABI,
      .init = sine_init,
      .execute = sine_execute,
      .close = sine_close,
      .scratch_bytes = sine_scratch_bytes,
      .output_sizes = sine_output_sizes,
  };
  return &table;
}
