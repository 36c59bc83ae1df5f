/* Memory that stands in for the user's in one call: see staging.h. */
#include "core/staging.h"

#include <stdlib.h>

#include "core/comm.h"

#define STAGING_KEPT (16u << 20) /* bytes of a side's memory that outlive their call, at most */

struct dma_staging {
    size_t bytes;
    _Alignas(max_align_t) char memory[];
};

uint64_t dma_blocks_all(const dma_blocks_t *blocks, int n)
{
    uint64_t all = 0;

    for (int b = 0; b < n; b++) {
        all += dma_blocks_bytes(blocks, (uint64_t)b);
    }
    return all;
}

dma_blocks_t dma_blocks_packed(const dma_blocks_t *blocks, int n, char *memory, int64_t *displs)
{
    dma_blocks_t packed = *blocks;
    int64_t at = 0;

    packed.addr = memory;
    for (int b = 0; blocks->counts && b < n; b++) {
        displs[b] = at;
        at += (int64_t)blocks->counts[b];
    }
    packed.displs = blocks->counts ? displs : NULL;
    return packed;
}

dma_range_t dma_blocks_sent(dma_coll_t coll, int nranks)
{
    return (dma_range_t){.end = dma_coll_gathers(coll) ? 1 : nranks};
}

/* Blocks that a call in place sends from its receive side. */
static dma_range_t sent_in_place(dma_coll_t coll, int rank, int nranks)
{
    return dma_coll_gathers(coll) ? (dma_range_t){.first = rank, .end = rank + 1} : (dma_range_t){.end = nranks};
}

void dma_stage_push(dma_task_t *task, dma_stage_t *stage, const dma_stage_ops_t *ops)
{
    *stage = (dma_stage_t){.below = task->stages, .ops = ops};
    task->stages = stage;
}

dma_status_t dma_stage_recv(dma_task_t *task, dma_stage_t *stage, const dma_blocks_t *staged, bool in_place)
{
    const dma_comm_t *comm = task->comm;
    dma_run_t *run = &task->run;

    stage->receives = true;
    stage->home = run->recv;
    stage->recv = run->recv = *staged;
    if (!in_place) {
        return DMA_OK;
    }
    run->send = run->recv;
    if (dma_coll_gathers(task->coll)) {
        stage->keep_own = true;
        run->send = (dma_blocks_t){.addr = dma_blocks_addr(&run->recv, (uint64_t)comm->rank),
                                   .bytes = dma_blocks_bytes(&run->recv, (uint64_t)comm->rank)};
    }
    return stage->ops->recv_in(task, stage, staged, sent_in_place(task->coll, comm->rank, comm->nranks));
}

dma_status_t dma_stage_send(dma_task_t *task, dma_stage_t *stage, const dma_blocks_t *staged)
{
    dma_status_t status = stage->ops->send_in(task, stage, staged, dma_blocks_sent(task->coll, task->comm->nranks));

    task->run.send = *staged;
    return status;
}

dma_status_t dma_stages_out(dma_task_t *task)
{
    dma_status_t status = DMA_OK;

    for (const dma_stage_t *s = task->stages; s && status == DMA_OK; s = s->below) {
        if (s->receives) {
            status = s->ops->out(task, s, s->keep_own ? task->comm->rank : -1);
        }
    }
    return status;
}

dma_status_t dma_staging_get(dma_comm_t *comm, dma_stage_t *stage, int side, uint64_t bytes)
{
    dma_staging_t *s = atomic_exchange(&comm->staging[side], NULL);

    if (s && s->bytes < bytes) {
        free(s);
        s = NULL;
    }
    if (!s) {
        if (bytes > SIZE_MAX - sizeof(*s) || !(s = malloc(sizeof(*s) + bytes))) {
            return DMA_ERR_NOMEM;
        }
        s->bytes = bytes;
    }
    stage->memory[side] = s->memory;
    return DMA_OK;
}

static void give_back(dma_comm_t *comm, int side, char *memory)
{
    dma_staging_t *s = (dma_staging_t *)(memory - offsetof(dma_staging_t, memory));

    free(s->bytes > STAGING_KEPT ? s : atomic_exchange(&comm->staging[side], s));
}

void dma_stages_drop(dma_task_t *task, bool lost)
{
    for (dma_stage_t *s = task->stages; s; s = s->below) {
        for (int side = 0; side < 2; side++) {
            if (s->memory[side] && !lost) {
                give_back(task->comm, side, s->memory[side]);
            }
            s->memory[side] = NULL;
        }
    }
    task->stages = NULL;
}

void dma_staging_free(dma_staging_t *staging)
{
    free(staging);
}
