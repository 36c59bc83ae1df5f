/*
 * Measures what copies between two processes of this node cost, in the set-up of a communicator.
 *
 * The rate at which one core reads what another has written differs by a factor of ten between machines, and also
 * within one: cores that share a level-3 cache do it at 40 GB/s, other cores of the same processor at 10. So these
 * constants of the cost model are measured. Each rank writes a region of its shared memory before INFO (setup.c), reads
 * the region of the rank half the communicator away before RESULT, and publishes the measured times in RESULT. This
 * needs no further message. All ranks then have the same numbers and use their means. A region:
 *
 *     | pages for cross-memory reads | pieces that are read, and then written again | flag: this rank has read its peer's |
 *
 * To measure what it costs to write memory that another core has just read, a rank writes its own pieces again after
 * its reader has set the flag in its own region. The rank waits for the flag a few times as long as reading takes. If
 * ranks share cores, it does not wait.
 *
 * Nothing here can fail. What could not be measured is 0; then the constant stays, or is computed from the others.
 */
#ifndef DMA_MEASURE_H
#define DMA_MEASURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "plan/profile.h"

#define DMA_MEASURE_BYTES ((size_t)132 << 10)

/* Times in picoseconds. */
typedef struct dma_measured {
    uint64_t copy;  /* copy of 16 KiB within the cache of a core */
    uint64_t pull;  /* copy of 16 KiB that the peer's core has written; 0: nothing was measured */
    uint64_t cross; /* fixed cost of a cross-memory read; 0: cannot be done */
    uint64_t page;  /* cost of each page of such a read; 0: likewise */
    uint64_t push;  /* write of 16 KiB into memory that another core has just read; 0: not measured */
} dma_measured_t;

/* Fills this rank's region, which a peer reads. */
void dma_measure_write(char *region);

/* Reads the region of a peer. `pid` not 0: the peer's memory can also be read directly, and its region is at `addr`
 * there. */
dma_measured_t dma_measure_read(const char *region, pid_t pid, uint64_t addr);

/* Sets the flag in this rank's region: it has read the region of its peer. */
void dma_measure_set_read(char *region);
/* Waits for the flag in the region `readers` of the rank that reads `region`, then writes to `region`, this rank's own:
 * the time of 16 KiB, or 0. */
uint64_t dma_measure_rewrite(char *region, const char *readers);

/* The means of what n ranks have measured. What one of them has not measured is 0; without copy or pull, all is. */
dma_measured_t dma_measure_mean(const dma_measured_t *measured, int n);
/* Sets constants of `profile` to such means. false: nothing was measured. `oversubscribed`: there are more ranks than cores. */
bool dma_measure_apply(dma_profile_t *profile, const dma_measured_t *mean, bool oversubscribed);

#endif
