/* What becomes of a call with device memory: see decide.h. */
#include "device/decide.h"

dma_offer_t dma_device_offer(const dma_facts_t *f)
{
    if (f->prepares) {
        return f->ready ? DMA_OFFER_PREPARE : DMA_OFFER_NOTHING;
    }
    if (f->joins) {
        return f->state ? DMA_OFFER_JOIN : DMA_OFFER_DATA;
    }
    if (f->served && f->state && f->ready) {
        return DMA_OFFER_ENGINE;
    }
    return (f->served || f->rows) && f->state && f->slots ? DMA_OFFER_SLOTS : DMA_OFFER_DATA;
}

static dma_decision_t decide(const dma_census_t *c)
{
    if (c->data || (c->joined && !c->device)) {
        return (dma_decision_t){DMA_MODE_HOST, DMA_REASON_staged_peer};
    }
    if (c->slots || (c->vote == DMA_VOTE_NO && !c->repeats)) {
        return (dma_decision_t){DMA_MODE_SLOTS, DMA_REASON_staged_peer};
    }
    if (c->repeats) {
        return (dma_decision_t){DMA_MODE_ENGINE, DMA_REASON_NONE};
    }
    if (c->vote == DMA_VOTE_NONE && (c->fresh || !c->shapes)) {
        return (dma_decision_t){DMA_MODE_VOTE, DMA_REASON_NONE};
    }
    if (!c->shapes) {
        return (dma_decision_t){DMA_MODE_HOST, DMA_REASON_staged_type};
    }
    return (dma_decision_t){c->piece ? DMA_MODE_PIECES : DMA_MODE_ENGINE, DMA_REASON_NONE};
}

dma_decision_t dma_device_decide(const dma_census_t *c)
{
    dma_decision_t decision = decide(c);

    if (c->prepares && decision.mode != DMA_MODE_VOTE) {
        return decision.mode == DMA_MODE_ENGINE ? (dma_decision_t){DMA_MODE_PREPARE, DMA_REASON_NONE}
                                                : (dma_decision_t){DMA_MODE_NOTHING, DMA_REASON_unprepared};
    }
    return decision;
}
