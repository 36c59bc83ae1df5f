/* Blocks and windows of a set-up: see block.h. */
#include "core/setup/block.h"

#include "core/setup/geometry.h"

#define FIRST_EPOCHS (1 << 28) /* twice an epoch stays below 2^31 for long */

/* The slots of a channel without other buffers have the size of its call. They must not shrink, because the call fits nowhere
 * else. */
static uint32_t least_slot(const dma_comm_t *comm)
{
    uint32_t least = dma_geom_min_slot_bytes(comm->nranks), wanted = comm->wanted.slot_bytes;

    return !comm->wanted.ring_depth || (comm->wanted.pair_bytes && wanted > least) ? least : wanted;
}

dma_geom_t dma_setup_geometry(const dma_comm_t *comm)
{
    dma_geom_t geom = comm->wanted.ring_depth ? comm->wanted : dma_geom_from_params(&comm->proc->params, comm->nranks);

    dma_geom_fit(&geom, comm->nranks, least_slot(comm), dma_proc_left(comm->proc), comm->proc->params.arena_bytes);
    return geom;
}

dma_block_t *dma_setup_take_block(const dma_comm_t *comm, dma_arena_t *arena, dma_geom_t *geom, uint64_t first_seq)
{
    dma_block_t *block;

    pthread_mutex_lock(&comm->proc->lock);
    do {
        block = dma_window_block(arena, geom, comm->nranks, first_seq);
    } while (!block && dma_geom_shrink(geom, comm->nranks, least_slot(comm)));
    pthread_mutex_unlock(&comm->proc->lock);
    return block;
}

uint32_t dma_random_epoch(void)
{
    return (uint32_t)(dma_random64() % FIRST_EPOCHS);
}

void dma_setup_init_window(dma_comm_t *comm, dma_arena_t *arena, dma_block_t *block, dma_peer_t *peers, uint32_t *acks,
                           uint64_t *stream, const dma_geom_t *geom)
{
    /* All calls before the first one that the block was made for count as completed. Calls can have been posted since. */
    uint32_t ack = atomic_load_explicit(&block->acked, memory_order_relaxed);

    for (int r = 0; r < comm->nranks; r++) {
        acks[r] = ack;
    }
    comm->window = (dma_window_t){
        .rank = comm->rank,
        .nranks = comm->nranks,
        .geom = *geom,
        .layout = dma_block_layout(geom, comm->nranks),
        .own = block,
        .arena = arena,
        .peers = peers,
        .acks = acks,
        .ack = ack,
        .ack_published = ack,
        .ack_floor = ack,
    };
    comm->stream = stream;
    comm->pair_out = stream + comm->nranks;
    comm->pair_in = stream + 2 * comm->nranks;
}
