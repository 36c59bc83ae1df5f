/* Lanes for the cases of starts that streams make; see stream_lane.h. */
#include "stream_lane.h"

#include <dlfcn.h>
#include <string.h>
#include <time.h>

#include "../../include/mpi_names.h"
#include "../device/pvar.h"

enum { NOT_READY = 600 };

int rank, ranks;
static MPI_T_pvar_session session;

static int query(void *stream)
{
    static int (*call)(void *stream);

    *(void **)&call = call ? *(void **)&call : dlsym(RTLD_DEFAULT, "cuStreamQuery");
    return call(stream);
}

double lane_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- counters ---- */

#define COUNTER_HANDLE(name) pvar_open(session, "coll_dma_" #name, MPI_T_PVAR_CLASS_COUNTER),
static MPI_T_pvar_handle handles[ALL_COUNTERS];

void lane_open_counters(void)
{
    MPI_T_pvar_session_create(&session);
    memcpy(handles, (MPI_T_pvar_handle[]){COUNTERS(COUNTER_HANDLE)}, sizeof(handles));
}

void lane_close_counters(void)
{
    MPI_T_pvar_session_free(&session);
}

long lane_count(int which)
{
    return pvar_value(session, handles[which]);
}

/* ---- cases ---- */

void lane_run_cases(const char *program, const lane_case_t *cases, char *const *names, int n)
{
    for (int k = 0; k < n; k++) {
        int i = 0;

        while (cases[i].name && strcmp(cases[i].name, names[k])) {
            i++;
        }
        MUST(cases[i].name);
        cases[i].run();
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank == 0) {
            printf("%s: %s is right\n", program, names[k]);
            fflush(stdout);
        }
    }
}

/* ---- lanes ---- */

int lane_word(int step, int from, int i)
{
    return step * 100000 + from * 10000 + i;
}

static int *take(size_t words)
{
    void *memory;

    gpu_must(gpu.alloc(&memory, words * sizeof(int)), "memory");
    return memory;
}

static int *take_pinned(size_t words)
{
    void *memory;

    gpu_must(gpu.host_alloc(&memory, words * sizeof(int), 0), "pinned memory");
    memset(memory, 0, words * sizeof(int));
    return memory;
}

void lane_make_queue(lane_t *lane)
{
    gpu_must(gpu.stream_create(&lane->stream, 1), "stream");
    GOOD(MPIX_Queue_init(&lane->queue, gpu.type, &lane->stream));
}

void lane_make_on(lane_t *lane, MPI_Comm parent)
{
    *lane = (lane_t){0};
    GOOD(MPI_Comm_dup(parent, &lane->comm));
    MPI_Comm_set_errhandler(lane->comm, MPI_ERRORS_RETURN);
    MPI_Comm_rank(lane->comm, &lane->rank);
    MPI_Comm_size(lane->comm, &lane->ranks);
    lane->send = take(WORDS);
    lane->recv = take((size_t)lane->ranks * WORDS);
    lane->source = take_pinned(STEPS * WORDS);
    lane->kept = take_pinned((size_t)lane->ranks * STEPS * WORDS);
    for (int i = 0; i < STEPS * WORDS; i++) {
        lane->source[i] = lane_word(i / WORDS, lane->rank, i % WORDS);
    }
    GOOD(PERSISTENT(Allgather)(lane->send, WORDS, MPI_INT, lane->recv, WORDS, MPI_INT, lane->comm, MPI_INFO_NULL,
                               &lane->request));
    lane_make_queue(lane);
}

void lane_make(lane_t *lane)
{
    lane_make_on(lane, MPI_COMM_WORLD);
}

void lane_copy_in(const lane_t *lane)
{
    gpu_copy(lane->send, lane->source + lane->steps * WORDS, WORDS * sizeof(int), lane->stream);
}

void lane_copy_out(lane_t *lane)
{
    gpu_copy(lane->kept + lane->steps * lane->ranks * WORDS, lane->recv, (size_t)lane->ranks * WORDS * sizeof(int),
             lane->stream);
    lane->steps++;
}

void lane_start(lane_t *lane)
{
    lane_copy_in(lane);
    GOOD(MPIX_Enqueue_start(lane->queue, &lane->request));
}

void lane_step(lane_t *lane)
{
    lane_start(lane);
    GOOD(MPIX_Enqueue_waitall(lane->queue));
    lane_copy_out(lane);
}

void lane_step_by_host(lane_t *lane)
{
    lane_copy_in(lane);
    gpu_must(gpu.synchronize(lane->stream), "synchronize");
    GOOD(MPI_Start(&lane->request));
    GOOD(MPI_Wait(&lane->request, MPI_STATUS_IGNORE));
    lane_copy_out(lane);
}

void lane_check(const lane_t *lane)
{
    gpu_must(gpu.synchronize(lane->stream), "synchronize");
    for (int i = 0; i < lane->steps * lane->ranks * WORDS; i++) {
        int expected = lane_word(i / WORDS / lane->ranks, i / WORDS % lane->ranks, i % WORDS);

        if (lane->kept[i] != expected) {
            fprintf(stderr, "rank %d: step %d: word %d is %d, not %d\n", rank, i / WORDS / lane->ranks,
                    i % (WORDS * lane->ranks), lane->kept[i], expected);
            _exit(4);
        }
    }
}

void lane_free_queue(lane_t *lane)
{
    GOOD(MPIX_Queue_free(&lane->queue));
    gpu_must(gpu.stream_destroy(lane->stream), "destroy");
}

void lane_free_memory(const lane_t *lane)
{
    gpu_must(gpu.release(lane->send) || gpu.release(lane->recv), "release");
    gpu_must(gpu.host_release(lane->source) || gpu.host_release(lane->kept), "release");
}

void lane_free(lane_t *lane)
{
    lane_check(lane);
    lane_free_queue(lane);
    GOOD(MPI_Request_free(&lane->request));
    GOOD(MPI_Comm_free(&lane->comm));
    lane_free_memory(lane);
}

bool lane_is_busy(const lane_t *lane)
{
    return query(lane->stream) == NOT_READY;
}

void lane_wait_for_stream(const lane_t *lane)
{
    double end = lane_now() + PATIENCE;

    while (lane_is_busy(lane)) {
        MUST(lane_now() < end);
        usleep(200);
    }
}

void lane_waited(void)
{
    enum { LANES = 20 };
    lane_t lane;

    for (int i = 0; i < LANES; i++) {
        lane_make(&lane);
        for (int step = 0; step < STEPS; step++) {
            lane_step(&lane);
            GOOD(MPIX_Queue_wait(lane.queue));
        }
        lane_free(&lane);
    }
}
