/*
 * Reports of late calls: dma_window_claim_report. Every rank claims every call once; of each call at most one rank reports, and
 * of the last call exactly one.
 */
#ifndef RANKS
#define RANKS 3
#endif
#define THREADS RANKS
#define CALLS   2

#include "memory.h"
#include "sizes.h"

static const dma_geom_t geom = GEOM;
static int claims[RANKS][CALLS + 1];

static void prepare(void)
{
    make_plain_windows(&geom, 1);
}

static void rank_main(int me)
{
    for (uint32_t seq = 1; seq <= CALLS; seq++) {
        claims[me][seq] = dma_window_claim_report(&windows[me], DMA_REPORT_OWN, seq);
    }
}

static void judge(void)
{
    for (int seq = 1; seq <= CALLS; seq++) {
        int all = 0;

        for (int r = 0; r < RANKS; r++) {
            all += claims[r][seq];
        }
        check_that(all <= 1);
        check_that(seq < CALLS || all == 1);
    }
}
