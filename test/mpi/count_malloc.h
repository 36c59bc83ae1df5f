/* How often this thread has called malloc, calloc, realloc, free and their relatives. */
#ifndef COUNT_MALLOC_H
#define COUNT_MALLOC_H

long malloc_calls(void);

#endif
