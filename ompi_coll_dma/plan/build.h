/*
 * The plan writer: all builders write their plans with it, by appending programs and operations.
 *
 *     dma_build_t b;
 *     status = dma_build_begin(&b, req, rank, nprogs, nops);   allocates room for all programs and operations
 *     dma_build_prog(&b);  dma_build_copy(&b, ...); ...         one program after the other
 *     return dma_build_end(&b, plan);
 */
#ifndef DMA_PLAN_BUILD_H
#define DMA_PLAN_BUILD_H

#include "dma/plan.h"
#include "plan/gpu/cost.h"
#include "plan/profile.h"

typedef struct dma_build {
    dma_plan_t *plan;
    dma_op_t *ops;
    uint32_t nops, max_ops, max_progs;
} dma_build_t;

dma_status_t dma_build_begin(dma_build_t *b, const dma_plan_req_t *req, int rank, uint32_t nprogs, uint32_t nops);
dma_status_t dma_build_end(dma_build_t *b, dma_plan_t **plan);

/* Begins a new program for the host. */
void dma_build_prog(dma_build_t *b);
/* Begins a new program for an engine queue on the link of `rank`. */
void dma_build_queue(dma_build_t *b, int rank);
/* The operations between these two run once per chunk of `len`. */
void dma_build_loop(dma_build_t *b, dma_len_t len);
void dma_build_loop_end(dma_build_t *b);
/* The current program may be skipped when its loop has no trips. */
void dma_build_loop_only(dma_build_t *b);

void dma_build_copy(dma_build_t *b, uint8_t flags, dma_operand_t dst, dma_operand_t src, dma_len_t len);
void dma_build_copy2(dma_build_t *b, dma_operand_t dst0, dma_operand_t dst1, dma_operand_t src, dma_len_t len);
void dma_build_swap(dma_build_t *b, dma_operand_t one, dma_operand_t other, dma_len_t len);
void dma_build_wait(dma_build_t *b, uint8_t flags, dma_flag_ref_t flag, int32_t value);
void dma_build_signal(dma_build_t *b, uint8_t flags, dma_flag_ref_t flag, int32_t value);

void dma_build_check(dma_build_t *b, uint8_t flags, dma_operand_t number, dma_len_t expected);

/* The predicted cost of a GPU plan of the given family with choice->queues queues per rank. Sets choice->prelaunch. */
uint64_t dma_build_gpu_cost(const dma_plan_req_t *req, dma_gpu_family_t family, dma_choice_t *choice);

static inline dma_operand_t dma_at(dma_base_t base, int rank, int block)
{
    return (dma_operand_t){.base = (uint8_t)base, .rank = rank, .block = block};
}

static inline dma_flag_ref_t dma_flag(dma_flag_t kind, int rank)
{
    return (dma_flag_ref_t){.kind = (uint8_t)kind, .rank = rank};
}

static inline dma_flag_ref_t dma_flag_pair(dma_flag_t kind, int rank, int peer)
{
    return (dma_flag_ref_t){.kind = (uint8_t)kind, .rank = rank, .peer = peer};
}

static inline dma_len_t dma_len(dma_len_kind_t kind, uint64_t len)
{
    return (dma_len_t){.kind = (uint8_t)kind, .len = len};
}

/* The peers in rotated order, k = 1 .. nranks - 1, so that the ranks do not all access the same peer at the same
 * time. */
static inline int dma_peer_rotated(int rank, int k, int nranks)
{
    return (rank + k) % nranks;
}

#endif
