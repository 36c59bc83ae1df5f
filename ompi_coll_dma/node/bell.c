/* Bells over futexes: see bell.h. */
#include "node/bell.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Not FUTEX_PRIVATE: other processes wake the sleeper. */
static long futex(_Atomic uint32_t *word, int operation, uint32_t value, const struct timespec *timeout)
{
    return syscall(SYS_futex, word, operation, value, timeout, NULL, 0);
}

uint32_t dma_bell_listen(dma_bell_t *bell)
{
    uint32_t value = atomic_load_explicit(&bell->rung, memory_order_relaxed);

    atomic_exchange_explicit(&bell->listening, 1, memory_order_seq_cst);
    dma_bell_fence(); /* before what the sleeper looks at */
    return value;
}

void dma_bell_sleep(dma_bell_t *bell, uint32_t value, double seconds)
{
    struct timespec t = {.tv_sec = (time_t)seconds};

    t.tv_nsec = (long)((seconds - (double)t.tv_sec) * 1e9);
    (void)futex(&bell->rung, FUTEX_WAIT, value, &t);
    /* not a store: where exchanges take the place of fences, one behind it has to see what ranks did before theirs */
    atomic_exchange_explicit(&bell->listening, 0, memory_order_relaxed);
}

void dma_bell_wake(dma_bell_t *bell)
{
    if (atomic_exchange_explicit(&bell->listening, 0, memory_order_seq_cst)) { /* one of several ranks does it */
        atomic_fetch_add_explicit(&bell->rung, 1, memory_order_release);
        (void)futex(&bell->rung, FUTEX_WAKE, 1, NULL);
    }
}
