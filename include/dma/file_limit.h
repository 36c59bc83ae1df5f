/* RLIMIT_FSIZE: a process that extends a file beyond this limit gets SIGXFSZ, which ends it. Memory files count, too. */
#ifndef DMA_FILE_LIMIT_H
#define DMA_FILE_LIMIT_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/resource.h>

/* `bytes`, or the limit if that is less. */
static inline size_t dma_file_limit(size_t bytes)
{
    struct rlimit limit;

    return getrlimit(RLIMIT_FSIZE, &limit) || limit.rlim_cur >= bytes ? bytes : (size_t)limit.rlim_cur;
}

/* May a file have so many bytes? */
static inline bool dma_file_may_have(size_t bytes)
{
    return dma_file_limit(bytes) == bytes;
}

#endif
