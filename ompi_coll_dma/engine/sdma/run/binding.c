/* What a binding knows about its last run, and where its programs are lowered to: see private.h. */
#include "engine/sdma/private.h"
#include "node/window.h"

dma_lower_target_t dma_sdma_lower_target(const dma_sdma_binding_t *b, dma_queue_t *queue, uint32_t prog, uint32_t epoch)
{
    return (dma_lower_target_t){
        .gen = b->unit->gen,
        .queue = queue,
        .line = b->lines + (prog - 1) * sizeof(dma_engine_line_t) + dma_engine_line_offset(epoch),
        .shaped = &b->shaped[prog],
        .swaps = b->unit->gen->has & DMA_GEN_SWAP,
        .bcsts = b->unit->gen->has & DMA_GEN_BROADCAST,
        .stamps = b->stamps ? b->stamps_addr + (prog - 1) * sizeof(dma_stamps_t) : 0,
    };
}

bool dma_sdma_is_armed(const dma_sdma_binding_t *b, uint32_t epoch, uint32_t prog)
{
    return b->armed[epoch % 2] == dma_sdma_known(epoch) && (b->armed_queues[prog] || b->parts);
}

bool dma_sdma_run_waits(const dma_sdma_binding_t *b, uint32_t epoch)
{
    return b->armed[epoch % 2] == dma_sdma_known(epoch) && !dma_trigger_released(dma_sdma_trigger(b, epoch), epoch);
}

bool dma_sdma_has_reached(const dma_sdma_binding_t *b, uint32_t prog)
{
    return dma_window_queue_reached(b->window, b->rank, (int)prog - 1, b->epoch);
}

bool dma_sdma_is_quiet(const dma_sdma_binding_t *b)
{
    if (b->ended == b->epoch) {
        return true;
    }
    for (uint32_t i = 1; i < b->progs; i++) {
        bool skipped = b->revoked == dma_sdma_known(b->epoch) && dma_sdma_is_armed(b, b->epoch, i);

        if (!skipped && !dma_sdma_has_reached(b, i)) {
            return false;
        }
    }
    return true;
}

void dma_sdma_end(dma_gpu_binding_t *handle)
{
    dma_sdma_binding_t *b = dma_sdma_binding(handle);

    atomic_store_explicit(&b->ended, b->epoch, memory_order_relaxed);
}

void dma_sdma_switch_off(dma_sdma_unit_t *unit)
{
    if (!atomic_exchange(&unit->off, true)) {
        dma_gpu_count(unit->counters, DMA_COUNT_REASON + DMA_REASON_engine_failed, 1);
    }
}

const char *dma_sdma_failure(dma_sdma_unit_t *unit)
{
    const char *text = dma_fault_seen(&unit->fault);

    if (text) {
        dma_fault_told(&unit->fault);
    }
    return text;
}
