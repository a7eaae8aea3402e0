// Depthwise convolution: each output channel sees one input channel. No lane needs another.
//
// An invocation makes ROWS x 4 outputs of one plane: of each input row that they meet it loads every pixel once.
// Weights are packed as [output channel][tap y][tap x], each channel to a multiple of 4.
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "storage.glsl"
#include "activation.glsl"

layout(local_size_x_id = 100) in;
layout(constant_id = 0) const int ROWS = 4;
layout(constant_id = 1) const int TAPS_Y = 3;
layout(constant_id = 2) const int TAPS_X = 3;
layout(constant_id = 3) const int STRIDE_Y = 1;
layout(constant_id = 4) const int STRIDE_X = 1;
layout(constant_id = 5) const int DILATION_Y = 1;
layout(constant_id = 6) const int DILATION_X = 1;
layout(constant_id = 7) const int PADDING_Y = 0;
layout(constant_id = 8) const int PADDING_X = 0;
layout(constant_id = 9) const bool IN_BY_FOUR = false;  // the width of the input is a multiple of four
layout(constant_id = 10) const bool OUT_BY_FOUR = false;
layout(constant_id = 11) const bool HAS_BIAS = false;

layout(push_constant) uniform Parameters {
  int height, width;  // of the input
  int out_height, out_width;
  uint planes;  // of the output
  uint out_channels;
  uint multiplier;  // output channels of an input channel
};

layout(set = 0, binding = 0) readonly buffer In1 { STORED in1[]; };
layout(set = 0, binding = 0) readonly buffer In4 { STORED4 in4[]; };
layout(set = 0, binding = 1) readonly buffer Weights { STORED4 weights[]; };
layout(set = 0, binding = 2) readonly buffer Bias { STORED bias[]; };
layout(set = 0, binding = 3) writeonly buffer Out4 { STORED4 out4[]; };
layout(set = 0, binding = 3) writeonly buffer Out1 { STORED out1[]; };

const int COLUMNS = 3 * STRIDE_X + (TAPS_X - 1) * DILATION_X + 1;   // of the input
const int IN_ROWS = (ROWS - 1) * STRIDE_Y + (TAPS_Y - 1) * DILATION_Y + 1;
const int WORDS = (TAPS_Y * TAPS_X + 3) / 4;
#include "row.glsl"

void main() {
  uint place = (gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x) * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
  uint tiles_x = uint(out_width + 3) / 4, tiles_y = uint(out_height + ROWS - 1) / ROWS;
  uint plane = place / (tiles_x * tiles_y), in_plane = place % (tiles_x * tiles_y);
  if (plane >= planes) return;
  int out_x = int(in_plane % tiles_x) * 4, out_y = int(in_plane / tiles_x) * ROWS;
  uint channel = plane % out_channels;
  uint source = (plane / out_channels) * (out_channels / multiplier) + channel / multiplier;

  vec4 w[WORDS], sums[ROWS];
  [[unroll]] for (int i = 0; i < WORDS; i++) w[i] = vec4(weights[channel * WORDS + i]);
  [[unroll]] for (int r = 0; r < ROWS; r++) sums[r] = vec4(HAS_BIAS ? float(bias[channel]) : 0.0);

  int first_row = out_y * STRIDE_Y - PADDING_Y;
  [[unroll]] for (int i = 0; i < IN_ROWS; i++) {
    load_row(int(source) * height * width, first_row + i, out_x * STRIDE_X);
    [[unroll]] for (int r = 0; r < ROWS; r++) {
      int offset = i - r * STRIDE_Y;  // of this row among the taps of row r
      if (offset >= 0 && offset % DILATION_Y == 0 && offset / DILATION_Y < TAPS_Y) {
        [[unroll]] for (int tx = 0; tx < TAPS_X; tx++) {
          int tap = offset / DILATION_Y * TAPS_X + tx;
          sums[r] = fma(vec4(w[tap / 4][tap % 4]), seen_by(tx, STRIDE_X, DILATION_X), sums[r]);
        }
      }
    }
  }

  [[unroll]] for (int r = 0; r < ROWS; r++) {
    if (out_y + r < out_height) {
      uint at = (plane * uint(out_height) + uint(out_y + r)) * uint(out_width) + uint(out_x);
      vec4 value = activate(sums[r]);
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
