/* Calls with memory that the engines cannot use where it is: see libodd.h. */
#include "libodd.h"

const struct odd_place odd_places[ODD_PLACES] = {
    {PLACE_DEVICE, PLACE_FINE}, {PLACE_FINE, PLACE_FINE},   {PLACE_HOST, PLACE_DEVICE}, {PLACE_DEVICE, PLACE_HOST},
    {PLACE_AWAY, PLACE_DEVICE}, {PLACE_DEVICE, PLACE_AWAY}, {PLACE_AWAY, PLACE_AWAY},
};

call_spec_t odd_spec(const rank_t *r, const odd_t *odd, dma_coll_t coll, bool in_place, size_t bytes)
{
    call_spec_t spec = {
        .coll = coll, .in_place = in_place, .elements = bytes, .sizes = 7, .send = PLACE_DEVICE, .recv = PLACE_DEVICE};

    if (odd->all || r->rank == 1) {
        spec.send = odd_places[odd->which].send;
        spec.recv = odd_places[odd->which].recv;
        spec.vector = odd->vector && (!in_place || dma_coll_gathers(coll));
    }
    return spec;
}

void odd_begin(rank_t *r, dma_comm_t *comm)
{
    call_spec_t spec = {.coll = DMA_ALLGATHER, .elements = 10, .send = PLACE_DEVICE, .recv = PLACE_DEVICE};
    call_t *c = call_make(r, &spec);

    threads_prepare(r, comm);
    call_run(r, comm, c, 1);
    threads_barrier(r);
    call_free(c);
}
