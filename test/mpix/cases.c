/*
 * cases KIND CASE: one case of queues of this KIND (thread, cuda), with the fake CUDA (fake_cuda.c); 2 ranks or more.
 *
 *   arguments  wrong arguments are refused, with the right error class
 *   late       a start waits for the work before it in the stream; enqueuing waits for nothing
 *   failing    an error of a start or a completion is kept, and the queue continues
 *   broken     a stream that fails does not block other ranks
 *   freed      MPIX_Queue_free carries out the operations that are left
 *   left       MPI_Finalize carries out the operations that are left
 *   refused    the runtime refuses memory operations
 *   quick      the library's thread carries out an operation before the call that enqueues it returns
 *   limit      MPIX_DMA_WAITING_STREAMS is 1: the host waits for a second queue until the first is freed
 *   context    the library's thread calls MPI with the context of the queue
 *   single     without MPI_THREAD_MULTIPLE, which a tool has
 *   threads    several threads of the program make, use and free queues at the same time
 *
 * This program replaces MPI_Start and MPI_Test by functions that count, that fail on demand, and that check the current
 * context; and pthread_mutex_unlock by one that lets others run on demand.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../include/mpi_names.h"
#include "gpu.h"

enum { WORDS = 1000, MOST_RANKS = 16 };

static int rank, ranks;
static int started, fail_start, fail_test, other_context, other_thread;
static void *main_context;
static int send[WORDS], recv[MOST_RANKS * WORDS];
static MPI_Request request;
static MPIX_Queue queue;
static void *stream;

int MPI_Start(MPI_Request *r)
{
    void *context = NULL;

    if (gpu.current) {
        gpu.current(&context);
        other_context |= context != main_context;
    }
    other_thread |= gettid() != getpid();
    __atomic_add_fetch(&started, 1, __ATOMIC_SEQ_CST);
    return fail_start ? MPI_ERR_INTERN : PMPI_Start(r);
}

int MPI_Test(MPI_Request *r, int *flag, MPI_Status *status)
{
    int code = PMPI_Test(r, flag, status);

    return *flag && fail_test ? MPI_ERR_TRUNCATE : code;
}

static _Thread_local useconds_t pause_us; /* of this thread behind each unlock */

__attribute__((visibility("default"))) int pthread_mutex_unlock(pthread_mutex_t *mutex)
{
    static int (*unlock)(pthread_mutex_t * mutex);
    int error;

    *(void **)&unlock = unlock ? *(void **)&unlock : dlsym(RTLD_NEXT, "pthread_mutex_unlock");
    error = unlock(mutex);
    if (pause_us) {
        usleep(pause_us);
    }
    return error;
}

static void fill(int turn)
{
    for (int i = 0; i < WORDS; i++) {
        send[i] = turn * 100000 + rank * 10000 + i;
    }
    memset(recv, 0xEE, sizeof(recv));
}

static int is_right(int turn)
{
    for (int i = 0; i < ranks * WORDS; i++) {
        if (recv[i] != turn * 100000 + i / WORDS * 10000 + i % WORDS) {
            return 0;
        }
    }
    return 1;
}

static void make_queue(void)
{
    if (gpu.type != MPIX_QUEUE_THREAD) {
        gpu_must(gpu.stream_create(&stream, 1), "stream");
    }
    MUST(MPIX_Queue_init(&queue, gpu.type, &stream) == MPI_SUCCESS);
}

static void enqueue_both(void)
{
    MUST(MPIX_Enqueue_start(queue, &request) == MPI_SUCCESS);
    MUST(MPIX_Enqueue_waitall(queue) == MPI_SUCCESS);
}

/* ---- cases ---- */

static void arguments(void)
{
    MPI_Request twice[2] = {request, request}, null = MPI_REQUEST_NULL;
    MPIX_Queue none;

    MUST(MPIX_Queue_init(NULL, MPIX_QUEUE_THREAD, NULL) == MPI_ERR_ARG);
    MUST(MPIX_Queue_init(&none, 3, &stream) == MPI_ERR_ARG);
    MUST(MPIX_Queue_init(&none, -1, &stream) == MPI_ERR_ARG);
    MUST(MPIX_Queue_init(&none, MPIX_QUEUE_CUDA, NULL) == MPI_ERR_ARG);
    MUST(MPIX_Queue_init(&none, MPIX_QUEUE_HIP, &stream) == MPI_ERR_UNSUPPORTED_OPERATION && !none);
    make_queue();
    none = MPIX_QUEUE_NULL;
    MUST(MPIX_Queue_wait(none) == MPI_ERR_ARG);
    MUST(MPIX_Queue_free(&none) == MPI_ERR_ARG);
    MUST(MPIX_Queue_free(NULL) == MPI_ERR_ARG);
    MUST(MPIX_Enqueue_waitall(none) == MPI_ERR_ARG);
    MUST(MPIX_Enqueue_start(none, &request) == MPI_ERR_ARG);
    MUST(MPIX_Enqueue_start(queue, NULL) == MPI_ERR_ARG);
    MUST(MPIX_Enqueue_start(queue, &null) == MPI_ERR_REQUEST);
    MUST(MPIX_Enqueue_startall(queue, -1, twice) == MPI_ERR_COUNT);
    MUST(MPIX_Enqueue_startall(queue, 0, NULL) == MPI_SUCCESS);
    MUST(MPIX_Enqueue_startall(queue, 2, twice) == MPI_ERR_REQUEST);
    MUST(MPIX_Match(NULL, MPI_STATUS_IGNORE) == MPI_ERR_REQUEST);
    MUST(MPIX_Match(&null, MPI_STATUS_IGNORE) == MPI_ERR_REQUEST);
    MUST(MPIX_Match(&request, MPI_STATUS_IGNORE) == MPI_SUCCESS);
    MUST(started == 0);
    /* A request is enqueued again: before a waitall (an error), after a waitall, and after MPIX_Queue_wait. */
    fill(1);
    MUST(MPIX_Enqueue_start(queue, &request) == MPI_SUCCESS);
    MUST(MPIX_Enqueue_start(queue, &request) == MPI_ERR_REQUEST);
    MUST(MPIX_Enqueue_waitall(queue) == MPI_SUCCESS);
    MUST(MPIX_Enqueue_start(queue, &request) == MPI_SUCCESS);
    MUST(MPIX_Queue_wait(queue) == MPI_SUCCESS);
    MUST(is_right(1) && started == 2);
    enqueue_both();
    MUST(MPIX_Queue_free(&queue) == MPI_SUCCESS && !queue && started == 3);
    /* MPIX_Match refuses an active request. */
    if (rank == 0) {
        int value, flag;
        MPI_Request receive;
        MPI_Recv_init(&value, 1, MPI_INT, 0, 7, MPI_COMM_SELF, &receive);
        PMPI_Start(&receive);
        MUST(MPIX_Match(&receive, MPI_STATUS_IGNORE) == MPI_ERR_REQUEST);
        MPI_Send(&rank, 1, MPI_INT, 0, 7, MPI_COMM_SELF);
        do {
            PMPI_Test(&receive, &flag, MPI_STATUS_IGNORE);
        } while (!flag);
        MPI_Request_free(&receive);
    }
}

static int open_gate, kept_right;

static void wait_for_gate(void *unused)
{
    (void)unused;
    while (!__atomic_load_n(&open_gate, __ATOMIC_ACQUIRE)) {
        usleep(100);
    }
    fill(2);
}

static void look(void *unused)
{
    (void)unused;
    kept_right = is_right(2);
}

static void late(void)
{
    make_queue();
    fill(1);
    gpu_must(gpu.host_function(stream, wait_for_gate, NULL), "function");
    enqueue_both();
    gpu_must(gpu.host_function(stream, look, NULL), "function");
    usleep(50000);
    MUST(started == 0);
    __atomic_store_n(&open_gate, 1, __ATOMIC_RELEASE);
    gpu_must(gpu.synchronize(stream), "synchronize");
    MUST(kept_right && started == 1);
    MUST(MPIX_Queue_free(&queue) == MPI_SUCCESS);
}

static void synchronize(void)
{
    if (stream) {
        gpu_must(gpu.synchronize(stream), "synchronize");
    }
}

static void failing(void)
{
    make_queue();
    fail_start = 1;
    enqueue_both();
    MUST(MPIX_Enqueue_start(queue, &request) == MPI_SUCCESS);
    synchronize();
    MUST(MPIX_Queue_wait(queue) == MPI_ERR_INTERN);
    MUST(MPIX_Queue_wait(queue) == MPI_SUCCESS && started == 2);
    fail_start = 0;
    fail_test = 1;
    enqueue_both();
    synchronize();
    MUST(MPIX_Queue_wait(queue) == MPI_ERR_TRUNCATE);
    fail_test = 0;
    fill(3);
    enqueue_both();
    MUST(MPIX_Queue_wait(queue) == MPI_SUCCESS && is_right(3));
    fail_start = 1;
    enqueue_both();
    MUST(MPIX_Queue_free(&queue) == MPI_ERR_INTERN && !queue);
    fail_start = 0;
}

static void broken(void)
{
    make_queue();
    fill(1);
    if (rank == 0) {
        gpu_must(gpu.host_function(stream, wait_for_gate, NULL), "function");
    }
    enqueue_both();
    if (rank == 0) {
        gpu.fake_break(stream);
        __atomic_store_n(&open_gate, 1, __ATOMIC_RELEASE);
        MUST(MPIX_Enqueue_waitall(queue) == MPI_ERR_OTHER);
    }
    MUST(MPIX_Queue_wait(queue) == (rank == 0 ? MPI_ERR_OTHER : MPI_SUCCESS));
    MUST(MPIX_Queue_free(&queue) == MPI_SUCCESS);
    /* A new queue does not get the words to which the broken stream may still write. */
    make_queue();
    fill(4);
    enqueue_both();
    synchronize();
    MUST(MPIX_Queue_free(&queue) == MPI_SUCCESS && is_right(4));
}

static void freed(void)
{
    make_queue();
    fill(1);
    usleep((unsigned)rank * 20000);
    MUST(MPIX_Enqueue_start(queue, &request) == MPI_SUCCESS);
    MUST(MPIX_Queue_free(&queue) == MPI_SUCCESS && is_right(1) && started == 1);
    /* The last start was not followed by a waitall. The next queue continues with the numbers of this one. */
    make_queue();
    enqueue_both();
    synchronize();
    MUST(MPIX_Queue_free(&queue) == MPI_SUCCESS && started == 2);
}

static void refused(void)
{
    int before = gpu.fake_synchronizations(NULL);

    gpu.fake_refuse(1);
    make_queue();
    gpu_must(gpu.host_function(stream, wait_for_gate, NULL), "function");
    __atomic_store_n(&open_gate, 1, __ATOMIC_RELEASE);
    enqueue_both();
    /* The host has waited for both. */
    MUST(gpu.fake_synchronizations(NULL) > before && is_right(2));
    MUST(MPIX_Queue_free(&queue) == MPI_SUCCESS);
}

/* What is freed gets other contents (MALLOC_PERTURB_). */
static void quick(void)
{
    make_queue();
    for (int turn = 0; turn < 3; turn++) {
        fill(turn);
        MUST(MPIX_Enqueue_start(queue, &request) == MPI_SUCCESS);
        MPI_Barrier(MPI_COMM_WORLD);
        pause_us = 100000;
        MUST(MPIX_Enqueue_waitall(queue) == MPI_SUCCESS);
        pause_us = 0;
    }
    MUST(MPIX_Queue_free(&queue) == MPI_SUCCESS && is_right(2));
}

/* Returns how often the host waits for streams in a start and a waitall. */
static int synchronizations_of_both(MPIX_Queue of)
{
    int before = gpu.fake_synchronizations(NULL);

    MUST(MPIX_Enqueue_start(of, &request) == MPI_SUCCESS);
    MUST(MPIX_Enqueue_waitall(of) == MPI_SUCCESS);
    before = gpu.fake_synchronizations(NULL) - before;
    MUST(MPIX_Queue_wait(of) == MPI_SUCCESS && is_right(7));
    return before;
}

static void limit(void)
{
    MPIX_Queue first;

    fill(7);
    make_queue();
    first = queue;
    MUST(synchronizations_of_both(first) == 0);
    make_queue();
    MUST(synchronizations_of_both(queue) == 1);
    MUST(synchronizations_of_both(first) == 0);
    MUST(MPIX_Queue_free(&queue) == MPI_SUCCESS);
    MUST(MPIX_Queue_free(&first) == MPI_SUCCESS);
    make_queue();
    MUST(synchronizations_of_both(queue) == 0);
    MUST(MPIX_Queue_free(&queue) == MPI_SUCCESS);
}

static void context(void)
{
    fill(1);
    make_queue();
    enqueue_both();
    synchronize();
    MUST(MPIX_Queue_free(&queue) == MPI_SUCCESS && is_right(1) && started == 1 && !other_context);
}

/* The library has no thread: operations that cannot be carried out when they are enqueued are carried out in later calls. */
static void single(void)
{
    int given;

    /* In Open MPI 4.1 and 5.0 MPI_Query_thread then says so, too. */
    MPI_T_init_thread(MPI_THREAD_MULTIPLE, &given);
    make_queue();
    fill(1);
    usleep((unsigned)rank * 20000);
    enqueue_both();
    MUST(started == 1);
    MUST(gpu.type == MPIX_QUEUE_THREAD || is_right(1));
    MUST(MPIX_Queue_wait(queue) == MPI_SUCCESS && is_right(1));
    /* Operations of the queue are in order: the second start waits for the first. */
    fill(5);
    enqueue_both();
    enqueue_both();
    MUST(MPIX_Queue_free(&queue) == MPI_SUCCESS && is_right(5) && started == 3);
    MUST(!other_thread);
    MPI_T_finalize();
}

/* A thread of the program, with a queue and a communicator of its own. */
static void *rounds(void *arg)
{
    MPI_Comm comm = *(MPI_Comm *)arg;
    int mine[WORDS] = {0}, all[MOST_RANKS * WORDS] = {0};
    MPI_Request own;
    MPIX_Queue q;

    PERSISTENT(Allgather)(mine, WORDS, MPI_INT, all, WORDS, MPI_INT, comm, MPI_INFO_NULL, &own);
    for (int turn = 0; turn < 30; turn++) {
        MUST(MPIX_Queue_init(&q, MPIX_QUEUE_THREAD, NULL) == MPI_SUCCESS);
        for (int i = 0; i < WORDS; i++) {
            mine[i] = turn * 1000 + rank * 100000 + i;
        }
        MUST(MPIX_Enqueue_start(q, &own) == MPI_SUCCESS);
        MUST(MPIX_Enqueue_waitall(q) == MPI_SUCCESS);
        MUST(MPIX_Queue_free(&q) == MPI_SUCCESS);
        for (int i = 0; i < ranks * WORDS; i++) {
            MUST(all[i] == turn * 1000 + i / WORDS * 100000 + i % WORDS);
        }
    }
    MPI_Request_free(&own);
    return NULL;
}

static void threads(void)
{
    enum { THREADS = 3 };
    pthread_t thread[THREADS];
    MPI_Comm comm[THREADS];

    for (int i = 0; i < THREADS; i++) {
        MPI_Comm_dup(MPI_COMM_WORLD, &comm[i]);
    }
    for (int i = 0; i < THREADS; i++) {
        MUST(pthread_create(&thread[i], NULL, rounds, &comm[i]) == 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(thread[i], NULL);
        MPI_Comm_free(&comm[i]);
    }
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } cases[] = {{"arguments", arguments}, {"late", late},       {"failing", failing}, {"broken", broken},
                 {"freed", freed},         {"refused", refused}, {"context", context}, {"single", single},
                 {"threads", threads},     {"limit", limit},     {"quick", quick},     {NULL, NULL}};
    int given, i = 0, is_left = argc == 3 && !strcmp(argv[2], "left");

    if (argc != 3) {
        return 2;
    }
    if (!strcmp(argv[2], "limit")) {
        setenv("MPIX_DMA_WAITING_STREAMS", "1", 1);
    }
    MUST(MPIX_Queue_init(&queue, MPIX_QUEUE_THREAD, NULL) == MPI_ERR_OTHER);
    MPI_Init_thread(NULL, NULL, strcmp(argv[2], "single") ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &given);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    gpu_open(argv[1], rank);
    if (gpu.current) {
        gpu.current(&main_context);
    }
    PERSISTENT(Allgather)(send, WORDS, MPI_INT, recv, WORDS, MPI_INT, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
    while (cases[i].name && strcmp(cases[i].name, argv[2])) {
        i++;
    }
    MUST(is_left || cases[i].name);
    if (is_left) {
        make_queue();
        fill(6);
        enqueue_both();
    } else {
        cases[i].run();
        MPI_Request_free(&request);
    }
    MPI_Finalize();
    if (is_left) {
        MUST(is_right(6) && started == 1);
        MUST(MPIX_Enqueue_waitall(queue) == MPI_ERR_OTHER);
        MUST(MPIX_Queue_free(&queue) == MPI_SUCCESS && !queue);
    }
    if (rank == 0) {
        printf("cases: %s is right\n", argv[2]);
    }
    return 0;
}
