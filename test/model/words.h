/*
 * For GenMC, which compiles this in front of each harness: copies in words.
 *
 * GenMC follows loads and stores of one size at one place. The product's copies are of any number of bytes, with vectors.
 * In a harness every block is a number of 64-bit words, and these functions copy such blocks with plain loads and stores.
 */
#ifndef MODEL_WORDS_H
#define MODEL_WORDS_H

#include <stdint.h>
#include <string.h>
#include <sys/types.h>

static inline void *model_memcpy(void *to, const void *from, size_t bytes)
{
    for (size_t i = 0; i < bytes / 8; i++) {
        ((uint64_t *)to)[i] = ((const uint64_t *)from)[i];
    }
    return to;
}

/* In words of 32 bits. Nobody reads 64 bits of such memory: leave.c only looks for races. */
static inline void *model_memset(void *to, int byte, size_t bytes)
{
    for (size_t i = 0; i < bytes / 4; i++) {
        ((uint32_t *)to)[i] = (uint32_t)byte;
    }
    return to;
}

#define memcpy model_memcpy
#define memset model_memset

/* include/dma/copy.h, which is not compiled then. */
#define DMA_COPY_H
#define dma_copy       model_memcpy
#define dma_copy_small model_memcpy

/* What GenMC's headers lack of those that arena.c includes. Arenas of a harness are mapped and have their pages. */
#define FALLOC_FL_KEEP_SIZE  0
#define FALLOC_FL_PUNCH_HOLE 0
#define _SC_PAGESIZE         0
#define F_WRLCK              0
#define F_RDLCK              0
#define F_UNLCK              0
#define F_OFD_SETLK          0
#define F_OFD_GETLK          0
#define sysconf(name)        4096L
typedef int pid_t;
struct flock {
    short l_type, l_whence;
};
int snprintf(char *text, size_t size, const char *format, ...);
int posix_fallocate(int fd, off_t offset, off_t bytes);
int fallocate(int fd, int mode, off_t offset, off_t bytes);
int fcntl(int fd, int command, ...);
int fchmod(int fd, unsigned mode);
int ftruncate(int fd, off_t bytes);
void *calloc(size_t count, size_t bytes);

#endif
