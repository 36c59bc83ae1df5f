/*
 * The messages route: non-blocking and persistent calls of a communicator that is ASIDE.
 *
 * A non-blocking call can be posted before the set-up has ended. If the set-up then ends ASIDE, the call cannot go to
 * the next module: that module assigns tags in call order, and the set-up may have ended at different calls on
 * different ranks. So all non-blocking calls of an ASIDE communicator are done here, on all ranks, whenever they were
 * posted. Every block is one message of the host services. Calls start in order on every rank, and messages between two
 * ranks keep their order, so they match.
 */
#include <stdlib.h>
#include <string.h>

#include "core/comm.h"

typedef struct dma_messages {
    char *copy;  /* an all-to-all in place sends from this copy; else NULL */
    void **reqs; /* by rank: a send, then a receive */
} dma_messages_t;

static void messages_drop(dma_task_t *task)
{
    dma_messages_t *m = task->messages;
    bool in_progress = false;

    if (!m) {
        return;
    }
    for (int i = 0; i < 2 * task->comm->nranks; i++) {
        in_progress = in_progress || m->reqs[i];
    }
    if (in_progress) { /* after an error: the memory that messages read and write is theirs */
        dma_stages_drop(task, true);
    } else {
        free(m->copy);
    }
    free(m->reqs);
    free(m);
    task->messages = NULL;
}

/* Copies all blocks of the receive side, packed. */
static dma_status_t copy_blocks(dma_task_t *task, dma_messages_t *m)
{
    const dma_blocks_t *recv = &task->run.recv;
    uint64_t all = dma_blocks_all(recv, task->comm->nranks);

    if (!(m->copy = malloc(all ? all : 1))) {
        return DMA_ERR_NOMEM;
    }
    all = 0;
    for (int r = 0; r < task->comm->nranks; r++) {
        uint64_t bytes = dma_blocks_bytes(recv, (uint64_t)r);

        memcpy(m->copy + all, dma_blocks_addr(recv, (uint64_t)r), bytes);
        all += bytes;
    }
    return DMA_OK;
}

static dma_status_t begin_messages(dma_task_t *task)
{
    dma_status_t status = task->memory ? task->memory->stage(task) : DMA_OK;
    dma_messages_t *m;

    if (status != DMA_OK) {
        return status;
    }
    m = calloc(1, sizeof(*m));
    if (!m || !(m->reqs = calloc(2 * (size_t)task->comm->nranks, sizeof(*m->reqs)))) {
        free(m);
        return DMA_ERR_NOMEM;
    }
    task->messages = m;
    return task->in_place && !dma_coll_gathers(task->coll) ? copy_blocks(task, m) : DMA_OK;
}

static dma_status_t send_all(dma_task_t *task)
{
    const dma_comm_t *comm = task->comm;
    dma_messages_t *m = task->messages;
    dma_status_t status = DMA_OK;
    const char *next = m->copy;

    for (int r = 0; status == DMA_OK && r < comm->nranks; r++) {
        uint64_t block = dma_coll_gathers(task->coll) ? 0 : (uint64_t)r;
        uint64_t bytes = dma_blocks_bytes(&task->run.send, block);
        const char *from = next ? next : dma_blocks_addr(&task->run.send, block);

        if (next) {
            next += bytes;
        }
        if (r != comm->rank) {
            status = comm->host->isend(comm->handle, from, bytes, r, comm->tag, &m->reqs[2 * r]);
        } else if (!task->in_place) {
            memcpy(dma_blocks_addr(&task->run.recv, (uint64_t)r), from, bytes);
        }
    }
    return status;
}

static dma_status_t receive_all(dma_task_t *task)
{
    const dma_comm_t *comm = task->comm;
    dma_status_t status = DMA_OK;

    for (int r = 0; status == DMA_OK && r < comm->nranks; r++) {
        if (r != comm->rank) {
            status = comm->host->irecv(comm->handle, dma_blocks_addr(&task->run.recv, (uint64_t)r),
                                       dma_blocks_bytes(&task->run.recv, (uint64_t)r), r, comm->tag,
                                       &task->messages->reqs[2 * r + 1]);
        }
    }
    return status;
}

static dma_status_t messages_advance(dma_comm_t *comm, dma_task_t *task)
{
    dma_status_t status = DMA_OK;
    bool all = true;

    if (!task->messages) {
        dma_task_set_running(task);
        dma_comm_count(comm, DMA_COUNT_calls_messages);
        if ((status = begin_messages(task)) != DMA_OK || (status = receive_all(task)) != DMA_OK ||
            (status = send_all(task)) != DMA_OK) {
            return status;
        }
    }
    for (int i = 0; i < 2 * comm->nranks; i++) {
        void **req = &task->messages->reqs[i];

        status = *req ? comm->host->test(comm->handle, req) : DMA_OK;
        if (status < 0) {
            return status;
        }
        all = all && status == DMA_OK;
    }
    return all ? DMA_OK : DMA_AGAIN;
}

static dma_wait_t messages_waits_for(const dma_comm_t *comm, const dma_task_t *task)
{
    dma_wait_t wait = {0};

    for (int r = 0; task && task->messages && r < comm->nranks; r++) {
        if (task->messages->reqs[2 * r + 1]) {
            dma_wait_add(&wait, DMA_WAIT_MESSAGE, r);
        }
    }
    return wait;
}

static const char *messages_phase(const dma_comm_t *comm, const dma_task_t *task)
{
    (void)comm;
    return task && task->messages ? "messages" : "queued";
}

static const dma_route_t dma_route_messages = {
    .name = "messages",
    .waits_for = messages_waits_for,
    .phase = messages_phase,
    .advance = messages_advance,
    .drop = messages_drop,
};

void dma_comm_step_aside(dma_comm_t *comm)
{
    comm->route_calls = &dma_route_messages;
    for (dma_task_t *task = comm->head; task; task = task->next) {
        task->route = comm->route_calls; /* none has started */
    }
    comm->state = DMA_COMM_ASIDE;
}
