/*
 * NCCL or RCCL, loaded at run time: its calls, communicators, and buffers of each kind. The declarations are those that all
 * versions since 2.10 have, and the configuration of 2.27, which later versions read.
 */
#ifndef DMA_BENCH_NCCL_LIBRARY_H
#define DMA_BENCH_NCCL_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>

/* Plain buffers, registered ones, symmetric windows, and symmetric windows with copy engines (zero-CTA). */
enum { NCCL_PLAIN, NCCL_REGISTERED, NCCL_SYMMETRIC, NCCL_ZERO_CTA, NCCL_KINDS };

typedef struct nccl_pair {
    void *comm;
    char *send, *recv;
} nccl_pair_t;

/* NULL, or why not. */
const char *nccl_library_load(const char *path);
/* A communicator of all ranks, and its buffers. Of the kind NCCL_PLAIN the caller gives the buffers. On all ranks, or on none:
 * false, and nccl_library_why says why on a rank where it has failed. */
bool nccl_library_open(int kind, nccl_pair_t *pair, size_t send_room, size_t recv_room);
const char *nccl_library_why(void);
/* The result of a call of NCCL, and of the GPU's runtime. False, if it is not 0; nccl_library_why says which call has failed. */
bool nccl_library_good(int result, const char *call);
bool nccl_library_well(int error, const char *call);

/* Results of NCCL. Blocks have `bytes` bytes. */
int nccl_library_gather(const void *send, void *recv, size_t bytes, void *comm, void *stream);
int nccl_library_exchange(const void *send, void *recv, size_t bytes, void *comm, void *stream);
/* In bytes, by rank. */
int nccl_library_exchange_v(const char *send, const int *send_counts, const int *send_at, char *recv,
                            const int *recv_counts, const int *recv_at, void *comm, void *stream);

#endif
