/* A process that has leases (device/lease.h), with the fake runtime and nothing else. */
#ifndef DMA_TEST_LIBLEASE_H
#define DMA_TEST_LIBLEASE_H

#include "device/lease.h"

#define KIB UINT64_C(1024)
#define MIB (KIB * KIB)

enum { LEASE_DEVICES = 2, LEASE_COMMS = 2 };

extern dma_gpu_runtime_t *lease_rt;
extern dma_proc_t lease_proc;
extern dma_counters_t lease_counters;
extern dma_comm_t lease_comms[LEASE_COMMS];
extern dma_arena_t *lease_arena;

/* With these bounds. */
void lease_begin(uint64_t device_bytes, uint64_t pinned_bytes);
void lease_end(void);

/* With one stream. It must succeed; must fail. */
dma_lease_t *lease_take(dma_lease_kind_t kind, int device, uint64_t bytes);
dma_status_t lease_refused(dma_lease_kind_t kind, int device, uint64_t bytes);
void lease_trim(int device);
/* Bytes that are taken from a bound. */
uint64_t lease_counted(dma_budget_kind_t kind);
/* Waits for the first stream. */
void lease_wait(const dma_lease_t *lease);

#endif
