/*
 * Queues for those who make them in another way than by the thunk's calls: the kernel's interface (kfd.c).
 */
#ifndef EMU_QUEUE_H
#define EMU_QUEUE_H

#include "thunk.h"

#include <stdint.h>

enum { EMU_QUEUE_BY_ENGINE = 6, EMU_DOORBELL_BYTES = 8192 };

/* A DMA queue of `owner`, whose ring is in order and whose pointers are its own. On success *id, and *doorbell is the place
 * of its doorbell in the page of them. */
HSAKMT_STATUS emu_queue_create(const char *owner, uint32_t node, int type, uint32_t engine, void *ring, uint64_t bytes,
                               uint64_t *write, uint64_t *read, uint32_t *id, uint32_t *doorbell);

/* One more mapping of the doorbells, which is the caller's to unmap, or NULL. */
void *emu_queue_map_doorbells(void);

#endif
