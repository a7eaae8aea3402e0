// What both forms of attention load and store. Tensors are (batch, head, row, column).
#ifdef BYTES_MASK
#extension GL_EXT_shader_8bit_storage : require
#define MASK_STORED uint8_t
#else
#define MASK_STORED STORED
#endif

layout(constant_id = 0) const uint WIDTH = 16;        // vectors of four in a query or key
layout(constant_id = 1) const uint VALUE_WIDTH = 16;  // and in a value
layout(constant_id = 2) const int MASK = 0;           // 1: there is one: bytes that allow, or numbers to add
layout(constant_id = 3) const bool SAME_MASK = false; // for all queries
layout(constant_id = 4) const bool CAUSAL = false;    // a query sees keys up to its own
layout(constant_id = 5) const uint TAIL = 0;          // columns in the last vector of a query or key, 0 if all
layout(constant_id = 6) const uint VALUE_TAIL = 0;

layout(push_constant) uniform Parameters {
  uint queries, keys;
  uint heads;         // of the queries
  uint key_heads;
  uint head_repeats;  // heads of queries that share one of keys
  float scale;
  int ahead;   // how many keys the first query may see before the one that is its own
  int window;  // how many keys a query may see
  uint mask_batch, mask_head, mask_query, mask_key;  // strides
};
layout(set = 0, binding = 0) readonly buffer Query4 { STORED4 query4[]; };
layout(set = 0, binding = 0) readonly buffer Query1 { STORED query1[]; };
layout(set = 0, binding = 1) readonly buffer Key4 { STORED4 key4[]; };
layout(set = 0, binding = 1) readonly buffer Key1 { STORED key1[]; };
layout(set = 0, binding = 2) readonly buffer Value4 { STORED4 value4[]; };
layout(set = 0, binding = 2) readonly buffer Value1 { STORED value1[]; };
layout(set = 0, binding = 3) readonly buffer Mask { MASK_STORED mask[]; };
layout(set = 0, binding = 4) writeonly buffer Out4 { STORED4 out4[]; };
layout(set = 0, binding = 4) writeonly buffer Out1 { STORED out1[]; };

#define NOTHING uintBitsToFloat(0xff800000u)  // minus infinity
const float LOWEST = -3.402823466e38;         // the lowest number

uint batch, head;

#define COLUMNS (TAIL == 0 ? WIDTH * 4 : WIDTH * 4 - 4 + TAIL)
#define VALUE_COLUMNS (VALUE_TAIL == 0 ? VALUE_WIDTH * 4 : VALUE_WIDTH * 4 - 4 + VALUE_TAIL)

// Vector i of a row whose last vector has `tail` columns; what is behind the end is zero.
#define LOAD(vectors, numbers, row, columns, width, tail, i)                                               \
  if (tail == 0) return vec4(vectors[(row) * width + i]);                                                  \
  uint at = (row) * columns + i * 4, last = (i == width - 1 ? tail : 4) - 1;                               \
  vec4 found = vec4(numbers[at], numbers[at + min(1, last)], numbers[at + min(2, last)], numbers[at + last]); \
  return mix(vec4(0.0), found, lessThanEqual(uvec4(0, 1, 2, 3), uvec4(last)))

vec4 load_query(uint query, uint i) {
  LOAD(query4, query1, (batch * heads + head) * queries + query, COLUMNS, WIDTH, TAIL, i);
}

vec4 load_key(uint key, uint i) {
  LOAD(key4, key1, (batch * key_heads + head / head_repeats) * keys + key, COLUMNS, WIDTH, TAIL, i);
}

vec4 load_value(uint key, uint i) {
  LOAD(value4, value1, (batch * key_heads + head / head_repeats) * keys + key, VALUE_COLUMNS, VALUE_WIDTH, VALUE_TAIL, i);
}

// The keys from `begin_of` to before `end_of` are those that queries may see.
uint begin_of(uint query) { return CAUSAL ? uint(max(int(query) + ahead - window + 1, 0)) : 0; }

uint end_of(uint query) { return CAUSAL ? uint(clamp(int(query) + ahead + 1, 0, int(keys))) : keys; }

float load_mask(uint query, uint key) {
  uint at = batch * mask_batch + head * mask_head + query * mask_query + key * mask_key;
#ifdef BYTES_MASK
  return uint(mask[at]) != 0 ? 0.0 : NOTHING;
#else
  return float(mask[at]);
#endif
}

void store(uint query, uint i, vec4 value) {
  uint row = (batch * heads + head) * queries + query;
  if (VALUE_TAIL == 0) {
    out4[row * VALUE_WIDTH + i] = STORED4(value);
    return;
  }
  [[unroll]] for (uint j = 0; j < 4; j++) {
    if (i < VALUE_WIDTH - 1 || j < VALUE_TAIL) out1[row * VALUE_COLUMNS + i * 4 + j] = STORED(value[j]);
  }
}
