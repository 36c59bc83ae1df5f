/*
 * Replaces the Open MPI header of this name, in 5.0 and 6.0: see threads_pthreads_mutex.h. opal/mca/threads/threads.h
 * declares opal_thread_yield and expects its definition here.
 */
#ifndef DMA_COMPAT_THREADS_PTHREADS_THREADS_H
#define DMA_COMPAT_THREADS_PTHREADS_THREADS_H

#include <sched.h>

static inline void opal_thread_yield(void)
{
    sched_yield();
}

#endif
