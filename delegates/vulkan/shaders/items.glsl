// Elements that are only moved: unsigned words of ITEM bytes.
#ifndef ITEM
#define ITEM 4
#endif
#if ITEM == 1
#extension GL_EXT_shader_8bit_storage : require
#define T uint8_t
#elif ITEM == 2
#extension GL_EXT_shader_16bit_storage : require
#define T uint16_t
#elif ITEM == 4
#define T uint
#elif ITEM == 8
#define T uvec2
#else
#define T uvec4
#endif
