/* What is proven about one GPU: see proof.h. */
#include "engine/sdma/proof.h"

#include <stdio.h>
#include <string.h>

#include "engine/sdma/trial.h"

void dma_proof_load(dma_proof_t *proof, const char *path)
{
    proof->path = path ? path : DMA_RECORD_FILE;
    proof->all = !strcmp(proof->path, DMA_RECORD_ALL);
    proof->loaded = proof->all ? DMA_UNSUPPORTED : dma_record_load(proof->path, &proof->record, proof->reason);
}

void dma_proof_free(dma_proof_t *proof)
{
    if (proof->loaded == DMA_OK) {
        dma_record_free(&proof->record);
    }
}

dma_status_t dma_proof_find(const dma_proof_t *proof, const char *provider, dma_record_result_t *results, char *reason)
{
    dma_record_key_t key;

    if (proof->loaded != DMA_OK) {
        snprintf(reason, DMA_RECORD_WHY_BYTES, "%s", proof->reason);
        return proof->loaded;
    }
    dma_record_key_read(proof->gpu, provider, &key);
    return dma_record_find(&proof->record, &key, results, reason);
}

bool dma_proof_copies_failed(void *arg, const char *provider, char *why)
{
    const dma_proof_t *proof = arg;
    dma_record_result_t results[DMA_RECORD_FEATURES];
    char reason[DMA_RECORD_WHY_BYTES];

    if (dma_proof_find(proof, provider, results, reason) != DMA_OK ||
        results[DMA_RECORD_COPY].state != DMA_RECORD_FAILED) {
        return false;
    }
    snprintf(why, DMA_PROVIDER_WHY_BYTES, "%s: %.100s", "by its record copies failed", results[DMA_RECORD_COPY].reason);
    return true;
}

uint32_t dma_proof_limit(uint32_t has, const dma_record_result_t *results)
{
    if (!results) {
        return 0;
    }
    for (int i = 0; i < DMA_TRIAL_PACKETS; i++) {
        if (results[dma_trial_packets[i].feature].state != DMA_RECORD_PROVEN) {
            has &= ~(uint32_t)dma_trial_packets[i].has;
        }
    }
    return has & DMA_GEN_POLL ? has : has & ~(uint32_t)DMA_GEN_COND; /* armed programs wait */
}
