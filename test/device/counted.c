/*
 * Counters against the statistics of the emulated node: random collectives in device memory, in every form. Afterwards the
 * packets, doorbells and bytes that coll/dma has counted are exactly those that the node has seen of its queues, on every
 * rank.
 *
 *   mpirun -n N counted SEED CALLS
 *
 * All ranks draw the same calls. Queues are made and packets are tried in the first call, which is not counted.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../mpi/verify.h"
#include "hip.h"
#include "pvar.h"

enum { MOST_BYTES = 1 << 20, PATIENCE = 5000 };

static MPI_T_pvar_session session;
static int rank, nranks;
static char *send_memory, *recv_memory;
static unsigned long long random_state;

static unsigned draw(unsigned below)
{
    random_state = random_state * 6364136223846793005ull + 1442695040888963407ull;
    return (unsigned)(random_state >> 33) % below;
}

typedef struct {
    MPI_T_pvar_handle packets, skipped, doorbells, nudges, bytes;
} handles_t;

/* One call of any operation and form, with blocks of one size. */
static void call(void)
{
    unsigned what = draw(4), form = draw(3);
    int bytes = (int)draw(4) == 0 ? (int)draw(MOST_BYTES) : (int)draw(20000), in_place = (int)draw(2);
    const void *send = in_place ? MPI_IN_PLACE : send_memory;
    int counts[64], displs[64], recv_displs[64], own = bytes;
    MPI_Request request;

    for (int i = 0; i < nranks; i++) {
        counts[i] = what == 1 ? (int)draw((unsigned)bytes + 1) : bytes;
        displs[i] = recv_displs[i] = i * bytes;
    }
    own = counts[rank];
    if (form == 0) {
        switch (what) {
        case 0:
            MPI_Allgather(send, bytes, MPI_BYTE, recv_memory, bytes, MPI_BYTE, MPI_COMM_WORLD);
            return;
        case 1:
            MPI_Allgatherv(send, own, MPI_BYTE, recv_memory, counts, displs, MPI_BYTE, MPI_COMM_WORLD);
            return;
        case 2:
            MPI_Alltoall(send, bytes, MPI_BYTE, recv_memory, bytes, MPI_BYTE, MPI_COMM_WORLD);
            return;
        default:
            MPI_Alltoallv(send, counts, displs, MPI_BYTE, recv_memory, counts, recv_displs, MPI_BYTE, MPI_COMM_WORLD);
            return;
        }
    }
    if (form == 1) {
        MPI_Ialltoall(send, bytes, MPI_BYTE, recv_memory, bytes, MPI_BYTE, MPI_COMM_WORLD, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        return;
    }
    PERSISTENT(Allgather)
    (send, bytes, MPI_BYTE, recv_memory, bytes, MPI_BYTE, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
    for (unsigned starts = draw(4); starts > 0; starts--) {
        MPI_Start(&request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    MPI_Request_free(&request); /* programs that are armed are removed */
}

/* After the calls have returned, engines complete what they skip, and their last fences. */
static int compare(const handles_t *h, const hip_stats_t *before)
{
    long packets = pvar_value(session, h->packets) - pvar_value(session, h->skipped),
         doorbells = pvar_value(session, h->doorbells), bytes = pvar_value(session, h->bytes);
    hip_stats_t now = {0};

    for (int i = 0; i < PATIENCE; i++) {
        hip_stats(&now);
        if (now.packets - before->packets == packets && now.bytes - before->bytes == bytes) {
            break;
        }
        usleep(1000);
    }
    VERIFY(packets == now.packets - before->packets);
    /* The node sees the last of several doorbells. Programs of two runs may be in a queue before it looks, and a queue that is so
     * late may be nudged. */
    VERIFY(doorbells >= now.doorbells - before->doorbells &&
           doorbells - pvar_value(session, h->nudges) <= 2 * (now.doorbells - before->doorbells));
    VERIFY(bytes == now.bytes - before->bytes);
    if (verify_failed) {
        fprintf(stderr, "rank %d: counted %ld packets, %ld doorbells, %ld bytes; the node %ld, %ld, %ld\n", rank,
                packets, doorbells, bytes, now.packets - before->packets, now.doorbells - before->doorbells,
                now.bytes - before->bytes);
    }
    VERIFY(packets > 0 && bytes > 0);
    return verify_failed != 0;
}

int main(int argc, char **argv)
{
    int devices, provided, failed, calls = argc > 2 ? atoi(argv[2]) : 20;
    hip_stats_t before;
    handles_t h;

    random_state = argc > 1 ? strtoull(argv[1], NULL, 0) : 1;
    MPI_Init(&argc, &argv);
    MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
    MPI_T_pvar_session_create(&session);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &nranks);
    if (!hip_open(&devices)) {
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    hip_must("hipSetDevice", hip.hipSetDevice(rank % devices));
    send_memory = hip_take((size_t)nranks * MOST_BYTES);
    recv_memory = hip_take((size_t)nranks * MOST_BYTES);
    MPI_Allgather(send_memory, 8, MPI_BYTE, recv_memory, 8, MPI_BYTE, MPI_COMM_WORLD);
    MPI_Barrier(MPI_COMM_WORLD);
    usleep(200000); /* the last fence of the first call */
    if (!hip_stats(&before)) {
        MPI_Abort(MPI_COMM_WORLD, 3);
    }
    h = (handles_t){.packets = pvar_open(session, "coll_dma_packets", MPI_T_PVAR_CLASS_COUNTER),
                    .skipped = pvar_open(session, "coll_dma_packets_skipped", MPI_T_PVAR_CLASS_COUNTER),
                    .doorbells = pvar_open(session, "coll_dma_doorbells", MPI_T_PVAR_CLASS_COUNTER),
                    .nudges = pvar_open(session, "coll_dma_nudges", MPI_T_PVAR_CLASS_COUNTER),
                    .bytes = pvar_open(session, "coll_dma_bytes_engines", MPI_T_PVAR_CLASS_AGGREGATE)};
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < calls; i++) {
        call();
    }
    MPI_Barrier(MPI_COMM_WORLD);
    compare(&h, &before);
    MPI_T_pvar_session_free(&session);
    MPI_T_finalize();
    failed = verify_summary("counted", MPI_COMM_WORLD);
    hip_must("hipFree", hip.hipFree(send_memory));
    hip_must("hipFree", hip.hipFree(recv_memory));
    MPI_Finalize();
    return failed;
}
