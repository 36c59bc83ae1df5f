/* Resolving calls: see resolve.h. */
#include "core/resolve.h"

#include <string.h>

#include "core/comm.h"

#define BATCH_BYTES (1u << 20) /* of blocks that are packed as one, at most */

size_t dma_arrays_bytes(int nranks)
{
    return 5 * sizeof(uint64_t) * (size_t)nranks;
}

static dma_arrays_t arrays_at(void *memory, int nranks)
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
    if (dma_coll_sizes(call->coll) != DMA_SIZES_SHARED) {
        return false; /* other ranks may have something to move */
    }
    for (int r = 0; recv->size && r < nranks; r++) {
        if (dma_side_count(recv, r)) {
            return false;
        }
    }
    return true;
}

/* A side with a block per rank, where the caller has it. */
static dma_blocks_t side_blocks(const dma_comm_t *comm, const dma_side_t *side, uint64_t *counts, int64_t *displs)
{
    int nranks = comm->nranks;
    dma_blocks_t blocks = {.addr = side->addr, .bytes = side->count * side->size};

    if (side->counts) {
        blocks.counts = counts;
        blocks.displs = displs;
        for (int r = 0; r < nranks; r++) {
            counts[r] = dma_side_bytes(comm->host, side, r);
            displs[r] = dma_side_at(comm->host, side, r) - (char *)side->addr;
        }
    } else if (side->extent != (ptrdiff_t)side->size) { /* blocks with a shape */
        blocks.displs = displs;
        for (int r = 0; r < nranks; r++) {
            displs[r] = (ptrdiff_t)side->count * r * side->extent;
        }
    }
    return blocks;
}

/* The same side packed, block after block, in memory that is still to be found. Returns the bytes of all. */
static uint64_t packed_blocks(const dma_comm_t *comm, const dma_side_t *side, uint64_t *counts, int64_t *displs,
                              dma_blocks_t *blocks)
{
    uint64_t all = 0;

    for (int r = 0; r < comm->nranks; r++) {
        counts[r] = dma_side_bytes(comm->host, side, r);
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

/* Is the side in memory that the cores must not touch, and staged? A side of a call without such memory does not say. */
static bool is_foreign(const dma_task_t *task, const dma_side_t *side)
{
    return task->memory && side->runtime;
}

/* Can the plan move the side's bytes where they are? */
static bool is_direct(const dma_task_t *task, const dma_side_t *side)
{
    return side->dense && !is_foreign(task, side);
}

/* ---- the stage of sides that the host services pack ---- */

/*
 * How many of `most` blocks of a side are packed or unpacked at once. Without counts, block b begins with element b * count,
 * and the packed blocks lie side by side too, so together they are one longer block. To begin costs as much as to move some
 * hundred bytes: beyond BATCH_BYTES nothing is gained, and no more elements are passed at once than the user's call had.
 */
static int batch_of(const dma_task_t *task, const dma_side_t *side, int most)
{
    return !is_foreign(task, side) && !side->counts && side->count * side->size <= BATCH_BYTES / (size_t)most ? most
                                                                                                              : 1;
}

static dma_status_t pack_side(const dma_task_t *task, const dma_side_t *side, const dma_blocks_t *to, dma_range_t range)
{
    const dma_comm_t *comm = task->comm;
    dma_status_t status = DMA_OK;

    for (int b = range.first, n; status == DMA_OK && b < range.end; b += n) {
        dma_side_t block = dma_side_block(comm->host, side, b);
        char *at = dma_blocks_addr(to, (uint64_t)b);

        n = batch_of(task, side, range.end - b);
        block.count *= (size_t)n;
        if (!block.count || !block.size) {
            continue;
        }
        if (is_foreign(task, side)) {
            status = comm->proc->memory->pack(comm, &block, 0, block.count, at);
        } else if (block.dense) { /* beside blocks that are not */
            memcpy(at, block.addr, block.count * block.size);
        } else {
            status = comm->host->pack(block.addr, block.count, block.type, at, block.count * block.size);
        }
    }
    return status;
}

static dma_status_t typed_recv_in(const dma_task_t *task, const dma_stage_t *stage, const dma_blocks_t *staged,
                                  dma_range_t range)
{
    (void)stage;
    return pack_side(task, &task->typed.recv, staged, range);
}

static dma_status_t typed_send_in(const dma_task_t *task, const dma_stage_t *stage, const dma_blocks_t *staged,
                                  dma_range_t range)
{
    (void)stage;
    return pack_side(task, task->typed.send, staged, range);
}

static dma_status_t typed_out(const dma_task_t *task, const dma_stage_t *stage, int except)
{
    const dma_comm_t *comm = task->comm;
    const dma_side_t *side = &task->typed.recv;
    dma_arrays_t a = arrays_at(task->arrays, comm->nranks);
    dma_status_t status = DMA_OK;

    for (int r = 0, n; status == DMA_OK && r < comm->nranks; r += n) {
        uint64_t bytes = dma_blocks_bytes(&stage->recv, (uint64_t)r);
        char *from, *to;
        dma_side_t typed;

        n = 1;
        if (!bytes || r == except) {
            continue;
        }
        typed = dma_side_typed(comm->host, side, r);
        n = batch_of(task, side,
                     (r < except ? except : comm->nranks) - r); /* a batch ends before the block that is left out */
        bytes *= (uint64_t)n;
        from = dma_blocks_addr(&stage->recv, (uint64_t)r);
        to = (char *)side->addr + a.home[r];
        if (is_foreign(task, side)) {
            status = comm->proc->memory->unpack(comm, &typed, to, bytes / typed.size, from);
        } else if (typed.dense) {
            memcpy(to, from, bytes);
        } else {
            status = comm->host->unpack(to, bytes / typed.size, typed.type, from, bytes);
        }
    }
    return status;
}

static const dma_stage_ops_t typed_ops = {.recv_in = typed_recv_in, .send_in = typed_send_in, .out = typed_out};

/* ---- the sides of a call ---- */

static dma_status_t resolve_recv(dma_comm_t *comm, dma_task_t *task, const dma_call_t *call, dma_arrays_t *a)
{
    dma_stage_t *stage = &task->typed.stage;
    dma_blocks_t staged;
    dma_status_t status;
    uint64_t all;

    if (is_direct(task, &call->recv)) {
        task->run.recv = side_blocks(comm, &call->recv, a->recv_counts, a->recv_displs);
        return DMA_OK;
    }
    dma_stage_push(task, stage, &typed_ops);
    all = packed_blocks(comm, &call->recv, a->recv_counts, a->recv_displs, &staged);
    if ((status = dma_staging_get(comm, stage, DMA_SIDE_RECV, all)) != DMA_OK) {
        return status;
    }
    staged.addr = stage->memory[DMA_SIDE_RECV];
    task->typed.recv = call->recv;
    for (int r = 0; r < comm->nranks; r++) {
        a->home[r] = dma_side_at(comm->host, &call->recv, r) - (char *)call->recv.addr;
    }
    return dma_stage_recv(task, stage, &staged, call->in_place);
}

/* The one block that an all-gather sends. */
static dma_status_t resolve_own_block(dma_comm_t *comm, dma_task_t *task, const dma_call_t *call)
{
    dma_run_t *run = &task->run;
    uint64_t rank = (uint64_t)comm->rank, bytes = dma_blocks_bytes(&run->recv, rank);

    run->send = (dma_blocks_t){.addr = dma_blocks_addr(&run->recv, rank), .bytes = bytes};
    if (call->in_place) {
        return DMA_OK;
    }
    if (call->send.count * call->send.size != bytes) {
        return DMA_ERR_TRUNCATE;
    }
    if (is_direct(task, &call->send)) {
        run->send.addr = call->send.addr;
        return DMA_OK;
    }
    task->in_place = true; /* for the plan: the block is packed into its place */
    return pack_side(task, &call->send, &run->send, dma_blocks_sent(call->coll, comm->nranks));
}

static dma_status_t resolve_send(dma_comm_t *comm, dma_task_t *task, const dma_call_t *call, dma_arrays_t *a)
{
    dma_run_t *run = &task->run;
    dma_stage_t *stage = &task->typed.stage;
    dma_status_t status = DMA_OK;
    dma_blocks_t staged;
    uint64_t all;

    if (call->in_place) {
        run->send = run->recv;
        return DMA_OK;
    }
    if (is_direct(task, &call->send)) {
        run->send = side_blocks(comm, &call->send, a->send_counts, a->send_displs);
    } else {
        if (task->stages != stage) {
            dma_stage_push(task, stage, &typed_ops);
        }
        all = packed_blocks(comm, &call->send, a->send_counts, a->send_displs, &staged);
        if ((status = dma_staging_get(comm, stage, DMA_SIDE_SEND, all)) != DMA_OK) {
            return status;
        }
        staged.addr = stage->memory[DMA_SIDE_SEND];
        task->typed.send = &call->send;
        status = dma_stage_send(task, stage, &staged);
    }
    if (status == DMA_OK &&
        dma_blocks_bytes(&run->send, (uint64_t)comm->rank) != dma_blocks_bytes(&run->recv, (uint64_t)comm->rank)) {
        status = DMA_ERR_TRUNCATE;
    }
    return status;
}

/* The size that the choice goes by, and the sign that descriptors carry. */
static void set_size_and_sign(dma_comm_t *comm, dma_task_t *task)
{
    dma_run_t *run = &task->run;

    switch (dma_coll_sizes(task->coll)) {
    case DMA_SIZES_SHARED:
        task->bytes = 0;
        for (int r = 0; r < comm->nranks; r++) {
            uint64_t bytes = dma_blocks_bytes(&run->recv, (uint64_t)r);

            task->bytes = bytes > task->bytes ? bytes : task->bytes;
        }
        run->sign = dma_sign(task->coll, false, dma_blocks_digest(&run->recv, comm->nranks) >> (64 - DMA_SIGN_COLL_AT));
        break;
    case DMA_SIZES_OWN:
        run->sign = dma_sign(task->coll, task->in_place, 0);
        task->bytes = DMA_ALLTOALLV_BYTES;
        break;
    case DMA_SIZES_EQUAL:
        run->sign = dma_sign(task->coll, task->in_place, run->send.bytes);
        task->bytes = run->recv.bytes;
        break;
    }
}

dma_status_t dma_task_resolve(dma_comm_t *comm, dma_task_t *task, const dma_call_t *call)
{
    dma_arrays_t a = arrays_at(task->arrays, comm->nranks);
    dma_status_t status;

    task->in_place = call->in_place;
    status = resolve_recv(comm, task, call, &a);
    if (status == DMA_OK) {
        status =
            dma_coll_gathers(call->coll) ? resolve_own_block(comm, task, call) : resolve_send(comm, task, call, &a);
    }
    if (status == DMA_OK) {
        set_size_and_sign(comm, task);
    }
    return status;
}
