// Convolution of planes, direct: a weight is multiplied with the pixel that it meets, nothing is rearranged before.
//
// Eight lanes make a tile of 8 * CHANNEL_TILES output channels of one group and 32 output pixels, four adjacent ones for
// each lane. Each lane loads four input channels of the weights of one output channel, which all eight use. Weights are
// packed as [group][output channel, to a multiple of 8][tap y][tap x][input channel, to a multiple of 4].
//
// The outputs of one dispatch are a grid of every OUT_STEP-th row and column: a transposed convolution is one
// convolution for each of stride x stride such grids.
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "storage.glsl"
#include "lanes.glsl"
#include "activation.glsl"

layout(constant_id = 0) const uint CHANNEL_TILES = 1;  // 1 to 4
layout(constant_id = 1) const uint TAPS_Y = 1;
layout(constant_id = 2) const uint TAPS_X = 1;
layout(constant_id = 3) const uint IN_CHANNELS = 4;   // of a group
layout(constant_id = 4) const uint OUT_CHANNELS = 8;  // of a group
layout(constant_id = 5) const uint GROUPS = 1;
layout(constant_id = 6) const int STEP_Y = 1;  // input rows from one output row to the next
layout(constant_id = 7) const int STEP_X = 1;
layout(constant_id = 8) const int TAP_STEP_Y = 1;  // input rows from one tap to the next; below 0 if transposed
layout(constant_id = 9) const int TAP_STEP_X = 1;
layout(constant_id = 10) const int FIRST_Y = 0;  // input row of the first tap of the first output row
layout(constant_id = 11) const int FIRST_X = 0;
layout(constant_id = 12) const uint OUT_STEP_Y = 1;
layout(constant_id = 13) const uint OUT_STEP_X = 1;
layout(constant_id = 14) const uint OUT_FIRST_Y = 0;
layout(constant_id = 15) const uint OUT_FIRST_X = 0;
layout(constant_id = 16) const bool HAS_BIAS = false;
layout(constant_id = 17) const bool OUT_BY_FOUR = false;  // the grid is all outputs, and planes are multiples of four

layout(push_constant) uniform Parameters {
  uint height, width;            // of the input
  uint grid_height, grid_width;  // of the outputs of this dispatch
  uint out_height, out_width;
};

layout(set = 0, binding = 0) readonly buffer In { STORED pixels[]; };
layout(set = 0, binding = 1) readonly buffer Weights { STORED4 weights[]; };
layout(set = 0, binding = 2) readonly buffer Bias { STORED bias[]; };
layout(set = 0, binding = 3) writeonly buffer Out4 { STORED4 out4[]; };
layout(set = 0, binding = 3) writeonly buffer Out1 { STORED out1[]; };

const uint ALL_ROWS = 8 * CHANNEL_TILES;
const uint BLOCKS = (IN_CHANNELS + 3) / 4;  // of input channels
const uint REST = IN_CHANNELS % 4;
const uint PADDED_CHANNELS = (OUT_CHANNELS + 7) / 8 * 8;
const uint CHANNEL_GROUPS = (OUT_CHANNELS + ALL_ROWS - 1) / ALL_ROWS;  // workgroups for the channels of a group

vec4 sums[ALL_ROWS];
uint weight_at[CHANNEL_TILES];

vec4 load_pixels(ivec4 at, bvec4 inside) {
  vec4 found = vec4(pixels[at.x], pixels[at.y], pixels[at.z], pixels[at.w]);
  return mix(vec4(0.0), found, inside);
}

// Adds `count` input channels of one tap.
void add_block(uint weight, ivec4 at, bvec4 inside, int plane, uint count) {
  vec4 w[CHANNEL_TILES];
  [[unroll]] for (uint t = 0; t < CHANNEL_TILES; t++) {
    w[t] = vec4(weights[weight_at[t] + weight]);
    SHOW(t, w[t]);
  }
  SETTLE();
  [[unroll]] for (uint i = 0; i < count; i++) {
    vec4 x = load_pixels(at + int(i) * plane, inside);
    [[unroll]] for (uint t = 0; t < CHANNEL_TILES; t++) {
      [[unroll]] for (uint r = 0; r < 8; r++) sums[t * 8 + r] = fma(vec4(SEE(t, w[t], r)[i]), x, sums[t * 8 + r]);
    }
  }
  SETTLE();
}

void store(uint channel, uvec4 row, uvec4 column, uint first, uint count, vec4 value) {
  uint plane = channel * out_height * out_width;
  if (OUT_BY_FOUR) {
    if (count > 0) out4[(plane + first) >> 2] = STORED4(value);
    return;
  }
  uvec4 at = plane + (OUT_FIRST_Y + row * OUT_STEP_Y) * out_width + OUT_FIRST_X + column * OUT_STEP_X;
  [[unroll]] for (uint i = 0; i < 4; i++) {
    if (i < count) out1[at[i]] = STORED(value[i]);
  }
}

void main() {
  uint lane = gl_LocalInvocationID.x;
  uint group = gl_WorkGroupID.x / CHANNEL_GROUPS;
  uint first_channel = gl_WorkGroupID.x % CHANNEL_GROUPS * ALL_ROWS;  // in the group
  uint batch = gl_WorkGroupID.z;
  uint tile = gl_WorkGroupID.y * gl_WorkGroupSize.y + gl_LocalInvocationID.y;
  uint first = (tile * 8 + lane) * 4, grid = grid_height * grid_width;
  uint count = uint(clamp(int(grid) - int(first), 0, 4));

  uvec4 places = min(first + uvec4(0, 1, 2, 3), uvec4(grid - 1));
  uvec4 row = places / grid_width, column = places % grid_width;
  ivec4 y = ivec4(row) * STEP_Y + FIRST_Y, x = ivec4(column) * STEP_X + FIRST_X;
  int plane = int(height * width);
  int in_first = int((batch * GROUPS + group) * IN_CHANNELS) * plane;
  ivec2 size = ivec2(height, width);

  [[unroll]] for (uint t = 0; t < CHANNEL_TILES; t++) {
    uint channel = group * PADDED_CHANNELS + min(first_channel + t * 8, PADDED_CHANNELS - 8) + lane;
    weight_at[t] = channel * TAPS_Y * TAPS_X * BLOCKS;
  }
  [[unroll]] for (uint r = 0; r < ALL_ROWS; r++) sums[r] = vec4(0.0);

  uint weight = 0;
  for (uint ty = 0; ty < TAPS_Y; ty++) {
    ivec4 in_y = y + int(ty) * TAP_STEP_Y;
    for (uint tx = 0; tx < TAPS_X; tx++) {
      ivec4 in_x = x + int(tx) * TAP_STEP_X;
      bvec4 inside = lessThan(uvec4(in_y), uvec4(size.x));
      bvec4 inside_x = lessThan(uvec4(in_x), uvec4(size.y));
      inside = bvec4(uvec4(inside) & uvec4(inside_x));
      ivec4 at = in_first + ivec4(inside) * (in_y * size.y + in_x);
      for (uint block = 0; block < IN_CHANNELS / 4; block++) {
        add_block(weight, at, inside, plane, 4);
        at += 4 * plane;
        weight++;
      }
      if (REST > 0) {
        add_block(weight, at, inside, plane, REST);
        weight++;
      }
    }
  }

  uint out_first = (batch * GROUPS + group) * OUT_CHANNELS;
  [[unroll]] for (uint r = 0; r < ALL_ROWS; r++) {
    uint channel = first_channel + r;
    if (channel < OUT_CHANNELS) {
      vec4 value = sums[r];
      if (HAS_BIAS) value += float(bias[group * OUT_CHANNELS + channel]);
      store(out_first + channel, row, column, first, count, activate(value));
    }
  }
}
