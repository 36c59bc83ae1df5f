/*
 * Our place in Open MPI's progress loop: a callback that is registered while tasks or set-ups of ours are under way
 * outside of a blocking call, and that leaves the loop by itself when the last has ended. Everybody's opal_progress
 * would pay for one that stays.
 */
#include "coll_dma.h"

/* For the performance variable, which may miss one of two threads. */
static void count_turn(void)
{
    unsigned long long *turns = &mca_coll_dma_component.turns;

    __atomic_store_n(turns, __atomic_load_n(turns, __ATOMIC_RELAXED) + 1, __ATOMIC_RELAXED);
}

static int poll_tasks(void)
{
    dma_proc_t *proc = mca_coll_dma_component.proc;
    int completed;

    count_turn();
    completed = dma_proc_progress(proc);

    if (0 == dma_proc_active(proc)) {
        mca_coll_dma_poll(true);
    }
    return completed;
}

/* The count is read again under the lock: another thread may have posted a task since the caller looked. Open MPI's list
 * of callbacks may change while it is walked, by us or by another thread: at worst a callback behind ours misses one turn,
 * or ours is called once more. */
void mca_coll_dma_poll(bool open)
{
    mca_coll_dma_component_t *component = &mca_coll_dma_component;
    bool wanted;

    pthread_mutex_lock(&component->lock);
    wanted = open && component->proc && dma_proc_active(component->proc) > 0;
    if (wanted && !component->polling) {
        component->polling = OPAL_SUCCESS == opal_progress_register(poll_tasks);
    } else if (!wanted && component->polling) {
        component->polling = false;
        opal_progress_unregister(poll_tasks);
    }
    pthread_mutex_unlock(&component->lock);
}
