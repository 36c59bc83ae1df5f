/*
 * hot_path CALLS: warm blocking all-gathers of 64 bytes on two ranks that are in one thread, so that a blocking call finds
 * everything there and runs without a wait. cost.sh counts the instructions of dma_comm_run.
 *
 * It is built twice. hot_path_uncounted has sources of the core of its own, in which nothing is counted (DMA_COUNT_NOTHING).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dma/comm.h"

enum { BYTES = 64, QUEUED = 64 };

#define MUST(condition)                                                                                                \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "hot_path: %s\n", #condition);                                                             \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

/* ---- host services: messages of the set-up, which are never late ---- */

typedef struct message {
    const void *from;
    size_t bytes;
    int to;
    bool used;
} message_t;

typedef struct receive {
    void *into;
    int from;
    bool done;
} receive_t;

static message_t sent[QUEUED]; /* in order; the set-up has few messages */
static int nsent;
static int ranks[2] = {0, 1}; /* handles */

static dma_status_t isend(void *comm, const void *buf, size_t bytes, int peer, int tag, void **req)
{
    (void)comm;
    (void)tag;
    MUST(nsent < QUEUED);
    sent[nsent++] = (message_t){.from = memcpy(malloc(bytes), buf, bytes), .bytes = bytes, .to = peer, .used = true};
    *req = NULL;
    return DMA_OK;
}

static dma_status_t irecv(void *comm, void *buf, size_t bytes, int peer, int tag, void **req)
{
    receive_t *r = malloc(sizeof(*r));

    (void)comm;
    (void)bytes;
    (void)tag;
    *r = (receive_t){.into = buf, .from = peer};
    *req = r;
    return DMA_OK;
}

/* With two ranks, all messages to a rank come from the other rank. */
static dma_status_t test(void *comm, void **req)
{
    receive_t *r = *req;

    for (int i = 0; r && i < nsent; i++) {
        if (sent[i].used && sent[i].to == *(int *)comm) {
            memcpy(r->into, sent[i].from, sent[i].bytes);
            free((void *)(uintptr_t)sent[i].from);
            sent[i].used = false;
            free(r);
            *req = NULL;
            return DMA_OK;
        }
    }
    return r ? DMA_AGAIN : DMA_OK;
}

static void progress(void)
{
}

static void report(dma_report_t level, const char *topic, const char *text)
{
    (void)level;
    (void)topic;
    fprintf(stderr, "hot_path: %s\n", text);
}

static const dma_host_t host = {.isend = isend, .irecv = irecv, .test = test, .progress = progress, .report = report};

/* ---- calls ---- */

static dma_proc_t *procs[2];
static dma_comm_t *comms[2];
static char *send[2], *recv[2]; /* on the heap, as in most programs */

static dma_call_t gather(char *send, char *recv)
{
    dma_side_t from = {
        .addr = send, .dense = true, .width = sizeof(int), .size = 1, .extent = 1, .ub = 1, .count = BYTES};
    dma_call_t call = {.coll = DMA_ALLGATHER, .send = from, .recv = from};

    call.recv.addr = recv;
    return call;
}

static void create(int rank)
{
    dma_proc_config_t proc = {.host = &host, .routes = dma_routes};
    dma_comm_config_t comm = {.handle = &ranks[rank], .rank = rank, .nranks = 2};

    dma_params_default(&proc.params);
    proc.params.measure = 0; /* the same plans in every run */
    MUST(dma_proc_create(&proc, &procs[rank]) == DMA_OK);
    MUST(dma_comm_create(procs[rank], &comm, &comms[rank]) == DMA_OK);
}

static void gather_once(int k)
{
    static _Alignas(DMA_TASK_ALIGN) char task[2][DMA_TASK_BYTES];
    dma_call_t calls[2] = {gather(send[0], recv[0]), gather(send[1], recv[1])};
    dma_status_t outcome[2] = {DMA_AGAIN, DMA_AGAIN};

    memset(send[0], k, BYTES);
    memset(send[1], ~k, BYTES);
    MUST(dma_comm_post_in(comms[0], &calls[0], NULL, NULL, task[0], &outcome[0]) == DMA_OK);
    if (k == 0) { /* sets the communicators up */
        MUST(dma_comm_post_in(comms[1], &calls[1], NULL, NULL, task[1], &outcome[1]) == DMA_OK);
    } else {
        MUST(dma_comm_run(comms[1], &calls[1]) == DMA_OK);
    }
    while ((outcome[0] == DMA_AGAIN && dma_task_test((dma_task_t *)(void *)task[0]) == DMA_AGAIN) ||
           (k == 0 && outcome[1] == DMA_AGAIN && dma_task_test((dma_task_t *)(void *)task[1]) == DMA_AGAIN)) {
        dma_proc_progress(procs[0]);
        dma_proc_progress(procs[1]);
    }
    for (int r = 0; r < 2; r++) {
        MUST(!memcmp(recv[r], send[0], BYTES) && !memcmp(recv[r] + BYTES, send[1], BYTES));
    }
}

int main(int argc, char **argv)
{
    int calls = argc > 1 ? atoi(argv[1]) : 100;

    for (int r = 0; r < 2; r++) {
        send[r] = malloc(BYTES);
        recv[r] = malloc(2 * BYTES);
        create(r);
    }
    for (int k = 0; k <= calls; k++) {
        gather_once(k);
    }
    for (int r = 0; r < 2; r++) {
        dma_comm_destroy(comms[r]);
    }
    for (int r = 0; r < 2; r++) {
        dma_proc_destroy(procs[r]);
        free(send[r]);
        free(recv[r]);
    }
    return 0;
}
