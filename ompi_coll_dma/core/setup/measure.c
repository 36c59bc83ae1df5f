/* Measurements of copies between processes: see measure.h. */
#include "core/setup/measure.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/comm.h"
#include "dma/clock.h"
#include "dma/copy.h"
#include "node/cross.h"

#define PIECE           ((size_t)16 << 10)
#define PIECES          4
#define PAGE            ((size_t)4096)
#define LONG_READ_PAGES 4 /* pages of the longer cross-memory reads */

/* What begins where in a region. */
#define PIECES_AT (PIECES * PIECE)
#define READ_FLAG (2 * PIECES * PIECE)

_Static_assert(DMA_MEASURE_BYTES == READ_FLAG + PAGE, "all of a region has a use");

#define WAIT_SECONDS                                                                                                   \
    200e-6 /* for the reader: reading takes 20 to 60 us, and the reader may begin later than this rank */

/* Plausible rates, in MB/s. */
#define LEAST_MBPS 100
#define MOST_MBPS  1000000

/* Keeps the least of several times, because the others may contain interruptions. 0: none so far. */
static void record_least(uint64_t *least, double since)
{
    uint64_t ps = (uint64_t)((dma_now() - since) * 1e12) + 1;

    *least = !*least || ps < *least ? ps : *least;
}

static _Atomic uint32_t *read_flag(const char *region)
{
    return (_Atomic uint32_t *)(uintptr_t)(region + READ_FLAG);
}

void dma_measure_write(char *region)
{
    memset(region, 1, DMA_MEASURE_BYTES);
    atomic_store_explicit(read_flag(region), 0, memory_order_relaxed); /* INFO is sent after this */
}

void dma_measure_set_read(char *region)
{
    /* release: this rank's reads of the peer's pieces come before the peer's writes to them */
    atomic_store_explicit(read_flag(region), 1, memory_order_release);
}

uint64_t dma_measure_rewrite(char *region, const char *readers)
{
    double until = dma_now() + WAIT_SECONDS;
    uint64_t least = 0;
    char *scratch;

    while (!atomic_load_explicit(read_flag(readers), memory_order_acquire)) {
        if (dma_now() > until) {
            return 0;
        }
        dma_cpu_pause();
    }
    if (!(scratch = malloc(PIECE))) {
        return 0;
    }
    memset(scratch, 3, PIECE);
    for (int i = 0; i < PIECES; i++) {
        double now = dma_now();

        dma_copy(region + PIECES_AT + (size_t)i * PIECE, scratch, PIECE);
        record_least(&least, now);
    }
    free(scratch);
    return least;
}

/* Reads single pages of the first piece, and several pages at once of the other pieces: the difference is the cost of a
 * page. */
static void measure_cross(dma_measured_t *m, char *scratch, pid_t pid, uint64_t addr)
{
    uint64_t one = 0, several = 0;

    for (size_t at = 0; at < PIECES * PIECE; at += at < PIECE ? PAGE : LONG_READ_PAGES * PAGE) {
        double now = dma_now();

        if (dma_cross_read(pid, scratch, addr + at, at < PIECE ? PAGE : LONG_READ_PAGES * PAGE) != DMA_OK) {
            return;
        }
        record_least(at < PIECE ? &one : &several, now);
    }
    m->page = several > one ? (several - one) / (LONG_READ_PAGES - 1) : 1;
    m->cross = one > m->page ? one - m->page : 1;
}

dma_measured_t dma_measure_read(const char *region, pid_t pid, uint64_t addr)
{
    dma_measured_t m = {0};
    char *scratch = malloc(2 * PIECE);
    const char *pulled = region + PIECES_AT;

    if (!scratch) {
        return m;
    }
    memset(scratch, 2, 2 * PIECE);
    for (int i = 0; i < PIECES; i++) {
        double now = dma_now();

        dma_copy(scratch + PIECE, scratch, PIECE);
        record_least(&m.copy, now);
    }
    if (pid) {
        measure_cross(&m, scratch, pid, addr);
    }
    /* touch all pages first: page faults are not part of the measurement */
    for (size_t at = 0; at < PIECES * PIECE; at += PAGE) {
        *(volatile char *)scratch = *(const volatile char *)(pulled + at);
    }
    for (size_t at = 0; at < PIECES * PIECE; at += PIECE) {
        double now = dma_now();

        dma_copy(scratch, pulled + at, PIECE);
        record_least(&m.pull, now);
    }
    free(scratch);
    return m;
}

static uint64_t rate(size_t bytes, uint64_t ps)
{
    uint64_t mbps = (uint64_t)bytes * 1000000 / (ps ? ps : 1);

    return mbps < LEAST_MBPS ? LEAST_MBPS : mbps > MOST_MBPS ? MOST_MBPS : mbps;
}

dma_measured_t dma_measure_mean(const dma_measured_t *measured, int n)
{
    dma_measured_t sum = {0};
    bool crossed = true, pushed = true;

    for (int r = 0; r < n; r++) {
        const dma_measured_t *m = &measured[r];

        /* reject times of more than a second, whatever a peer has published */
        if (!m->pull || !m->copy || (m->pull | m->copy | m->cross | m->page | m->push) >> 40) {
            return (dma_measured_t){0};
        }
        crossed = crossed && m->page;
        pushed = pushed && m->push;
        sum.copy += m->copy;
        sum.pull += m->pull;
        sum.cross += m->cross;
        sum.page += m->page;
        sum.push += m->push;
    }
    return (dma_measured_t){.copy = sum.copy / (uint64_t)n,
                            .pull = sum.pull / (uint64_t)n,
                            .cross = crossed ? sum.cross / (uint64_t)n : 0,
                            .page = crossed ? sum.page / (uint64_t)n : 0,
                            .push = pushed ? sum.push / (uint64_t)n : 0};
}

bool dma_measure_apply(dma_profile_t *profile, const dma_measured_t *mean, bool oversubscribed)
{
    if (!mean->pull) {
        return false;
    }
    profile->copy_mbps = rate(PIECE, mean->copy);
    profile->pull_mbps = dma_profile_min(rate(PIECE, mean->pull), profile->copy_mbps);
    /* If cache lines move slowly between cores, writing to memory that another core has read is slower by the same
     * factor again, and by 3: 8 GB/s with 37 for pull and 60 for copy; 2 GB/s with 16 for pull. But if ranks share
     * cores, other ranks have run in between and have evicted most of it from the caches. The measured push holds for
     * slots. In a ring, both sides access the memory at the same time, so the formula is used there. */
    profile->push_mbps = profile->slot_mbps = profile->pull_mbps;
    if (!oversubscribed) {
        profile->push_mbps = profile->pull_mbps * profile->pull_mbps / profile->copy_mbps / 3;
        profile->push_mbps = profile->push_mbps < LEAST_MBPS ? LEAST_MBPS : profile->push_mbps;
        profile->slot_mbps = profile->push_mbps;
        if (mean->push) {
            profile->slot_mbps = dma_profile_min(rate(PIECE, mean->push), profile->copy_mbps);
        }
    }
    if (mean->page) {
        profile->cross_ps = mean->cross;
        profile->cross_page_ps = 0; /* the rate includes it */
        profile->cross_mbps = rate(PAGE, mean->page);
    }
    return true;
}
