/*
 * Faults of a GPU, as ROCr reports them.
 *
 * ROCr ends the process with abort() when a queue of it touches memory that it may not touch, and from ROCm 6.0 on when
 * an engine is reset, unless a handler of system events says that it has dealt with the event. The handler here does so
 * if a queue of ours on that GPU had work at that moment. Then the GPU has failed for us: all calls that use it end with
 * an error, and the report has the address. Any other event is the application's: nothing changes for it.
 *
 * The driver stops all queues of the process after a memory fault. So an application that waits for its own work on the
 * GPU, and not in MPI, would wait for ever. Whoever learns of the fault says so (dma_fault_told). If nobody has done so
 * after some time, the process is ended with abort(), as ROCr would have done.
 *
 *     ROCr's thread     event -> is a GPU of ours at work? -> state := FAULT, watchdog begins
 *     any thread        dma_fault_seen: the reason, once the state is FAULT
 *     the watchdog      nobody was told within `seconds`: abort()
 *
 * A handler cannot be removed. So the component stays mapped once it has registered one.
 */
#ifndef DMA_SDMA_FAULT_H
#define DMA_SDMA_FAULT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "engine/sdma/queues/rocr.h"

#define DMA_FAULT_BYTES 128

/* One GPU that is watched. The members belong to fault.c. */
typedef struct dma_fault {
    struct dma_fault *next;
    uintptr_t number; /* of all that were ever watched; 0: it was not */
    uint64_t agent;
    double seconds;
    bool (*busy)(void *arg, uint64_t address);
    void *arg;
    bool told;
    _Atomic bool happened; /* after `text`, which does not change any more */
    char text[DMA_FAULT_BYTES];
} dma_fault_t;

/* Watches a GPU. `busy` runs in a thread of ROCr, at any time until dma_fault_unwatch returns: had a queue of ours on that
 * GPU work, given the address of the fault (0: the engine was reset)? It takes no lock that is held while ROCr or the
 * driver is called. false: this version of ROCr has no events, so nothing is watched. */
bool dma_fault_watch(dma_fault_t *fault, const dma_rocr_t *rocr, dma_rocr_handle_t agent, double seconds,
                     bool (*busy)(void *arg, uint64_t address), void *arg);
void dma_fault_unwatch(dma_fault_t *fault);

/* What has happened to the GPU, or NULL. */
static inline const char *dma_fault_seen(const dma_fault_t *fault)
{
    /* acquire: the text is complete */
    return atomic_load_explicit(&fault->happened, memory_order_acquire) ? fault->text : NULL;
}

/* The application is about to get an error because of it. */
void dma_fault_told(dma_fault_t *fault);

#endif
