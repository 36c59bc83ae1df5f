/* The own block, out of place: see own.h. */
#include "engine/stream/self_copy.h"

#include <string.h>

#define LATE_SECONDS 20e-6  /* a copy among idle compute units comes 2 us behind the pushes, a busy one's takes ms */
#define LATE_RUNS    3      /* late ones within */
#define LATE_AMONG   64     /* so many others: a late copy costs a hundred times what an echo does */
#define SWAP_SECONDS 100e-6 /* an exchange that takes longer than this, and */
#define SWAP_RATE    100e9  /* than its bytes at this rate, is late: idle GPUs take 25 us, and 350 GB/s */
#define GRAPH_MOST   (UINT64_C(1) << 30) /* bytes: rows have a longest pitch, and a large block gains nothing */
#define EARLY_MOST   (UINT64_C(64) << 10)
#define ECHO_FIRST   256  /* runs until the copy is tried again; then twice as many, and so on */
#define ECHO_MOST    4096 /* then one late copy of 1 ms costs less than what a single echo does more than a copy */
#define ECHO_PIECES  8    /* an own block that takes more turns through a peer's block is not echoed */
#define ECHO_SPLIT                                                                                                     \
    (UINT64_C(1) << 20) /* bytes of a piece from which a batch more costs less than one copy beside others */

dma_status_t dma_own_way_find(const char *name, dma_own_way_t *way)
{
    static const char *const names[] = {
        [DMA_OWN_AUTO] = "auto", [DMA_OWN_GRAPH] = "graph", [DMA_OWN_COPY] = "copy", [DMA_OWN_ECHO] = "echo"};

    if (!name || !name[0]) {
        *way = DMA_OWN_AUTO;
        return DMA_OK;
    }
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (!strcmp(name, names[i])) {
            *way = (dma_own_way_t)i;
            return DMA_OK;
        }
    }
    return DMA_UNSUPPORTED;
}

void dma_own_init(dma_own_t *own, dma_own_way_t way, const dma_gpu_runtime_t *rt)
{
    *own = (dma_own_t){.way = way, .no_graphs = way == DMA_OWN_COPY || !rt->graph_create, .next = ECHO_FIRST};
}

void dma_own_destroy(dma_own_t *own, const dma_gpu_runtime_t *rt)
{
    for (int i = 0; i < DMA_OWN_GRAPHS; i++) {
        if (own->graphs[i].graph) {
            rt->graph_destroy(own->graphs[i].graph);
        }
    }
}

/* ---- in time or late ---- */

static void count_late(dma_own_t *own)
{
    own->late += LATE_AMONG;
    if (own->late > (LATE_RUNS - 1) * LATE_AMONG) {
        own->late = (LATE_RUNS - 1) * LATE_AMONG; /* when it is tried again, one late copy is enough */
        own->echo = own->next;
        own->next = own->next < ECHO_MOST ? 2 * own->next : own->next;
    }
}

static void count_timely(dma_own_t *own)
{
    if (own->late && --own->late == 0) {
        own->next = ECHO_FIRST;
    }
}

/* ---- graph and copy ---- */

/* The entry for these addresses, or the one that was not used for the longest time, made theirs. */
static dma_own_graph_t *find(dma_own_t *own, const dma_own_block_t *block, bool *known)
{
    dma_own_graph_t *oldest = &own->graphs[0];

    for (int i = 0; i < DMA_OWN_GRAPHS; i++) {
        dma_own_graph_t *g = &own->graphs[i];

        if (g->used && g->dst == block->dst && g->src == block->src && g->bytes == block->bytes) {
            *known = true;
            return g;
        }
        oldest = g->used < oldest->used ? g : oldest;
    }
    oldest->dst = block->dst;
    oldest->src = block->src;
    oldest->bytes = block->bytes;
    oldest->made = false;
    *known = false;
    return oldest;
}

/* A graph costs more to make than it saves once: so only for addresses that come back. */
static dma_own_graph_t *graph_for(dma_own_t *own, const dma_own_block_t *block, const dma_gpu_runtime_t *rt)
{
    bool known;
    dma_own_graph_t *g = find(own, block, &known);

    g->used = ++own->runs;
    if (g->made || !known) {
        return g->made ? g : NULL;
    }
    if (g->graph && rt->graph_update(g->graph, g->dst, g->src, g->bytes) != DMA_OK) {
        rt->graph_destroy(g->graph);
        g->graph = NULL;
    }
    if (!g->graph && rt->graph_create(g->dst, g->src, g->bytes, &g->graph) != DMA_OK) {
        g->graph = NULL;
        own->no_graphs = true; /* what this runtime has does not work here */
        return NULL;
    }
    g->made = true;
    return g;
}

/* The last run has ended: with the copy, if nobody was there to see it, in time. */
static void end_watch(dma_own_t *own)
{
    if (own->watching) {
        own->watching = false;
        count_timely(own);
    }
}

bool dma_own_early(dma_own_t *own, const dma_own_block_t *block, const dma_gpu_runtime_t *rt, dma_gpu_stream_t *stream)
{
    if (own->no_graphs || own->way == DMA_OWN_ECHO || block->bytes > EARLY_MOST) {
        return false;
    }
    end_watch(own);
    for (int i = 0; i < DMA_OWN_GRAPHS && !own->echo; i++) {
        dma_own_graph_t *g = &own->graphs[i];

        if (g->made && g->dst == block->dst && g->src == block->src && g->bytes == block->bytes) {
            g->used = ++own->runs;
            own->no_graphs = rt->graph_launch(g->graph, stream) != DMA_OK;
            own->watching = own->way == DMA_OWN_AUTO && !own->no_graphs;
            own->exchanges = false;
            own->since = 0;
            own->limit = LATE_SECONDS;
            return !own->no_graphs;
        }
    }
    return false;
}

dma_status_t dma_own_copy(dma_own_t *own, const dma_own_block_t *block, const dma_gpu_runtime_t *rt,
                          dma_gpu_stream_t *stream)
{
    dma_own_graph_t *g = own->no_graphs || block->bytes > GRAPH_MOST ? NULL : graph_for(own, block, rt);

    own->watching = own->way == DMA_OWN_AUTO;
    own->exchanges = false;
    own->since = 0;
    own->limit = LATE_SECONDS;
    if (g) {
        if (rt->graph_launch(g->graph, stream) == DMA_OK) {
            return DMA_OK;
        }
        own->no_graphs = true;
    }
    return rt->copy_async(stream, block->dst, block->src, block->bytes);
}

void dma_own_exchange(dma_own_t *own, uint64_t bytes, double now)
{
    own->watching = own->way == DMA_OWN_AUTO;
    own->exchanges = true;
    own->since = now;
    own->limit = SWAP_SECONDS + (double)bytes / SWAP_RATE;
}

void dma_own_watch(dma_own_t *own, bool pushed, bool copied, double now)
{
    bool late = own->since && now - own->since > own->limit;

    if (!own->watching || !pushed) {
        return;
    }
    if (copied && !(own->exchanges && late)) {
        own->watching = false;
        count_timely(own);
    } else if (late) {
        own->watching = false;
        count_late(own);
    } else if (!own->since) {
        own->since = now;
    }
}

/* ---- echo ---- */

bool dma_own_echoes(dma_own_t *own)
{
    if (own->way == DMA_OWN_ECHO) {
        return true;
    }
    end_watch(own);
    if (own->echo) {
        own->echo--;
        return true;
    }
    return false;
}

/* One push, and behind it the others beside the copy back. */
static dma_status_t echo_first(dma_work_t *work, const dma_gpu_runtime_t *rt, dma_gpu_stream_t *stream, size_t via,
                               uint64_t bytes)
{
    dma_copies_t *c = &work->pushes;
    uint64_t place = c->dst[via];
    dma_status_t status = rt->copy_batch(stream, &place, &c->src[via], &c->bytes[via], 1);

    c->dst[via] = work->own.dst;
    c->src[via] = place;
    c->bytes[via] = bytes;
    status = status == DMA_OK ? dma_work_push(work, rt, stream) : status;
    c->dst[via] = place;
    return status;
}

/* All pushes are of our block: any of them can be pulled back. */
static dma_status_t echo_gather(dma_work_t *work, const dma_gpu_runtime_t *rt, dma_gpu_stream_t *stream)
{
    return echo_first(work, rt, stream, 0, work->own.bytes);
}

/* The own block's bytes from `done` on, through a peer's `place` of `room` bytes: the stream's order keeps them apart. */
static dma_status_t echo_rest(dma_work_t *work, const dma_gpu_runtime_t *rt, dma_gpu_stream_t *stream, uint64_t place,
                              uint64_t room, uint64_t done)
{
    const dma_own_block_t *own = &work->own;
    dma_status_t status = DMA_OK;

    for (; done < own->bytes && status == DMA_OK; done += room) {
        uint64_t n = own->bytes - done < room ? own->bytes - done : room;

        status = rt->copy_async(stream, place, own->src + done, n);
        if (status == DMA_OK) {
            status = rt->copy_async(stream, own->dst + done, place, n);
        }
    }
    return status;
}

static dma_status_t echo_exchange(dma_work_t *work, const dma_gpu_runtime_t *rt, dma_gpu_stream_t *stream)
{
    const dma_own_block_t *own = &work->own;
    dma_copies_t *c = &work->pushes;
    size_t via = 0;
    uint64_t room, src, first;
    dma_status_t status;

    for (size_t i = 1; i < c->n; i++) {
        via = c->bytes[i] > c->bytes[via] ? i : via;
    }
    room = c->bytes[via];
    src = c->src[via];
    if (room * ECHO_PIECES < own->bytes) {
        return DMA_UNSUPPORTED;
    }
    /* The first piece takes the place of the push in the batch. */
    first = own->bytes < room ? own->bytes : room;
    c->src[via] = own->src;
    c->bytes[via] = first;
    if (first >= ECHO_SPLIT) {
        status = echo_first(work, rt, stream, via, first);
    } else {
        status = dma_work_push(work, rt, stream);
        status = status == DMA_OK ? rt->copy_async(stream, own->dst, c->dst[via], first) : status;
    }
    if (status == DMA_OK) {
        status = echo_rest(work, rt, stream, c->dst[via], room, first);
    }
    return status == DMA_OK ? rt->copy_async(stream, c->dst[via], src, room) : status;
}

dma_status_t dma_own_echo(dma_work_t *work, const dma_run_t *run, const dma_gpu_runtime_t *rt, dma_gpu_stream_t *stream)
{
    if (!work->pushes.n) {
        return DMA_UNSUPPORTED;
    }
    return dma_coll_gathers(run->plan->coll) ? echo_gather(work, rt, stream) : echo_exchange(work, rt, stream);
}
