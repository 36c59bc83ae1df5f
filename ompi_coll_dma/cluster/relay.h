/*
 * Between device memory and the network: pinned host memory through which messages pass in pieces.
 *
 *     device memory                                                        device memory
 *         |  engine              network                 network                ^
 *         v                                                                     |  engine
 *     | OUT 0 | OUT 1 | ... |  ----------->    ------>  | IN 0 | IN 1 | ... | --+        | pad |
 *
 * The copy engine of the device fills a slot before the network sends it, and drains a slot after the network has
 * received into it. A copy waits only for earlier copies of its own direction, so the engine copies the next piece
 * while the network sends or receives one. The slots of a direction are used in turn. A slot holds the largest piece of
 * the call, so small calls take little memory, and their number is bounded, so the largest call takes 8 MiB.
 *
 * Each call has a relay of its own: calls that shared slots could wait for each other in a circle over several ranks. Its
 * memory is a lease (device/lease.h), so repeated calls allocate nothing.
 *
 * The relay also has the scratch of a call (DMA_CLUSTER_TEMP): the pad if it is small, because messages from the pad
 * need no slot; otherwise device memory, so that node-local collectives copy it from GPU to GPU. If the call fails, engines of the
 * node may still write there.
 *
 * Copies are asynchronous copies of the runtime between pinned and device memory, which the copy engines carry out. A
 * copy that fails, or makes no progress for `coll_dma_timeout` seconds, fails the call.
 */
#ifndef DMA_CLUSTER_RELAY_H
#define DMA_CLUSTER_RELAY_H

#include "device/lease.h"

#define DMA_RELAY_BYTES (UINT64_C(4) << 20) /* of all slots of one direction */
#define DMA_RELAY_SLOTS 16                  /* the maximum, of one direction */
#define DMA_RELAY_PAD   (UINT64_C(64) << 10)

typedef enum dma_relay_way { DMA_RELAY_OUT, DMA_RELAY_IN, DMA_RELAY_LOCAL, DMA_RELAY_DIRS } dma_relay_dir_t;

typedef struct dma_relay {
    dma_proc_t *proc;
    dma_lease_t *pinned;
    dma_lease_t *scratch; /* NULL: none */
    uint64_t piece;
    unsigned slots;
    double moved[DMA_RELAY_DIRS]; /* when a copy was last started, or found complete */
} dma_relay_t;

/* Takes memory for slots of at least `piece` bytes, which is at most a quarter of DMA_RELAY_BYTES. After an error the call is staged as a
 * whole. */
dma_status_t dma_relay_acquire(dma_relay_t *relay, dma_proc_t *proc, const dma_gpu_runtime_t *rt, int device,
                               uint64_t piece);
/* Waits for the copies of the relay, and gives its memory back. `engines`: the call has failed, and engines of this communicator may
 * still write to the scratch; NULL: none does. */
void dma_relay_release(dma_relay_t *relay, const dma_comm_t *engines);

/* The number of slots of one direction, at least 4. */
unsigned dma_relay_slots(const dma_relay_t *relay);
char *dma_relay_slot(const dma_relay_t *relay, dma_relay_dir_t way, unsigned slot);

/* Starts a copy from device memory into an OUT slot. */
dma_status_t dma_relay_fill(dma_relay_t *relay, unsigned slot, const char *from, uint64_t bytes);
/* Starts a copy out of an IN slot to device memory. */
dma_status_t dma_relay_drain(dma_relay_t *relay, unsigned slot, char *to, uint64_t bytes);
/* Starts a copy of rows between any two places, one at a time. To test it: slot 0 of LOCAL. */
dma_status_t dma_relay_copy(dma_relay_t *relay, char *to, int64_t to_pitch, const char *from, int64_t from_pitch,
                            uint64_t bytes, uint32_t rows);
/* DMA_AGAIN until the last copy of the slot is complete. */
dma_status_t dma_relay_test(dma_relay_t *relay, dma_relay_dir_t way, unsigned slot);

/* The scratch of the call that has the relay. */
dma_status_t dma_relay_scratch(dma_relay_t *relay, uint64_t bytes, char **scratch, bool *on_device);

#endif
