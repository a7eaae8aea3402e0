/* Expensive checks: on in a build with ETARENA_DEBUG=1, otherwise removed by the compiler. */
#ifndef ALLOCATOR_DEBUG_H_
#define ALLOCATOR_DEBUG_H_

#ifndef ETARENA_DEBUG
#define ETARENA_DEBUG 0
#endif

#endif /* ALLOCATOR_DEBUG_H_ */
