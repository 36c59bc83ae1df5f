/* How often this thread has called malloc, calloc, realloc, free and their kin. */
#ifndef COUNT_MALLOC_H
#define COUNT_MALLOC_H

long malloc_calls(void);

#endif
