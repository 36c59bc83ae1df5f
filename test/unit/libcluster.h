/*
 * The reference interpreter of cluster plans (ompi_coll_dma/plan/cluster/cluster.h).
 *
 * It runs the plans of all ranks of a job for one call. Memory is inside one thread. A seeded scheduler does whatever
 * the contract allows:
 *
 *   - any lane of any rank goes next;
 *   - operations under way move their bytes at any time and end in any order;
 *   - a send may take its bytes at once, or wait for its receive;
 *   - where the plan of a rank is relayed, sends take their bytes first, and what arrives is put aside for as long as the
 *     scheduler likes before it gets into its place.
 *
 * Memory belongs to one rank. Bytes leave it only in messages and in the collectives of the ranks of its node, which
 * begin when all of these ranks have reached them.
 *
 * The interpreter reports:
 *
 *   - two operations of a rank that are under way and touch the same bytes, if one of them writes;
 *   - bytes outside of a buffer;
 *   - messages or collectives that do not match;
 *   - a job that does not end;
 *   - wrong bytes at the end, and changed bytes in a send buffer or around a buffer.
 */
#ifndef DMA_TEST_LIBCLUSTER_H
#define DMA_TEST_LIBCLUSTER_H

#include <stdbool.h>
#include <stdint.h>

#include "plan/cluster/cluster.h"

typedef enum cluster_error {
    CLUSTER_OK,
    CLUSTER_BOUNDS,
    CLUSTER_RACE,
    CLUSTER_NET,   /* a message and its receive have different sizes */
    CLUSTER_LOCAL, /* the ranks of a node are in different collectives */
    CLUSTER_DEADLOCK,
    CLUSTER_DATA,
    CLUSTER_CANARY,
} cluster_error_t;

typedef struct cluster_job {
    dma_coll_t coll;
    int nranks;
    dma_cluster_plan_t *const *plans; /* by rank */
    const uint64_t *bytes;            /* bytes[s * nranks + d]: what rank s sends to rank d */
    uint64_t seed;
    bool narrow; /* a rank has one send and one receive under way at a time; the send waits for its receive */
} cluster_job_t;

typedef struct cluster_report {
    cluster_error_t error;
    char text[300];
    uint64_t messages, sent, collectives, most_temp;
} cluster_report_t;

/* The file profiles/bed-1gbit.txt. */
const char *cluster_bed_profile(void);

bool cluster_run(const cluster_job_t *job, cluster_report_t *report);

#endif
