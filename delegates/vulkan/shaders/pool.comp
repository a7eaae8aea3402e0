// Pooling of planes: an invocation makes one output of a window that is given by stride and padding, or adaptive.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "storage.glsl"

layout(local_size_x_id = 100) in;
layout(constant_id = 0) const bool MAXIMUM = true;  // otherwise the mean
layout(constant_id = 1) const bool ADAPTIVE = false;
layout(constant_id = 2) const bool WITH_PLACES = false;
layout(constant_id = 3) const int WINDOW_Y = 1;
layout(constant_id = 4) const int WINDOW_X = 1;
layout(constant_id = 5) const int STRIDE_Y = 1;
layout(constant_id = 6) const int STRIDE_X = 1;
layout(constant_id = 7) const int PADDING_Y = 0;
layout(constant_id = 8) const int PADDING_X = 0;
layout(constant_id = 9) const int DILATION_Y = 1;
layout(constant_id = 10) const int DILATION_X = 1;
layout(constant_id = 11) const bool COUNT_PADDING = true;
layout(constant_id = 12) const int DIVISOR = 0;  // 0: the number of elements
layout(constant_id = 13) const bool INSIDE = false;  // every window is, without padding: its size is known

layout(push_constant) uniform Parameters {
  int height, width;  // of the input
  int out_height, out_width;
  uint outputs;
};

layout(set = 0, binding = 0) readonly buffer In { STORED pixels[]; };
layout(set = 0, binding = 1) writeonly buffer Out { STORED outs[]; };
layout(set = 0, binding = 2) writeonly buffer Places { uvec2 places[]; };  // int64, in the plane

struct Window {
  int first, end;  // positions in the input, end excluded
  int size;        // with padding
};

Window window(int at, int extent, int out_extent, int taps, int stride, int padding, int dilation) {
  if (ADAPTIVE) {
    int first = at * extent / out_extent, end = ((at + 1) * extent + out_extent - 1) / out_extent;
    return Window(first, end, end - first);
  }
  int first = at * stride - padding, reach = (taps - 1) * dilation + 1;
  if (INSIDE) return Window(first, first + reach, reach);
  int end = min(first + reach, extent + padding);
  int inside = first < 0 ? first + (-first + dilation - 1) / dilation * dilation : first;
  return Window(inside, min(end, extent), end - first);
}

void main() {
  uint place = (gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x) * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
  if (place >= outputs) return;
  int out_x = int(place % uint(out_width)), out_y = int(place / uint(out_width) % uint(out_height));
  int plane = int(place / uint(out_width * out_height)) * height * width;
  Window rows = window(out_y, height, out_height, WINDOW_Y, STRIDE_Y, PADDING_Y, DILATION_Y);
  Window columns = window(out_x, width, out_width, WINDOW_X, STRIDE_X, PADDING_X, DILATION_X);

  float sum = 0.0, most = uintBitsToFloat(0xff800000u);  // -infinity
  int most_at = rows.first * width + columns.first;
  int n_rows = INSIDE ? WINDOW_Y : rows.end - rows.first, n_columns = INSIDE ? WINDOW_X : columns.end - columns.first;
  for (int i = 0; i < n_rows; i += INSIDE ? 1 : DILATION_Y) {
    int y = rows.first + (INSIDE ? i * DILATION_Y : i);
    for (int j = 0; j < n_columns; j += INSIDE ? 1 : DILATION_X) {
      int x = columns.first + (INSIDE ? j * DILATION_X : j);
      float value = float(pixels[plane + y * width + x]);
      sum += value;
      if (MAXIMUM && (value > most || isnan(value))) {
        most = value;
        most_at = y * width + x;
      }
    }
  }
  if (MAXIMUM) {
    outs[place] = STORED(most);
    if (WITH_PLACES) places[place] = uvec2(most_at, 0);
    return;
  }
  int inside = (rows.end - rows.first) * (columns.end - columns.first);
  int count = DIVISOR != 0 ? DIVISOR : COUNT_PADDING ? rows.size * columns.size : inside;
  outs[place] = STORED(sum / float(count));
}
