/*
 * What may be used on one GPU is decided here, for the engine and for coll_dma_info.
 *
 *     before a queue is made    dma_proof_copies_failed: not even copies, with queues of this provider
 *     before a packet is sent   dma_proof_limit: what the record that the parameters name proves
 *     before the first call     dma_sdma_selftest: what works in this process, of what is left
 */
#ifndef DMA_SDMA_PROOF_H
#define DMA_SDMA_PROOF_H

#include "engine/gpu.h"
#include "engine/sdma/private.h"
#include "engine/sdma/proof/record.h"

typedef struct dma_proof {
    const dma_topo_gpu_t *gpu; /* set by the owner before anything is asked */
    const char *path;
    bool all; /* every packet counts as proven */
    dma_status_t loaded;
    dma_record_t record;
    char reason[DMA_RECORD_WHY_BYTES]; /* why there is none */
} dma_proof_t;

void dma_proof_load(dma_proof_t *proof, const char *path); /* NULL: the usual place */
void dma_proof_free(dma_proof_t *proof);

/* What is recorded of the GPU with queues of that provider. Not DMA_OK: nothing; `reason`, of DMA_RECORD_WHY_BYTES, says why.
 * Not for a proof with `all`. */
dma_status_t dma_proof_find(const dma_proof_t *proof, const char *provider, dma_record_result_t *results, char *reason);

/* dma_provider_gpu_t.refuses, with a dma_proof_t: no queue of a provider is made if even copies have failed with it. */
bool dma_proof_copies_failed(void *proof, const char *provider, char *why);

/* Of the packets in `has`, those that may be used. `results` as found; NULL: nothing is recorded. */
uint32_t dma_proof_limit(uint32_t has, const dma_record_result_t *results);
/* Takes the others away from a unit that has queues, and says which these are. */
void dma_proof_apply(const dma_proof_t *proof, dma_sdma_unit_t *unit, char *advice);

/* Tries the packets that the unit may use, and takes away those that do not work. The reason why the device cannot be used at
 * all, or NULL. */
const char *dma_sdma_selftest(dma_sdma_unit_t *unit, char *advice);

#endif
