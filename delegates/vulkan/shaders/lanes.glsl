// Eight invocations that stand side by side work together: each loads something that all eight need.
//
// Where a subgroup has at least eight invocations they see each other's registers; otherwise (SHARED_LANES) a board in
// shared memory. SHOW puts a value up under a number below BOARD, SEE reads what lane `l` of the eight put up, and
// SETTLE stands between the two, and before the next SHOW, in uniform control flow.
layout(local_size_x_id = 100, local_size_y_id = 101) in;

#ifdef SHARED_LANES
#ifndef BOARD
#define BOARD 4
#endif
shared vec4 board[BOARD * gl_WorkGroupSize.x * gl_WorkGroupSize.y];
#define PLACE(number) ((number) * gl_WorkGroupSize.x * gl_WorkGroupSize.y + gl_LocalInvocationIndex)
#define SHOW(number, value) board[PLACE(number)] = value
#define SEE(number, value, l) board[(PLACE(number) & ~7u) + (l)]
#define SETTLE() barrier()
#else
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#define SHOW(number, value)
#define SEE(number, value, l) subgroupShuffle(value, (gl_SubgroupInvocationID & ~7u) + (l))
#define SETTLE()
#endif
