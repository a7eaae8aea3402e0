// Loads what a row of the input has to do with four adjacent outputs: each pixel once, where possible four at a time.
// Needs the constants COLUMNS (of the input), PADDING_X and IN_BY_FOUR, the buffers in1 and in4, and the input's size.
// Input columns are loaded by fours from the last multiple of four on.
const int BEFORE = (PADDING_X + 3) / 4;
const int FOURS = BEFORE + (COLUMNS - PADDING_X + 3) / 4;

float seen[FOURS * 4];

// Loads the columns of a row, zero outside; `first` is the column of the first output's tap without padding.
void load_row(int plane, int row, int first) {
  bool row_inside = uint(row) < uint(height);
  int start = plane + (row_inside ? row * width : 0);
  [[unroll]] for (int q = 0; q < FOURS; q++) {
    int low = max(4 * q, 4 * BEFORE - PADDING_X);  // those that are needed
    int high = min(4 * q + 4, 4 * BEFORE - PADDING_X + COLUMNS);
    if (IN_BY_FOUR && high - low > 1) {
      int column = first + 4 * (q - BEFORE);
      bool inside = row_inside && uint(column) < uint(width);
      vec4 found = vec4(in4[(start + (inside ? column : 0)) >> 2]);
      [[unroll]] for (int i = 0; i < 4; i++) seen[4 * q + i] = inside ? found[i] : 0.0;
    } else {
      [[unroll]] for (int i = 0; i < 4; i++) {
        if (4 * q + i >= low && 4 * q + i < high) {
          int column = first + 4 * (q - BEFORE) + i;
          bool inside = row_inside && uint(column) < uint(width);
          float found = float(in1[start + (inside ? column : 0)]);
          seen[4 * q + i] = inside ? found : 0.0;
        }
      }
    }
  }
}

// The pixels of one tap, for four outputs.
vec4 seen_by(int tap, int stride, int dilation) {
  int at = 4 * BEFORE - PADDING_X + tap * dilation;
  return vec4(seen[at], seen[at + stride], seen[at + 2 * stride], seen[at + 3 * stride]);
}
