/*
 * The reference interpreter of cluster plans (ompi_coll_dma/plan/cluster/cluster.h).
 *
 * It runs the plans of all ranks of a job for one call, on memory inside one thread, under a seeded scheduler that does
 * whatever the contract allows: any lane of any rank goes next; operations under way move their bytes at any time and end
 * in any order; a send may take its bytes with it at once or wait for its receive. Where a rank's plan is relayed, sends take
 * their bytes first and what comes is put aside, as long as the scheduler likes, before it is in its place. Memory belongs to
 * a rank, and the only ways out of it are messages and the collectives of its node's ranks, which begin when all of them have
 * come to it.
 *
 * What it finds: two operations of a rank under way that touch the same bytes, one to write; bytes outside of a buffer;
 * messages and collectives that do not fit together; ends that never come; wrong bytes at the end, changed bytes in a send
 * buffer or around any.
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
    CLUSTER_NET,   /* a message of another size than its receive */
    CLUSTER_LOCAL, /* ranks of a node in different collectives */
    CLUSTER_DEADLOCK,
    CLUSTER_DATA,
    CLUSTER_CANARY,
} cluster_error_t;

typedef struct cluster_job {
    dma_coll_t coll;
    int nranks;
    dma_cluster_plan_t *const *plans; /* by rank */
    const uint64_t *bytes;            /* bytes[s * nranks + d]: what rank s has for rank d */
    uint64_t seed;
    bool narrow; /* a rank sends one message at a time, which waits for its receive, and receives one at a time */
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
