/*
 * Making queues, for both doors of the node.
 *
 * A queue's doorbell is in one range for all GPUs of a process. A ring that nobody may take away while there is the queue, its
 * pages of pointers and what else the kernel wants are counted in their ranges (vm.h): `held`.
 */
#ifndef EMU_QUEUE_H
#define EMU_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

/* As the thunk numbers them. */
enum emu_queue_type { EMU_QUEUE_SDMA = 2, EMU_QUEUE_SDMA_XGMI = 5, EMU_QUEUE_BY_ENGINE = 6, EMU_QUEUE_AQL = 21 };

enum { EMU_DOORBELL_BYTES = 8192, EMU_QUEUE_HOLDS = 5 };

struct emu_queue_wish {
    const char *owner;
    uint32_t node;
    enum emu_queue_type type;
    uint32_t engine; /* of a queue by engine */
    uint64_t ring;   /* as the GPU sees it */
    char *ring_host; /* and as we do */
    uint64_t bytes;
    uint64_t *write, *read;         /* NULL: the queue gets a page of pointers; a compute queue has them always */
    uint64_t held[EMU_QUEUE_HOLDS]; /* addresses of ranges, 0: none */
};

struct emu_queue_made {
    int id;
    uint64_t *write, *read, *doorbell;
    uint32_t doorbell_offset; /* in the range of them */
};

/* False: there is no room on the engines, no memory, or it was asked for. */
bool emu_queue_create(const struct emu_queue_wish *wish, struct emu_queue_made *made);
/* False: there is no such queue. */
bool emu_queue_destroy(int id);
bool emu_queue_exists(int id);
/* Whether there is one at all. */
bool emu_queue_any(void);
/* The driver's call: a queue without a ring or a share of the engine stands still until it has both again. Shares are not
 * modelled otherwise, nor is another ring, which is refused. False: no such queue, or it is refused. */
bool emu_queue_update(int id, uint64_t ring, uint64_t bytes, uint32_t percentage);

/* One more mapping of the doorbells, which is the caller's to unmap, at an address or anywhere; or NULL. */
void *emu_queue_map_doorbells(void *at);

#endif
