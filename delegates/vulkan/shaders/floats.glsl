// Elements that are computed with: float32, or float16 in memory and float32 in between.
#ifdef HALF
#extension GL_EXT_shader_16bit_storage : require
#define F float16_t
#define F4 f16vec4
#else
#define F float
#define F4 vec4
#endif
