// How numbers lie in buffers: as float, or as half floats that are computed with as float (HALF).
#ifdef HALF
#extension GL_EXT_shader_16bit_storage : require
#define STORED float16_t
#define STORED4 f16vec4
#else
#define STORED float
#define STORED4 vec4
#endif
