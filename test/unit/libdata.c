/* Data that tests send, and what must be received: see libthreads.h. */
#include <endian.h>
#include <stdlib.h>
#include <string.h>

#include "core/comm.h"
#include "libthreads.h"
#include "libunit.h"

/* Eight bytes, the first in the lowest bits. They have no period, so that a block overwritten by a later chunk looks
 * wrong. */
static uint64_t word(uint64_t tag, int rank, uint64_t index)
{
    uint64_t x = ((tag * 131 + (uint64_t)rank * 29 + 7) << 32) + index;

    x = (x ^ (x >> 31)) * UINT64_C(0x7fb5d329728ea185);
    return (x ^ (x >> 27)) * UINT64_C(0x81dadef4bc2dd44d);
}

uint8_t data_byte(uint64_t tag, int rank, uint64_t at)
{
    return (uint8_t)(word(tag, rank, at / 8) >> (at % 8 * 8));
}

void data_fill_from(uint8_t *buf, uint64_t tag, int rank, uint64_t at, size_t bytes)
{
    size_t i = 0;

    while (i < bytes) {
        uint64_t w = word(tag, rank, (at + i) / 8) >> ((at + i) % 8 * 8);

        if ((at + i) % 8 == 0 && bytes - i >= 8) { /* one store: tests fill and compare gigabytes */
            w = htole64(w);
            memcpy(buf + i, &w, 8);
            i += 8;
            continue;
        }
        do {
            buf[i++] = (uint8_t)w;
            w >>= 8;
        } while (i < bytes && (at + i) % 8);
    }
}

void data_fill(uint8_t *buf, uint64_t tag, int rank, size_t bytes)
{
    data_fill_from(buf, tag, rank, 0, bytes);
}

size_t data_wrong(const uint8_t *buf, uint64_t tag, int rank, size_t bytes)
{
    uint8_t want[512];

    for (size_t at = 0; at < bytes; at += sizeof(want)) {
        size_t n = bytes - at < sizeof(want) ? bytes - at : sizeof(want);

        data_fill_from(want, tag, rank, at, n);
        if (memcmp(buf + at, want, n) != 0) {
            for (n = 0; buf[at + n] == want[n]; n++) {
            }
            return at + n;
        }
    }
    return bytes;
}

void data_check(rank_t *r, const uint8_t *recv, uint64_t tag, size_t bytes)
{
    for (int s = 0; s < r->n; s++) {
        const uint8_t *block = recv + (size_t)s * bytes;
        size_t i = data_wrong(block, tag, s, bytes);

        must(r, i == bytes, "call %llu: byte %zu of %zu from rank %d is %u, should be %u", (unsigned long long)tag, i,
             bytes, s, block[i], data_byte(tag, s, i));
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

const dma_call_t *data_gather(data_gather_t *g)
{
    *g = (data_gather_t){
        .call = {.coll = DMA_ALLGATHER, .send = data_buffer(g->send, 16), .recv = data_buffer(g->recv, 16)}};
    return &g->call;
}
