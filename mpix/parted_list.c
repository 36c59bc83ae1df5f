/*
 * The list of partitioned requests, and finding one by its handle; see parted.h. MPIX_Pready finds a request for each partition, in any thread, so
 * that takes no lock.
 *
 *     buckets[hash]  -->  place | handle | record or NULL |  -->  place ...
 *
 * A place is for one handle, and is never freed. MPI gives handles again, so there are no more places than requests that existed at
 * the same time. Writers have the lock of all requests.
 *
 * A reader gets a record that may be destroyed while it looks, unless its handle is valid: the program may not free a request while
 * another of its threads uses it.
 */
#include <stdlib.h>

#include "parted.h"

enum { BUCKETS = 1024 };

typedef struct place {
    struct place *next;
    MPI_Request handle;
    mpix_parted_t *parted;
} place_t;

static place_t *buckets[BUCKETS];

static place_t **bucket_of(MPI_Request handle)
{
    /* Fibonacci hashing: handles are addresses with a common distance. */
    return &buckets[(uint64_t)(uintptr_t)handle * UINT64_C(0x9E3779B97F4A7C15) >> 54];
}

static place_t *find(MPI_Request handle)
{
    place_t *place = __atomic_load_n(bucket_of(handle), __ATOMIC_ACQUIRE);

    while (place && place->handle != handle) {
        place = place->next;
    }
    return place;
}

mpix_parted_t *mpix_parted_of(MPI_Request handle)
{
    place_t *place = find(handle);

    return place ? __atomic_load_n(&place->parted, __ATOMIC_ACQUIRE) : NULL;
}

bool mpix_parted_map(MPI_Request handle, mpix_parted_t *parted)
{
    place_t *place = find(handle), **bucket = bucket_of(handle);

    if (!place && parted) {
        place = malloc(sizeof(*place));
        if (!place) {
            return false;
        }
        *place = (place_t){.next = *bucket, .handle = handle};
        __atomic_store_n(bucket, place, __ATOMIC_RELEASE);
    }
    if (place) {
        __atomic_store_n(&place->parted, parted, __ATOMIC_RELEASE);
    }
    return true;
}

/* ---- the lock ---- */

mpix_parted_list_t mpix_parted_all = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

void mpix_parted_lock_all(void)
{
    pthread_mutex_lock(&mpix_parted_all.lock);
}

void mpix_parted_unlock(void)
{
    pthread_mutex_unlock(&mpix_parted_all.lock);
}

mpix_parted_t *mpix_parted_lock(MPI_Request handle)
{
    mpix_parted_t *parted;

    mpix_parted_lock_all();
    parted = mpix_parted_of(handle);
    if (!parted) {
        mpix_parted_unlock();
    }
    return parted;
}

void mpix_parted_give_up(MPI_Request handle)
{
    mpix_parted_t *parted = mpix_parted_lock(handle);

    if (parted) {
        parted->give_up |= parted->active;
        mpix_parted_unlock();
    }
}

void mpix_parted_give_up_all(void)
{
    mpix_parted_lock_all();
    mpix_parted_all.ending = true;
    mpix_parted_unlock();
}

int mpix_parted_take_error(MPI_Request handle)
{
    mpix_parted_t *parted = mpix_parted_lock(handle);
    int error = MPI_SUCCESS;

    if (parted) {
        error = parted->error;
        parted->error = MPI_SUCCESS;
        mpix_parted_unlock();
    }
    return error;
}
