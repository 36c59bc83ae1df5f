/*
 * The set-up of a channel on one node, without messages: one all-gather of the communicator that the channel belongs to, its
 * parent.
 *
 *     each rank           takes a block from its arena, which its peers have mapped for the parent
 *     all-gather          where my block is, its geometry, what I want; 40 bytes, in shared memory like any small call
 *     all have a block    READY, with what the parent has agreed on
 *     one has none        its limit is reached, and starts are done by messages. A set-up with messages would end so, too: it tries
 *                         no file then
 *
 * All ranks have the same records, so they decide alike. Whether a channel is set up in this way depends on what all ranks know
 * of the parent. A rank that fails before the all-gather fails the parent, and the others see that in the all-gather.
 */
#include <stdio.h>
#include <stdlib.h>

#include "core/comm.h"
#include "core/setup/block.h"
#include "core/setup/geometry.h"

/* What a rank publishes. */
typedef struct channel_info {
    uint64_t block; /* offset in the arena; 0: this rank has no block */
    dma_geom_t geom;
    uint32_t first_epoch; /* of rank 0 only: see dma_comm_t */
    uint16_t wants_memory_route;
    uint16_t cross_memory; /* this rank knows of no rank that could not read another one's memory */
} channel_info_t;

typedef struct channel_setup {
    channel_info_t mine;
    channel_info_t *all; /* by rank, while the set-up lasts */
    dma_block_t *block;
    dma_arena_t *arena;
    dma_peer_t *peers;
    uint32_t *acks;
    uint64_t *stream;
} channel_setup_t;

/* All parts of this are equal on all ranks, unless a rank has failed the parent. */
bool dma_setup_channel_is_possible(const dma_comm_t *comm)
{
    const dma_comm_t *parent = comm->parent;

    return comm->route == &dma_route_host && parent->route == &dma_route_host && parent->state == DMA_COMM_READY &&
           !parent->file_arena;
}

static dma_status_t allocate(const dma_comm_t *comm, channel_setup_t *s)
{
    size_t n = (size_t)comm->nranks;

    s->all = calloc(n, sizeof(*s->all));
    s->peers = calloc(n, sizeof(*s->peers));
    s->acks = calloc(n, sizeof(*s->acks));
    s->stream = calloc(3 * n, sizeof(*s->stream));
    return s->all && s->peers && s->acks && s->stream ? DMA_OK : DMA_ERR_NOMEM;
}

static void take_block(const dma_comm_t *comm, channel_setup_t *s)
{
    dma_geom_t geom = dma_setup_geometry(comm);

    s->arena = comm->parent->window.arena;
    s->block = dma_setup_take_block(comm, s->arena, &geom, comm->seq + 1);
    if (s->block) {
        s->mine.block = (uint64_t)((char *)s->block - dma_arena_base(s->arena));
        s->mine.geom = geom;
    }
    s->mine.wants_memory_route = comm->wants_memory_route;
    s->mine.cross_memory = comm->parent->req.cross_memory; /* a call that is under way may change it on some ranks */
    if (comm->rank == 0) {
        s->mine.first_epoch = dma_random_epoch();
    }
}

/* Whether a block that a peer has published is inside of its arena. */
static bool is_valid(const channel_info_t *info, const dma_mapping_t *mapping, int nranks)
{
    return info->block && info->block % DMA_ARENA_ALIGN == 0 && dma_geom_valid(&info->geom) &&
           info->block <= mapping->bytes && dma_block_layout(&info->geom, nranks).bytes <= mapping->bytes - info->block;
}

static bool all_have_blocks(const dma_comm_t *comm, const channel_setup_t *s)
{
    for (int r = 0; r < comm->nranks; r++) {
        if (!is_valid(&s->all[r], comm->parent->window.peers[r].mapping, comm->nranks)) {
            return false;
        }
    }
    return true;
}

/* What the ranks have agreed on for the parent holds for the channel too, except for the geometry. */
static void take_choices(dma_comm_t *comm, const channel_setup_t *s, const dma_geom_t *geom)
{
    const dma_comm_t *parent = comm->parent;

    comm->oversubscribed = parent->oversubscribed;
    comm->profile = parent->profile;
    comm->req = parent->req;
    comm->req.geom = *geom;
    comm->req.head = dma_profile_head(&comm->profile, (uint64_t)geom->pair_bytes * (uint64_t)(comm->nranks - 1));
    comm->forced = parent->forced;
    comm->gpu_profile = parent->gpu_profile;
    comm->gpu_forced = parent->gpu_forced;
    comm->gpu_queues = parent->gpu_queues;
    comm->first_epoch = s->all[0].first_epoch;
    comm->identity = parent->window.peers[0].mapping->nonce + s->all[0].block;
    comm->all_want_memory_route = true;
    comm->req.cross_memory = true;
    for (int r = 0; r < comm->nranks; r++) {
        comm->req.cross_memory = comm->req.cross_memory && s->all[r].cross_memory;
        comm->all_want_memory_route = comm->all_want_memory_route && s->all[r].wants_memory_route;
    }
}

static void set_ready(dma_comm_t *comm, channel_setup_t *s)
{
    dma_geom_t geom = s->all[0].geom;

    for (int r = 0; r < comm->nranks; r++) {
        const dma_peer_t *peer = &comm->parent->window.peers[r];

        dma_registry_share(peer->mapping);
        s->peers[r] = (dma_peer_t){.block = (dma_block_t *)(peer->mapping->base + s->all[r].block),
                                   .mapping = peer->mapping,
                                   .pid = peer->pid};
        dma_geom_lessen(&geom, &s->all[r].geom);
    }
    take_choices(comm, s, &geom);
    dma_setup_init_window(comm, s->arena, s->block, s->peers, s->acks, s->stream, &geom);
    s->block = NULL;
    s->peers = NULL;
    s->acks = NULL;
    s->stream = NULL;
}

/* `unused`: no rank uses the block. Otherwise this rank has failed in the all-gather, and others may use it until they leave it. */
static void drop(const dma_comm_t *comm, channel_setup_t *s, bool unused)
{
    if (s->block) {
        if (unused) {
            atomic_store_explicit(&s->block->head.readers, 0, memory_order_relaxed);
        }
        pthread_mutex_lock(&comm->proc->lock);
        dma_arena_retire(s->arena, s->block);
        pthread_mutex_unlock(&comm->proc->lock);
    }
    free(s->all);
    free(s->peers);
    free(s->acks);
    free(s->stream);
}

static dma_status_t refuse(dma_comm_t *comm)
{
    snprintf(comm->reason, sizeof(comm->reason), "%s", dma_reason_text(DMA_REASON_arena_limit));
    dma_comm_count_reason(comm, DMA_REASON_arena_limit);
    return DMA_UNSUPPORTED;
}

dma_status_t dma_setup_channel(dma_comm_t *comm)
{
    channel_setup_t s = {0};
    dma_status_t status;

    status = allocate(comm, &s);
    if (status == DMA_OK) {
        take_block(comm, &s);
        status = dma_comm_agree(comm->parent, &s.mine, s.all, sizeof(s.mine));
    }
    if (status == DMA_OK) {
        status = all_have_blocks(comm, &s) ? DMA_OK : refuse(comm);
    }
    if (status == DMA_OK) {
        set_ready(comm, &s);
        dma_comm_begin_ready(comm);
    }
    drop(comm, &s, status == DMA_UNSUPPORTED);
    return status;
}
