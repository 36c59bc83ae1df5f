/*
 * Bells: bell.h and bell.c, with entries (entry.h), as the thread that starts copies uses them (device/submitter.c).
 *
 * A thread listens, looks whether all ranks have entered, and sleeps if one has not. Ranks enter, and then ring. The thread
 * never sleeps on after all have entered and rung. The futex is a model of the kernel's: it compares the word and puts the
 * thread to sleep in one step.
 */
#define RANKS   2
#define THREADS (RANKS + 1)

#include "memory.h"
#include "sizes.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static long model_futex(_Atomic uint32_t *word, int operation, uint32_t value);
#define syscall(number, word, operation, value, timeout, second, flags)                                                \
    ((void)(number), (void)(timeout), model_futex(word, operation, value))
#include "node/bell.c" /* the product's */
#undef syscall

static const dma_geom_t geom = GEOM;
static dma_bell_t bell;
static pthread_mutex_t kernel = PTHREAD_MUTEX_INITIALIZER;
static bool asleep;
static int rung; /* ranks that have entered, and rung where somebody listened */

static bool is_asleep(void)
{
    bool is;

    pthread_mutex_lock(&kernel);
    is = asleep;
    pthread_mutex_unlock(&kernel);
    return is;
}

/* One thread sleeps. */
static long model_futex(_Atomic uint32_t *word, int operation, uint32_t value)
{
    bool sleeps;

    pthread_mutex_lock(&kernel);
    sleeps = operation == FUTEX_WAIT && atomic_load_explicit(word, memory_order_relaxed) == value;
    check_that(!sleeps || rung < RANKS); /* else nobody will wake it */
    asleep = sleeps;
    pthread_mutex_unlock(&kernel);
    if (sleeps) {
        until(!is_asleep());
    }
    return 0;
}

static void prepare(void)
{
    make_plain_windows(&geom, 1);
    atomic_store_explicit(&bell.rung, 0, memory_order_relaxed);
    atomic_store_explicit(&bell.listening, 0, memory_order_relaxed);
    asleep = false;
    rung = 0;
}

static bool all_have_entered(void)
{
    for (int r = 0; r < RANKS; r++) {
        const dma_desc_t *d = dma_window_desc(&windows[0], r, 1);

        if (!dma_entry_seen(d, 1)) {
            return false;
        }
        check_that(d->sign == (uint64_t)r + 1);
    }
    return true;
}

/* Each ring ends one sleep at most, and makes the value that has been read before it a wrong one at most once. */
static void sleeper(void)
{
    for (int looks = 0; looks < 2 * RANKS + 1; looks++) {
        uint32_t value = dma_bell_listen(&bell);

        if (all_have_entered()) {
            return;
        }
        dma_bell_sleep(&bell, value, 1);
    }
    check_that(!"it has looked twice for each ring, and once more");
}

static void rank_main(int me)
{
    if (me == RANKS) {
        sleeper();
        return;
    }
    dma_entry_publish(&windows[me], 1, (uint64_t)me + 1, 0);
    dma_bell_fence();
    dma_bell_ring(&bell);
    pthread_mutex_lock(&kernel);
    check_that(++rung < RANKS || !asleep);
    pthread_mutex_unlock(&kernel);
}

static void judge(void)
{
    check_that(!asleep && rung == RANKS);
}
