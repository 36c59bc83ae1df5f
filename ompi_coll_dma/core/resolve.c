/* Placing calls: see place.h. */
#include "core/resolve.h"

#include <stdlib.h>

#include "core/comm.h"
#include "device/device.h"

#define STAGING_KEPT (16u << 20) /* bytes of a side's staging that outlive their call, at most */
#define AS_ONE       (1u << 20)  /* bytes of blocks that are packed as one, at most */

enum { SEND, RECV };

size_t dma_arrays_bytes(int nranks)
{
    return 5 * sizeof(uint64_t) * (size_t)nranks;
}

dma_arrays_t dma_arrays_at(void *memory, int nranks)
{
    uint64_t *at = memory;
    size_t n = (size_t)nranks;

    return (dma_arrays_t){
        .send_counts = at,
        .recv_counts = at + n,
        .send_displs = (int64_t *)(at + 2 * n),
        .recv_displs = (int64_t *)(at + 3 * n),
        .home = (int64_t *)(at + 4 * n),
    };
}

bool dma_call_empty(const dma_call_t *call, int nranks)
{
    const dma_side_t *recv = &call->recv;

    if (__builtin_expect(!recv->counts, 1)) {
        return !recv->count || !recv->size;
    }
    if (call->coll != DMA_ALLGATHERV) {
        return false; /* others may have */
    }
    for (int r = 0; recv->size && r < nranks; r++) {
        if (dma_side_count(recv, r)) {
            return false;
        }
    }
    return true;
}

/* A side with a block per rank, where the caller has it. */
static dma_blocks_t direct(const dma_side_t *side, int nranks, uint64_t *counts, int64_t *displs)
{
    dma_blocks_t blocks = {.addr = side->addr, .bytes = side->count * side->size};

    if (side->counts) {
        blocks.counts = counts;
        blocks.displs = displs;
        for (int r = 0; r < nranks; r++) {
            counts[r] = dma_side_count(side, r) * side->size;
            displs[r] = dma_displ(side->displs, side->width, r) * side->extent;
        }
    } else if (side->extent != (ptrdiff_t)side->size) { /* blocks with a shape */
        blocks.displs = displs;
        for (int r = 0; r < nranks; r++) {
            displs[r] = (ptrdiff_t)side->count * r * side->extent;
        }
    }
    return blocks;
}

/* The same side packed, block after block. Returns the bytes of all. */
static uint64_t packed(const dma_side_t *side, int nranks, uint64_t *counts, int64_t *displs, dma_blocks_t *blocks)
{
    uint64_t all = 0;

    for (int r = 0; r < nranks; r++) {
        counts[r] = dma_side_count(side, r) * side->size;
        displs[r] = (int64_t)all;
        all += counts[r];
    }
    *blocks = (dma_blocks_t){.bytes = side->count * side->size};
    if (side->counts) {
        blocks->counts = counts;
        blocks->displs = displs;
    }
    return all;
}

/* Can the plan move the side's bytes where they are? */
static bool direct_from(const dma_task_t *task, const dma_side_t *side)
{
    return side->dense && !(task->device && side->runtime);
}

/* How many of `most` blocks of a side are packed or unpacked at once. Without counts block b begins with element b * count, and
 * the packed ones lie side by side too, so together they are what a longer block would be. Beginning costs as much as moving
 * some hundred bytes: beyond AS_ONE nothing is gained, and nobody is given more elements than a user's call had. */
static int at_once(const dma_task_t *task, const dma_side_t *side, int most)
{
    bool host = !(task->device && side->runtime);

    return host && !side->counts && side->count * side->size <= AS_ONE / (size_t)most ? most : 1;
}

/* Blocks `first` to `last` of a side, into their places. */
static dma_status_t pack(const dma_task_t *task, const dma_side_t *side, int first, int last, const dma_blocks_t *to)
{
    const dma_comm_t *comm = task->comm;
    dma_status_t status = DMA_OK;

    for (int b = first, n; status == DMA_OK && b <= last; b += n) {
        size_t count = dma_side_count(side, b);
        char *at = dma_blocks_addr(to, (uint64_t)b);

        n = at_once(task, side, last - b + 1);
        if (!count || !side->size) {
            continue;
        }
        count *= (size_t)n;
        status = task->device && side->runtime
                     ? dma_device_pack(comm, side, b, count, at)
                     : comm->host->pack(dma_side_addr(side, b), count, side->type, at, count * side->size);
    }
    return status;
}

/* Fresh memory costs more to get into than to fill, so one of each side stays with the communicator. Without a lock: tasks
 * are placed and dropped outside of the communicator's. */
static dma_status_t stage(dma_comm_t *comm, unsigned side, char **memory, uint64_t bytes)
{
    dma_staging_t *s = atomic_exchange(&comm->staging[side], NULL);

    if (s && s->bytes < bytes) {
        free(s);
        s = NULL;
    }
    if (!s) {
        if (!(s = malloc(sizeof(*s) + bytes))) {
            return DMA_ERR_NOMEM;
        }
        s->bytes = bytes;
    }
    *memory = s->memory;
    return DMA_OK;
}

static void unstage(dma_comm_t *comm, unsigned side, char **memory)
{
    dma_staging_t *s;

    if (!*memory) {
        return;
    }
    s = (dma_staging_t *)(*memory - offsetof(dma_staging_t, memory));
    free(s->bytes > STAGING_KEPT ? s : atomic_exchange(&comm->staging[side], s));
    *memory = NULL;
}

void dma_task_unstage(dma_task_t *task)
{
    unstage(task->comm, SEND, &task->send_staging);
    unstage(task->comm, RECV, &task->recv_staging);
}

/* The receive side; in place, what it holds already is packed too. */
static dma_status_t place_recv(dma_comm_t *comm, dma_task_t *task, const dma_call_t *call, dma_arrays_t *a)
{
    int n = comm->nranks, first = 0, last = n - 1;
    dma_blocks_t *recv = &task->run.recv;
    dma_status_t status;
    uint64_t all;

    if (direct_from(task, &call->recv)) {
        *recv = direct(&call->recv, n, a->recv_counts, a->recv_displs);
        return DMA_OK;
    }
    all = packed(&call->recv, n, a->recv_counts, a->recv_displs, recv);
    if ((status = stage(comm, RECV, &task->recv_staging, all)) != DMA_OK) {
        return status;
    }
    recv->addr = task->recv_staging;
    task->unpack = call->recv;
    for (int r = 0; r < n; r++) {
        a->home[r] = dma_side_addr(&call->recv, r) - (char *)call->recv.addr;
    }
    if (call->in_place && dma_coll_gathers(call->coll)) {
        first = last = comm->rank;
        task->keep_own = true;
    }
    return call->in_place ? pack(task, &call->recv, first, last, recv) : DMA_OK;
}

static dma_status_t place_send(dma_comm_t *comm, dma_task_t *task, const dma_call_t *call, dma_arrays_t *a)
{
    int n = comm->nranks;
    dma_run_t *run = &task->run;
    dma_status_t status = DMA_OK;
    uint64_t all;
    char *own = dma_blocks_addr(&run->recv, (uint64_t)comm->rank);

    task->in_place = call->in_place;
    if (dma_coll_gathers(call->coll)) {
        uint64_t bytes = dma_blocks_bytes(&run->recv, (uint64_t)comm->rank);

        run->send = (dma_blocks_t){.addr = own, .bytes = bytes};
        if (call->in_place) {
            return DMA_OK;
        }
        if (call->send.count * call->send.size != bytes) {
            return DMA_ERR_TRUNCATE;
        }
        if (direct_from(task, &call->send)) {
            run->send.addr = call->send.addr;
            return DMA_OK;
        }
        task->in_place = true; /* as far as the plan knows */
        return pack(task, &call->send, 0, 0, &run->send);
    }
    if (call->in_place) {
        run->send = run->recv;
        return DMA_OK;
    }
    if (direct_from(task, &call->send)) {
        run->send = direct(&call->send, n, a->send_counts, a->send_displs);
    } else {
        all = packed(&call->send, n, a->send_counts, a->send_displs, &run->send);
        if ((status = stage(comm, SEND, &task->send_staging, all)) != DMA_OK) {
            return status;
        }
        run->send.addr = task->send_staging;
        status = pack(task, &call->send, 0, n - 1, &run->send);
    }
    if (status == DMA_OK &&
        dma_blocks_bytes(&run->send, (uint64_t)comm->rank) != dma_blocks_bytes(&run->recv, (uint64_t)comm->rank)) {
        status = DMA_ERR_TRUNCATE;
    }
    return status;
}

/* All counts of an all-gather-v in 56 bits: every rank knows them all, so a rank that sees one differently is found by
 * all, and finds it itself, whoever's block it is about. */
static uint64_t digest(const dma_blocks_t *blocks, int nranks)
{
    uint64_t x = 0;

    for (int r = 0; r < nranks; r++) {
        x = (x ^ dma_blocks_bytes(blocks, (uint64_t)r)) * UINT64_C(0x9e3779b97f4a7c15);
        x ^= x >> 29;
    }
    return x >> 8;
}

/* What the choice goes by, and what descriptors say. */
static void size_up(dma_comm_t *comm, dma_task_t *task)
{
    dma_run_t *run = &task->run;

    switch (task->coll) {
    case DMA_ALLGATHERV:
        task->bytes = 0;
        for (int r = 0; r < comm->nranks; r++) {
            uint64_t bytes = dma_blocks_bytes(&run->recv, (uint64_t)r);

            task->bytes = bytes > task->bytes ? bytes : task->bytes;
        }
        run->sign = dma_sign(task->coll, false, digest(&run->recv, comm->nranks));
        break;
    case DMA_ALLTOALLV:
        run->sign = dma_sign(task->coll, task->in_place, 0);
        task->bytes = DMA_ALLTOALLV_BYTES;
        break;
    default:
        run->sign = dma_sign(task->coll, task->in_place, run->send.bytes);
        task->bytes = run->recv.bytes;
        break;
    }
}

dma_status_t dma_task_resolve(dma_comm_t *comm, dma_task_t *task, const dma_call_t *call)
{
    dma_arrays_t a = dma_arrays_at(task->arrays, comm->nranks);
    dma_status_t status = place_recv(comm, task, call, &a);

    if (status == DMA_OK) {
        status = place_send(comm, task, call, &a);
    }
    if (status == DMA_OK) {
        size_up(comm, task);
    }
    return status;
}

dma_status_t dma_task_unpack(dma_task_t *task)
{
    const dma_comm_t *comm = task->comm;
    const dma_side_t *side = &task->unpack;
    dma_arrays_t a = dma_arrays_at(task->arrays, comm->nranks);
    dma_status_t status = DMA_OK;

    for (int r = 0, n; status == DMA_OK && r < comm->nranks; r += n) {
        bool kept = task->keep_own && r <= comm->rank; /* the own block ends what is unpacked at once */
        uint64_t bytes = dma_blocks_bytes(&task->run.recv, (uint64_t)r);
        char *from, *to;

        if (!bytes || (kept && r == comm->rank)) {
            n = 1;
            continue;
        }
        n = at_once(task, side, (kept ? comm->rank : comm->nranks) - r);
        bytes *= (uint64_t)n;
        from = dma_blocks_addr(&task->run.recv, (uint64_t)r);
        to = (char *)side->addr + a.home[r];
        status = task->device && side->runtime ? dma_device_unpack(comm, side, to, bytes / side->size, from)
                                               : comm->host->unpack(to, bytes / side->size, side->type, from, bytes);
    }
    return status;
}
