/*
 * beside [-s SECONDS] [-b BYTES] [-k KEEPALIVE]: ucx_tl and MPI side by side in one process, with any pml. Every rank
 * exchanges BYTES (20000) with every other rank over ucx_tl, between two barriers of MPI, for SECONDS (3), and checks them.
 *
 * Ends with one line per rank: "rank R: right, N rounds, slowest S s", or, if a peer is lost, "rank R: ERROR after S s",
 * where S is the time since the last complete round. It is also run across the hosts of a testbed.
 */
#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ucx_tl.h"

typedef struct job {
    int rank, n;
    double seconds, keepalive;
    size_t bytes;
    dma_ucx_t *net;
    dma_ucx_peer_t **peers;
    unsigned char *in, *out;
    dma_ucx_req_t **reqs;
} job_t;

static void options(job_t *job, int argc, char **argv)
{
    int option;

    *job = (job_t){.seconds = 3, .keepalive = 15, .bytes = 20000};
    while ((option = getopt(argc, argv, "s:b:k:")) != -1) {
        switch (option) {
        case 's':
            job->seconds = atof(optarg);
            break;
        case 'b':
            job->bytes = (size_t)atol(optarg);
            break;
        case 'k':
            job->keepalive = atof(optarg);
            break;
        default:
            exit(2);
        }
    }
}

static void check(dma_status_t status, const char *what)
{
    if (status != DMA_OK) {
        fprintf(stderr, "%s: %s\n", what, dma_status_name(status));
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

static void start(job_t *job)
{
    char(*all)[DMA_NET_ADDRESS_MAX], own[DMA_NET_ADDRESS_MAX] = {0};
    dma_ucx_config_t config = {.processes = 1, .local_processes = 1};
    const void *address;
    size_t bytes;

    MPI_Comm_rank(MPI_COMM_WORLD, &job->rank);
    MPI_Comm_size(MPI_COMM_WORLD, &job->n);
    config.key = (uint64_t)job->rank;
    config.keepalive_seconds = job->keepalive;
    check(dma_ucx_create(&config, &job->net), "create");
    for (int r = 0; r < job->n; r++) {
        check(dma_ucx_comm_register(job->net, 0, (uint32_t)r), "join");
    }
    address = dma_ucx_get_address(job->net, &bytes);
    memcpy(own, address, bytes);
    all = malloc((size_t)job->n * sizeof(*all));
    MPI_Allgather(own, sizeof(own), MPI_BYTE, all, sizeof(own), MPI_BYTE, MPI_COMM_WORLD);
    job->peers = calloc((size_t)job->n, sizeof(*job->peers));
    job->reqs = calloc(2 * (size_t)job->n, sizeof(*job->reqs));
    job->in = malloc((size_t)job->n * job->bytes);
    job->out = malloc(job->bytes);
    for (int r = 0; r < job->n; r++) {
        check(dma_ucx_peer_create(job->net, (uint64_t)r, all[r], sizeof(own), &job->peers[r]), "peer");
    }
    free(all);
}

/* All ranks with all. Returns DMA_OK or the first error. */
static dma_status_t one_round(job_t *job, uint32_t seq)
{
    dma_status_t status, worst = DMA_OK;

    memset(job->out, (int)(seq + (uint32_t)job->rank) & 0xff, job->bytes);
    for (int r = 0; r < 2 * job->n; r++) {
        int peer = r / 2;
        dma_net_tag_t tag = {.owner = (uint32_t)(r % 2 ? job->rank : peer), .seq = seq};

        if (peer != job->rank) {
            status = r % 2 ? dma_ucx_isend(job->net, job->peers[peer], &tag, job->out, job->bytes, &job->reqs[r])
                           : dma_ucx_irecv(job->net, job->peers[peer], &tag, job->in + (size_t)peer * job->bytes,
                                           job->bytes, &job->reqs[r]);
            worst = worst == DMA_OK ? status : worst;
        }
    }
    for (int r = 0; r < 2 * job->n && worst == DMA_OK; r++) {
        while (job->reqs[r] && (status = dma_ucx_test(job->net, &job->reqs[r])) != DMA_OK && worst == DMA_OK) {
            worst = status == DMA_AGAIN ? DMA_OK : status;
            dma_ucx_progress(job->net);
            sched_yield();
        }
    }
    for (int r = 0; r < job->n && worst == DMA_OK; r++) {
        for (size_t i = 0; i < job->bytes && r != job->rank; i++) {
            if (job->in[(size_t)r * job->bytes + i] != ((seq + (uint32_t)r) & 0xff)) {
                printf("rank %d: WRONG DATA of %d in round %u\n", job->rank, r, seq);
                MPI_Abort(MPI_COMM_WORLD, 1);
            }
        }
    }
    return worst;
}

int main(int argc, char **argv)
{
    job_t job;
    double begin, last, now, slowest = 0;
    uint32_t seq = 0;
    int more = 1;

    MPI_Init(&argc, &argv);
    options(&job, argc, argv);
    start(&job);
    for (begin = last = MPI_Wtime(); more; last = now) {
        dma_status_t status = one_round(&job, seq++);

        now = MPI_Wtime();
        if (status != DMA_OK) {
            printf("rank %d: %s after %.1f s\n", job.rank, dma_status_name(status), now - last);
            fflush(stdout);
            dma_ucx_destroy(job.net);
            /* MPI must not send anything to ranks that are gone. */
            _exit(3);
        }
        slowest = now - last > slowest ? now - last : slowest;
        if (seq == 1) {
            puts("looping");
            fflush(stdout);
        }
        more = now - begin < job.seconds;
        /* MPI's own messages go over the pml, beside ours. */
        MPI_Bcast(&more, 1, MPI_INT, 0, MPI_COMM_WORLD);
    }
    printf("rank %d: right, %u rounds, slowest %.2f s\n", job.rank, seq, slowest);
    dma_ucx_destroy(job.net);
    free(job.peers);
    free(job.reqs);
    free(job.in);
    free(job.out);
    return MPI_Finalize();
}
