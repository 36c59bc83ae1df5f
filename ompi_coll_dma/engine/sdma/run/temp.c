/* Memory of the sdma engine beside its queues: temporary memory of programs, and the times of a trace. */
#include <unistd.h>

#include "engine/sdma/private.h"

/* ---- temporary memory ---- */

dma_status_t dma_sdma_temp_get(dma_sdma_unit_t *unit, uint64_t bytes, uint64_t *temp)
{
    dma_gpu_scope_t scope;
    dma_status_t status;

    if (*temp) {
        return DMA_OK;
    }
    if ((status = unit->rt->enter(unit->device, &scope)) == DMA_OK) {
        status = unit->rt->alloc(bytes, temp);
        unit->rt->leave(&scope);
    }
    if (status == DMA_OK) {
        dma_budget_force(unit->budget, DMA_BUDGET_DEVICE, bytes); /* small; without it the call would fail */
    }
    return status;
}

void dma_sdma_temp_free(dma_sdma_unit_t *unit, uint64_t bytes, uint64_t temp)
{
    dma_gpu_scope_t scope;

    if (temp) {
        dma_budget_give(unit->budget, DMA_BUDGET_DEVICE, bytes);
    }

    /* Fails if the application has shut the runtime down. Then the memory is already freed. */
    if (temp && unit->rt->enter_to_release(unit->device, &scope) == DMA_OK) {
        unit->rt->free(temp);
        unit->rt->leave(&scope);
    }
}

/* ---- times ---- */

static size_t stamps_bytes(const dma_sdma_binding_t *b)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), bytes = ((size_t)b->nranks + 1) * sizeof(dma_stamps_t);

    return (bytes + page - 1) / page * page;
}

void dma_sdma_stamps_make(dma_sdma_binding_t *b, bool wanted)
{
    if (wanted && b->unit->gen->has & DMA_GEN_TIMESTAMP) {
        b->stamps = dma_queues_alloc(&b->unit->queues, stamps_bytes(b), &b->stamps_addr);
    }
}

void dma_sdma_stamps_free(dma_sdma_binding_t *b, bool quiet)
{
    if (!b->stamps || !dma_queues_is_owner(&b->unit->queues)) {
        return;
    }
    if (quiet) {
        dma_queues_free(&b->unit->queues, b->stamps, stamps_bytes(b));
    } else {
        dma_queues_free_at_close(&b->unit->queues, b->stamps, stamps_bytes(b));
    }
}

bool dma_sdma_stamps(dma_gpu_binding_t *handle, uint32_t program, dma_gpu_stamp_t *stamp)
{
    const dma_sdma_binding_t *b = dma_sdma_binding(handle);
    const dma_stamps_t *stamps = b->stamps;

    if (!stamps || program > (uint32_t)b->nranks + 1) {
        return false;
    }
    /* the caller has seen the program's line, which comes behind both */
    stamp->ticks[0] = *(const volatile uint64_t *)&stamps[program - 1].begin;
    stamp->ticks[1] = *(const volatile uint64_t *)&stamps[program - 1].end;
    stamp->early = false;
    return stamp->ticks[0] && stamp->ticks[1] >= stamp->ticks[0];
}
