/*
 * The least that an all-gather can be: see bare.c.
 */
#ifndef BENCH_BARE_H
#define BENCH_BARE_H

#include <stdbool.h>

#define BARE_MOST 4096 /* bytes of a block at most */

/* Shared memory for all ranks of MPI_COMM_WORLD, which are on one node. Collective. */
void bare_open(void);
void bare_close(void);
void bare_allgather(const void *send, void *recv, int bytes, bool in_place);

#endif
