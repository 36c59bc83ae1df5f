/*
 * stream_cases cuda LEVEL CASE...: cases of starts that streams of CUDA make by themselves (mpix/in_stream.h), in this order, with the
 * fake CUDA; 2 ranks or more.
 *
 *   LEVEL     multiple, serialized: what MPI_Init_thread is asked for
 *
 *   asleep    hundreds of steps are enqueued. Then no rank calls MPI any more, and all streams end
 *   waited    each step has ended before the next one, while the library's thread watches; also with a real CUDA
 *   active    what MPI and the library say about a request whose starts the stream has
 *   queues    two queues, and requests that a stream can and cannot start in one queue
 *   hosted    starts that a stream leaves to the host or to the library's thread, alone and beside others in one queue
 *   held      while a rank is late, a thread of each other rank calls the driver, which holds its lock until the stream moves
 *   freed     while a rank is late, and streams wait for it: other requests, queues and communicators are freed and made
 *   gone      a queue is freed after its stream was destroyed
 *   apart     (3 ranks) the same with a communicator of other ranks, whose memory no other one uses
 *   broken    the stream of one rank breaks: the others go on, with an error, and a new communicator works
 *   timeout   (alone, with coll_dma_entry_timeout) a rank does not start: the others go on, with an error
 *   dead      (alone; the job must survive) a rank ends: the same, also for a queue whose stream is behind
 *   endless   (the same) a rank ends, and the others go on with starts until one returns an error
 *   fresh     (the first one) a queue is made and freed before coll/dma has done anything
 *   reasons   what cannot be done in the stream is done by the host, and counted
 *   left      (the last one) MPI_Finalize with starts in a queue
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../include/mpi_names.h"
#include "stream_lane.h"

static int multiple;

/* ---- cases ---- */

static void asleep(void)
{
    long made = lane_count(calls_in_stream), staged = lane_count(calls_staged);
    int waited;
    lane_t lane;

    lane_make(&lane);
    waited = gpu.fake_synchronizations(lane.stream);
    usleep((unsigned)rank * 10000);
    for (int i = 0; i < STEPS; i++) {
        lane_step(&lane);
    }
    lane_wait_for_stream(&lane);
    usleep(100000);
    MUST(gpu.fake_synchronizations(lane.stream) == waited);
    MUST(lane_count(calls_in_stream) == made + STEPS && lane_count(calls_staged) == staged);
    MUST(MPIX_Match(&lane.request, MPI_STATUS_IGNORE) == MPI_ERR_REQUEST);
    GOOD(MPIX_Queue_wait(lane.queue));
    GOOD(MPIX_Match(&lane.request, MPI_STATUS_IGNORE));
    lane_free(&lane);
}

static void must_be_active(lane_t *lane)
{
    MUST(MPI_Start(&lane->request) == MPI_ERR_REQUEST);
    MUST(MPI_Request_free(&lane->request) == MPI_ERR_REQUEST);
    MUST(lane->request != MPI_REQUEST_NULL);
    MUST(MPIX_Match(&lane->request, MPI_STATUS_IGNORE) == MPI_ERR_REQUEST);
}

static void active(void)
{
    MPI_Request twice[2];
    lane_t lane;

    lane_make(&lane);
    lane_start(&lane);
    must_be_active(&lane);
    MUST(MPIX_Enqueue_start(lane.queue, &lane.request) == MPI_ERR_REQUEST);
    GOOD(MPIX_Enqueue_waitall(lane.queue));
    lane_copy_out(&lane);
    must_be_active(&lane);
    lane_step(&lane);
    lane_wait_for_stream(&lane);
    must_be_active(&lane);
    GOOD(MPIX_Queue_wait(lane.queue));
    lane_step_by_host(&lane);
    lane_step(&lane);
    MUST(MPIX_Queue_wait(lane.queue) == MPI_SUCCESS && !lane_is_busy(&lane));
    /* The host has it: the stream must not start it. */
    GOOD(MPIX_Match(&lane.request, MPI_STATUS_IGNORE));
    lane_copy_in(&lane);
    gpu_must(gpu.synchronize(lane.stream), "synchronize");
    GOOD(MPI_Start(&lane.request));
    MUST(MPIX_Enqueue_start(lane.queue, &lane.request) == MPI_ERR_REQUEST);
    MPI_Barrier(MPI_COMM_WORLD);
    GOOD(MPI_Wait(&lane.request, MPI_STATUS_IGNORE));
    lane_copy_out(&lane);
    /* Without a waitall. */
    usleep((unsigned)rank * 10000);
    lane_start(&lane);
    GOOD(MPIX_Queue_wait(lane.queue));
    lane_copy_out(&lane);
    GOOD(MPIX_Queue_wait(lane.queue));
    /* A queue that was freed has completed its starts. */
    lane_start(&lane);
    lane_free_queue(&lane);
    GOOD(MPIX_Match(&lane.request, MPI_STATUS_IGNORE));
    lane_make_queue(&lane);
    lane_copy_out(&lane);
    twice[0] = twice[1] = lane.request;
    MUST(MPIX_Enqueue_startall(lane.queue, 2, twice) == MPI_ERR_REQUEST);
    lane_step(&lane);
    lane_free(&lane);
}

static void queues(void)
{
    enum { PARTS = 3, ROUNDS = 12 };
    int *mine = calloc(WORDS, sizeof(int)), *all = calloc((size_t)ranks * WORDS, sizeof(int));
    int part_of_mine[PARTS], part_of_all[MOST_RANKS * PARTS];
    MPI_Request requests[3];
    lane_t a, b;

    lane_make(&a);
    lane_make(&b);
    for (int i = 0; i < ROUNDS; i++) { /* ranks use the queues in another order */
        lane_step((i + rank) % 2 ? &a : &b);
        lane_step((i + rank) % 2 ? &b : &a);
    }
    /* One queue at a time may have starts of a request. */
    MUST(MPIX_Enqueue_start(b.queue, &a.request) == MPI_ERR_REQUEST);
    GOOD(MPIX_Queue_wait(a.queue));
    GOOD(MPIX_Queue_wait(b.queue));
    lane_copy_in(&a);
    gpu_must(gpu.synchronize(a.stream), "synchronize");
    GOOD(MPIX_Enqueue_start(b.queue, &a.request));
    GOOD(MPIX_Queue_wait(b.queue));
    lane_copy_out(&a);
    GOOD(PERSISTENT(Allgather)(mine, WORDS, MPI_INT, all, WORDS, MPI_INT, a.comm, MPI_INFO_NULL, &requests[1]));
    GOOD(MPIX_Pallgather_init(part_of_mine, PARTS, 1, MPI_INT, part_of_all, PARTS, 1, MPI_INT, a.comm, MPI_INFO_NULL,
                              &requests[2]));
    requests[0] = a.request;
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < WORDS; i++) {
            mine[i] = lane_word(round, rank, i);
        }
        if (round % 3 == 0) {
            usleep((unsigned)rank * 3000);
        }
        lane_copy_in(&a);
        GOOD(MPIX_Enqueue_startall(a.queue, 3, requests));
        for (int i = 0; i < PARTS; i++) {
            part_of_mine[i] = lane_word(round, rank, i);
            GOOD(MPIX_Pready(i, requests[2]));
        }
        GOOD(MPIX_Enqueue_waitall(a.queue));
        lane_copy_out(&a);
        lane_step(&b);
        GOOD(MPIX_Queue_wait(a.queue));
        for (int i = 0; i < ranks * WORDS; i++) {
            MUST(all[i] == lane_word(round, i / WORDS, i % WORDS));
        }
        for (int i = 0; i < ranks * PARTS; i++) {
            MUST(part_of_all[i] == lane_word(round, i / PARTS, i % PARTS));
        }
    }
    MPI_Request_free(&requests[1]);
    MPIX_Request_free(&requests[2]);
    lane_free(&a);
    GOOD(MPIX_Queue_wait(b.queue));
    lane_free(&b);
    free(mine);
    free(all);
}

/* An all-gather in host memory. Host functions in the stream write what it sends, and look at what it has received. */
static struct {
    int *mine, *all;
    int filled, checked, wrong;
    MPI_Request request;
} plain;

static void fill_plain(void *unused)
{
    (void)unused;
    for (int i = 0; i < WORDS; i++) {
        plain.mine[i] = lane_word(plain.filled, rank, i);
    }
    plain.filled++;
}

static void check_plain(void *unused)
{
    (void)unused;
    for (int i = 0; i < ranks * WORDS; i++) {
        plain.wrong += plain.all[i] != lane_word(plain.checked, i / WORDS, i % WORDS);
    }
    plain.checked++;
}

static void hosted(void)
{
    enum { ALONE = 300, BESIDE = 100 };
    lane_t lane;

    lane_make(&lane);
    plain.mine = calloc(WORDS, sizeof(int));
    plain.all = calloc((size_t)ranks * WORDS, sizeof(int));
    GOOD(PERSISTENT(Allgather)(plain.mine, WORDS, MPI_INT, plain.all, WORDS, MPI_INT, lane.comm, MPI_INFO_NULL,
                               &plain.request));
    for (int i = 0; i < ALONE + BESIDE; i++) {
        gpu_must(gpu.host_function(lane.stream, fill_plain, NULL), "function");
        if (i >= ALONE && i % 2) {
            lane_start(&lane);
        }
        GOOD(MPIX_Enqueue_start(lane.queue, &plain.request));
        if (i >= ALONE && i % 2 == 0) {
            lane_start(&lane);
        }
        GOOD(MPIX_Enqueue_waitall(lane.queue));
        gpu_must(gpu.host_function(lane.stream, check_plain, NULL), "function");
        if (i >= ALONE) {
            lane_copy_out(&lane);
        }
    }
    GOOD(MPIX_Queue_wait(lane.queue));
    gpu_must(gpu.synchronize(lane.stream), "synchronize");
    MUST(plain.checked == ALONE + BESIDE && plain.wrong == 0);
    GOOD(MPI_Request_free(&plain.request));
    lane_free(&lane);
    free(plain.mine);
    free(plain.all);
}

/* ---- calls that the driver holds ---- */

static int (*host_register)(void *memory, size_t bytes, unsigned flags), (*host_unregister)(void *memory),
    (*host_alloc)(void **memory, size_t bytes, unsigned flags), (*host_free)(void *memory),
    (*launch)(void (*kernel)(void *), unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *,
              void **, void **);

static void kernel_0(void *arg)
{
    __atomic_store_n((int *)arg, 1, __ATOMIC_RELEASE);
}

static void call_driver(int which)
{
    static char page[4096] __attribute__((aligned(4096)));
    static int has_run;
    void *memory, *arg = &has_run, *arguments[] = {&arg}, *stream;

    switch (which) {
    case 0:
        gpu_must(gpu.alloc(&memory, 100), "alloc");
        gpu_must(gpu.release(memory), "release");
        break;
    case 1:
        gpu_must(host_register(page, sizeof(page), 0), "register");
        gpu_must(host_unregister(page), "unregister");
        break;
    case 2:
        gpu_must(host_alloc(&memory, 100, 0), "alloc");
        gpu_must(host_free(memory), "free");
        break;
    default: /* the first launch of a kernel */
        gpu_must(gpu.stream_create(&stream, 1), "stream");
        gpu_must(launch(kernel_0, 1, 1, 1, 1, 1, 1, 0, stream, arguments, NULL), "launch");
        gpu_must(gpu.stream_destroy(stream), "destroy");
        break;
    }
}

static void *call_driver_main(void *arg)
{
    gpu_enter();
    call_driver(*(int *)arg);
    return NULL;
}

static void held(void)
{
    lane_t a, b;

    *(void **)&host_register = dlsym(RTLD_DEFAULT, "cuMemHostRegister_v2");
    *(void **)&host_unregister = dlsym(RTLD_DEFAULT, "cuMemHostUnregister");
    *(void **)&host_alloc = dlsym(RTLD_DEFAULT, "cuMemHostAlloc");
    *(void **)&host_free = dlsym(RTLD_DEFAULT, "cuMemFreeHost");
    *(void **)&launch = dlsym(RTLD_DEFAULT, "cuLaunchKernel");
    lane_make(&a);
    lane_make(&b);
    for (int i = 0; i < 3 * 4; i++) {
        int late = i % ranks == rank, which = i % 4;
        pthread_t thread;

        if (late) {
            usleep(30000);
        }
        lane_step(&a);
        lane_step(&b);
        if (!late) {
            MUST(pthread_create(&thread, NULL, call_driver_main, &which) == 0);
        }
        if (i % 3 == 1) {
            GOOD(MPIX_Queue_wait(a.queue));
        } else if (i % 3 == 2) {
            lane_wait_for_stream(&b);
            GOOD(MPIX_Queue_wait(b.queue));
            lane_step_by_host(&b);
        }
        if (!late) {
            pthread_join(thread, NULL);
        }
    }
    GOOD(MPIX_Queue_wait(a.queue));
    GOOD(MPIX_Queue_wait(b.queue));
    lane_free(&a);
    lane_free(&b);
}

/* ---- failures ---- */

/* The stream goes on, and the queue has an error. If the library has a thread, nobody calls MPI before. */
static void must_fail(lane_t *lane)
{
    double begun = lane_now();
    int code;

    if (multiple) {
        lane_wait_for_stream(lane);
    }
    code = MPIX_Queue_wait(lane->queue);
    if (code != MPI_ERR_OTHER) {
        fprintf(stderr, "rank %d: MPIX_Queue_wait: %d, not %d\n", rank, code, MPI_ERR_OTHER);
        _exit(4);
    }
    MUST(lane_now() - begun < PATIENCE);
    GOOD(MPIX_Queue_wait(lane->queue));
    /* A failed communicator refuses further starts, in the stream and by the host. */
    MUST(MPIX_Enqueue_start(lane->queue, &lane->request) != MPI_SUCCESS);
    (void)MPIX_Queue_wait(lane->queue);
}

static void leave_lane(lane_t *lane)
{
    (void)MPIX_Queue_free(&lane->queue);
    (void)MPI_Request_free(&lane->request);
}

/* The queue starts what is not ours. Its start must not take the error of an earlier one, which belongs to MPIX_Queue_wait. */
static void start_what_is_not_ours(lane_t *lane)
{
    MPI_Request receive, send;
    int got = -1;

    GOOD(MPI_Irecv(&got, 1, MPI_INT, 0, 0, MPI_COMM_SELF, &receive));
    GOOD(MPI_Send_init(&rank, 1, MPI_INT, 0, 0, MPI_COMM_SELF, &send));
    GOOD(MPIX_Enqueue_start(lane->queue, &send));
    GOOD(MPI_Wait(&receive, MPI_STATUS_IGNORE));
    MUST(got == rank);
    must_fail(lane);
    GOOD(MPI_Request_free(&send));
}

static void broken(void)
{
    lane_t lane, next;

    lane_make(&lane);
    lane_make(&next);
    lane_step(&lane);
    lane_step(&next);
    if (rank == 0) {
        lane_wait_for_stream(&lane);
        gpu.fake_break(lane.stream);
    } else {
        for (int i = 0; i < 5; i++) {
            lane_step(&lane);
        }
    }
    if (rank) {
        start_what_is_not_ours(&lane);
    } else {
        must_fail(&lane);
    }
    leave_lane(&lane);
    lane_step(&next);
    GOOD(MPIX_Queue_wait(next.queue));
    lane_free(&next);
    lane_make(&next);
    lane_step(&next);
    GOOD(MPIX_Queue_wait(next.queue));
    lane_free(&next);
}

static void timeout(void)
{
    lane_t lane;

    lane_make(&lane);
    lane_step(&lane);
    GOOD(MPIX_Queue_wait(lane.queue));
    if (rank == 0) {
        sleep(12);
    }
    for (int i = 0; i < 5 && rank; i++) {
        lane_step(&lane);
    }
    if (rank) {
        must_fail(&lane);
    }
    leave_lane(&lane);
}

/* A first step of all. Then the last rank ends, when the others have said that it may. */
static void make_lane_and_lose_a_rank(lane_t *lane)
{
    lane_make(lane);
    lane_step(lane);
    GOOD(MPIX_Queue_wait(lane->queue));
    if (rank == ranks - 1) {
        for (int r = 0; r < ranks - 1; r++) {
            MPI_Recv(NULL, 0, MPI_BYTE, r, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
        usleep(100000);
        _exit(0);
    }
}

static void let_the_last_rank_end(void)
{
    MPI_Send(NULL, 0, MPI_BYTE, ranks - 1, 0, MPI_COMM_WORLD);
}

/* MPI_Finalize would wait for the rank that has ended. */
static void go_on(void)
{
    printf("stream_cases: rank %d goes on\n", rank);
    fflush(stdout);
    usleep(500000);
    _exit(0);
}

/* Another queue leaves nothing to the stream. Without a thread of the library its start waits for the stream. */
static void dead(void)
{
    MPI_Request receive, send;
    MPIX_Queue other;
    lane_t lane;
    int got = -1;

    make_lane_and_lose_a_rank(&lane);
    GOOD(MPIX_Queue_init(&other, gpu.type, &lane.stream));
    GOOD(MPI_Irecv(&got, 1, MPI_INT, 0, 0, MPI_COMM_SELF, &receive));
    GOOD(MPI_Send_init(&rank, 1, MPI_INT, 0, 0, MPI_COMM_SELF, &send));
    for (int i = 0; i < 5; i++) {
        lane_step(&lane);
    }
    let_the_last_rank_end();
    GOOD(MPIX_Enqueue_start(other, &send));
    GOOD(MPIX_Queue_wait(other));
    GOOD(MPI_Wait(&receive, MPI_STATUS_IGNORE));
    MUST(got == rank);
    must_fail(&lane);
    go_on();
}

/* A program that goes on with starts, more than a connection of the device has room for, gets the error of one of them. */
static void endless(void)
{
    int code = MPI_SUCCESS, started = 0;
    lane_t lane;

    make_lane_and_lose_a_rank(&lane);
    for (; started < 100000 && code == MPI_SUCCESS; started++) {
        code = MPIX_Enqueue_start(lane.queue, &lane.request);
        code = code == MPI_SUCCESS ? MPIX_Enqueue_waitall(lane.queue) : code;
        if (started == 1) {
            MUST(code == MPI_SUCCESS);
            let_the_last_rank_end();
        }
    }
    MUST(code != MPI_SUCCESS && started > 1);
    MUST(MPI_Request_free(&lane.request) == MPI_ERR_REQUEST);
    (void)MPIX_Queue_wait(lane.queue);
    lane_wait_for_stream(&lane);
    go_on();
}

/* Queues before coll/dma has done anything. */
static void fresh(void)
{
    void *stream;
    MPIX_Queue queue;

    gpu_must(gpu.stream_create(&stream, 1), "stream");
    GOOD(MPIX_Queue_init(&queue, gpu.type, &stream));
    GOOD(MPIX_Queue_wait(queue));
    GOOD(MPIX_Queue_free(&queue));
    gpu_must(gpu.stream_destroy(stream), "destroy");
}

/* ---- reasons ---- */

/* Steps that the host makes, with this reason. */
static void by_host(lane_t *lane, int reason)
{
    long made = lane_count(calls_in_stream), before = lane_count(reason);

    lane_step(lane);
    lane_step(lane);
    GOOD(MPIX_Queue_wait(lane->queue));
    MUST(lane_count(calls_in_stream) == made && lane_count(reason) == before + 2);
    lane_check(lane);
}

static void reasons(void)
{
    int *mine = calloc(WORDS, sizeof(int)), *all = calloc((size_t)ranks * WORDS, sizeof(int));
    void *other, *context, *its;
    int (*retain)(void **, int), (*set_context)(void *);
    MPIX_Queue queue;
    lane_t lane, host, elsewhere;

    lane_make(&lane);
    /* a stream of another device */
    *(void **)&retain = dlsym(RTLD_DEFAULT, "cuDevicePrimaryCtxRetain");
    *(void **)&set_context = dlsym(RTLD_DEFAULT, "cuCtxSetCurrent");
    gpu.current(&context);
    gpu_must(retain(&its, (rank + 1) % 4) || set_context(its) || gpu.stream_create(&other, 1), "another device");
    GOOD(MPIX_Queue_init(&queue, gpu.type, &other));
    gpu_must(set_context(context), "context");
    elsewhere = lane;
    elsewhere.queue = queue;
    elsewhere.stream = other;
    by_host(&elsewhere, reason_in_stream_device);
    GOOD(MPIX_Queue_free(&elsewhere.queue));
    /* host memory */
    host = lane;
    host.send = mine;
    host.recv = all;
    GOOD(PERSISTENT(Allgather)(mine, WORDS, MPI_INT, all, WORDS, MPI_INT, lane.comm, MPI_INFO_NULL, &host.request));
    by_host(&host, reason_in_stream_unprepared);
    MPI_Request_free(&host.request);
    /* streams that write no words */
    gpu.fake_refuse(1);
    by_host(&lane, reason_in_stream_refused);
    gpu.fake_refuse(0);
    lane_step(&lane);
    GOOD(MPIX_Queue_wait(lane.queue));
    lane_free(&lane);
    free(mine);
    free(all);
}

static lane_t left_lane;

static void left(void)
{
    lane_make(&left_lane);
    usleep((unsigned)rank * 10000);
    for (int i = 0; i < 10; i++) {
        lane_step(&left_lane);
    }
    lane_start(&left_lane);
}

int main(int argc, char **argv)
{
    static const lane_case_t cases[] = {
        {"asleep", asleep},      {"active", active},   {"queues", queues}, {"hosted", hosted},    {"held", held},
        {"freed", lane_freed},   {"broken", broken},   {"dead", dead},     {"timeout", timeout},  {"reasons", reasons},
        {"left", left},          {"endless", endless}, {"fresh", fresh},   {"apart", lane_apart}, {"gone", lane_gone},
        {"waited", lane_waited}, {NULL, NULL}};

    if (argc < 4) {
        return 2;
    }
    setenv("MPIX_DMA_IN_STREAM", "1", 1);
    multiple = !strcmp(argv[2], "multiple");
    gpu_begin_mpi(multiple);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    lane_open_counters();
    gpu_open(argv[1], rank);
    lane_run_cases("stream_cases", cases, argv + 3, argc - 3);
    lane_close_counters();
    MPI_T_finalize();
    MPI_Finalize();
    if (left_lane.steps) {
        MUST(!lane_is_busy(&left_lane));
        lane_check(&left_lane);
        MUST(MPIX_Enqueue_start(left_lane.queue, &left_lane.request) == MPI_ERR_OTHER);
        GOOD(MPIX_Queue_free(&left_lane.queue));
        if (rank == 0) {
            printf("stream_cases: nothing is left\n");
        }
    }
    return 0;
}
