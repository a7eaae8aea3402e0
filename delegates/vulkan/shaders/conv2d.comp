// Convolution of planes, direct: a weight is multiplied with the pixel that it meets, nothing is rearranged before.
//
// Eight lanes make a tile of 8 * CHANNEL_TILES output channels of one group and 32 output pixels, four adjacent ones for
// each lane. Each lane loads four input channels of the weights of one output channel, which all eight use. Weights are
// packed as [group][output channel, to a multiple of 8][tap y][tap x][input channel, to a multiple of 4], or lie anyhow.
//
// The outputs of one dispatch are a grid of every out_step-th row and column: a transposed convolution is one
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
layout(constant_id = 3) const uint REST = 0;  // of the input channels divided by four
layout(constant_id = 4) const bool HAS_BIAS = false;
layout(constant_id = 5) const bool OUT_BY_FOUR = false;  // the grid is all outputs, and planes are multiples of four
layout(constant_id = 6) const bool PACKED = true;        // otherwise the weights have the strides below

layout(push_constant) uniform Parameters {
  uint height, width;            // of the input
  uint grid_height, grid_width;  // of the outputs of this dispatch
  uint out_height, out_width;
  uint first_tile, first_batch;  // of this dispatch; tiles of 32 pixels
  uint in_channels, out_channels;  // of a group
  uint groups;
  int step_y, step_x;          // input rows and columns from one output to the next
  int tap_step_y, tap_step_x;  // from one tap to the next; below 0 if transposed
  int first_y, first_x;        // of the first tap of the first output
  uint out_step_y, out_step_x, out_first_y, out_first_x;
  uint weight_first, weight_group, weight_out, weight_in, weight_tap_y, weight_tap_x;
};

layout(set = 0, binding = 0) readonly buffer In { STORED pixels[]; };
layout(set = 0, binding = 1) readonly buffer Weights4 { STORED4 weights4[]; };
layout(set = 0, binding = 1) readonly buffer Weights1 { STORED weights1[]; };
layout(set = 0, binding = 2) readonly buffer Bias { STORED bias[]; };
layout(set = 0, binding = 3) writeonly buffer Out4 { STORED4 out4[]; };
layout(set = 0, binding = 3) writeonly buffer Out1 { STORED out1[]; };

const uint ALL_ROWS = 8 * CHANNEL_TILES;
vec4 sums[ALL_ROWS];
uint weight_at[CHANNEL_TILES];

vec4 load_pixels(ivec4 at, bvec4 inside) {
  vec4 found = vec4(pixels[at.x], pixels[at.y], pixels[at.z], pixels[at.w]);
  return mix(vec4(0.0), found, inside);
}

// Four input channels of the weights from `weight` on; past the last they are not used.
vec4 load_weights(uint weight, uint count) {
  if (PACKED) return vec4(weights4[weight]);
  uvec4 at = weight + min(uvec4(0, 1, 2, 3), uvec4(count - 1)) * weight_in;
  return vec4(weights1[at.x], weights1[at.y], weights1[at.z], weights1[at.w]);
}

// Adds `count` input channels of one tap.
void add_block(uint weight, ivec4 at, bvec4 inside, int plane, uint count) {
  vec4 w[CHANNEL_TILES];
  [[unroll]] for (uint t = 0; t < CHANNEL_TILES; t++) {
    w[t] = load_weights(weight_at[t] + weight, count);
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
  uvec4 at = plane + (out_first_y + row * out_step_y) * out_width + out_first_x + column * out_step_x;
  [[unroll]] for (uint i = 0; i < 4; i++) {
    if (i < count) out1[at[i]] = STORED(value[i]);
  }
}

void main() {
  uint lane = gl_LocalInvocationID.x;
  uint blocks = (in_channels + 3) / 4, padded_channels = (out_channels + 7) / 8 * 8;
  uint channel_groups = (out_channels + ALL_ROWS - 1) / ALL_ROWS;  // workgroups for the channels of a group
  uint group = gl_WorkGroupID.x / channel_groups;
  uint first_channel = gl_WorkGroupID.x % channel_groups * ALL_ROWS;  // in the group
  uint batch = first_batch + gl_WorkGroupID.z;
  uint tile = first_tile + gl_WorkGroupID.y * gl_WorkGroupSize.y + gl_LocalInvocationID.y;
  uint first = (tile * 8 + lane) * 4, grid = grid_height * grid_width;
  uint count = uint(clamp(int(grid) - int(first), 0, 4));

  uvec4 places = min(first + uvec4(0, 1, 2, 3), uvec4(grid - 1));
  uvec4 row = places / grid_width, column = places % grid_width;
  ivec4 y = ivec4(row) * step_y + first_y, x = ivec4(column) * step_x + first_x;
  int plane = int(height * width);
  int in_first = int((batch * groups + group) * in_channels) * plane;
  ivec2 size = ivec2(height, width);

  [[unroll]] for (uint t = 0; t < CHANNEL_TILES; t++) {
    uint channel = min(first_channel + t * 8, padded_channels - 8) + lane;
    weight_at[t] = PACKED ? (group * padded_channels + channel) * TAPS_Y * TAPS_X * blocks
                          : weight_first + group * weight_group + min(channel, out_channels - 1) * weight_out;
  }
  [[unroll]] for (uint r = 0; r < ALL_ROWS; r++) sums[r] = vec4(0.0);

  for (uint ty = 0; ty < TAPS_Y; ty++) {
    ivec4 in_y = y + int(ty) * tap_step_y;
    for (uint tx = 0; tx < TAPS_X; tx++) {
      ivec4 in_x = x + int(tx) * tap_step_x;
      bvec4 inside = lessThan(uvec4(in_y), uvec4(size.x));
      bvec4 inside_x = lessThan(uvec4(in_x), uvec4(size.y));
      inside = bvec4(uvec4(inside) & uvec4(inside_x));
      ivec4 at = in_first + ivec4(inside) * (in_y * size.y + in_x);
      uint weight = PACKED ? (ty * TAPS_X + tx) * blocks : ty * weight_tap_y + tx * weight_tap_x;
      for (uint block = 0; block < in_channels / 4; block++) {
        add_block(weight, at, inside, plane, 4);
        at += 4 * plane;
        weight += PACKED ? 1 : 4 * weight_in;
      }
      if (REST > 0) add_block(weight, at, inside, plane, REST);
    }
  }

  uint out_first = (batch * groups + group) * out_channels;
  [[unroll]] for (uint r = 0; r < ALL_ROWS; r++) {
    uint channel = first_channel + r;
    if (channel < out_channels) {
      vec4 value = sums[r];
      if (HAS_BIAS) value += float(bias[group * out_channels + channel]);
      store(out_first + channel, row, column, first, count, activate(value));
    }
  }
}
