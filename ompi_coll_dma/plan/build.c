/* The plan writer: see build.h. One allocation holds the plan, its programs and all operations. */
#include "plan/build.h"

#include <stdlib.h>

dma_status_t dma_build_begin(dma_build_t *b, const dma_plan_req_t *req, int rank, uint32_t nprogs, uint32_t nops)
{
    /* One operation at least, for those that overwrite the last one. */
    size_t bytes = sizeof(dma_plan_t) + nprogs * sizeof(dma_prog_t) + (nops ? nops : 1) * sizeof(dma_op_t);
    dma_plan_t *plan = calloc(1, bytes);

    if (!plan) {
        return DMA_ERR_NOMEM;
    }
    plan->coll = req->coll;
    plan->rank = rank;
    plan->nranks = req->nranks;
    plan->in_place = req->in_place;
    plan->progs = (dma_prog_t *)(plan + 1);
    *b = (dma_build_t){.plan = plan, .ops = (dma_op_t *)(plan->progs + nprogs), .max_ops = nops, .max_progs = nprogs};
    return DMA_OK;
}

dma_status_t dma_build_end(dma_build_t *b, dma_plan_t **plan)
{
    /* The builder states the counts at the start. If they are wrong, the builder has a bug. */
    if (b->nops != b->max_ops || b->plan->nprogs != b->max_progs) {
        free(b->plan);
        return DMA_ERR_ARG;
    }
    *plan = b->plan;
    return DMA_OK;
}

void dma_plan_free(dma_plan_t *plan)
{
    free(plan);
}

static dma_prog_t *current(dma_build_t *b)
{
    return &b->plan->progs[b->plan->nprogs - 1];
}

void dma_build_prog(dma_build_t *b)
{
    if (b->plan->nprogs < b->max_progs) {
        b->plan->nprogs++;
        *current(b) = (dma_prog_t){.link = DMA_ON_HOST, .ops = b->ops + b->nops};
    }
}

void dma_build_queue(dma_build_t *b, int rank)
{
    dma_build_prog(b);
    current(b)->link = rank;
}

/* Appends an operation to the current program. Beyond the stated number of operations it overwrites the last one and
 * keeps counting, so that dma_build_end refuses the plan. */
static dma_op_t *append(dma_build_t *b)
{
    uint32_t last = b->max_ops ? b->max_ops - 1 : 0, at = b->nops < last ? b->nops : last;
    dma_prog_t *prog = current(b);

    b->nops++;
    prog->nops++;
    if (prog->loop_len.kind == DMA_LEN_CONST) {
        prog->loop_first = prog->loop_last = prog->nops; /* no loop so far */
    }
    return &b->ops[at];
}

void dma_build_loop(dma_build_t *b, dma_len_t len)
{
    dma_prog_t *prog = current(b);

    prog->loop_first = prog->nops;
    prog->loop_len = len;
}

void dma_build_loop_end(dma_build_t *b)
{
    dma_prog_t *prog = current(b);

    prog->loop_last = prog->nops - 1;
}

void dma_build_loop_only(dma_build_t *b)
{
    current(b)->loop_only = true;
}

void dma_build_copy(dma_build_t *b, uint8_t flags, dma_operand_t dst, dma_operand_t src, dma_len_t len)
{
    *append(b) = (dma_op_t){.code = DMA_OP_COPY, .flags = flags, .dst = {dst}, .src = src, .len = len};
}

void dma_build_copy2(dma_build_t *b, dma_operand_t dst0, dma_operand_t dst1, dma_operand_t src, dma_len_t len)
{
    *append(b) = (dma_op_t){.code = DMA_OP_COPY2, .dst = {dst0, dst1}, .src = src, .len = len};
}

void dma_build_swap(dma_build_t *b, dma_operand_t one, dma_operand_t other, dma_len_t len)
{
    *append(b) = (dma_op_t){.code = DMA_OP_SWAP, .dst = {one}, .src = other, .len = len};
}

void dma_build_wait(dma_build_t *b, uint8_t flags, dma_flag_ref_t flag, int32_t value)
{
    *append(b) = (dma_op_t){.code = DMA_OP_WAIT, .flags = flags, .flag = flag, .value = value};
}

void dma_build_signal(dma_build_t *b, uint8_t flags, dma_flag_ref_t flag, int32_t value)
{
    *append(b) = (dma_op_t){.code = DMA_OP_SIGNAL, .flags = flags, .flag = flag, .value = value};
}

void dma_build_check(dma_build_t *b, uint8_t flags, dma_operand_t number, dma_len_t expected)
{
    *append(b) = (dma_op_t){.code = DMA_OP_CHECK, .flags = flags, .src = number, .len = expected};
}

static uint64_t cost_of(const dma_gpu_profile_t *profile, const dma_gpu_work_t *work, bool prelaunch)
{
    dma_gpu_phases_t phases = dma_gpu_phases(profile, work, prelaunch);

    return dma_gpu_phases_sum(&phases);
}

uint64_t dma_build_gpu_cost(const dma_plan_req_t *req, dma_gpu_family_t family, dma_choice_t *choice)
{
    dma_gpu_shape_t shape = {
        .family = family,
        .nranks = req->nranks,
        .queues = (int)choice->queues,
        .bytes = req->bytes,
        .own_block = !req->in_place,
        .by_copies = req->by_copies,
    };
    dma_gpu_work_t work = dma_gpu_work(req->gpu, &shape);
    uint64_t written = cost_of(req->gpu, &work, false), waiting = cost_of(req->gpu, &work, true);

    choice->prelaunch = req->prelaunch && waiting < written;
    return choice->prelaunch ? waiting : written;
}
