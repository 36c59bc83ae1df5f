/*
 * Persistent calls with partitions, which engines wait for (dma/parts.h, engine/gpu.h).
 *
 * *_init has prepared the call as any other. Then each rank allocates the words for what comes in its arena, and tells the others
 * where they are. It registers the arenas of all ranks with its device, whose engine writes the words. Each arms the first start,
 * because only that shows whether the engine can; a second exchange says whether all could. Otherwise the call is an ordinary one
 * on all ranks.
 *
 * The next start is armed when one has completed, not earlier as those of other calls: what is left of a round that was taken
 * back is submitted to the same queues, and the words of the next round are not reset before.
 *
 * The call holds one of the coll_dma_prelaunch places from then on: its starts have no other way than armed programs. Programs
 * that wait for a start for too long are removed as those of other calls are, and armed anew by the start.
 *
 * Words that an engine may still write to are never used for something else: after a failure they stay.
 */
#include <stdlib.h>
#include <string.h>

#include "device/starts.h"

#define BEHIND_HEAD 64 /* where the words begin in a block of the arena: a line of their own */

/* What a rank tells the others. Offsets are those in its arena. */
typedef struct dma_device_words {
    uint64_t offset; /* of bank 0; 0: this rank cannot */
    uint64_t bank_bytes;
    uint64_t rparts;
} dma_device_words_t;

/* Words of one bank, whole lines. */
static uint64_t bank_words(const dma_comm_t *comm, const dma_parts_t *parts)
{
    uint64_t line = BEHIND_HEAD / sizeof(uint32_t);

    return ((uint64_t)comm->nranks * parts->rparts + line - 1) / line * line;
}

/* Takes a place, and the words. */
static dma_reason_t take(dma_comm_t *comm, const dma_parts_t *parts)
{
    struct dma_device_comm *dc = comm->device;
    size_t bytes = BEHIND_HEAD + 2 * bank_words(comm, parts) * sizeof(uint32_t);

    if (!dma_starts_take_place(comm->proc)) {
        return DMA_REASON_arm_limit;
    }
    dc->parts = calloc(1, sizeof(*dc->parts) + (size_t)comm->nranks * sizeof(dma_parts_target_t));
    if (dc->parts) {
        pthread_mutex_lock(&comm->proc->lock);
        dc->parts_block = dma_arena_alloc(comm->window.arena, bytes, bytes, 0);
        pthread_mutex_unlock(&comm->proc->lock);
    }
    if (!dc->parts_block) {
        free(dc->parts);
        dc->parts = NULL;
        dma_starts_give_place(comm->proc);
        return DMA_REASON_channel_memory;
    }
    return DMA_REASON_NONE;
}

void dma_device_parts_end(dma_comm_t *comm, bool keep)
{
    struct dma_device_comm *dc = comm->device;

    if (!dc->parts) {
        return;
    }
    if (!keep) {
        pthread_mutex_lock(&comm->proc->lock);
        dma_arena_retire(comm->window.arena, dc->parts_block);
        pthread_mutex_unlock(&comm->proc->lock);
    }
    free(dc->parts);
    dc->parts = NULL;
    dc->parts_block = NULL;
    dc->start_run.parts = NULL;
    dma_starts_give_place(comm->proc);
}

static dma_device_words_t state_words(const dma_comm_t *comm, const dma_parts_t *parts)
{
    const char *words = (const char *)comm->device->parts_block + BEHIND_HEAD;

    return (dma_device_words_t){
        .offset = (uint64_t)(words - dma_arena_base(comm->window.arena)),
        .bank_bytes = bank_words(comm, parts) * sizeof(uint32_t),
        .rparts = parts->rparts,
    };
}

/* Whatever a peer publishes, nothing is written outside of its arena. */
static bool is_valid(const dma_comm_t *comm, const dma_parts_t *parts, int rank, const dma_device_words_t *w)
{
    uint64_t arena = comm->window.peers[rank].mapping->bytes;

    return w->offset && w->offset % sizeof(uint32_t) == 0 && w->offset < arena &&
           w->bank_bytes % sizeof(uint32_t) == 0 && w->bank_bytes < arena && w->offset + 2 * w->bank_bytes <= arena &&
           w->rparts && w->rparts <= parts->block && parts->block % w->rparts == 0 &&
           w->rparts <= w->bank_bytes / sizeof(uint32_t) / (uint64_t)comm->nranks;
}

/* All ranks have words: where this rank's blocks are announced. */
static bool set_targets(dma_comm_t *comm, const dma_parts_t *parts, const dma_device_words_t *all)
{
    struct dma_device_comm *dc = comm->device;
    dma_parts_target_t *targets = (dma_parts_target_t *)(dc->parts + 1);

    for (int r = 0; r < comm->nranks; r++) {
        const dma_device_words_t *w = &all[r];

        if (!is_valid(comm, parts, r, w)) {
            return false;
        }
        targets[r] = (dma_parts_target_t){
            .arrived = dc->arenas[r] + w->offset + (uint64_t)comm->rank * w->rparts * sizeof(uint32_t),
            .bank_bytes = w->bank_bytes,
            .rparts = (uint32_t)w->rparts,
        };
    }
    *dc->parts = (dma_run_parts_t){
        .parts = parts,
        .first_epoch = dc->epoch + 1,
        .patience = comm->proc->params.parts_patience,
        .seconds = comm->proc->params.armed_seconds,
        .targets = targets,
    };
    dc->start_run.parts = dc->parts;
    return true;
}

/* All ranks have told where their words are. Arms the first start, if this rank can. */
static bool arm_first(dma_comm_t *comm, dma_parts_t *parts, const dma_device_words_t *all)
{
    if (!set_targets(comm, parts, all)) {
        return false;
    }
    dma_comm_lock(comm);
    dma_starts_arm(comm);
    dma_comm_unlock(comm);
    return comm->device->next_is_armed;
}

static void refuse(dma_comm_t *comm, dma_parts_t *parts, dma_reason_t why)
{
    dma_comm_lock(comm);
    dma_comm_note_reason(comm, why ? why : DMA_REASON_parts_unable);
    if (comm->device && comm->device->parts) {
        dma_starts_disarm(comm);
        comm->device->start_run.parts = NULL; /* it is an ordinary call from now on, and never armed */
        comm->device->unarmed = DMA_REASON_arm_refused;
    }
    dma_comm_unlock(comm);
    parts->arrived = NULL;
}

/* *all: `yes` of all ranks. */
static dma_status_t combine(dma_comm_t *comm, bool yes, bool *votes, bool *all)
{
    dma_status_t status = dma_comm_agree(comm, &yes, votes, sizeof(yes));

    *all = true;
    for (int r = 0; status == DMA_OK && r < comm->nranks; r++) {
        *all = *all && votes[r];
    }
    return status;
}

/* `all`: room for the words of all ranks. */
static dma_status_t agree(dma_comm_t *comm, dma_parts_t *parts, dma_device_words_t *all)
{
    const struct dma_device_comm *dc = comm->device;
    bool able = dc && dc->prepared && !dc->unarmed;
    dma_reason_t why = able ? take(comm, parts) : DMA_REASON_parts_unable;
    dma_device_words_t own = {0};
    dma_status_t status;
    bool served = false;

    if (!why && !dma_starts_map(comm)) {
        why = DMA_REASON_parts_unable;
    }
    if (!why) {
        own = state_words(comm, parts);
        parts->arrived = (uint32_t *)((char *)comm->device->parts_block + BEHIND_HEAD);
        parts->arrived_distance = bank_words(comm, parts);
        parts->in_kernels =
            comm->device->arenas[comm->rank] == (uint64_t)(uintptr_t)comm->window.peers[comm->rank].mapping->base;
    }
    if ((status = dma_comm_agree(comm, &own, all, sizeof(own))) != DMA_OK) {
        return status;
    }
    if (!why && !arm_first(comm, parts, all)) {
        why = DMA_REASON_parts_unable;
    }
    status = combine(comm, !why, (bool *)all, &served);
    if (status == DMA_OK && served) {
        parts->served = true;
    } else if (status == DMA_OK) {
        refuse(comm, parts, why);
    }
    return status;
}

dma_status_t dma_device_parts_init(dma_comm_t *comm, dma_parts_t *parts)
{
    dma_device_words_t *all = calloc((size_t)comm->nranks, sizeof(*all));
    dma_status_t status = all ? agree(comm, parts, all) : DMA_ERR_NOMEM;

    free(all);
    return status;
}
