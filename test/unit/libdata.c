/* Data that tests send, and what must be received: see libthreads.h. */
#include <stdlib.h>
#include <string.h>

#include "core/comm.h"
#include "libthreads.h"
#include "libunit.h"

uint8_t data_byte(uint64_t tag, int rank, uint64_t at)
{
    /* without a period: what a later chunk has overwritten must not look right */
    uint64_t x = ((tag * 131 + (uint64_t)rank * 29 + 7) << 32) + (at >> 3);

    x = (x ^ (x >> 31)) * UINT64_C(0x7fb5d329728ea185);
    x = (x ^ (x >> 27)) * UINT64_C(0x81dadef4bc2dd44d);
    return (uint8_t)(x >> (at % 8 * 8));
}

void data_fill(uint8_t *buf, uint64_t tag, int rank, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        buf[i] = data_byte(tag, rank, i);
    }
}

void data_check(rank_t *r, const uint8_t *recv, uint64_t tag, size_t bytes)
{
    for (int s = 0; s < r->n; s++) {
        for (size_t i = 0; i < bytes; i++) {
            must(r, recv[(size_t)s * bytes + i] == data_byte(tag, s, i),
                 "call %llu: byte %zu of %zu from rank %d is %u, should be %u", (unsigned long long)tag, i, bytes, s,
                 recv[(size_t)s * bytes + i], data_byte(tag, s, i));
        }
    }
}

dma_side_t data_buffer(void *addr, size_t bytes)
{
    return (dma_side_t){.addr = addr, .dense = true, .width = sizeof(int), .size = 1, .extent = 1, .count = bytes};
}

static dma_call_t allgather_call(const dma_side_t *send, const dma_side_t *recv)
{
    dma_call_t call = {.coll = DMA_ALLGATHER, .in_place = !send, .recv = *recv};

    if (send) {
        call.send = *send;
    }
    return call;
}

dma_status_t data_allgather(dma_comm_t *comm, const dma_side_t *send, const dma_side_t *recv)
{
    dma_call_t call = allgather_call(send, recv);

    return dma_comm_run(comm, &call);
}

dma_status_t data_iallgather(dma_comm_t *comm, const dma_side_t *send, const dma_side_t *recv, dma_task_t **task)
{
    dma_call_t call = allgather_call(send, recv);

    return task_post(comm, &call, NULL, NULL, task);
}
