/*
 * What copies between two processes of this node cost, measured while a communicator is set up.
 *
 * How long it takes one core to fetch what another has written differs by ten between machines, and within one: cores that
 * share a level-3 cache do it at 40 GB/s, others of the same processor at 10. So the cost model's constants of this kind are
 * not built in. Each rank writes DMA_MEASURE_BYTES of its own shared memory before it says hello, and reads those of
 * another rank, half the communicator away, before its verdict, in which it tells what it has found: no message more. All
 * ranks have the same numbers then, and use their means.
 *
 *     | pages that are read by cross memory | pieces that are read, and then written again | told: they have been read |
 *
 * What it costs to write what another core has just read, a rank tries with its own pieces once it sees in its reader's
 * memory that they have been read. It waits for that a few times as long as reading takes, and where ranks take turns on
 * cores not at all.
 *
 * Nothing here can fail: what could not be measured is 0, and the constants stay as they are or follow from the others.
 */
#ifndef DMA_MEASURE_H
#define DMA_MEASURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "plan/profile.h"

#define DMA_MEASURE_BYTES ((size_t)132 << 10)

/* Picoseconds. */
typedef struct dma_measured {
    uint64_t copy;  /* of 16 KiB within a core's cache */
    uint64_t pull;  /* of 16 KiB that the peer's core has written; 0: nothing was measured */
    uint64_t cross; /* a cross-memory read without its pages; */
    uint64_t page;  /* each page: 0 without either */
    uint64_t push;  /* 16 KiB written into what another core has just read; 0: that was not to be seen */
} dma_measured_t;

/* Writes memory that a peer is to read. */
void dma_measure_write(char *region);

/* `region` is what a peer has written, mapped here; in its own memory it is at `addr`, where `pid` is not 0. */
dma_measured_t dma_measure_read(const char *region, pid_t pid, uint64_t addr);

/* `region`, our own, tells that we have read what we were to read. */
void dma_measure_set_read(char *region);
/* Writes to `region`, our own, once that of its reader tells it so: picoseconds for 16 KiB, or 0. */
uint64_t dma_measure_rewrite(char *region, const char *readers);

/* Changes the constants of `profile` to the means of what n ranks have measured, if all have: else false. `share`: they have
 * fewer cores than there are of them. */
bool dma_measure_apply(dma_profile_t *profile, const dma_measured_t *measured, int n, bool share);

#endif
