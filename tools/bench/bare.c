/*
 * The least time that an all-gather can take on this machine: a lower bound for every implementation over shared memory.
 *
 * Every rank copies its block behind a word of its own, stores the word, and copies the others' blocks out when their words
 * are there. No rank says that it has read: a barrier follows every call. There is no communicator, no matching, no
 * progress, no check, no choice. If there are more ranks than cores, a waiting rank yields its core between two polls.
 *
 *     rank r     0     word: number of the call
 *                8     the block; its first 56 bytes are in the cache line of the word
 */
#include <mpi.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/bench/bench.h"

typedef struct {
    _Alignas(64) _Atomic uint64_t word;
    char block[BARE_MOST + 64 - sizeof(uint64_t)];
} place_t;

static struct {
    MPI_Win window;
    int rank, size;
    bool share; /* more ranks than cores */
    uint64_t calls;
    place_t **places; /* by rank */
} bare;

void bare_open(void)
{
    place_t *own;

    MPI_Comm_rank(MPI_COMM_WORLD, &bare.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &bare.size);
    bare.share = bare.size > sysconf(_SC_NPROCESSORS_ONLN);
    bare.places = calloc((size_t)bare.size, sizeof(*bare.places));
    MPI_Win_allocate_shared(sizeof(place_t) + 64, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &own, &bare.window);
    for (int r = 0; r < bare.size; r++) {
        MPI_Aint bytes;
        int unit;
        void *base;

        MPI_Win_shared_query(bare.window, r, &bytes, &unit, &base);
        bare.places[r] = (place_t *)(((uintptr_t)base + 63) / 64 * 64);
    }
    memset(bare.places[bare.rank], 0, sizeof(place_t));
    bare.calls = 0;
    MPI_Barrier(MPI_COMM_WORLD);
}

void bare_close(void)
{
    MPI_Win_free(&bare.window);
    free(bare.places);
}

static void wait_for(place_t *place)
{
    while (atomic_load_explicit(&place->word, memory_order_acquire) < bare.calls) {
        if (bare.share) {
            sched_yield();
        }
    }
}

void bare_allgather(const void *send, void *recv, size_t n, bool in_place)
{
    place_t *own = bare.places[bare.rank];
    char *mine = (char *)recv + (size_t)bare.rank * n;

    bare.calls++;
    memcpy(own->block, in_place ? mine : send, n);
    atomic_store_explicit(&own->word, bare.calls, memory_order_release);
    if (!in_place) {
        memcpy(mine, send, n);
    }
    for (int k = 1; k < bare.size; k++) {
        int r = (bare.rank + k) % bare.size;

        wait_for(bare.places[r]);
        memcpy((char *)recv + (size_t)r * n, bare.places[r]->block, n);
    }
}
