/* Cases of stream_cases.c: what is freed while a stream waits, or after it was destroyed. */
#include "../../include/mpi_names.h"
#include "stream_lane.h"

/* Rank 0 makes its start when the others have come back from all calls. Meanwhile the exchange has memory of the device that is freed,
 * and memory of the lane `before` is still open at its peers when the next lane gets its addresses. */
void lane_freed(void)
{
    lane_t a, b, c, before;
    MPI_Request exchange;

    lane_make(&a);
    lane_make(&b);
    lane_step(&a);
    lane_step(&b);
    GOOD(MPIX_Queue_wait(b.queue));
    lane_step_by_host(&b);
    lane_check(&b);
    GOOD(PERSISTENT(Alltoall)(MPI_IN_PLACE, WORDS, MPI_INT, b.recv, WORDS, MPI_INT, b.comm, MPI_INFO_NULL, &exchange));
    GOOD(MPIX_Enqueue_start(b.queue, &exchange));
    GOOD(MPIX_Queue_wait(b.queue));
    lane_make(&before);
    lane_step_by_host(&before);
    lane_free(&before);
    if (rank) {
        lane_step(&a);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    GOOD(MPI_Request_free(&exchange));
    GOOD(MPI_Request_free(&b.request));
    GOOD(MPI_Comm_free(&b.comm));
    lane_free_queue(&b);
    lane_make(&c);
    lane_step_by_host(&c);
    lane_step(&c);
    GOOD(MPIX_Queue_wait(c.queue));
    MUST(!rank || lane_is_busy(&a)); /* before rank 0 goes on */
    MPI_Barrier(MPI_COMM_WORLD);
    if (!rank) {
        lane_step(&a);
    }
    GOOD(MPIX_Queue_wait(a.queue));
    lane_free(&a);
    lane_free(&c);
    lane_free_memory(&b);
}

/* Ranks 0 and 1 have a lane without the last rank. While rank 1 waits in it, all free their only lane with the last rank, whose shared
 * memory the device could access. A later lane uses that memory again. */
void lane_apart(void)
{
    lane_t both, all;
    MPI_Comm part;

    GOOD(MPI_Comm_split(MPI_COMM_WORLD, rank == ranks - 1, rank, &part));
    lane_make_on(&both, part);
    for (int i = 0; i < 3; i++) {
        lane_make(&all);
        lane_step(&all);
        GOOD(MPIX_Queue_wait(all.queue));
        if (rank == 1) {
            lane_step(&both);
        }
        MPI_Barrier(MPI_COMM_WORLD);
        GOOD(MPI_Request_free(&all.request));
        GOOD(MPI_Comm_free(&all.comm));
        MUST(rank != 1 || lane_is_busy(&both));
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank != 1) {
            lane_step(&both);
        }
        GOOD(MPIX_Queue_wait(both.queue));
        lane_check(&all);
        lane_free_queue(&all);
        lane_free_memory(&all);
    }
    lane_free(&both);
    GOOD(MPI_Comm_free(&part));
}

/* The stream goes first. */
static void replace_stream(lane_t *lane)
{
    gpu_must(gpu.stream_destroy(lane->stream), "destroy");
    GOOD(MPIX_Queue_free(&lane->queue));
    lane_make_queue(lane);
}

static void use_by_host(lane_t *lane)
{
    GOOD(MPIX_Match(&lane->request, MPI_STATUS_IGNORE));
    lane_step_by_host(lane);
    lane_step(lane);
    lane_free(lane);
}

/* On a communicator of one rank. */
static void gone_alone(void)
{
    lane_t lane;

    lane_make_on(&lane, MPI_COMM_SELF);
    for (int i = 0; i < 20; i++) {
        lane_step(&lane);
    }
    lane_start(&lane);
    replace_stream(&lane);
    lane_copy_out(&lane);
    use_by_host(&lane);
}

/* A queue is freed without MPIX_Queue_wait when its stream is gone: first one that has done everything; then, of one rank after the
 * other, one that still waits for this rank. */
void lane_gone(void)
{
    lane_t lane;

    lane_make(&lane);
    lane_step(&lane);
    lane_check(&lane);
    MPI_Barrier(lane.comm);
    replace_stream(&lane);
    use_by_host(&lane);
    for (int late = 0; late < ranks; late++) {
        lane_make(&lane);
        if (rank == late) {
            usleep(30000);
        }
        for (int i = 0; i < 5; i++) {
            lane_step(&lane);
        }
        lane_start(&lane);
        replace_stream(&lane);
        lane_copy_out(&lane); /* what the last start has received is there */
        use_by_host(&lane);
    }
    gone_alone();
}
