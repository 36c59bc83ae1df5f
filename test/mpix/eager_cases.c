/*
 * eager_cases cuda LEVEL CASE...: single cases of eager starts (coll_dma_eager_bytes), with the fake CUDA. The script that runs them
 * sets the parameter: a lane has blocks of 2000 bytes.
 *
 *   starts    each rank chooses for each start whether its stream or the host makes it: all are eager
 *   places    more streams than the device has room for
 *   late      (the first one, for blocks of less than 2000 bytes) the kernel would be loaded while a stream waits
 *   kernels   with a runtime that has no modules
 *   many      more ranks than the kernel serves
 *   shared    ranks share a device
 *   memory    rank 1 has no scratch memory
 *   sizes     rank 1 allows no eager starts
 *   freed     a start by the host waits for nobody on the device
 */
#include <string.h>

#include "../../include/mpi_names.h"
#include "stream_lane.h"

static void step(lane_t *lane, int by_host)
{
    if (!by_host) {
        lane_step(lane);
        return;
    }
    GOOD(MPIX_Queue_wait(lane->queue));
    lane_wait_for_stream(lane);
    lane_step_by_host(lane);
}

static void starts(void)
{
    long eager = lane_count(calls_eager), made = lane_count(calls_in_stream), staged = lane_count(calls_staged);
    int by_hosts = 0;
    lane_t lane;

    lane_make(&lane);
    srand(7u + (unsigned)rank);
    for (int i = 0; i < STEPS; i++) {
        int by_host = rand() % 5 == 0;

        step(&lane, by_host);
        by_hosts += by_host;
    }
    GOOD(MPIX_Queue_wait(lane.queue));
    MUST(lane_count(calls_eager) == eager + STEPS);
    MUST(lane_count(calls_in_stream) == made + STEPS - by_hosts);
    MUST(lane_count(calls_staged) == staged);
    lane_free(&lane);
}

/* The fake device has room for the kernels of two streams. */
static void places(void)
{
    enum { LANES = 3 };
    long reason, made;
    lane_t lanes[LANES], more;

    for (int i = 0; i < LANES; i++) {
        lane_make(&lanes[i]);
    }
    reason = lane_count(reason_in_stream_kernels);
    made = lane_count(calls_in_stream);
    for (int i = 0; i < 20; i++) {
        for (int k = 0; k < LANES; k++) {
            step(&lanes[k], 0);
        }
    }
    for (int k = 0; k < LANES; k++) {
        GOOD(MPIX_Queue_wait(lanes[k].queue));
        lane_wait_for_stream(&lanes[k]);
    }
    MUST(lane_count(reason_in_stream_kernels) == reason + 20);
    MUST(lane_count(calls_in_stream) == made + 40);
    for (int k = 0; k < LANES; k++) {
        lane_free(&lanes[k]);
    }
    lane_make(&more);
    step(&more, 0);
    GOOD(MPIX_Queue_wait(more.queue));
    MUST(lane_count(reason_in_stream_kernels) == reason + 20);
    lane_free(&more);
}

/* Rank 0 makes its start when the others have their small requests. */
static void late(void)
{
    long waits = lane_count(reason_eager_waits), peer = lane_count(reason_eager_peer), eager = lane_count(calls_eager);
    MPI_Request request;
    void *send, *recv;
    lane_t lane;

    lane_make(&lane);
    gpu_must(gpu.alloc(&send, 8) || gpu.alloc(&recv, 8 * (size_t)ranks), "memory");
    if (rank) {
        step(&lane, 0);
    }
    GOOD(PERSISTENT(Allgather)(send, 8, MPI_BYTE, recv, 8, MPI_BYTE, MPI_COMM_WORLD, MPI_INFO_NULL, &request));
    MUST(lane_count(reason_eager_waits) == waits + (rank != 0) && lane_count(reason_eager_peer) == peer + (rank == 0));
    if (!rank) {
        step(&lane, 0);
    }
    GOOD(MPIX_Queue_wait(lane.queue));
    GOOD(MPI_Start(&request));
    GOOD(MPI_Wait(&request, MPI_STATUS_IGNORE));
    GOOD(MPI_Request_free(&request));
    MUST(lane_count(calls_eager) == eager);
    lane_free(&lane);
    gpu_must(gpu.release(send) || gpu.release(recv), "release");
}

/* A lane whose starts are not eager, for this reason; and they are right. */
static void refused(int reason)
{
    long before = lane_count(reason), eager = lane_count(calls_eager);
    lane_t lane;

    lane_make(&lane);
    MUST(lane_count(reason) == before + 1);
    for (int i = 0; i < 10; i++) {
        step(&lane, i % 3 == 0);
    }
    GOOD(MPIX_Queue_wait(lane.queue));
    MUST(lane_count(calls_eager) == eager);
    lane_free(&lane);
}

static void kernels(void)
{
    refused(reason_eager_runtime);
}

static void many(void)
{
    refused(reason_eager_ranks);
}

static void shared(void)
{
    refused(reason_eager_shared);
}

static void memory(void)
{
    refused(rank == 1 ? reason_eager_memory : reason_eager_peer);
}

static void sizes(void)
{
    long before = lane_count(calls_eager);

    if (rank != 1) {
        refused(reason_eager_peer);
    } else {
        lane_t lane;

        lane_make(&lane);
        for (int i = 0; i < 10; i++) {
            step(&lane, i % 3 == 0);
        }
        GOOD(MPIX_Queue_wait(lane.queue));
        lane_free(&lane);
    }
    MUST(lane_count(calls_eager) == before);
}

/* The others start when rank 0 has come back from a call that waits for streams which wait. */
static void freed(void)
{
    void *memory;
    lane_t lane;

    lane_make(&lane);
    for (int i = 0; i < 5; i++) {
        gpu_must(gpu.alloc(&memory, 1000), "memory");
        lane_copy_in(&lane);
        gpu_must(gpu.synchronize(lane.stream), "synchronize");
        if (rank) {
            MPI_Barrier(MPI_COMM_WORLD);
        }
        GOOD(MPI_Start(&lane.request));
        if (!rank) {
            gpu_must(gpu.release(memory), "release");
            MPI_Barrier(MPI_COMM_WORLD);
        }
        GOOD(MPI_Wait(&lane.request, MPI_STATUS_IGNORE));
        lane_copy_out(&lane);
        if (rank) {
            gpu_must(gpu.release(memory), "release");
        }
    }
    lane_free(&lane);
}

/* What only rank 1 has. */
static void set_up_rank_1(const char *name)
{
    const char *number = getenv("OMPI_COMM_WORLD_RANK");

    if (!number || strcmp(number, "1")) {
        return;
    }
    if (!strcmp(name, "memory")) {
        setenv("OMPI_MCA_coll_dma_scratch_bytes", "0", 1);
    } else if (!strcmp(name, "sizes")) {
        setenv("OMPI_MCA_coll_dma_eager_bytes", "0", 1);
    }
}

int main(int argc, char **argv)
{
    static const lane_case_t cases[] = {
        {"starts", starts}, {"places", places}, {"late", late},   {"kernels", kernels}, {"many", many},
        {"shared", shared}, {"memory", memory}, {"sizes", sizes}, {"freed", freed},     {NULL, NULL}};

    if (argc < 4) {
        return 2;
    }
    setenv("MPIX_DMA_IN_STREAM", "1", 1);
    set_up_rank_1(argv[3]);
    gpu_begin_mpi(!strcmp(argv[2], "multiple"));
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    lane_open_counters();
    gpu_open(argv[1], rank);
    lane_run_cases("eager_cases", cases, argv + 3, argc - 3);
    lane_close_counters();
    MPI_T_finalize();
    MPI_Finalize();
    return 0;
}
