/*
 * Our place in Open MPI's progress loop: a callback that is registered while tasks or set-ups of ours are under way
 * outside of a blocking call, and that leaves the loop by itself some turns after the last has ended. Everybody's
 * opal_progress would pay for one that stays; a program that posts call after call would pay for one that leaves at once.
 */
#include "coll_dma.h"

#define IDLE_TURNS 100 /* of a few nanoseconds each */

static void leave_loop(bool open);

/* For the performance variable, which may miss one of two threads. */
static void count_turn(void)
{
    unsigned long long *turns = &mca_coll_dma_component.turns;

    __atomic_store_n(turns, __atomic_load_n(turns, __ATOMIC_RELAXED) + 1, __ATOMIC_RELAXED);
}

static int poll_tasks(void)
{
    mca_coll_dma_component_t *component = &mca_coll_dma_component;
    dma_proc_t *proc = component->proc;

    count_turn();
    if (0 == dma_proc_active(proc)) {
        unsigned idle = atomic_load_explicit(&component->idle, memory_order_relaxed) + 1;

        atomic_store_explicit(&component->idle, idle, memory_order_relaxed);
        if (idle > IDLE_TURNS) {
            leave_loop(true);
        }
        return 0;
    }
    atomic_store_explicit(&component->idle, 0, memory_order_relaxed);
    return dma_proc_progress(proc);
}

/* Open MPI's list of callbacks may change while it is walked, by us or by another thread: at worst a callback behind ours
 * misses one turn, or ours is called once more. */
static void enter_loop(void)
{
    mca_coll_dma_component_t *component = &mca_coll_dma_component;

    pthread_mutex_lock(&component->lock);
    if (!component->polling && component->proc && dma_proc_active(component->proc) > 0) {
        component->polling = OPAL_SUCCESS == opal_progress_register(poll_tasks);
    }
    pthread_mutex_unlock(&component->lock);
}

static void leave_loop(bool open)
{
    mca_coll_dma_component_t *component = &mca_coll_dma_component;

    pthread_mutex_lock(&component->lock);
    if (component->polling) {
        component->polling = false;
        opal_progress_unregister(poll_tasks);
    }
    pthread_mutex_unlock(&component->lock);
    if (open) {
        /* Another thread may have posted a task meanwhile and have seen us in the loop: either it sees that we have left, or
         * we see its task. */
        mca_coll_dma_poll(true);
    }
}

void mca_coll_dma_poll(bool open)
{
    mca_coll_dma_component_t *component = &mca_coll_dma_component;

    if (!open) {
        leave_loop(false);
    } else if (!component->polling && component->proc && dma_proc_active(component->proc) > 0) {
        enter_loop();
    }
}
