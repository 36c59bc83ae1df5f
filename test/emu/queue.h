/*
 * Creates queues, for both doors of the node.
 *
 * All doorbells of a process are in one range of memory. The ring of a queue, its pages of pointers and the other buffers that
 * the kernel requires cannot be unmapped as long as the queue exists: `held` has the addresses of their ranges, in which the
 * queue is counted (vm.h).
 */
#ifndef EMU_QUEUE_H
#define EMU_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

/* The numbers of the thunk. */
enum emu_queue_type { EMU_QUEUE_SDMA = 2, EMU_QUEUE_SDMA_XGMI = 5, EMU_QUEUE_BY_ENGINE = 6, EMU_QUEUE_AQL = 21 };

enum { EMU_DOORBELL_BYTES = 8192, EMU_QUEUE_HOLDS = 5 };

struct emu_queue_wish {
    const char *owner;
    uint32_t node;
    enum emu_queue_type type;
    uint32_t engine; /* of a queue by engine */
    uint64_t ring;   /* address of the GPU */
    char *ring_host; /* address of the host */
    uint64_t bytes;
    uint64_t *write, *read;         /* NULL: the queue gets a page of pointers. Not NULL for a compute queue */
    uint64_t held[EMU_QUEUE_HOLDS]; /* addresses of ranges, 0: none */
};

struct emu_queue_made {
    int id;
    uint64_t *write, *read, *doorbell;
    uint32_t doorbell_offset; /* in the range of doorbells */
};

/* False: there is no room on the engines, no memory, or the failure is injected. */
bool emu_queue_create(const struct emu_queue_wish *wish, struct emu_queue_made *made);
/* False: there is no such queue. */
bool emu_queue_destroy(int id);
bool emu_queue_exists(int id);
/* Returns whether there are queues. */
bool emu_queue_any(void);
/* The driver's call. A queue without a ring, or with a share of 0, stops until it has both again. Other shares have no effect.
 * A new ring is refused. False: no such queue, or refused. */
bool emu_queue_update(int id, uint64_t ring, uint64_t bytes, uint32_t percentage);

/* Maps the doorbells once more, at `at` or anywhere. The caller must unmap them. NULL: failure. */
void *emu_queue_map_doorbells(void *at);

#endif
