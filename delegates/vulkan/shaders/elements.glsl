// Elements of tensors, four consecutive ones at a time, whatever their dtype: buffers are words of 32 bits, the dtype is
// a specialization constant. Needs no feature of the device, and nobody writes a word that another invocation writes.

layout(local_size_x = 64, local_size_x_id = 100) in;  // before gl_WorkGroupSize is used

const int F32 = 0, F16 = 1, I32 = 2, I64 = 3, U8 = 4, I8 = 5, B8 = 6;

// What is computed with: bits of floats or of ints.
const int FLOAT = 0, INT = 1;

layout(constant_id = 90) const bool TAIL = true;  // whether a tensor's number of elements is no multiple of four

uint invocation() {
  return (gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x) * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
}

int kind_of(int type) { return type <= F16 ? FLOAT : INT; }

// Numbers of one kind as those of another.
uvec4 as_kind(uvec4 bits, int from, int to) {
  if (from == to) return bits;
  return to == FLOAT ? floatBitsToUint(vec4(ivec4(bits))) : uvec4(ivec4(uintBitsToFloat(bits)));
}

// Nearest half, ties to even: packHalf2x16 may cut off.
uvec4 to_halves(uvec4 bits) {
  uvec4 magnitude = bits & 0x7fffffffu;
  uvec4 small = floatBitsToUint(uintBitsToFloat(magnitude) + 0.5) - 0x3f000000u;
  uvec4 normal = (magnitude + 0xc8000fffu + ((magnitude >> 13) & 1u)) >> 13;
  uvec4 special = mix(uvec4(0x7c00u), uvec4(0x7e00u), greaterThan(magnitude, uvec4(0x7f800000u)));
  uvec4 finite = mix(normal, small, lessThan(magnitude, uvec4(0x38800000u)));
  return mix(finite, special, greaterThanEqual(magnitude, uvec4(0x47800000u))) | ((bits >> 16) & 0x8000u);
}

uvec4 from_halves(uvec2 words) {
  return floatBitsToUint(vec4(unpackHalf2x16(words.x), unpackHalf2x16(words.y)));
}

uvec4 from_bytes(uint word, int type) {
  uvec4 bytes = (uvec4(word) >> uvec4(0, 8, 16, 24)) & 0xffu;
  return type == I8 ? uvec4(ivec4(bytes << 24) >> 24) : bytes;
}

// What a tensor of a type holds for a number: floats for F32 and F16, else ints.
uvec4 as_type(uvec4 bits, int kind, int type) {
  if (type != B8) return as_kind(bits, kind, kind_of(type));
  if (kind == FLOAT) return uvec4(notEqual(uintBitsToFloat(bits), vec4(0.0)));
  return uvec4(notEqual(bits, uvec4(0u)));
}

// NAME_at(i): element i. NAME_four(u, n): elements 4u to 4u+3 of n; those beyond are any number.
#define READER(NAME, BINDING, TYPE)                                                                     \
  layout(set = 0, binding = BINDING) readonly buffer NAME##Words { uint NAME##_words[]; };              \
  layout(set = 0, binding = BINDING) readonly buffer NAME##Pairs { uvec2 NAME##_pairs[]; };             \
  layout(set = 0, binding = BINDING) readonly buffer NAME##Fours { uvec4 NAME##_fours[]; };             \
  uint NAME##_at(uint i) {                                                                              \
    if (TYPE == F32 || TYPE == I32) return NAME##_words[i];                                             \
    if (TYPE == F16)                                                                                    \
      return floatBitsToUint(unpackHalf2x16(NAME##_words[i >> 1] >> ((i & 1u) << 4)).x);                \
    if (TYPE == I64) return NAME##_words[2 * i];                                                        \
    return from_bytes(NAME##_words[i >> 2] >> ((i & 3u) << 3), TYPE).x;                                 \
  }                                                                                                     \
  uvec4 NAME##_four(uint u, uint n) {                                                                   \
    if (TYPE == U8 || TYPE == I8 || TYPE == B8) return from_bytes(NAME##_words[u], TYPE);               \
    if (TYPE == F16) {                                                                                  \
      if (!TAIL || 4 * u + 2 < n) return from_halves(NAME##_pairs[u]);                                  \
      return from_halves(uvec2(NAME##_words[2 * u], 0u));                                               \
    }                                                                                                   \
    if (!TAIL || 4 * u + 4 <= n) {                                                                      \
      if (TYPE == I64) return uvec4(NAME##_fours[2 * u].xz, NAME##_fours[2 * u + 1].xz);                \
      return NAME##_fours[u];                                                                           \
    }                                                                                                   \
    uvec4 i = min(uvec4(4 * u) + uvec4(0, 1, 2, 3), uvec4(n - 1));                                      \
    return uvec4(NAME##_at(i.x), NAME##_at(i.y), NAME##_at(i.z), NAME##_at(i.w));                       \
  }

// NAME_put(u, n, bits): set elements 4u to 4u+3, as far as there are n. NAME_set(i, bits): one element; not of types
// that share words.
#define WRITER(NAME, BINDING, TYPE)                                                                     \
  layout(set = 0, binding = BINDING) writeonly buffer NAME##Words { uint NAME##_words[]; };             \
  layout(set = 0, binding = BINDING) writeonly buffer NAME##Pairs { uvec2 NAME##_pairs[]; };            \
  layout(set = 0, binding = BINDING) writeonly buffer NAME##Fours { uvec4 NAME##_fours[]; };            \
  void NAME##_set(uint i, uint bits) {                                                                  \
    if (TYPE == I64) NAME##_pairs[i] = uvec2(bits, uint(int(bits) >> 31));                              \
    else NAME##_words[i] = bits;                                                                        \
  }                                                                                                     \
  void NAME##_put(uint u, uint n, uvec4 bits) {                                                         \
    if (TYPE == U8 || TYPE == I8 || TYPE == B8) {                                                       \
      uvec4 bytes = (bits & 0xffu) << uvec4(0, 8, 16, 24);                                              \
      NAME##_words[u] = bytes.x | bytes.y | bytes.z | bytes.w;                                          \
    } else if (TYPE == F16) {                                                                           \
      uvec4 halves = to_halves(bits);                                                                   \
      uvec2 words = halves.xz | (halves.yw << 16);                                                      \
      if (!TAIL || 4 * u + 2 < n) NAME##_pairs[u] = words;                                              \
      else NAME##_words[2 * u] = words.x;                                                               \
    } else if (!TAIL || 4 * u + 4 <= n) {                                                               \
      if (TYPE == I64) {                                                                                \
        uvec4 high = uvec4(ivec4(bits) >> 31);                                                          \
        NAME##_fours[2 * u] = uvec4(bits.x, high.x, bits.y, high.y);                                    \
        NAME##_fours[2 * u + 1] = uvec4(bits.z, high.z, bits.w, high.w);                                \
      } else NAME##_fours[u] = bits;                                                                    \
    } else {                                                                                            \
      for (uint k = 0; k < 4 && 4 * u + k < n; k++) NAME##_set(4 * u + k, bits[k]);                     \
    }                                                                                                   \
  }
