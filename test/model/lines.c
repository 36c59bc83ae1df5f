/*
 * The completion of engine queues: dma_window_queue_reached and the epochs of a channel.
 *
 * A thread stands for an engine of rank 0: for each epoch it writes the data, and then the epoch into the queue's line. Rank 1
 * waits for each epoch in turn and reads its data. It says that it has, as peers do before they start the next epoch.
 *
 * TWICE: another thread stands for writes that come twice. It writes an epoch again, some time after the engine has.
 * ONE_WORD: of an engine whose writes come once.
 */
#define RANKS 2
#ifndef EPOCHS
#define EPOCHS 14
#define TWICE
#endif
#ifdef TWICE
#define THREADS 3
#else
#define THREADS 2
#endif

#include "memory.h"
#include "sizes.h"

static const dma_geom_t geom = GEOM;
static uint64_t data[2]; /* of even and odd epochs */
static _Atomic uint32_t read_by_rank;

static void prepare(void)
{
    make_plain_windows(&geom, 1);
#ifndef ONE_WORD
    windows[1].peers[0].epoch_words = true;
#endif
    atomic_store_explicit(&read_by_rank, 0, memory_order_relaxed);
}

static void write_line(uint32_t epoch)
{
    dma_engine_line_t *line = dma_window_queue(&windows[0], 0, 0);

    atomic_store_explicit((_Atomic uint32_t *)(void *)((char *)line + dma_engine_line_offset(epoch)), epoch,
                          memory_order_release);
}

static void engine(void)
{
    for (uint32_t epoch = 1; epoch <= EPOCHS; epoch++) {
        /* Nobody is ahead by more than one epoch. */
        until(atomic_load_explicit(&read_by_rank, memory_order_acquire) + 1 >= epoch);
        data[epoch % 2] = epoch;
#ifdef ONE_WORD
        atomic_store_explicit(&dma_window_queue(&windows[0], 0, 0)->word, epoch, memory_order_release);
#else
        write_line(epoch);
#endif
    }
}

static void rank_main(int me)
{
    if (me == 0) {
        engine();
    } else if (me == 2) {
        for (uint32_t epoch = 1; epoch <= EPOCHS; epoch++) {
            until(dma_window_queue_reached(&windows[1], 0, 0, epoch));
            write_line(epoch);
        }
    } else {
        for (uint32_t epoch = 1; epoch <= EPOCHS; epoch++) {
            until(dma_window_queue_reached(&windows[1], 0, 0, epoch));
            check_that(data[epoch % 2] == epoch);
            atomic_store_explicit(&read_by_rank, epoch, memory_order_release);
        }
    }
}

static void judge(void)
{
}
