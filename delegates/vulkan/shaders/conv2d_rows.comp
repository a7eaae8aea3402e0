// Convolution of planes with kernels of three columns or more: each pixel of a row is loaded once for all taps.
//
// Eight lanes make a tile of 8 * CHANNEL_TILES output channels of one group, and each lane four adjacent pixels of a row.
// Each lane loads the weights of one output channel, four taps at a time, which all eight use. Weights are packed as
// [group][output channel, to a multiple of 8][tap y][input channel][tap x, to a multiple of 4].
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "storage.glsl"
#define BOARD 16
#include "lanes.glsl"
#include "activation.glsl"

layout(constant_id = 0) const int CHANNEL_TILES = 1;  // 1 to 4
layout(constant_id = 1) const int TAPS_Y = 3;
layout(constant_id = 2) const int TAPS_X = 3;  // to 16
layout(constant_id = 3) const int STRIDE_X = 1;
layout(constant_id = 4) const int DILATION_X = 1;
layout(constant_id = 5) const int PADDING_X = 0;
layout(constant_id = 6) const bool IN_BY_FOUR = false;  // the width of the input is a multiple of four
layout(constant_id = 7) const bool OUT_BY_FOUR = false;
layout(constant_id = 8) const bool HAS_BIAS = false;

layout(push_constant) uniform Parameters {
  int height, width;  // of the input
  int out_height, out_width;
  int stride_y, dilation_y, padding_y;
  uint first_tile, first_batch;    // of this dispatch
  uint in_channels, out_channels;  // of a group
  uint groups;
};

layout(set = 0, binding = 0) readonly buffer In1 { STORED in1[]; };
layout(set = 0, binding = 0) readonly buffer In4 { STORED4 in4[]; };
layout(set = 0, binding = 1) readonly buffer Weights { STORED4 weights[]; };
layout(set = 0, binding = 2) readonly buffer Bias { STORED bias[]; };
layout(set = 0, binding = 3) writeonly buffer Out4 { STORED4 out4[]; };
layout(set = 0, binding = 3) writeonly buffer Out1 { STORED out1[]; };

const int COLUMNS = 3 * STRIDE_X + (TAPS_X - 1) * DILATION_X + 1;  // of the input
const int WORDS = (TAPS_X + 3) / 4;
const int ALL_ROWS = 8 * CHANNEL_TILES;
#include "row.glsl"

void main() {
  uint lane = gl_LocalInvocationID.x;
  uint padded_channels = (out_channels + 7) / 8 * 8;
  uint channel_groups = (out_channels + ALL_ROWS - 1) / ALL_ROWS;
  uint group = gl_WorkGroupID.x / channel_groups, first_channel = gl_WorkGroupID.x % channel_groups * ALL_ROWS;
  uint batch = first_batch + gl_WorkGroupID.z;
  uint tile = first_tile + gl_WorkGroupID.y * gl_WorkGroupSize.y + gl_LocalInvocationID.y;
  uint tiles_x = uint(out_width + 3) / 4, place = tile * 8 + lane;
  int out_x = int(place % tiles_x) * 4, out_y = int(place / tiles_x);
  int plane = height * width, in_first = int((batch * groups + group) * in_channels) * plane;

  uint weight_at[CHANNEL_TILES];
  [[unroll]] for (int t = 0; t < CHANNEL_TILES; t++) {
    uint channel = group * padded_channels + min(first_channel + t * 8, padded_channels - 8) + lane;
    weight_at[t] = channel * TAPS_Y * in_channels * WORDS;
  }
  vec4 sums[ALL_ROWS];
  [[unroll]] for (int r = 0; r < ALL_ROWS; r++) sums[r] = vec4(0.0);

  uint weight = 0;
  for (int ty = 0; ty < TAPS_Y; ty++) {
    int row = min(out_y, out_height - 1) * stride_y - padding_y + ty * dilation_y;
    for (int channel = 0; channel < int(in_channels); channel++) {
      vec4 w[CHANNEL_TILES * WORDS];
      [[unroll]] for (int t = 0; t < CHANNEL_TILES; t++) {
        [[unroll]] for (int i = 0; i < WORDS; i++) {
          w[t * WORDS + i] = vec4(weights[weight_at[t] + weight + i]);
          SHOW(t * WORDS + i, w[t * WORDS + i]);
        }
      }
      SETTLE();
      load_row(in_first + channel * plane, row, out_x * STRIDE_X);
      [[unroll]] for (int tx = 0; tx < TAPS_X; tx++) {
        vec4 x = seen_by(tx, STRIDE_X, DILATION_X);
        [[unroll]] for (int t = 0; t < CHANNEL_TILES; t++) {
          int number = t * WORDS + tx / 4;
          [[unroll]] for (int r = 0; r < 8; r++) {
            sums[t * 8 + r] = fma(vec4(SEE(number, w[number], r)[tx % 4]), x, sums[t * 8 + r]);
          }
        }
      }
      SETTLE();
      weight += WORDS;
    }
  }

  uint out_first = (batch * groups + group) * out_channels;
  [[unroll]] for (int r = 0; r < ALL_ROWS; r++) {
    uint channel = first_channel + r;
    if (channel < out_channels && out_y < out_height) {
      vec4 value = sums[r];
      if (HAS_BIAS) value += float(bias[group * out_channels + channel]);
      value = activate(value);
      uint at = ((out_first + channel) * uint(out_height) + uint(out_y)) * uint(out_width) + uint(out_x);
      if (OUT_BY_FOUR) {
        out4[at >> 2] = STORED4(value);
      } else {
        [[unroll]] for (int i = 0; i < 4; i++) {
          if (out_x + i < out_width) out1[at + i] = STORED(value[i]);
        }
      }
    }
  }
}
