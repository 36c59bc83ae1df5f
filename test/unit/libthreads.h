/*
 * Ranks as threads: the host services of include/dma/host.h over queues in memory, and a function that runs n ranks in
 * one test program, each with a process object and communicators of its own. A race detector sees all ranks, because
 * the arenas of one process are mapped once.
 *
 * Messages are FIFO for each pair of ranks and tag, and may be late by a random time. A send completes at once or only when it
 * has been received; which one is random. A body that finds an error calls must(). Then the program prints the error
 * with the seed and exits, because the other ranks would wait for ever.
 */
#ifndef DMA_TEST_LIBTHREADS_H
#define DMA_TEST_LIBTHREADS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "dma/comm.h"
#include "node/window.h"

#define THREADS_COMMS 8 /* the most communicators of a job */

/* What a communicator's handle points to: one per rank. */
typedef struct group group_t;
typedef struct member {
    group_t *group;
    int rank;
} member_t;

group_t *group_create(int n, uint64_t seed, unsigned delay_us);
void group_destroy(group_t *g);
member_t *group_handle(group_t *g, int rank);
/* From now on the sends of `rank` fail, except those of channels. */
void group_fail_sends(group_t *g, int rank);

/* How many messages `rank` has sent. */
int group_sends(const group_t *g, int rank);

extern const dma_host_t threads_host;

/* dma_comm_post_in with memory for the task, which task_free frees after the task has completed. `done` is called
 * in any case. */
dma_status_t task_post(dma_comm_t *comm, const dma_call_t *call, dma_done_t done, void *arg, dma_task_t **task);
void task_free(dma_task_t *task);

/* A derived datatype: elements of `piece` bytes, `stride` bytes apart, the first one `lead` bytes behind the address. */
typedef struct vector_type {
    size_t piece, stride, lead;
} vector_type_t;

#define THREADS_JOB "threads" /* the name of every job */

typedef struct job job_t;

/* One rank, as its thread sees it. */
typedef struct rank {
    job_t *job;
    int rank, n;
    dma_proc_t *proc;
    dma_comm_t *comms[THREADS_COMMS];
    uint64_t rng;
    void *kept[64];
    int nkept;
} rank_t;

struct job {
    int n, ncomms;
    void (*body)(rank_t *r);
    const void *arg;
    dma_params_t params;
    const char *session_dir;
    const struct dma_net_ops *net_ops; /* to other nodes; NULL: none */
    bool threads;                      /* several threads of a rank call at the same time */
    unsigned delay_us;
    const struct dma_gpu_runtime *runtime; /* of all ranks; NULL: none */
    const struct dma_gpu_engine *const *engines;
    bool own_counters; /* each rank has counters of its own, and reasons_count is 0 */
    /* changes the parameters of one rank; may be NULL */
    void (*tune)(int rank, dma_params_t *params);
    /* called by each rank before it leaves its communicators; may be NULL */
    void (*ending)(void);
    /* filled by threads_run */
    group_t *groups[THREADS_COMMS];
    pthread_barrier_t barrier;
    _Atomic int reached; /* for bodies that synchronise themselves */
};

/* A job of n ranks with default parameters. */
job_t threads_job(int n, void (*body)(rank_t *r));
/* Runs the job: all ranks begin together, and each leaves its communicators when it wants. */
void threads_run(job_t *job);

/* A communicator of the calling rank on the job's group `index`. */
dma_comm_t *threads_comm(rank_t *r, int index);
/* Waits for all ranks. It also orders memory, so it must not be between calls that are tested for races. */
void threads_barrier(rank_t *r);
/* Sets the communicator up. The set-up must succeed. */
void threads_prepare(rank_t *r, dma_comm_t *comm);
/* Memory that is freed after all ranks have ended. */
void threads_keep(rank_t *r, void *memory);
uint32_t threads_random(rank_t *r, uint32_t below);
/* Sets the process object that host->progress advances in this thread. */
void threads_enter(dma_proc_t *proc);

void must_fail(const char *file, int line, int rank, const char *fmt, ...)
    __attribute__((noreturn, format(printf, 4, 5)));
#define must(r, condition, ...)                                                                                        \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            must_fail(__FILE__, __LINE__, (r)->rank, __VA_ARGS__);                                                     \
        }                                                                                                              \
    } while (0)

/* Reports since the last threads_run began. */
int reports_count(const char *topic);
int reports_with(const char *topic, const char *text); /* those that contain the text */
/* The first report of a topic; "" if there is none. */
const char *reports_first(const char *topic);

/* What the ranks have counted since the last threads_run began, and how often they left the fast path for a reason. */
extern dma_counters_t threads_counters;
unsigned long counts_sum(int which);
unsigned long reasons_count(dma_reason_t reason);

/* System calls that fail on request: cross-memory reads after `n` good ones (all of them, or one), and the creation
 * of memory files. */
extern _Atomic int fail_cross_after; /* < 0: never */
extern _Atomic bool fail_cross_once;
extern _Atomic bool fail_memfd;

/* The blocks of a window without a communicator: of rank 0, whose window it is, and of its peers. The caller
 * destroys the arena. */
dma_arena_t *threads_blocks(dma_window_t *w);

/* ---- data ---- */

/* A byte of what `rank` contributes to call `tag`. */
uint8_t data_byte(uint64_t tag, int rank, uint64_t at);
void data_fill(uint8_t *buf, uint64_t tag, int rank, size_t bytes);
/* The same, from byte `at` of the data on. */
void data_fill_from(uint8_t *buf, uint64_t tag, int rank, uint64_t at, size_t bytes);
/* The index of the first wrong byte; `bytes` if all are right. */
size_t data_wrong(const uint8_t *buf, uint64_t tag, int rank, size_t bytes);
/* Does the receive buffer hold the blocks of all ranks? */
void data_check(rank_t *r, const uint8_t *recv, uint64_t tag, size_t bytes);
/* A contiguous block in the terms of the interface. */
dma_side_t data_buffer(void *addr, size_t bytes);
/* An all-gather of 16 bytes on at most three ranks, with its memory. */
typedef struct data_gather {
    uint8_t send[16], recv[3 * 16];
    dma_call_t call;
} data_gather_t;
const dma_call_t *data_gather(data_gather_t *g);

/* All-gathers of such blocks. send == NULL: in place. */
dma_status_t data_allgather(dma_comm_t *comm, const dma_side_t *send, const dma_side_t *recv);
dma_status_t data_iallgather(dma_comm_t *comm, const dma_side_t *send, const dma_side_t *recv, dma_task_t **task);

#endif
