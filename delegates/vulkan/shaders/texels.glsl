// Texels as they lie in a buffer, four of them in one item of the array. KIND: 0 four bytes, 1 four halves, 2 four
// floats, 3 one byte, 4 one half, 5 one float.
#ifndef KIND
#define KIND 0
#endif
#if KIND == 1
struct Four { uvec4 first, second; };
#elif KIND == 2
struct Four { vec4 a, b, c, d; };
#elif KIND == 3
#define Four uint
#elif KIND == 4
#define Four uvec2
#elif KIND == 5
#define Four vec4
#else
#define Four uvec4
#endif
