/*
 * The room of files that are mapped, memory files too.
 *
 * RLIMIT_FSIZE: a process that extends a file beyond this limit gets SIGXFSZ, which ends it.
 */
#ifndef DMA_FILE_ROOM_H
#define DMA_FILE_ROOM_H

#include <errno.h>
#include <fcntl.h>
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

/* Allocates pages, so that a store to a mapping of them cannot fail. Else errno says why. In older kernels a signal, for example
 * of a profiler's timer, interrupts this. */
static inline bool dma_file_allocate(int fd, size_t at, size_t bytes)
{
    int rc;

    do {
        rc = posix_fallocate(fd, (off_t)at, (off_t)bytes);
    } while (rc == EINTR);
    errno = rc;
    return rc == 0;
}

#endif
