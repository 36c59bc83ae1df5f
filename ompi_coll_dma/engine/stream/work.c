/* Translation of queue programs: see work.h. */
#include "engine/stream/work.h"

#include <stdlib.h>

#define PIECE_ALIGN 4096 /* pieces begin at pages */

static dma_status_t copies_alloc(dma_copies_t *c, size_t room)
{
    uint64_t *memory = malloc(3 * room * sizeof(*memory));

    *c = (dma_copies_t){.dst = memory, .room = room};
    if (!memory) {
        return DMA_ERR_NOMEM;
    }
    c->src = memory + room;
    c->bytes = memory + 2 * room;
    return DMA_OK;
}

dma_status_t dma_work_create(dma_work_t *work, int nranks)
{
    /* one push to every peer, and the copies that echo adds; one exchange with every peer */
    size_t room = (size_t)nranks + 2;

    if (copies_alloc(&work->pushes, room) != DMA_OK) {
        return DMA_ERR_NOMEM;
    }
    if (copies_alloc(&work->swaps, room) != DMA_OK) {
        free(work->pushes.dst);
        return DMA_ERR_NOMEM;
    }
    if (copies_alloc(&work->step, room) != DMA_OK) {
        free(work->swaps.dst);
        free(work->pushes.dst);
        return DMA_ERR_NOMEM;
    }
    return DMA_OK;
}

void dma_work_destroy(dma_work_t *work)
{
    free(work->step.dst);
    free(work->swaps.dst);
    free(work->pushes.dst);
}

static void collect(dma_work_t *work, const dma_run_t *run, uint32_t prog, const dma_op_t *op, int rank)
{
    uint64_t skip, bytes = dma_run_length(run, &op->len, &skip);
    uint64_t dst = dma_run_address(run, &op->dst[0], skip), src = dma_run_address(run, &op->src, skip);

    if (op->code == DMA_OP_SWAP) {
        if (bytes) {
            dma_copies_add(&work->swaps, dst, src, bytes);
        }
    } else if (op->dst[0].rank == rank) {
        work->own = (dma_own_block_t){.prog = prog, .dst = dst, .src = src, .bytes = bytes};
    } else if (bytes) {
        dma_copies_add(&work->pushes, dst, src, bytes);
        if (op->code == DMA_OP_COPY2) {
            dma_copies_add(&work->pushes, dma_run_address(run, &op->dst[1], skip), src, bytes);
        }
    }
}

dma_status_t dma_work_collect(dma_work_t *work, const dma_run_t *run, int rank)
{
    work->pushes.n = work->swaps.n = 0;
    work->own = (dma_own_block_t){0};
    for (uint32_t i = 1; i < run->plan->nprogs; i++) {
        const dma_prog_t *prog = &run->plan->progs[i];

        for (uint32_t k = 0; k < prog->nops; k++) {
            const dma_op_t *op = &prog->ops[k];

            if (op->code != DMA_OP_COPY && op->code != DMA_OP_COPY2 && op->code != DMA_OP_SWAP) {
                continue; /* nothing to wait for; lines are written behind everything */
            }
            if (work->pushes.n + 2 > work->pushes.room || work->swaps.n == work->swaps.room) {
                return DMA_ERR_ENGINE;
            }
            collect(work, run, i, op, rank);
        }
    }
    return DMA_OK;
}

dma_status_t dma_work_push(dma_work_t *work, const dma_gpu_runtime_t *rt, dma_gpu_stream_t *stream)
{
    const dma_copies_t *c = &work->pushes;

    return c->n ? rt->copy_batch(stream, c->dst, c->src, c->bytes, c->n) : DMA_OK;
}

/* The places of an exchange: the two blocks, and two places in temporary memory. */
typedef enum place { OURS, THEIRS, KEPT, SPARE } place_t;

typedef struct step {
    place_t to, from;
} step_t;

static const step_t local_steps[] = {{KEPT, THEIRS}, {THEIRS, OURS}, {OURS, KEPT}};
static const step_t link_steps[] = {{KEPT, THEIRS}, {THEIRS, OURS}, {SPARE, THEIRS},
                                    {THEIRS, KEPT}, {OURS, THEIRS}, {THEIRS, SPARE}};

/* The pieces of all exchanges that move in one step. */
typedef struct piece {
    uint64_t temp, bytes, done; /* temporary memory; bytes of a piece; bytes that earlier pieces have exchanged */
} piece_t;

static uint64_t place_addr(const dma_copies_t *swaps, size_t i, const piece_t *piece, place_t place)
{
    return place == OURS     ? swaps->src[i] + piece->done
           : place == THEIRS ? swaps->dst[i] + piece->done
           : place == KEPT   ? piece->temp + i * piece->bytes
                             : piece->temp + (swaps->n + i) * piece->bytes;
}

static dma_status_t submit_step(dma_work_t *work, const dma_gpu_runtime_t *rt, dma_gpu_stream_t *stream,
                                const piece_t *piece, const step_t *which)
{
    const dma_copies_t *swaps = &work->swaps;
    dma_copies_t *c = &work->step;

    c->n = 0;
    for (size_t i = 0; i < swaps->n; i++) {
        uint64_t left = swaps->bytes[i] > piece->done ? swaps->bytes[i] - piece->done : 0;

        if (left) {
            dma_copies_add(c, place_addr(swaps, i, piece, which->to), place_addr(swaps, i, piece, which->from),
                           left < piece->bytes ? left : piece->bytes);
        }
    }
    return c->n ? rt->copy_batch(stream, c->dst, c->src, c->bytes, c->n) : DMA_OK;
}

dma_status_t dma_work_exchange(dma_work_t *work, const dma_gpu_runtime_t *rt, dma_gpu_stream_t *stream, uint64_t temp,
                               uint64_t temp_bytes, bool by_links)
{
    const dma_copies_t *swaps = &work->swaps;
    const step_t *steps = by_links ? link_steps : local_steps;
    size_t nsteps =
        by_links ? sizeof(link_steps) / sizeof(link_steps[0]) : sizeof(local_steps) / sizeof(local_steps[0]);
    piece_t piece = {.temp = temp};
    uint64_t most = 0;
    dma_status_t status = DMA_OK;

    if (!swaps->n) {
        return DMA_OK;
    }
    piece.bytes = temp_bytes / (by_links ? 2 * swaps->n : swaps->n) / PIECE_ALIGN * PIECE_ALIGN;
    if (!piece.bytes) {
        return DMA_ERR_ENGINE;
    }
    for (size_t i = 0; i < swaps->n; i++) {
        most = swaps->bytes[i] > most ? swaps->bytes[i] : most;
    }
    for (; piece.done < most; piece.done += piece.bytes) {
        for (size_t i = 0; i < nsteps && status == DMA_OK; i++) {
            status = submit_step(work, rt, stream, &piece, &steps[i]);
        }
    }
    return status;
}
