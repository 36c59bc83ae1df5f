/* The part of a rank in a communicator over several nodes. Ranks are threads (libthreads.h), and the network is
 * memory (libwire.h). */
#ifndef DMA_TEST_LIBPART_H
#define DMA_TEST_LIBPART_H

#include "libthreads.h"

typedef struct part {
    dma_comm_t *comm;
    uint8_t *send, *recv;
    size_t most;
} part_t;

/* The lowest ranks of the nodes, for six, six and four ranks. */
extern const int part_of_six[6], part_in_turn[6], part_alone[4];

/* A job of n ranks on such nodes, with one variant between nodes. */
job_t part_job(int n, const int *firsts, void (*body)(rank_t *), const char *variant);
void part_run(job_t *job);

/* A communicator of its own, and buffers for blocks of at most `most` bytes. */
void part_open(rank_t *r, part_t *p, size_t most);
void part_close(part_t *p);
/* Prepares an all-gather or all-to-all of blocks that belong to `tag`, with an empty receive buffer; checks what
 * was received. */
dma_call_t part_call(rank_t *r, part_t *p, dma_coll_t coll, bool in_place, size_t bytes, uint64_t tag);
void part_check(rank_t *r, part_t *p, dma_coll_t coll, size_t bytes, uint64_t tag);
/* A dma_done_t: `arg` counts, 100 for an error. */
void part_count(void *arg, dma_status_t status);

#endif
