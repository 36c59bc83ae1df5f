/*
 * The self copy: the copy of a rank's own block from its send buffer to its receive buffer.
 *
 * Runtimes copy inside one device with the compute units of the device. So this copy is late if they are busy: a matrix
 * product delays it until the product ends. There are three methods:
 *
 *     graph   a graph of one copy node, created once for each pair of addresses and size; 2 us less to launch than `copy`
 *     copy    a plain copy, on a stream of its own beside the pushes
 *     echo    to a peer and back over the link, with copy engines only:
 *
 *         all-gather                            all-to-all
 *         1. push our block to all peers        1. push our own block to the place of our block in the receive buffer of
 *         2. pull it back from the receive         one peer, and the blocks of the other peers to them
 *            buffer of one peer                 2. pull it back from there
 *         3. write the lines                    3. push the block that is meant for that peer
 *                                               4. write the lines
 *
 * Echo needs no extra memory: block `rank` of a peer's receive buffer belongs to this rank until this rank's line reports
 * the block as complete, and the peer cannot return before. An all-to-all-v uses the peer with the largest block, piece by
 * piece. If all blocks are far smaller than the own block, echo is not possible.
 *
 * The graph of a small block is launched before the peers have entered, in front of the pushes. So its launch overlaps with
 * the wait for the peers. The copy of a large block would take bandwidth from the pushes.
 *
 * `auto` uses graphs if the runtime has them, otherwise plain copies. A copy is late if it completes more than
 * LATE_SECONDS after the pushes. After LATE_RUNS late copies with fewer than LATE_AMONG timely ones among them, the
 * next runs use echo. After a number of runs, which doubles every time, the copy is tried again. Several copies are
 * observed, because busy compute units do not delay every copy: a copy is in time if it finds a free compute unit.
 *
 * That number is large, because a late copy costs a hundred times as much as an echo. So that a load that has ended is noticed
 * earlier, every PROBE_EVERY-th run with echo begins with a probe: a copy of a few bytes in memory of the engine's, which must have
 * ended when the pushes have. After PROBES such copies in a row the own block is copied again. If it is late then, because
 * probes find free compute units where larger copies do not, twice as many are needed the next time.
 *
 * An exchange (all-to-all in place) has a step inside the device, too. In runs that use echo, exchanges use links only
 * (work.h). `auto` switches to echo also if exchanges take far longer than expected.
 */
#ifndef DMA_STREAM_OWN_H
#define DMA_STREAM_OWN_H

#include "engine/stream/work.h"

#define DMA_SELF_COPY_GRAPHS 8 /* per communicator: programs alternate between a few buffers */

typedef enum dma_self_copy_method {
    DMA_SELF_COPY_AUTO,
    DMA_SELF_COPY_GRAPH,
    DMA_SELF_COPY_PLAIN,
    DMA_SELF_COPY_ECHO
} dma_self_copy_method_t;

/* Finds a method by name; NULL and "" mean auto. DMA_UNSUPPORTED: there is no such method. */
dma_status_t dma_self_copy_method_find(const char *name, dma_self_copy_method_t *method);

typedef struct dma_self_copy_graph {
    uint64_t dst, src, bytes;
    uint64_t used;          /* `runs` at the last use; 0: never used */
    bool made;              /* `graph` has these addresses; otherwise it may have others */
    dma_gpu_graph_t *graph; /* may be NULL */
} dma_self_copy_graph_t;

/* The state of a communicator. */
typedef struct dma_self_copy {
    dma_self_copy_method_t method; /* as configured */
    bool no_graphs;                /* the runtime has no graphs, or a graph call has failed */
    uint64_t runs;
    dma_self_copy_graph_t graphs[DMA_SELF_COPY_GRAPHS];
    /* auto: detection of late copies. */
    bool watching;   /* the copy of this run is observed */
    double since;    /* when the pushes had landed and the copy had not, or 0; for an exchange: when it began */
    double limit;    /* seconds after `since` from which on it is late */
    bool exchanges;  /* the run has exchanges: it counts as late also if it has ended when that is observed */
    unsigned late;   /* increases by LATE_AMONG with each late run and decreases by 1 with each other run */
    uint32_t echo;   /* runs that use echo before the copy is tried again */
    uint32_t next;   /* the next value of `echo` */
    unsigned fair;   /* probes in time, in a row */
    unsigned needed; /* so many end the echo */
    bool trusted;    /* they did, and no copy has been late or in time since */
} dma_self_copy_t;

void dma_self_copy_init(dma_self_copy_t *copy, dma_self_copy_method_t method, const dma_gpu_runtime_t *rt);
/* The caller is in the device's scope, and no copy is in progress. */
void dma_self_copy_destroy(dma_self_copy_t *copy, const dma_gpu_runtime_t *rt);

/* Launches the copy of the next run's own block if a graph for it exists, if the block is small, and if the run will
 * not use echo. Returns whether it was launched. If so, the three functions below are not called for this run. */
bool dma_self_copy_launch_early(dma_self_copy_t *copy, const dma_own_block_t *block, const dma_gpu_runtime_t *rt,
                                dma_gpu_stream_t *stream);

/* Whether this run uses echo. Call it once for each run whose own block is not empty. */
bool dma_self_copy_choose_echo(dma_self_copy_t *copy);
/* Whether this run, which uses echo, begins with a probe. */
bool dma_self_copy_wants_probe(const dma_self_copy_t *copy);
/* The pushes of that run have ended: has the probe, too? */
void dma_self_copy_probed(dma_self_copy_t *copy, bool ended);
/* Submits the pushes and the own block by echo. DMA_UNSUPPORTED: nothing was submitted; use dma_self_copy_submit. */
dma_status_t dma_self_copy_echo(dma_work_t *work, const dma_run_t *run, const dma_gpu_runtime_t *rt,
                                dma_gpu_stream_t *stream);
/* Submits the own block as a graph or a plain copy. */
dma_status_t dma_self_copy_submit(dma_self_copy_t *copy, const dma_own_block_t *block, const dma_gpu_runtime_t *rt,
                                  dma_gpu_stream_t *stream);

/* Reports that exchanges of `bytes` bytes in total begin, which contain copies inside the device. */
void dma_self_copy_exchange_begin(dma_self_copy_t *copy, uint64_t bytes, double now);

/* Observes the progress of a run: whether the pushes have landed, and whether the copy has. `now` is in seconds. */
void dma_self_copy_observe(dma_self_copy_t *copy, bool pushed, bool copied, double now);

#endif
