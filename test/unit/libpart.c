/* The part of a rank in communicators over several nodes: see libpart.h. */
#include "libpart.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libwire.h"

const int part_of_six[] = {0, 0, 0, 3, 4, 4}, part_in_turn[] = {0, 1, 0, 1, 0, 1}, part_alone[] = {0, 1, 2, 3};

static const int *node_firsts; /* by rank */

void part_open(rank_t *r, part_t *p, size_t most)
{
    p->comm = wire_comm(r, node_firsts[r->rank]);
    p->most = most;
    p->send = malloc((size_t)r->n * most);
    p->recv = malloc((size_t)r->n * most);
}

void part_close(part_t *p)
{
    dma_comm_destroy(p->comm);
    free(p->send);
    free(p->recv);
}

dma_call_t part_call(rank_t *r, part_t *p, dma_coll_t coll, bool in_place, size_t bytes, uint64_t tag)
{
    dma_call_t call = {.coll = coll, .in_place = in_place};
    size_t n = (size_t)r->n;

    memset(p->recv, 0x77, n * bytes);
    for (size_t d = 0; d < (coll == DMA_ALLGATHER ? 1 : n); d++) {
        size_t at = coll == DMA_ALLGATHER && in_place ? (size_t)r->rank : d;

        data_fill((in_place ? p->recv : p->send) + at * bytes, tag + (coll == DMA_ALLGATHER ? 0 : d), r->rank, bytes);
    }
    call.send = data_buffer(p->send, bytes);
    call.recv = data_buffer(p->recv, bytes);
    return call;
}

void part_check(rank_t *r, part_t *p, dma_coll_t coll, size_t bytes, uint64_t tag)
{
    for (int s = 0; s < r->n; s++) {
        uint64_t sent = tag + (coll == DMA_ALLGATHER ? 0 : (uint64_t)r->rank);
        size_t k = data_wrong(p->recv + (size_t)s * bytes, sent, s, bytes);

        must(r, k == bytes, "operation %d, %zu bytes: byte %zu of rank %d is wrong", coll, bytes, k, s);
    }
}

void part_count(void *arg, dma_status_t status)
{
    *(_Atomic int *)arg += status == DMA_OK ? 1 : 100;
}

job_t part_job(int n, const int *firsts, void (*body)(rank_t *), const char *variant)
{
    job_t job = threads_job(n, body);

    node_firsts = firsts;
    job.ncomms = 2;
    job.net_ops = &wire_threads;
    snprintf(job.params.net_variant, sizeof(job.params.net_variant), "%s", variant);
    job.params.net_chunk_bytes = 4096;
    return job;
}

void part_run(job_t *job)
{
    threads_run(job);
    wire_end();
}
