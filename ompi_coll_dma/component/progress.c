/*
 * The callback in Open MPI's progress engine. It is registered while calls or set-ups are in progress outside of a blocking
 * call, and removes itself IDLE_TURNS calls after the last has ended. If it stayed, every opal_progress of the process would
 * pay for it; if it were removed at once, a program that posts call after call would pay for registering it.
 */
#include "coll_dma.h"

#define IDLE_TURNS 100 /* a few nanoseconds each */

static void unregister_callback(bool open);

/* Two threads at once may count as one: the addition is not atomic. */
static void count_turn(void)
{
    _Atomic uint64_t *turns = &mca_coll_dma_component.counters.at[DMA_COUNT_progress_turns];

    atomic_store_explicit(turns, atomic_load_explicit(turns, memory_order_relaxed) + 1, memory_order_relaxed);
}

static int progress_callback(void)
{
    mca_coll_dma_component_t *component = &mca_coll_dma_component;
    dma_proc_t *proc = component->proc;

    count_turn();
    if (0 == dma_proc_active(proc)) {
        unsigned idle = atomic_load_explicit(&component->idle_turns, memory_order_relaxed) + 1;

        atomic_store_explicit(&component->idle_turns, idle, memory_order_relaxed);
        if (idle > IDLE_TURNS) {
            unregister_callback(true);
        }
        return 0;
    }
    atomic_store_explicit(&component->idle_turns, 0, memory_order_relaxed);
    return dma_proc_progress(proc);
}

/* Open MPI's list of callbacks may change while a thread calls them. At worst a callback behind this one misses one turn, or
 * this one is called once more. */
static void register_callback(void)
{
    mca_coll_dma_component_t *component = &mca_coll_dma_component;

    pthread_mutex_lock(&component->lock);
    if (!component->polling && component->proc && dma_proc_active(component->proc) > 0) {
        component->polling = OPAL_SUCCESS == opal_progress_register(progress_callback);
    }
    pthread_mutex_unlock(&component->lock);
}

static void unregister_callback(bool open)
{
    mca_coll_dma_component_t *component = &mca_coll_dma_component;

    pthread_mutex_lock(&component->lock);
    if (component->polling) {
        component->polling = false;
        opal_progress_unregister(progress_callback);
    }
    pthread_mutex_unlock(&component->lock);
    if (open) {
        /* Another thread may have posted a call while the callback was still registered. Either that thread sees that the
         * callback is gone, or this check sees the call. */
        mca_coll_dma_progress_update(true);
    }
}

void mca_coll_dma_progress_update(bool open)
{
    mca_coll_dma_component_t *component = &mca_coll_dma_component;

    if (!open) {
        unregister_callback(false);
    } else if (!component->polling && component->proc && dma_proc_active(component->proc) > 0) {
        register_callback();
    }
}
