/* What the queues of every provider must do on the machine of libkfd_fake.h. */
#include "engine/sdma/hw/packet.h"
#include "libkfd_fake.h"
#include "libunit.h"

#define OPERATIONS 400

static const dma_map_pick_t on_host = {.kind = DMA_MAP_HOST};
static const dma_map_pick_t on_link = {.kind = DMA_MAP_XGMI};

void fake_use_kinds(dma_queues_t *q)
{
    for (uint32_t engine = 0; engine < FAKE_ENGINES; engine++) {
        dma_map_pick_t pick = {.kind = DMA_MAP_ENGINE, .engine = engine};
        dma_queue_t *queue = dma_queue_get(q, &pick, 3);

        ck_assert_ptr_nonnull(queue);
        ck_assert_int_eq(fake_engine_of(queue->made.doorbell), (int)engine);
        ck_assert_ptr_eq(dma_queue_get(q, &pick, 1), queue);
        fake_copies(q, queue, engine + 7);
    }
    for (int i = 0; i < 2; i++) {
        dma_queue_t *queue = dma_queue_get(q, i ? &on_link : &on_host, 3);

        ck_assert_ptr_nonnull(queue);
        ck_assert(fake_engine_of(queue->made.doorbell) >= (i ? FAKE_HOST_ENGINES : 0));
        ck_assert(i || fake_engine_of(queue->made.doorbell) < FAKE_HOST_ENGINES);
        fake_copies(q, queue, 99);
    }
}

void fake_use_in_any_order(dma_queues_t *q)
{
    dma_queue_t *own[FAKE_ENGINES * FAKE_PER_ENGINE] = {0};
    uint64_t random = unit_seed();
    unsigned held = 1; /* the first queue */

    for (int i = 0; i < OPERATIONS; i++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        dma_map_pick_t pick = {.kind = (dma_map_kind_t)((random >> 40) % 3), .engine = (random >> 50) % FAKE_ENGINES};
        dma_queue_t **slot = &own[(random >> 33) % (sizeof(own) / sizeof(own[0]))];

        if (*slot) {
            fake_copies(q, *slot, (uint32_t)i);
            dma_queue_put_exclusive(q, *slot);
            *slot = NULL;
            held--;
        } else if ((*slot = dma_queue_get_exclusive(q, &pick, 0))) {
            held++;
        } else {
            ck_assert_str_eq(q->refusal, "no queue is free on the engine");
        }
        ck_assert_uint_eq(fake_counts.queues, held);
    }
}

void fake_use_poll(dma_queue_t *queue, uint64_t addr)
{
    uint32_t *p;

    ck_assert_int_eq(dma_ring_reserve(&queue->ring, DMA_PACKET_POLL_DWORDS + DMA_PACKET_FENCE_DWORDS, 2, &p), DMA_OK);
    p += dma_packet_poll(p, addr, DMA_PACKET_EQUAL, 1, UINT32_MAX, 16);
    dma_packet_fence(p, addr + 64, 1);
    dma_ring_publish(&queue->ring);
    fake_run();
}
