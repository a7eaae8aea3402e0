// Writes the numbers of four texels into the planes of a tensor; `numbers` is its buffer.
void write_numbers(uint first, vec4 a, vec4 b, vec4 c, vec4 d) {
#if VECTORS
  uint at = first / 4u, plane = texels / 4u;
  for (int channel = 0; channel < CHANNELS; ++channel)
    numbers[channel * plane + at] = vec4(a[channel], b[channel], c[channel], d[channel]);
#else
  for (int channel = 0; channel < CHANNELS; ++channel) {
    uint at = channel * texels + first;
    numbers[at] = a[channel];
    if (first + 1u < texels) numbers[at + 1u] = b[channel];
    if (first + 2u < texels) numbers[at + 2u] = c[channel];
    if (first + 3u < texels) numbers[at + 3u] = d[channel];
  }
#endif
}
