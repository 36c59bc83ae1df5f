/* Linked into a program. Replaces malloc and its relatives in the whole process, and counts the calls of each thread. */
#include "count_malloc.h"

#include <errno.h>
#include <stddef.h>

extern void *__libc_malloc(size_t bytes);
extern void *__libc_calloc(size_t n, size_t bytes);
extern void *__libc_realloc(void *old, size_t bytes);
extern void *__libc_memalign(size_t alignment, size_t bytes);
extern void __libc_free(void *memory);

#pragma GCC visibility push(default) /* otherwise the libraries of the process go on with the C library's */

static _Thread_local long calls;

long malloc_calls(void)
{
    return calls;
}

void *malloc(size_t bytes)
{
    calls++;
    return __libc_malloc(bytes);
}

void *calloc(size_t n, size_t bytes)
{
    calls++;
    return __libc_calloc(n, bytes);
}

void *realloc(void *old, size_t bytes)
{
    calls++;
    return __libc_realloc(old, bytes);
}

void *memalign(size_t alignment, size_t bytes)
{
    calls++;
    return __libc_memalign(alignment, bytes);
}

void *aligned_alloc(size_t alignment, size_t bytes)
{
    calls++;
    return __libc_memalign(alignment, bytes);
}

int posix_memalign(void **memory, size_t alignment, size_t bytes)
{
    calls++;
    void *got = __libc_memalign(alignment, bytes);
    if (got == NULL) {
        return ENOMEM;
    }
    *memory = got;
    return 0;
}

void free(void *memory)
{
    calls += memory != NULL;
    __libc_free(memory);
}
