// out = activate(alpha * A B + beta * bias), for each of a batch.
//
// Eight lanes make a tile of 8 * ROW_TILES rows (ROWS of one row tile where there are fewer) and 32 * COLUMN_TILES
// columns: each lane keeps COLUMN_TILES times four columns of all rows. A is loaded once for the eight: with eight rows
// each lane loads four k of its row; with fewer rows the lanes divide 32 / ROWS consecutive k among them.
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "storage.glsl"
#include "lanes.glsl"
#include "activation.glsl"

layout(constant_id = 0) const uint ROWS = 8;          // 1, 2, 4 or 8
layout(constant_id = 1) const uint ROW_TILES = 1;     // 1 to 4; 1 unless ROWS is 8
layout(constant_id = 2) const uint COLUMN_TILES = 1;
layout(constant_id = 3) const bool A_BY_FOUR = true;  // rows of A begin at multiples of four elements
layout(constant_id = 4) const bool B_BY_FOUR = true;  // rows of B do, and it is not transposed
layout(constant_id = 5) const bool OUT_BY_FOUR = true;
layout(constant_id = 6) const int BIAS = 0;  // one of those below

const int NO_BIAS = 0, BIAS_OF_ROW = 1, BIAS_OF_COLUMN = 2, BIAS_OF_ALL = 3;

layout(push_constant) uniform Parameters {
  uint m, n, k;
  uint a_row, a_batch;            // strides in elements; columns of A are adjacent
  uint b_row, b_column, b_tile, b_batch;  // b_tile: of 32 columns
  uint bias_row, bias_column, bias_batch;
  float alpha, beta;
  uint first_tile, first_batch;  // of this dispatch; tiles of rows
  uint first_k;                  // a multiple of STEP; k is where it ends
};

layout(set = 0, binding = 0) readonly buffer A4 { STORED4 a4[]; };
layout(set = 0, binding = 0) readonly buffer A1 { STORED a1[]; };
#ifdef INT8
layout(set = 0, binding = 1) readonly buffer B4 { uint b4[]; };  // four columns in a word
layout(set = 0, binding = 2) readonly buffer Bias { STORED bias[]; };
layout(set = 0, binding = 3) readonly buffer Scales { float scales[]; };  // of the columns
#define OUT_BINDING 4
#else
layout(set = 0, binding = 1) readonly buffer B4 { STORED4 b4[]; };
layout(set = 0, binding = 1) readonly buffer B1 { STORED b1[]; };
layout(set = 0, binding = 2) readonly buffer Bias { STORED bias[]; };
#define OUT_BINDING 3
#endif
layout(set = 0, binding = OUT_BINDING) writeonly buffer Out4 { STORED4 out4[]; };
layout(set = 0, binding = OUT_BINDING) writeonly buffer Out1 { STORED out1[]; };

const uint STEP = 32 / ROWS;
const uint ALL_ROWS = ROWS * ROW_TILES;

uint batch, lane, columns[COLUMN_TILES];

vec4 load_a(uint at) {
  if (A_BY_FOUR) return vec4(a4[at >> 2]);
  return vec4(a1[at], a1[at + 1], a1[at + 2], a1[at + 3]);
}

// Where a column of B begins.
uint column_of_b(uint column) { return batch * b_batch + column / 32 * b_tile + column % 32 * b_column; }

// Four columns that begin at `at`.
vec4 load_b(uint row, uvec4 at) {
#ifdef INT8
  int packed = int(b4[(at.x + row * b_row) >> 2]);
  return vec4(ivec4(packed << 24, packed << 16, packed << 8, packed) >> 24);
#else
  if (B_BY_FOUR) return vec4(b4[(at.x + row * b_row) >> 2]);
  uvec4 places = at + row * b_row;
  return vec4(b1[places.x], b1[places.y], b1[places.z], b1[places.w]);
#endif
}

vec4 load_bias(uint row, uint column) {
  uvec4 at = batch * bias_batch + row * bias_row + min(column + uvec4(0, 1, 2, 3), uvec4(n - 1)) * bias_column;
  return vec4(bias[at.x], bias[at.y], bias[at.z], bias[at.w]);
}

void store(uint row, uint column, vec4 value) {
  uint at = (batch * m + row) * n + column;
  if (OUT_BY_FOUR) {
    out4[at >> 2] = STORED4(value);
    return;
  }
  [[unroll]] for (uint i = 0; i < 4; i++) {
    if (column + i < n) out1[at + i] = STORED(value[i]);
  }
}

void main() {
  batch = first_batch + gl_WorkGroupID.z;
  lane = gl_LocalInvocationID.x;
  uint first_row = (first_tile + gl_WorkGroupID.x) * ALL_ROWS;  // fastest: neighbours read the same of B
  uint tile = gl_WorkGroupID.y * gl_WorkGroupSize.y + gl_LocalInvocationID.y;
  [[unroll]] for (uint j = 0; j < COLUMN_TILES; j++) columns[j] = ((tile * COLUMN_TILES + j) * 8 + lane) * 4;

  vec4 sums[ALL_ROWS][COLUMN_TILES];
  [[unroll]] for (uint r = 0; r < ALL_ROWS; r++) {
    [[unroll]] for (uint j = 0; j < COLUMN_TILES; j++) sums[r][j] = vec4(0.0);
  }
  uvec4 b_at[COLUMN_TILES];  // a column past the end repeats one before
  uint a_at[ROW_TILES];
  [[unroll]] for (uint j = 0; j < COLUMN_TILES; j++) {
    uint first = min(columns[j], (n - 1) & ~3u), last = n - 1;
    b_at[j] = uvec4(column_of_b(first), column_of_b(min(first + 1, last)), column_of_b(min(first + 2, last)),
                    column_of_b(min(first + 3, last)));
  }
  [[unroll]] for (uint t = 0; t < ROW_TILES; t++) {
    a_at[t] = batch * a_batch + min(first_row + t * 8 + lane % ROWS, m - 1) * a_row;
  }

  uint whole = first_k + (k - first_k) / STEP * STEP;
  for (uint at = first_k; at < whole; at += STEP) {
    vec4 a[ROW_TILES];
    [[unroll]] for (uint t = 0; t < ROW_TILES; t++) {
      a[t] = load_a(a_at[t] + at + lane / ROWS * 4);
      SHOW(t, a[t]);
    }
    SETTLE();
    [[unroll]] for (uint i = 0; i < STEP; i++) {
      vec4 b[COLUMN_TILES];
      [[unroll]] for (uint j = 0; j < COLUMN_TILES; j++) b[j] = load_b(at + i, b_at[j]);
      [[unroll]] for (uint t = 0; t < ROW_TILES; t++) {
        [[unroll]] for (uint r = 0; r < ROWS; r++) {
          vec4 x = vec4(SEE(t, a[t], i / 4 * ROWS + r)[i & 3u]);
          [[unroll]] for (uint j = 0; j < COLUMN_TILES; j++) sums[t * 8 + r][j] = fma(x, b[j], sums[t * 8 + r][j]);
        }
      }
    }
    SETTLE();
  }
  for (uint at = whole; at < k; at++) {
    vec4 a[ROW_TILES];
    [[unroll]] for (uint t = 0; t < ROW_TILES; t++) {
      a[t] = vec4(a1[a_at[t] + at]);
      SHOW(t, a[t]);
    }
    SETTLE();
    vec4 b[COLUMN_TILES];
    [[unroll]] for (uint j = 0; j < COLUMN_TILES; j++) b[j] = load_b(at, b_at[j]);
    [[unroll]] for (uint t = 0; t < ROW_TILES; t++) {
      [[unroll]] for (uint r = 0; r < ROWS; r++) {
        vec4 x = SEE(t, a[t], r);
        [[unroll]] for (uint j = 0; j < COLUMN_TILES; j++) sums[t * 8 + r][j] = fma(x, b[j], sums[t * 8 + r][j]);
      }
    }
    SETTLE();
  }

  vec4 row_bias[ROW_TILES];  // of one row for each lane
  if (BIAS == BIAS_OF_ROW) {
    [[unroll]] for (uint t = 0; t < ROW_TILES; t++) {
      uint row = min(first_row + t * 8 + lane % ROWS, m - 1);
      row_bias[t] = vec4(beta * float(bias[batch * bias_batch + row * bias_row]));
      SHOW(t, row_bias[t]);
    }
    SETTLE();
  }
  [[unroll]] for (uint j = 0; j < COLUMN_TILES; j++) {
    vec4 scale = vec4(alpha), column_bias = vec4(0.0);
#ifdef INT8
    uvec4 places = min(columns[j] + uvec4(0, 1, 2, 3), uvec4(n - 1));
    scale *= vec4(scales[places.x], scales[places.y], scales[places.z], scales[places.w]);
#endif
    if (BIAS == BIAS_OF_COLUMN) column_bias = beta * load_bias(0, columns[j]);
    [[unroll]] for (uint r = 0; r < ALL_ROWS; r++) {
      vec4 value = fma(sums[r][j], scale, column_bias);
      if (BIAS == BIAS_OF_ROW) value += SEE(r / 8, row_bias[r / 8], r % 8);
      if (first_row + r < m && columns[j] < n) {
        if (BIAS == BIAS_OF_ALL) value += beta * load_bias(first_row + r, columns[j]);
        store(first_row + r, columns[j], activate(value));
      }
    }
  }
}
