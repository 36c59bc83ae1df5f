/*
 * Plans of the host variants, run by the host engine: host.c, with window.c and entry.h.
 *
 * Each rank makes CALLS calls of the plan that print_plans has printed into plan.h, of blocks of WORDS words. It clears its
 * receive buffer before the call, and in a call it gets what the definition of the operation says. After it, a rank changes
 * its send buffer at once: a peer that still reads it is a race. A chunk has one word, and there are two buffers of each kind,
 * so that blocks of three words use every buffer again.
 *
 * ONE_WAY: only the blocks of rank 0 have data, which leaves fewer executions.
 * REFUSED: rank 1 cannot read the memory of others, and gets its blocks through the pair buffers (LANDED with `denied`).
 * SECOND: rank 0 has entered with device memory first, and enters a second time with its data.
 */
#ifndef RANKS
#define RANKS 2
#endif
#ifndef CALLS
#define CALLS 50
#endif
#ifndef WORDS
#define WORDS 3
#endif
#define THREADS RANKS

#include "memory.h"
#include "run.h"

static void prepare(void)
{
    make_plain_windows(&geom, 1);
    make_runs(8 * WORDS);
}

static void rank_main(int me)
{
    for (uint64_t seq = 1; seq <= CALLS; seq++) {
        dma_run_t *run = &runs[me];
        uint64_t position = 0;
        dma_status_t status;

        until(dma_window_may_publish(&windows[me], (uint32_t)seq));
        fill_blocks(me, seq);
#ifdef SECOND
        run->second_entry = me == 0;
        if (me == 0) {
            dma_entry_publish(&windows[me], seq, run->sign | DMA_SIGN_DEVICE, 0);
        }
#endif
        start_run(run, seq);
        while ((status = dma_engine_host.advance(run)) == DMA_AGAIN) {
            until_moved(run, &position);
        }
        check_that(status == DMA_OK);
        check_blocks(me, seq);
        end_run(run);
        fill_blocks(me, seq + CALLS);
        dma_window_completed(&windows[me], (uint32_t)seq);
    }
}

static void judge(void)
{
}
