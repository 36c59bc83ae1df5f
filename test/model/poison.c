/*
 * Failure: dma_window_poison and what a reader of the failed rank's memory makes of it. host.c, window.c.
 *
 * Rank 0 enters a call and publishes where its send buffer is. Then it fails, says so, and gives the buffer back to the caller,
 * who writes other words into it. Rank 1 reads the buffer with the real engine. What it takes for read (its program goes on to
 * LANDED, or to the next chunk) is what rank 0 sent: else it has seen the poison, and has not gone on.
 */
#define RANKS   2
#define THREADS RANKS
#define WORDS   2
#define READS_RACE
#define FAILED DMA_ERR_MISMATCH

#include "memory.h"
#include "run.h"

static void prepare(void)
{
    make_plain_windows(&geom, 1);
    make_runs(8 * WORDS);
    fill_blocks(0, 1);
    fill_blocks(1, 1);
}

static void fail(void)
{
    dma_entry_publish(&windows[0], 1, runs[0].sign, (uint64_t)(uintptr_t)send_words[0]);
    dma_window_poison(&windows[0], FAILED);
    for (int w = 0; w < WORDS; w++) {
        __atomic_store_n(&send_words[0][w], word_of(2, 0, 0, w), __ATOMIC_RELAXED);
    }
}

/* The chunks that the engine has taken for read are those of the call. */
static void check_chunks(const dma_run_t *run)
{
    for (uint32_t i = 0; i < run->plan->nprogs; i++) {
        const dma_prog_t *prog = &run->plan->progs[i];
        const dma_cursor_t *c = &run->cursors[i];
        bool reads = false;

        for (uint32_t k = 0; k < prog->nops; k++) {
            reads = reads || dma_op_reads_peer(&prog->ops[k]);
        }
        for (uint64_t w = 0; reads && !c->fallback && w < c->trip; w++) {
            check_that(recv_words[1][w] == word_of(1, 0, 0, (int)w));
        }
    }
}

static void rank_main(int me)
{
    dma_run_t *run = &runs[me];
    uint64_t position = 0;
    dma_status_t status, poison;

    if (me == 0) {
        fail();
        return;
    }
    start_run(run, 1);
    while ((status = dma_engine_host.advance(run)) == DMA_AGAIN) {
        check_chunks(run);
        poison = dma_window_poisoned(&windows[me]);
        if (poison != DMA_OK) {
            check_that(poison == FAILED);
            return;
        }
        until_moved(run, &position);
    }
    check_that(status != DMA_OK); /* rank 0 never says that it has read */
}

static void judge(void)
{
    check_that(dma_window_poisoned(&windows[0]) == FAILED);
}
