/*
 * Plain memory: the heap that brk extends, and the part of the main thread's stack that is in use.
 *
 * The kernel keeps both apart from every other mapping, so no GPU runtime has device memory there. A call whose buffers
 * are plain need not ask whether a runtime has been loaded or what the runtime knows of the buffers. That question costs
 * more than the rest of a small call (gpu/runtime.c).
 *
 * The answer is exact in one direction only. Other memory may belong to the host too: large allocations, allocators that
 * use mmap, stacks of other threads. Where the kernel does not tell where heap and stack begin, nothing is plain.
 *
 * The end of the heap is read where the C library keeps it, and not by sbrk(0): UCX replaces sbrk by a function of its own,
 * which is a system call each time. That function changes the C library's value, too.
 */
#ifndef DMA_NODE_PLAIN_H
#define DMA_NODE_PLAIN_H

#include <stdbool.h>
#include <stdint.h>
#include <unistd.h>

typedef struct dma_plain {
    uintptr_t heap_begin; /* 0: unknown */
    uintptr_t stack_end;  /* 0: unknown */
} dma_plain_t;

/* Reads what /proc says of this process. */
dma_plain_t dma_plain_read(void);

/* The stack of another thread is further away from the end of the main thread's: the kernel leaves at least 128 MiB. */
#define DMA_PLAIN_STACK_BYTES ((uintptr_t)64 << 20)
/* Mappings are further away from where the heap begins, and most addresses that are not plain are theirs. */
#define DMA_PLAIN_HEAP_BYTES ((uint64_t)1 << 40)

/* glibc exports it. Other C libraries lack it. */
extern void *__curbrk __attribute__((weak));

static inline uintptr_t dma_plain_heap_end(void)
{
    return (uintptr_t)(&__curbrk ? __curbrk : sbrk(0));
}

static inline bool dma_plain_holds(const dma_plain_t *plain, const void *address)
{
    char local; /* the stack of the calling thread is in use from here on */
    uintptr_t at = (uintptr_t)address, used = (uintptr_t)&local;

    if (at - used < plain->stack_end - used && plain->stack_end - used < DMA_PLAIN_STACK_BYTES) {
        return true;
    }
    return plain->heap_begin && at - plain->heap_begin < DMA_PLAIN_HEAP_BYTES && at < dma_plain_heap_end();
}

#endif
