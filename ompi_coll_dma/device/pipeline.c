/* A call in pieces: see pipeline.h. */
#include "device/pipeline.h"

#include "device/device.h"

enum { FILL, DRAIN };

bool dma_pipe_voted(const dma_comm_t *comm, const dma_pipe_t *p, uint64_t piece)
{
    bool all;

    return piece < p->votes && dma_device_votes_reached(comm, p->ballot, p->first + (uint32_t)piece, &all);
}

bool dma_pipe_waits_for_votes(const dma_comm_t *comm, const dma_pipe_t *p)
{
    return p->votes && p->begun == p->moved && !dma_pipe_voted(comm, p, p->votes - 1);
}

uint64_t dma_pipe_position(const dma_pipe_t *p)
{
    return p->filling + p->filled + p->votes + p->begun + p->submitted + p->moved + p->draining + p->drained;
}

/* ---- copies; in scope ---- */

static const dma_gpu_runtime_t *runtime_of(const dma_pipe_t *p)
{
    return p->lease ? p->lease->rt : NULL;
}

static dma_gpu_event_t *event_of(const dma_pipe_t *p, int direction, uint64_t piece)
{
    return p->lease->event[(unsigned)direction * p->ops->depth + piece % p->ops->depth];
}

static dma_status_t start_copies(dma_comm_t *comm, const dma_task_t *task, const dma_pipe_t *p, int direction,
                                 uint64_t piece)
{
    const dma_gpu_runtime_t *rt = runtime_of(p);
    dma_status_t status = (direction == FILL ? p->ops->fill : p->ops->drain)(comm, task, piece);

    if (status == DMA_OK && rt) {
        status = rt->event_record(event_of(p, direction, piece), p->lease->stream[direction ? p->drain_stream : 0]);
    }
    return status;
}

/* Counts the pieces whose copies in a direction have ended; `most` have been started. */
static dma_status_t count_ended(const dma_pipe_t *p, int direction, uint64_t *ended, uint64_t most)
{
    const dma_gpu_runtime_t *rt = runtime_of(p);
    dma_status_t status = DMA_OK;

    if (!rt || !(direction == FILL ? p->fills : p->drains)) {
        *ended = most;
    }
    while (*ended < most && (status = rt->event_query(event_of(p, direction, *ended))) == DMA_OK) {
        ++*ended;
    }
    return status == DMA_AGAIN ? DMA_OK : status;
}

static dma_status_t copy(dma_comm_t *comm, const dma_task_t *task, dma_pipe_t *p)
{
    dma_status_t status = DMA_OK;

    while (status == DMA_OK && p->filling < p->count && p->ops->may_fill(comm, p->filling)) {
        status = p->fills ? start_copies(comm, task, p, FILL, p->filling) : DMA_OK;
        p->filling++;
    }
    while (status == DMA_OK && p->draining < p->moved) {
        status = p->drains ? start_copies(comm, task, p, DRAIN, p->draining) : DMA_OK;
        p->draining++;
    }
    status = status == DMA_OK ? count_ended(p, FILL, &p->filled, p->filling) : status;
    return status == DMA_OK ? count_ended(p, DRAIN, &p->drained, p->draining) : status;
}

static dma_status_t advance_copies(dma_comm_t *comm, const dma_task_t *task, dma_pipe_t *p)
{
    const dma_gpu_runtime_t *rt = runtime_of(p);
    dma_gpu_scope_t scope;
    dma_status_t status;

    if (p->filled == p->count && p->drained == p->moved) {
        return DMA_OK; /* nothing is to be started or under way */
    }
    if (rt && (status = rt->enter(p->lease->device, &scope)) != DMA_OK) {
        return status;
    }
    status = copy(comm, task, p);
    if (rt) {
        rt->leave(&scope);
    }
    return status;
}

/* ---- votes and moves ---- */

static void cast_votes(dma_comm_t *comm, dma_pipe_t *p)
{
    while (p->votes < p->count + p->ops->tail && p->filled >= (p->votes < p->count ? p->votes + 1 : p->count) &&
           p->drained + DMA_PIPE_LAG > p->votes) {
        p->votes++;
        dma_device_vote(comm, p->ballot, true);
    }
}

static dma_status_t advance_moves(dma_comm_t *comm, dma_task_t *task, dma_pipe_t *p)
{
    dma_status_t status = DMA_OK;

    if (!p->ops->begin) {
        while (p->moved < p->count && dma_pipe_voted(comm, p, p->moved)) {
            p->begun = p->submitted = ++p->moved;
        }
        return DMA_OK;
    }
    if (p->begun == p->moved && p->begun < p->count && dma_pipe_voted(comm, p, p->begun)) {
        status = p->ops->begin(comm, task, p->begun++);
    }
    if (status == DMA_OK && p->submitted < p->begun && (status = p->ops->submit(comm, task)) == DMA_OK) {
        p->submitted++;
    } else if (status == DMA_OK && p->moved < p->submitted && (status = p->ops->run(comm, task)) == DMA_OK) {
        p->moved++;
    }
    return status == DMA_AGAIN ? DMA_OK : status;
}

static bool is_over(const dma_comm_t *comm, const dma_pipe_t *p)
{
    return p->drained == p->count && (!p->ops->tail || dma_pipe_voted(comm, p, p->count + p->ops->tail - 1));
}

/* Other ranks depend on it by now. */
static dma_status_t fatal(dma_status_t status)
{
    return status == DMA_UNSUPPORTED ? DMA_ERR_ENGINE : status;
}

dma_status_t dma_pipe_begin(dma_comm_t *comm, dma_task_t *task, dma_pipe_t *p)
{
    p->first = comm->device->agreements[p->ballot] + 1;
    p->filling = p->filled = p->votes = p->begun = p->submitted = p->moved = p->draining = p->drained = 0;
    return fatal(advance_copies(comm, task, p)); /* first, because peers wait for them */
}

dma_status_t dma_pipe_advance(dma_comm_t *comm, dma_task_t *task, dma_pipe_t *p)
{
    dma_status_t status;
    uint64_t before;

    do {
        before = dma_pipe_position(p);
        if ((status = advance_copies(comm, task, p)) == DMA_OK) {
            cast_votes(comm, p);
            status = advance_moves(comm, task, p);
        }
    } while (status == DMA_OK && dma_pipe_position(p) != before);
    return status != DMA_OK ? fatal(status) : is_over(comm, p) ? DMA_OK : DMA_AGAIN;
}
