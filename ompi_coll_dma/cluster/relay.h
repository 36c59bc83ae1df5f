/*
 * Between device memory and the network: pinned host memory through which messages go in pieces.
 *
 *     device memory                                                        device memory
 *         |  engine              network                 network                ^
 *         v                                                                     |  engine
 *     | OUT 0 | OUT 1 | ... |  ----------->    ------>  | IN 0 | IN 1 | ... | --+        | pad |
 *
 * A network that cannot reach device memory gets a slot, which the device's copy engine has filled, and what comes is put
 * into a slot, which the engine drains. Copies only wait for copies of their own direction, so engine and network work side
 * by side: while one piece travels the next is being copied. The slots of a direction are used in turn. Their number, and
 * so the memory, is the same whatever the size of a call.
 *
 * A relay serves one call at a time. It is made when a call needs one and none is free, and kept, so a process has as many
 * as it has ever had such calls under way at once, and repeated calls allocate nothing. Each call has a whole one: calls
 * that shared slots could wait for each other in a circle over several ranks.
 *
 * The scratch of a call (DMA_CLUSTER_TEMP) is here too: little of it in the pad, where messages need no slot, and more in
 * device memory, so that what the ranks of a node have there goes from GPU to GPU.
 *
 * Copies are the runtime's asynchronous ones, between pinned and device memory: those the copy engines do. One that fails,
 * or does not move for `coll_dma_timeout` seconds, fails the call. A relay whose slots the engine has not let go of when a call
 * has failed is never used again.
 */
#ifndef DMA_TASK_RELAY_H
#define DMA_TASK_RELAY_H

#include "core/comm.h"
#include "gpu/runtime.h"

#define DMA_RELAY_BYTES (UINT64_C(4) << 20) /* of the slots of one direction */
#define DMA_RELAY_SLOTS 16                  /* at most, of one direction */
#define DMA_RELAY_PAD   (UINT64_C(64) << 10)

typedef struct dma_relay dma_relay_t;

typedef enum dma_relay_way { DMA_RELAY_OUT, DMA_RELAY_IN, DMA_RELAY_INSIDE, DMA_RELAY_WAYS } dma_relay_way_t;

/* One with slots of at least `piece` bytes, which is at most a quarter of DMA_RELAY_BYTES. On failure there is none to be
 * had: the call is staged as a whole. */
dma_status_t dma_relay_take(dma_proc_t *proc, const dma_gpu_runtime_t *rt, int device, uint64_t piece,
                            dma_relay_t **relay);
/* After the engine's last copy, for which it waits. */
void dma_relay_give(dma_proc_t *proc, dma_relay_t *relay);
/* Nobody uses any more. */
void dma_relays_destroy(dma_proc_t *proc);

/* Slots of one direction, 4 at least. */
unsigned dma_relay_slots(const dma_relay_t *relay);
char *dma_relay_slot(const dma_relay_t *relay, dma_relay_way_t way, unsigned slot);

/* The engine copies `bytes` from device memory into an OUT slot, */
dma_status_t dma_relay_fill(dma_relay_t *relay, unsigned slot, const char *from, uint64_t bytes);
/* out of an IN slot to device memory, */
dma_status_t dma_relay_drain(dma_relay_t *relay, unsigned slot, char *to, uint64_t bytes);
/* or rows between any two places, one such copy at a time: slot 0 of INSIDE. */
dma_status_t dma_relay_copy(dma_relay_t *relay, char *to, int64_t to_pitch, const char *from, int64_t from_pitch,
                            uint64_t bytes, uint32_t rows);
/* DMA_AGAIN until the slot's last copy is complete. */
dma_status_t dma_relay_test(dma_relay_t *relay, dma_relay_way_t way, unsigned slot);

/* Scratch for the call that has the relay. */
dma_status_t dma_relay_scratch(dma_relay_t *relay, uint64_t bytes, char **scratch, bool *on_device);

#endif
