/*
 * parts_cases KIND CASE: one case of partitioned requests. KIND: thread, or cuda with the fake CUDA (fake_cuda.c); 2 ranks or
 * more.
 *
 *   arguments  wrong arguments are refused, with the right error class; one of a single rank is an error on all
 *   grouped    many partitions share few requests of MPI; a group is sent only when all its partitions are ready
 *   freed      all requests and memory are freed: by MPIX_Request_free, with the next request, in MPI_Finalize
 *   untyped    the same with an MPI that does not retain the datatypes of handles
 *   queue      rounds in a stream, in which host functions make partitions ready
 *   broken     a stream that fails does not block other ranks
 *   reset      the device is reset between requests and queues, which frees the memory that the library has kept
 *   failing    a unit fails: its words say so, the round ends, and the error is returned once
 *   refused    the runtime refuses memory that kernels can use
 *   single     without MPI_THREAD_MULTIPLE, threads of the program make partitions ready
 *   polling    MPIX_Parrived yields the core whenever a partition has not arrived
 *   left       MPI_Finalize completes rounds in which some partitions are not ready
 *
 * This program replaces some functions of MPI by ones that count, or fail on demand.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../../include/mpi_names.h"
#include "parts_data.h"

enum { MANY = 200 };

static int made, freed_requests, started, fail_start, drops_types;
static void *stream;
static _Thread_local int yields;

/* Replaces the function of the C library, also for calls in libraries. */
__attribute__((visibility("default"))) int sched_yield(void)
{
    yields++;
    return (int)syscall(SYS_sched_yield);
}

int PERSISTENT(Allgatherv)(const void *sb, int sc, MPI_Datatype st, void *rb, const int *rc, const int *at,
                           MPI_Datatype rt, MPI_Comm comm, MPI_Info info, MPI_Request *r)
{
    made++;
    return PERSISTENT_PROFILE(Allgatherv)(sb, sc, st, rb, rc, at, rt, comm, info, r);
}

int MPI_Request_free(MPI_Request *r)
{
    freed_requests++;
    return PMPI_Request_free(r);
}

/* Only libmpix_dma calls this, for the type of a handle. */
int MPI_Type_set_attr(MPI_Datatype type, int key, void *value)
{
    int code = PMPI_Type_set_attr(type, key, value);

    return code == MPI_SUCCESS && drops_types ? PMPI_Type_delete_attr(type, key) : code;
}

/* Only the library calls it. */
int MPI_Start(MPI_Request *r)
{
    int now = __atomic_add_fetch(&started, 1, __ATOMIC_SEQ_CST);

    return now == fail_start ? MPI_ERR_INTERN : PMPI_Start(r);
}

static int has_arrived(int part)
{
    int flag;

    MUST(MPIX_Parrived(request, part, &flag) == MPI_SUCCESS);
    return flag;
}

static int outcome(int one, int others)
{
    return init(rank == 0 ? one : others, WORDS, &request);
}

/* ---- cases ---- */

static void refused_arguments(void)
{
    int flag;
    MPIX_Prequest words;
    MPI_Request null = MPI_REQUEST_NULL;
    MPI_Comm inter, half;

    MUST(outcome(0, PARTS) == MPI_ERR_ARG && request == MPI_REQUEST_NULL);
    MUST(outcome(PARTS - 1, PARTS) == MPI_ERR_COUNT);
    MUST(init(PARTS, rank == 0 ? -1 : WORDS, &request) == MPI_ERR_COUNT);
    MUST(init(PARTS, WORDS, rank == 0 ? NULL : &request) == MPI_ERR_ARG);
    MUST(MPIX_Pallgather_init(send, 2, 3, MPI_INT, recv, 2, 3, MPI_DOUBLE, MPI_COMM_WORLD, MPI_INFO_NULL, &request) ==
         MPI_ERR_COUNT);
    MUST(MPIX_Pallgather_init(send, 2, 3, rank ? MPI_INT : MPI_DATATYPE_NULL, recv, 2, 3, MPI_INT, MPI_COMM_WORLD,
                              MPI_INFO_NULL, &request) == MPI_ERR_TYPE);
    MUST(MPIX_Palltoall_init(send, 1, 1, MPI_INT, recv, 1, 1, MPI_INT, MPI_COMM_NULL, MPI_INFO_NULL, &request) ==
         MPI_ERR_COMM);
    MUST((rank == 0 ? MPIX_Palltoall_init : MPIX_Pallgather_init)(
             send, 1, 1, MPI_INT, recv, 1, 1, MPI_INT, MPI_COMM_WORLD, MPI_INFO_NULL, &request) == MPI_ERR_ARG);
    MPI_Comm_split(MPI_COMM_WORLD, rank == 0, 0, &half);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, rank == 0, 3, &inter);
    MUST(MPIX_Pallgather_init(send, 1, 1, MPI_INT, recv, 1, 1, MPI_INT, inter, MPI_INFO_NULL, &request) ==
         MPI_ERR_COMM);
    MPI_Comm_free(&inter);
    MPI_Comm_free(&half);
    MUST(made == 0);
    MUST(MPIX_Pready(0, null) == MPI_ERR_REQUEST);
    MUST(MPIX_Parrived(null, 0, &flag) == MPI_ERR_REQUEST && MPIX_Prequest_create(null, &words) == MPI_ERR_REQUEST);
    MUST(MPIX_Prequest_create(null, NULL) == MPI_ERR_ARG && MPIX_Prequest_free(NULL) == MPI_ERR_ARG);
    MUST(MPIX_Request_free(&null) == MPI_ERR_REQUEST && MPIX_Request_free(NULL) == MPI_ERR_REQUEST);
    MUST(MPIX_Wait(NULL, MPI_STATUS_IGNORE) == MPI_ERR_ARG && MPIX_Test(NULL, &flag, MPI_STATUS_IGNORE) == MPI_ERR_ARG);
    MUST(MPIX_Wait(&null, MPI_STATUS_IGNORE) == MPI_SUCCESS);
}

static void arguments(void)
{
    int flag;
    MPIX_Prequest words, other;

    refused_arguments();
    MUST(init(PARTS, WORDS, &request) == MPI_SUCCESS);
    MUST(MPIX_Pready(-1, request) == MPI_ERR_ARG && MPIX_Pready(PARTS, request) == MPI_ERR_ARG);
    MUST(MPIX_Parrived(request, 0, NULL) == MPI_ERR_ARG && MPIX_Parrived(request, -1, &flag) == MPI_ERR_ARG);
    MUST(MPIX_Parrived(request, ranks * PARTS, &flag) == MPI_ERR_ARG);
    MUST(has_arrived(ranks * PARTS - 1));
    MUST(MPIX_Prequest_create(request, &words) == MPI_SUCCESS && words.nready == PARTS &&
         words.narrived == ranks * PARTS);
    other = words;
    MUST(MPIX_Prequest_next(&other) == MPI_SUCCESS && other.ready != words.ready && other.arrived != words.arrived);
    MUST(MPIX_Prequest_next(&other) == MPI_SUCCESS && other.ready == words.ready && other.nready == PARTS);
    MUST(MPIX_Prequest_free(&other) == MPI_SUCCESS && !other.ready && MPIX_Prequest_next(&other) == MPI_ERR_ARG);
    MUST(MPIX_Match(&request, MPI_STATUS_IGNORE) == MPI_SUCCESS);
    MUST(MPIX_Request_free(&request) == MPI_SUCCESS && request == MPI_REQUEST_NULL);
}

static void grouped(void)
{
    static int in[MANY], out[MOST_RANKS * MANY];

    MUST(MPIX_Pallgather_init(in, MANY, 1, MPI_INT, out, MANY / 2, 2, MPI_INT, MPI_COMM_WORLD, MPI_INFO_NULL,
                              &request) == MPI_SUCCESS);
    MUST(made > 30 && made <= 64);
    for (int turn = 0; turn < 3; turn++) {
        started = 0;
        PMPI_Start(&request);
        for (int p = 0; p < MANY - 1; p++) {
            in[p] = turn * 10000 + rank * 1000 + p;
            MUST(MPIX_Pready(p, request) == MPI_SUCCESS);
        }
        while (__atomic_load_n(&started, __ATOMIC_SEQ_CST) < made - 1) {
            usleep(100);
        }
        usleep(10000);
        MUST(started == made - 1 && !has_arrived(MANY / 2 - 1));
        in[MANY - 1] = turn * 10000 + rank * 1000 + MANY - 1;
        MUST(MPIX_Pready(MANY - 1, request) == MPI_SUCCESS);
        MUST(MPIX_Wait(&request, MPI_STATUS_IGNORE) == MPI_SUCCESS);
        for (int i = 0; i < ranks * MANY; i++) {
            MUST(out[i] == turn * 10000 + i / MANY * 1000 + i % MANY);
        }
    }
    MUST(MPIX_Request_free(&request) == MPI_SUCCESS);
}

static void freed(void)
{
    for (int i = 0; i < 3; i++) {
        MUST(init(PARTS, WORDS, &request) == MPI_SUCCESS);
        fill(i);
        PMPI_Start(&request);
        ready(0, i * 3);
        /* One rank is late: the others must not wait for it. */
        usleep((unsigned)rank * 20000);
        MUST(MPIX_Request_free(&request) == MPI_SUCCESS && request == MPI_REQUEST_NULL);
        MUST(is_right(i, 0, PARTS) && freed_requests == (i + 1) * (PARTS + 1) && made == (i + 1) * PARTS);
    }
    /* After MPI_Request_free the rest is freed with the next request, whether that has the same handle or another one. */
    MUST(init(PARTS, WORDS, &request) == MPI_SUCCESS);
    for (int i = 0; i < 3; i++) {
        MPI_Request former = request, between = MPI_REQUEST_NULL;
        int before = freed_requests;
        PMPI_Request_free(&request);
        if (i > 0 && !drops_types) { /* so that the next request gets another handle */
            MPI_Ssend_init(NULL, 0, MPI_BYTE, 0, 0, MPI_COMM_SELF, &between);
        }
        MUST(init(PARTS, WORDS, &request) == MPI_SUCCESS);
        MUST(freed_requests == before + PARTS && (request != former) == (between != MPI_REQUEST_NULL));
        if (between != MPI_REQUEST_NULL) {
            PMPI_Request_free(&between);
        }
    }
    fill(9);
    PMPI_Start(&request);
    ready(0, PARTS);
    MUST(MPIX_Wait(&request, MPI_STATUS_IGNORE) == MPI_SUCCESS && is_right(9, 0, PARTS));
    PMPI_Request_free(&request);
}

typedef struct produce {
    MPIX_Prequest words;
    int turn, kept_right;
} produce_t;

static void produce(void *arg)
{
    const produce_t *p = arg;

    for (int part = PARTS - 1; part >= 0; part--) {
        for (int i = part * WORDS; i < (part + 1) * WORDS; i++) {
            send[i] = value(p->turn, rank, i);
        }
        __atomic_store_n(&p->words.ready[part], p->words.ready_value, __ATOMIC_RELEASE);
        usleep(200);
    }
}

static void consume(void *arg)
{
    produce_t *p = arg;

    p->kept_right = is_right(p->turn, 0, PARTS);
    for (int i = 0; i < p->words.narrived; i++) {
        p->kept_right &= p->words.arrived[i] == 1;
    }
}

static void queue(void)
{
    enum { TURNS = 8 };
    produce_t turns[TURNS];
    MPIX_Prequest words;
    MPIX_Queue q;

    MUST(init(PARTS, WORDS, &request) == MPI_SUCCESS);
    gpu_must(gpu.stream_create(&stream, 1), "stream");
    MUST(MPIX_Queue_init(&q, gpu.type, &stream) == MPI_SUCCESS);
    MUST(MPIX_Prequest_create(request, &words) == MPI_SUCCESS);
    for (int i = 0; i < TURNS; i++) {
        turns[i] = (produce_t){words, i + 1, 0};
        MUST(MPIX_Enqueue_start(q, &request) == MPI_SUCCESS);
        gpu_must(gpu.host_function(stream, produce, &turns[i]), "produce");
        MUST(MPIX_Enqueue_waitall(q) == MPI_SUCCESS);
        gpu_must(gpu.host_function(stream, consume, &turns[i]), "consume");
        MUST(MPIX_Prequest_next(&words) == MPI_SUCCESS);
    }
    MUST(MPIX_Queue_free(&q) == MPI_SUCCESS);
    MUST(!gpu.fake_synchronizations || gpu.fake_synchronizations(stream) == 0);
    gpu_must(gpu.synchronize(stream), "synchronize");
    for (int i = 0; i < TURNS; i++) {
        MUST(turns[i].kept_right);
    }
    MUST(MPIX_Request_free(&request) == MPI_SUCCESS);
}

/* After the second reset, memory of the program has the addresses that the library's had. */
static void reset(void)
{
    enum { BLOCKS = 64, BYTES = 4096, FILLED = 0x5a, DEVICES = 4 };
    int (*reset_device)(int);
    char *blocks[BLOCKS];

    *(void **)&reset_device = dlsym(RTLD_DEFAULT, "cuDevicePrimaryCtxReset_v2");
    queue();
    gpu_must(reset_device(rank % DEVICES), "reset");
    queue();
    gpu_must(reset_device(rank % DEVICES), "reset");
    for (int i = 0; i < BLOCKS; i++) {
        gpu_must(gpu.host_alloc((void **)&blocks[i], BYTES, 0), "pinned memory");
        memset(blocks[i], FILLED, BYTES);
    }
    queue();
    for (int i = 0; i < BLOCKS * BYTES; i++) {
        MUST(blocks[i / BYTES][i % BYTES] == FILLED);
    }
}

static void wait_long(void *arg)
{
    while (!__atomic_load_n((int *)arg, __ATOMIC_ACQUIRE)) {
        usleep(100);
    }
}

static void broken(void)
{
    int open_gate = 0;
    MPIX_Queue q;

    MUST(init(PARTS, WORDS, &request) == MPI_SUCCESS);
    gpu_must(gpu.stream_create(&stream, 1), "stream");
    MUST(MPIX_Queue_init(&q, gpu.type, &stream) == MPI_SUCCESS);
    fill(1);
    MUST(MPIX_Enqueue_start(q, &request) == MPI_SUCCESS);
    if (rank == 0) {
        /* The functions behind it would make the other partitions ready. */
        gpu_must(gpu.host_function(stream, wait_long, &open_gate), "function");
        ready(0, 1);
        gpu.fake_break(stream);
        __atomic_store_n(&open_gate, 1, __ATOMIC_RELEASE);
    } else {
        ready(0, PARTS);
    }
    MUST(MPIX_Queue_wait(q) == (rank == 0 ? MPI_ERR_OTHER : MPI_SUCCESS));
    MUST(MPIX_Queue_free(&q) == MPI_SUCCESS && is_right(1, 0, PARTS));
    /* The next round waits for its partitions as before. */
    started = 0;
    fill(2);
    PMPI_Start(&request);
    ready(1, PARTS);
    while (__atomic_load_n(&started, __ATOMIC_SEQ_CST) < PARTS - 1) {
        usleep(100);
    }
    usleep(10000);
    MUST(started == PARTS - 1);
    ready(0, 1);
    MUST(MPIX_Wait(&request, MPI_STATUS_IGNORE) == MPI_SUCCESS && is_right(2, 0, PARTS));
    MUST(MPIX_Request_free(&request) == MPI_SUCCESS);
}

static void failing(void)
{
    int flag = 0;
    MPIX_Prequest words;

    MUST(init(PARTS, WORDS, &request) == MPI_SUCCESS);
    MUST(MPIX_Prequest_create(request, &words) == MPI_SUCCESS);
    fill(1);
    /* The start fails on all ranks, so that no rank waits for it. */
    fail_start = 3;
    PMPI_Start(&request);
    for (int p = 0; p < PARTS; p++) {
        ready(p, p + 1);
        while (!__atomic_load_n(&words.arrived[p], __ATOMIC_ACQUIRE)) {
            usleep(100);
        }
        MUST(words.arrived[p] == (p == 2 ? MPIX_PARRIVED_FAILED : words.arrived_value));
        if (p == 2) {
            MUST(MPIX_Parrived(request, p, &flag) == MPI_ERR_INTERN && flag);
        }
    }
    MUST(MPIX_Wait(&request, MPI_STATUS_IGNORE) == MPI_ERR_INTERN);
    MUST(MPIX_Wait(&request, MPI_STATUS_IGNORE) == MPI_SUCCESS);
    MUST(is_right(1, 0, 2) && is_right(1, 3, PARTS) && !is_right(1, 2, 3));
    fill(2);
    PMPI_Start(&request);
    ready(0, PARTS);
    MUST(MPIX_Wait(&request, MPI_STATUS_IGNORE) == MPI_SUCCESS && is_right(2, 0, PARTS));
    MUST(MPIX_Request_free(&request) == MPI_SUCCESS);
}

static void refused(void)
{
    MPIX_Prequest words;

    gpu.fake_refuse(2);
    MUST(init(PARTS, WORDS, &request) == MPI_SUCCESS);
    MUST(MPIX_Prequest_create(request, &words) == MPI_ERR_UNSUPPORTED_OPERATION && words.nready == PARTS);
    fill(1);
    PMPI_Start(&request);
    for (int p = 0; p < PARTS; p++) {
        __atomic_store_n(&words.ready[p], words.ready_value, __ATOMIC_RELEASE);
    }
    MUST(MPIX_Wait(&request, MPI_STATUS_IGNORE) == MPI_SUCCESS && is_right(1, 0, PARTS));
    MUST(MPIX_Request_free(&request) == MPI_SUCCESS);
    /* The next request asks the runtime again. */
    gpu.fake_refuse(0);
    MUST(init(PARTS, WORDS, &request) == MPI_SUCCESS);
    MUST(MPIX_Prequest_create(request, &words) == MPI_SUCCESS);
    MUST(MPIX_Request_free(&request) == MPI_SUCCESS);
}

static MPIX_Queue at_end;
static int turn_now;

static void *fill_some(void *arg)
{
    int p = *(int *)arg;

    for (int i = p * WORDS; i < (p + 1) * WORDS; i++) {
        send[i] = value(turn_now, rank, i);
    }
    ready(p, p + 1);
    return NULL;
}

static void single(void)
{
    pthread_t threads[PARTS];
    int given, parts[PARTS];

    MPI_Query_thread(&given);
    MUST(given < MPI_THREAD_MULTIPLE);
    MUST(init(PARTS, WORDS, &request) == MPI_SUCCESS);
    for (turn_now = 1; turn_now < 20; turn_now++) {
        int before = started;
        PMPI_Start(&request);
        for (int p = 0; p < PARTS; p++) {
            parts[p] = p;
            pthread_create(&threads[p], NULL, fill_some, &parts[p]);
        }
        for (int p = 0; p < PARTS; p++) {
            pthread_join(threads[p], NULL);
        }
        /* MPIX_Pready calls no MPI function. */
        MUST(started == before);
        for (int i = 0; i < ranks * PARTS; i++) {
            while (!has_arrived(i)) {
            }
        }
        MUST(is_right(turn_now, 0, PARTS));
        MUST(MPIX_Wait(&request, MPI_STATUS_IGNORE) == MPI_SUCCESS);
    }
    MUST(MPIX_Request_free(&request) == MPI_SUCCESS);
}

static void polling(void)
{
    enum { LOOKS = 50 };
    int flag = 1, before;

    MUST(init(PARTS, WORDS, &request) == MPI_SUCCESS);
    before = yields;
    MUST(MPIX_Parrived(request, 0, &flag) == MPI_SUCCESS && flag && yields == before);
    PMPI_Start(&request);
    before = yields;
    for (int i = 0; i < LOOKS; i++) {
        MUST(MPIX_Parrived(request, 0, &flag) == MPI_SUCCESS && !flag);
    }
    MUST(yields >= before + LOOKS);
    fill(3);
    ready(0, PARTS);
    MUST(MPIX_Wait(&request, MPI_STATUS_IGNORE) == MPI_SUCCESS && is_right(3, 0, PARTS));
    MUST(MPIX_Request_free(&request) == MPI_SUCCESS);
}

static void left(void)
{
    MUST(init(PARTS, WORDS, &request) == MPI_SUCCESS);
    fill(6);
    MUST(MPIX_Queue_init(&at_end, MPIX_QUEUE_THREAD, NULL) == MPI_SUCCESS);
    for (int i = 0; i < 3; i++) {
        MUST(MPIX_Enqueue_start(at_end, &request) == MPI_SUCCESS);
        MUST(MPIX_Enqueue_waitall(at_end) == MPI_SUCCESS);
    }
    ready(0, rank % PARTS);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } cases[] = {
        {"arguments", arguments}, {"grouped", grouped}, {"freed", freed},     {"untyped", freed}, {"queue", queue},
        {"broken", broken},       {"failing", failing}, {"refused", refused}, {"single", single}, {"polling", polling},
        {"reset", reset},         {"left", left},       {NULL, NULL}};
    int given, i = 0;

    if (argc != 3) {
        return 2;
    }
    MUST(init(PARTS, WORDS, &request) == MPI_ERR_OTHER);
    drops_types = !strcmp(argv[2], "untyped");
    MPI_Init_thread(NULL, NULL, strcmp(argv[2], "single") ? MPI_THREAD_MULTIPLE : MPI_THREAD_SERIALIZED, &given);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    gpu_open(argv[1], rank);
    while (cases[i].name && strcmp(cases[i].name, argv[2])) {
        i++;
    }
    MUST(cases[i].name);
    cases[i].run();
    MPI_Finalize();
    if (cases[i].run == left) {
        MUST(is_right(6, 0, PARTS) && freed_requests == PARTS && started == 3 * (PARTS + 1));
        MUST(MPIX_Queue_free(&at_end) == MPI_SUCCESS);
    }
    if (cases[i].run == freed) {
        MUST(made == 7 * PARTS && freed_requests == 3 * (PARTS + 1) + 4 * PARTS);
    }
    if (rank == 0) {
        printf("cases: %s is right\n", argv[2]);
    }
    return 0;
}
