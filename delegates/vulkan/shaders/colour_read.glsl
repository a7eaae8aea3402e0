// Reads the numbers of four texels from the planes of a tensor; `numbers` is its buffer.
mat4 read_numbers(uint first) {
  mat4 planes = mat4(0.0);  // a column for each channel
#if VECTORS
  uint at = first / 4u, plane = texels / 4u;
  planes[0] = numbers[at];
  if (CHANNELS > 1) planes[1] = numbers[plane + at], planes[2] = numbers[2u * plane + at];
  if (CHANNELS > 3) planes[3] = numbers[3u * plane + at];
#else
  for (uint i = 0u; i < 4u && first + i < texels; ++i)
    for (int channel = 0; channel < CHANNELS; ++channel) planes[channel][i] = numbers[channel * texels + first + i];
#endif
  return transpose(planes);
}
