/*
 * Replaces the Open MPI header of this name, in 5.0 and 6.0.
 *
 * Debian's packages install opal/mca/threads/ without its pthreads/ folder. But opal/mca/threads/mutex.h takes the contents
 * of a mutex and of a condition variable from here. Open MPI's objects contain them, so the types must be those of the
 * library; test/series/layout.c proves it by the sizes in the library. The functions are those that inline functions of Open
 * MPI's headers call. configure adds this folder to the include path if the real header is missing.
 */
#ifndef DMA_COMPAT_THREADS_PTHREADS_MUTEX_H
#define DMA_COMPAT_THREADS_PTHREADS_MUTEX_H

#include <pthread.h>
#include <stdbool.h>

#include "opal/class/opal_object.h"
#include "opal/constants.h"

typedef pthread_mutex_t opal_thread_internal_mutex_t;
typedef pthread_cond_t opal_thread_internal_cond_t;

#define OPAL_THREAD_INTERNAL_MUTEX_INITIALIZER PTHREAD_MUTEX_INITIALIZER
#define OPAL_THREAD_INTERNAL_COND_INITIALIZER  PTHREAD_COND_INITIALIZER

static inline int opal_thread_internal_mutex_init(opal_thread_internal_mutex_t *mutex, bool recursive)
{
    pthread_mutexattr_t attr;
    int rc = pthread_mutexattr_init(&attr);

    if (0 == rc) {
        pthread_mutexattr_settype(&attr, recursive ? PTHREAD_MUTEX_RECURSIVE : PTHREAD_MUTEX_DEFAULT);
        rc = pthread_mutex_init(mutex, &attr);
        pthread_mutexattr_destroy(&attr);
    }
    return 0 == rc ? OPAL_SUCCESS : OPAL_ERROR;
}

static inline void opal_thread_internal_mutex_lock(opal_thread_internal_mutex_t *mutex)
{
    pthread_mutex_lock(mutex);
}

static inline int opal_thread_internal_mutex_trylock(opal_thread_internal_mutex_t *mutex)
{
    return 0 == pthread_mutex_trylock(mutex) ? 0 : 1;
}

static inline void opal_thread_internal_mutex_unlock(opal_thread_internal_mutex_t *mutex)
{
    pthread_mutex_unlock(mutex);
}

static inline void opal_thread_internal_mutex_destroy(opal_thread_internal_mutex_t *mutex)
{
    pthread_mutex_destroy(mutex);
}

static inline int opal_thread_internal_cond_init(opal_thread_internal_cond_t *cond)
{
    return 0 == pthread_cond_init(cond, NULL) ? OPAL_SUCCESS : OPAL_ERROR;
}

static inline void opal_thread_internal_cond_signal(opal_thread_internal_cond_t *cond)
{
    pthread_cond_signal(cond);
}

static inline void opal_thread_internal_cond_destroy(opal_thread_internal_cond_t *cond)
{
    pthread_cond_destroy(cond);
}

#endif
