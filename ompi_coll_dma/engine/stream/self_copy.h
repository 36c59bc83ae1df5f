/*
 * The own block, out of place: from this rank's send buffer into its receive buffer.
 *
 * Runtimes copy inside one device with the device's compute units, so this copy is late when they are busy: a matrix
 * product holds it up for as long as one lasts. There are three ways:
 *
 *     graph   the copy as a graph of one node, made once for addresses and size: 2 us less to launch than
 *     copy    a plain copy, on a stream of its own beside the pushes
 *     echo    to a peer and back over the link, by copy engines alone:
 *
 *         all-gather                            all-to-all
 *         push our block to all                 push our own block into the place of our block in the receive buffer of
 *         pull it back out of the receive       one peer, the others' blocks to them
 *         buffer of one peer                    pull it back from there
 *         write the lines                       push to that peer what is really for it
 *                                               write the lines
 *
 * Echo needs no memory anywhere: block `rank` of a peer's receive buffer is ours to write until our line says that it is
 * there, and its owner cannot return before. An all-to-all-v chooses the peer with the largest block, and goes piece by
 * piece; where all are far smaller than the own block there is no echo.
 *
 * A graph of a small block is launched before the peers have entered, in front of the pushes: the processor gives it to
 * the device while it waits for the peers, instead of when they are there. A large one would take bandwidth from the pushes.
 *
 * auto: graph where the runtime has graphs, else copy. Copies that arrive more than LATE_SECONDS behind the pushes,
 * LATE_RUNS of them within LATE_AMONG others, make the next runs echo; after more and more of them one tries the copy
 * again. Busy compute units do not make all copies late: whichever finds room is in time.
 *
 * An exchange, of an all-to-all in place, has a step inside the device, too. It goes by the links alone (work.h) when own
 * blocks are echoed, and auto takes to that when exchanges take far longer than they should.
 */
#ifndef DMA_STREAM_OWN_H
#define DMA_STREAM_OWN_H

#include "engine/stream/work.h"

#define DMA_SELF_COPY_GRAPHS 8 /* that a communicator keeps */

typedef enum dma_self_copy_method {
    DMA_SELF_COPY_AUTO,
    DMA_SELF_COPY_GRAPH,
    DMA_SELF_COPY_PLAIN,
    DMA_SELF_COPY_ECHO
} dma_self_copy_method_t;

/* DMA_UNSUPPORTED: there is no such method. NULL and "": auto. */
dma_status_t dma_self_copy_method_find(const char *name, dma_self_copy_method_t *method);

typedef struct dma_self_copy_graph {
    uint64_t dst, src, bytes;
    uint64_t used;          /* when, in runs; 0: never */
    bool made;              /* `graph` is for these addresses; else it may be for others */
    dma_gpu_graph_t *graph; /* or NULL */
} dma_self_copy_graph_t;

/* Of a communicator. */
typedef struct dma_self_copy {
    dma_self_copy_method_t method; /* as wanted */
    bool no_graphs;                /* the runtime has none, or one has failed */
    uint64_t runs;
    dma_self_copy_graph_t graphs[DMA_SELF_COPY_GRAPHS];
    /* auto: is the copy late? */
    bool watching;  /* this run's */
    double since;   /* the pushes are there and the copy is not; 0: not so far. Of an exchange: when it was begun */
    double limit;   /* seconds from then on: late */
    bool exchanges; /* the run exchanges, and may be late in ending, too */
    unsigned late;  /* LATE_AMONG for each late run, less one for each other one */
    uint32_t echo;  /* runs that echo before the copy is tried again */
    uint32_t next;  /* how many next time */
} dma_self_copy_t;

void dma_self_copy_init(dma_self_copy_t *copy, dma_self_copy_method_t method, const dma_gpu_runtime_t *rt);
/* In the device's scope; nothing of it is under method. */
void dma_self_copy_destroy(dma_self_copy_t *copy, const dma_gpu_runtime_t *rt);

/* The next run's own block, as a graph that is known, if that is worth it and not to be echoed: true if it was launched.
 * Instead of the next three for this run. */
bool dma_self_copy_launch_early(dma_self_copy_t *copy, const dma_own_block_t *block, const dma_gpu_runtime_t *rt,
                                dma_gpu_stream_t *stream);

/* Whether this run echoes. To be asked once for each run with an own block of some bytes. */
bool dma_self_copy_choose_echo(dma_self_copy_t *copy);
/* The pushes and the own block, echoed. DMA_UNSUPPORTED: nothing was begun, copy it instead. */
dma_status_t dma_self_copy_echo(dma_work_t *work, const dma_run_t *run, const dma_gpu_runtime_t *rt,
                                dma_gpu_stream_t *stream);
/* The own block by a graph or a copy. */
dma_status_t dma_self_copy_submit(dma_self_copy_t *copy, const dma_own_block_t *block, const dma_gpu_runtime_t *rt,
                                  dma_gpu_stream_t *stream);

/* An exchange of so many bytes begins, with a step inside the device. */
void dma_self_copy_exchange_begin(dma_self_copy_t *copy, uint64_t bytes, double now);

/* Looks at how a run's two parts are getting on, `now` in seconds. */
void dma_self_copy_observe(dma_self_copy_t *copy, bool pushed, bool copied, double now);

#endif
