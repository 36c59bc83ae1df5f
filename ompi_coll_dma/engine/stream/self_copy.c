/* The self copy: see self_copy.h. */
#include "engine/stream/self_copy.h"

#include <string.h>

#define LATE_SECONDS 20e-6  /* idle compute units complete a copy 2 us after the pushes, busy ones take milliseconds */
#define LATE_RUNS    3      /* this many late copies among */
#define LATE_AMONG   64     /* this many others select echo: a late copy costs a hundred times as much as an echo */
#define SWAP_SECONDS 100e-6 /* an exchange is late if it takes longer than this */
#define SWAP_RATE    100e9  /* plus its bytes at this rate; idle GPUs take 25 us, and 350 GB/s */
#define GRAPH_MAX    (UINT64_C(1) << 30)  /* bytes: the pitch of a row is limited, and a large block gains nothing */
#define EARLY_MAX    (UINT64_C(64) << 10) /* bytes: a larger copy would still run when the pushes begin */
#define ECHO_FIRST   256                  /* runs with echo until the copy is tried again; doubles every time */
#define ECHO_MAX     4096 /* then one late copy of 1 ms costs less than the extra cost of the echoes in between */
#define PROBE_EVERY  4    /* runs with echo */
#define PROBES       4    /* in time, in a row: the copy is tried again at once */
#define PROBES_MAX   1024 /* after copies that were late although probes were not */
#define ECHO_PIECES  8    /* an own block that needs more turns through a peer's block is not copied by echo */
/* Bytes of a piece from which one more batch costs less than a copy that is not part of a batch. */
#define ECHO_SPLIT (UINT64_C(1) << 20)

dma_status_t dma_self_copy_method_find(const char *name, dma_self_copy_method_t *method)
{
    static const char *const names[] = {[DMA_SELF_COPY_AUTO] = "auto",
                                        [DMA_SELF_COPY_GRAPH] = "graph",
                                        [DMA_SELF_COPY_PLAIN] = "copy",
                                        [DMA_SELF_COPY_ECHO] = "echo"};

    if (!name || !name[0]) {
        *method = DMA_SELF_COPY_AUTO;
        return DMA_OK;
    }
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (!strcmp(name, names[i])) {
            *method = (dma_self_copy_method_t)i;
            return DMA_OK;
        }
    }
    return DMA_UNSUPPORTED;
}

void dma_self_copy_init(dma_self_copy_t *copy, dma_self_copy_method_t method, const dma_gpu_runtime_t *rt)
{
    *copy = (dma_self_copy_t){.method = method,
                              .no_graphs = method == DMA_SELF_COPY_PLAIN || !rt->graph_create,
                              .next = ECHO_FIRST,
                              .needed = PROBES};
}

void dma_self_copy_destroy(dma_self_copy_t *copy, const dma_gpu_runtime_t *rt)
{
    for (int i = 0; i < DMA_SELF_COPY_GRAPHS; i++) {
        if (copy->graphs[i].graph) {
            rt->graph_destroy(copy->graphs[i].graph);
        }
    }
}

/* ---- in time or late ---- */

static void count_late(dma_self_copy_t *copy)
{
    if (copy->trusted) {
        copy->trusted = false;
        copy->needed = copy->needed < PROBES_MAX ? 2 * copy->needed : copy->needed;
    }
    copy->late += LATE_AMONG;
    if (copy->late > (LATE_RUNS - 1) * LATE_AMONG) {
        copy->late = (LATE_RUNS - 1) * LATE_AMONG; /* when the copy is tried again, one late copy is sufficient */
        copy->echo = copy->next;
        copy->fair = 0;
        copy->next = copy->next < ECHO_MAX ? 2 * copy->next : copy->next;
    }
}

static void count_timely(dma_self_copy_t *copy)
{
    copy->trusted = false;
    if (copy->late && --copy->late == 0) {
        copy->next = ECHO_FIRST;
        copy->needed = PROBES;
    }
}

bool dma_self_copy_wants_probe(const dma_self_copy_t *copy)
{
    return copy->method == DMA_SELF_COPY_AUTO && copy->echo && copy->echo % PROBE_EVERY == 0;
}

void dma_self_copy_probed(dma_self_copy_t *copy, bool ended)
{
    copy->fair = ended ? copy->fair + 1 : 0;
    if (copy->fair >= copy->needed) {
        copy->fair = 0;
        copy->echo = 0;
        copy->trusted = true;
    }
}

/* ---- graph and copy ---- */

/* Returns the entry of these addresses. If there is none, reassigns the least recently used entry to them. */
static dma_self_copy_graph_t *find_graph(dma_self_copy_t *copy, const dma_own_block_t *block, bool *known)
{
    dma_self_copy_graph_t *oldest = &copy->graphs[0];

    for (int i = 0; i < DMA_SELF_COPY_GRAPHS; i++) {
        dma_self_copy_graph_t *g = &copy->graphs[i];

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

/* Creating a graph costs more than one launch saves. So a graph is created when the same addresses are used again. */
static dma_self_copy_graph_t *graph_for(dma_self_copy_t *copy, const dma_own_block_t *block,
                                        const dma_gpu_runtime_t *rt)
{
    bool known;
    dma_self_copy_graph_t *g = find_graph(copy, block, &known);

    g->used = ++copy->runs;
    if (g->made || !known) {
        return g->made ? g : NULL;
    }
    if (g->graph && rt->graph_update(g->graph, g->dst, g->src, g->bytes) != DMA_OK) {
        rt->graph_destroy(g->graph);
        g->graph = NULL;
    }
    if (!g->graph && rt->graph_create(g->dst, g->src, g->bytes, &g->graph) != DMA_OK) {
        g->graph = NULL;
        copy->no_graphs = true; /* the runtime's graphs do not work here */
        return NULL;
    }
    g->made = true;
    return g;
}

/* The last run has ended. If nothing observed the end of its copy, the copy counts as in time. */
static void end_watch(dma_self_copy_t *copy)
{
    if (copy->watching) {
        copy->watching = false;
        count_timely(copy);
    }
}

bool dma_self_copy_launch_early(dma_self_copy_t *copy, const dma_own_block_t *block, const dma_gpu_runtime_t *rt,
                                dma_gpu_stream_t *stream)
{
    if (copy->no_graphs || copy->method == DMA_SELF_COPY_ECHO || block->bytes > EARLY_MAX) {
        return false;
    }
    end_watch(copy);
    for (int i = 0; i < DMA_SELF_COPY_GRAPHS && !copy->echo; i++) {
        dma_self_copy_graph_t *g = &copy->graphs[i];

        if (g->made && g->dst == block->dst && g->src == block->src && g->bytes == block->bytes) {
            g->used = ++copy->runs;
            copy->no_graphs = rt->graph_launch(g->graph, stream) != DMA_OK;
            copy->watching = copy->method == DMA_SELF_COPY_AUTO && !copy->no_graphs;
            copy->exchanges = false;
            copy->since = 0;
            copy->limit = LATE_SECONDS;
            return !copy->no_graphs;
        }
    }
    return false;
}

dma_status_t dma_self_copy_submit(dma_self_copy_t *copy, const dma_own_block_t *block, const dma_gpu_runtime_t *rt,
                                  dma_gpu_stream_t *stream)
{
    dma_self_copy_graph_t *g = copy->no_graphs || block->bytes > GRAPH_MAX ? NULL : graph_for(copy, block, rt);

    copy->watching = copy->method == DMA_SELF_COPY_AUTO;
    copy->exchanges = false;
    copy->since = 0;
    copy->limit = LATE_SECONDS;
    if (g) {
        if (rt->graph_launch(g->graph, stream) == DMA_OK) {
            return DMA_OK;
        }
        copy->no_graphs = true;
    }
    return rt->copy_async(stream, block->dst, block->src, block->bytes);
}

void dma_self_copy_exchange_begin(dma_self_copy_t *copy, uint64_t bytes, double now)
{
    copy->watching = copy->method == DMA_SELF_COPY_AUTO;
    copy->exchanges = true;
    copy->since = now;
    copy->limit = SWAP_SECONDS + (double)bytes / SWAP_RATE;
}

void dma_self_copy_observe(dma_self_copy_t *copy, bool pushed, bool copied, double now)
{
    bool late = copy->since && now - copy->since > copy->limit;

    if (!copy->watching || !pushed) {
        return;
    }
    if (copied && !(copy->exchanges && late)) {
        copy->watching = false;
        count_timely(copy);
    } else if (late) {
        copy->watching = false;
        count_late(copy);
    } else if (!copy->since) {
        copy->since = now;
    }
}

/* ---- echo ---- */

bool dma_self_copy_choose_echo(dma_self_copy_t *copy)
{
    if (copy->method == DMA_SELF_COPY_ECHO) {
        return true;
    }
    end_watch(copy);
    if (copy->echo) {
        copy->echo--;
        return true;
    }
    return false;
}

/* Submits one push, and behind it the other pushes together with the copy back. */
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

/* All-gather: all pushes carry our block, so any of them can be pulled back. */
static dma_status_t echo_gather(dma_work_t *work, const dma_gpu_runtime_t *rt, dma_gpu_stream_t *stream)
{
    return echo_first(work, rt, stream, 0, work->own.bytes);
}

/* Copies the own block from byte `done` on through a peer's `place` of `room` bytes. Stream order keeps the pieces
 * apart. */
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
    /* The first piece replaces the push to that peer in the batch. */
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

dma_status_t dma_self_copy_echo(dma_work_t *work, const dma_run_t *run, const dma_gpu_runtime_t *rt,
                                dma_gpu_stream_t *stream)
{
    if (!work->pushes.n) {
        return DMA_UNSUPPORTED;
    }
    return dma_coll_gathers(run->plan->coll) ? echo_gather(work, rt, stream) : echo_exchange(work, rt, stream);
}
