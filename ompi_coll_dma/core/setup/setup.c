/*
 * The set-up of a communicator: a task over the host's messages that never waits.
 *
 *     attempt 0: a block in the process's memfd arena          attempt 1: a block in a file of its own
 *       HELLO    all ranks exchange who they are, where their block is, and rank 0's parameters
 *       (map)    each rank maps the others' arenas, tries to read the others' memory, and measures what that costs
 *       VERDICT  all ranks exchange how that went
 *     all mapped: READY. Else attempt 1, else ASIDE.
 *
 * Whatever a rank decides here it decides from records that all ranks have: the verdicts are combined with "and", sizes
 * with "min", and what steers choices is rank 0's. So all ranks come to the same end.
 */
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/comm.h"
#include "core/setup/bootstrap.h"
#include "core/setup/geometry.h"
#include "core/setup/measure.h"
#include "node/cross.h"

#define PROTOCOL 9 /* of the set-up records and of the window */
#define ATTEMPTS 2

typedef struct hello {
    uint32_t protocol;
    dma_arena_id_t arena;    /* nonce 0: no block, */
    char why[DMA_WHY_BYTES]; /* and why */
    uint64_t block;          /* offset of the block in the arena */
    dma_geom_t geom;         /* that the block has room for */
    uint64_t probe_addr;     /* a random number in private memory, */
    uint64_t probe;          /* and which */
    uint64_t first_seq;
    uint64_t region, region_addr; /* written for a peer to read: offset in the block, and where it is; 0: none */
    /* rank 0's count */
    dma_profile_t profile;
    uint32_t measure;
    int32_t forced;
    uint32_t cross_memory;
    dma_gpu_profile_t gpu_profile;
    int32_t gpu_forced;
    uint32_t gpu_queues;
    uint32_t wants_memory_route; /* a channel's rank would have its engine do the call */
    /* for ranks per core */
    uint64_t cpus[CPU_SETSIZE / 64];
    uint32_t local_procs, online;
} hello_t;

typedef struct verdict {
    int32_t mapped;
    int32_t cross;
    dma_measured_t measured;
    char why[DMA_WHY_BYTES];
} verdict_t;

/* Records are exchanged at a fixed size: another version of this component may have longer ones. */
#define RECORD_BYTES 1024

_Static_assert(sizeof(hello_t) <= RECORD_BYTES && sizeof(verdict_t) <= RECORD_BYTES, "records fit");

typedef struct dma_setup {
    int attempt;
    bool judging; /* the exchange under way is of verdicts */
    dma_bootstrap_t exchange;
    hello_t mine;
    hello_t *all;      /* by rank, while judging */
    uint32_t per_core; /* what they say of ranks per core, in sixteenths */
    dma_arena_t *arena;
    dma_block_t *block;
    dma_peer_t *peers;
    uint32_t *acks;
    uint64_t *stream;
    dma_measured_t *measured; /* by rank */
    uint64_t probe;
    uint64_t first_seq; /* calls may be posted while this goes on */
} setup_t;

/* Chunks or pair buffers, which nobody uses yet. */
static void offer_region(const dma_comm_t *comm, setup_t *s)
{
    const dma_geom_t *g = &s->mine.geom;
    dma_block_layout_t layout = dma_block_layout(g, comm->nranks);
    char *region;

    if (!comm->proc->params.measure || layout.bytes - layout.chunks < DMA_MEASURE_BYTES || comm->wanted.ring_depth) {
        return;
    }
    region = (char *)s->block + layout.chunks;
    dma_measure_write(region);
    s->mine.region = layout.chunks;
    s->mine.region_addr = (uint64_t)(uintptr_t)region;
}

/* A block in the arena of this attempt. None is not an error: the hello says so to all. */
static void get_block(dma_comm_t *comm, setup_t *s, char *why)
{
    dma_geom_t geom = comm->wanted.ring_depth ? comm->wanted : dma_geom_wanted(&comm->proc->params, comm->nranks);
    /* a channel's slots have the size of its call, which perhaps fits nowhere else */
    uint32_t least = comm->wanted.ring_depth ? geom.slot_bytes : dma_geom_least_slot(comm->nranks);
    dma_status_t status;
    size_t left;

    /* At most a quarter of what is left, if smaller buffers do: there are more communicators to come. */
    left = dma_proc_left(comm->proc);
    while (dma_block_layout(&geom, comm->nranks).bytes > left / 4 && dma_geom_shrink(&geom, comm->nranks, least)) {
    }
    if (s->attempt == 0) {
        status = dma_proc_arena(comm->proc, &s->arena, why);
    } else {
        size_t bytes = dma_block_layout(&geom, comm->nranks).bytes + DMA_ARENA_ALIGN;

        status = dma_proc_file_arena(comm->proc, bytes, &s->arena, why);
    }
    if (status != DMA_OK) {
        s->arena = NULL;
        return;
    }
    pthread_mutex_lock(&comm->proc->lock);
    do {
        s->block = dma_window_block(s->arena, &geom, comm->nranks, s->first_seq);
    } while (!s->block && dma_geom_shrink(&geom, comm->nranks, least));
    pthread_mutex_unlock(&comm->proc->lock);
    if (!s->block) {
        snprintf(why, DMA_WHY_BYTES, "its limit is reached");
        return;
    }
    s->mine.geom = geom;
    offer_region(comm, s);
    s->mine.block = (uint64_t)((char *)s->block - dma_arena_base(s->arena));
    dma_arena_identify(s->arena, &s->mine.arena);
}

static void count_cpus(hello_t *h, const dma_params_t *params)
{
    cpu_set_t set;

    h->local_procs = params->local_procs;
    h->online = (uint32_t)sysconf(_SC_NPROCESSORS_ONLN);
    if (!sched_getaffinity(0, sizeof(set), &set)) {
        for (int i = 0; i < CPU_SETSIZE; i++) {
            if (CPU_ISSET(i, &set)) {
                h->cpus[i / 64] |= UINT64_C(1) << (i % 64);
            }
        }
    }
}

/* A row of the algorithm table by name, or -1 for the cost model. */
static int32_t find_node_variant(dma_comm_t *comm, const char *name, bool gpu)
{
    int v = dma_variant_find(name);

    if (!name[0] || !strcmp(name, "auto")) {
        return -1;
    }
    if (v >= 0 && dma_variants[v]->gpu != gpu) {
        v = -1;
    }
    if (v < 0) {
        dma_proc_report(comm->proc, DMA_REPORT_WARN, gpu ? "gpu_variant" : "variant",
                        "there is no variant \"%s\"%s; the cost model chooses instead", name,
                        gpu ? " for device memory" : "");
    }
    return v;
}

static void report_profile(dma_comm_t *comm, const char *topic, const char *path, const char *error)
{
    dma_proc_report(comm->proc, DMA_REPORT_WARN, topic,
                    "the engine profile %s cannot be used (%s); the built-in one is used instead", path, error);
}

static void choose_node_params(dma_comm_t *comm, hello_t *h)
{
    const dma_params_t *params = &comm->proc->params;
    char error[128];

    h->profile = dma_profile_default();
    h->measure = params->measure && !params->profile;
    if (params->profile && dma_profile_load(params->profile, &h->profile, error, sizeof(error)) != DMA_OK) {
        report_profile(comm, "profile", params->profile, error);
    }
    h->gpu_profile = dma_gpu_profile_default();
    if (params->gpu_profile &&
        dma_gpu_profile_load(params->gpu_profile, &h->gpu_profile, error, sizeof(error)) != DMA_OK) {
        report_profile(comm, "gpu_profile", params->gpu_profile, error);
    }
    h->cross_memory = params->cross_memory != 0;
    h->forced = find_node_variant(comm, params->variant, false);
    h->gpu_forced = find_node_variant(comm, params->gpu_variant, true);
    h->gpu_queues = params->gpu_queues;
}

static dma_status_t exchange(dma_comm_t *comm, setup_t *s, const void *record, size_t bytes)
{
    char padded[RECORD_BYTES] = {0};

    memcpy(padded, record, bytes);
    if (s->exchange.records) { /* from the first message on, this rank must not fail alone */
        dma_bootstrap_again(&s->exchange, padded, sizeof(padded));
        return DMA_OK;
    }
    return dma_bootstrap_begin(&s->exchange, comm->host, comm->handle, comm->rank, comm->nranks, padded,
                               sizeof(padded));
}

static dma_status_t begin_hello(dma_comm_t *comm, setup_t *s)
{
    char why[DMA_WHY_BYTES] = "";

    s->judging = false;
    s->mine = (hello_t){.protocol = PROTOCOL, .first_seq = s->first_seq};
    s->probe = dma_random64();
    s->mine.probe = s->probe;
    s->mine.wants_memory_route = comm->wants_memory_route;
    s->mine.probe_addr = (uint64_t)(uintptr_t)&s->probe;
    get_block(comm, s, why);
    snprintf(s->mine.why, sizeof(s->mine.why), "%s", why);
    count_cpus(&s->mine, &comm->proc->params);
    if (comm->rank == 0) {
        choose_node_params(comm, &s->mine);
    }
    return exchange(comm, s, &s->mine, sizeof(s->mine));
}

dma_status_t dma_setup_begin(dma_comm_t *comm)
{
    setup_t *s = calloc(1, sizeof(*s));
    dma_status_t status;

    if (!s) {
        return DMA_ERR_NOMEM;
    }
    s->peers = calloc((size_t)comm->nranks, sizeof(*s->peers));
    s->all = calloc((size_t)comm->nranks, sizeof(*s->all));
    /* Everything that READY needs: from the first message on, this rank must not fail alone. */
    s->acks = calloc((size_t)comm->nranks, sizeof(*s->acks));
    s->stream = calloc(3 * (size_t)comm->nranks, sizeof(*s->stream));
    s->first_seq = comm->seq + 1;
    comm->setup = s;
    s->measured = calloc((size_t)comm->nranks, sizeof(*s->measured));
    status = s->peers && s->all && s->acks && s->stream && s->measured ? begin_hello(comm, s) : DMA_ERR_NOMEM;
    if (status != DMA_OK) {
        dma_setup_drop(comm);
        return status;
    }
    comm->state = DMA_COMM_SETUP;
    return DMA_OK;
}

/* Gives back what this attempt holds. */
static void drop_attempt(dma_comm_t *comm, setup_t *s)
{
    for (int r = 0; s->peers && r < comm->nranks; r++) {
        if (s->peers[r].mapping) {
            dma_registry_put(s->peers[r].mapping);
        }
        s->peers[r] = (dma_peer_t){0};
    }
    if (s->block) {
        /* Nobody uses it: either no verdict of ours has gone out yet, or all know that there is no agreement. */
        atomic_store_explicit(&s->block->head.readers, 0, memory_order_relaxed);
        pthread_mutex_lock(&comm->proc->lock);
        dma_arena_retire(s->arena, s->block);
        pthread_mutex_unlock(&comm->proc->lock);
        s->block = NULL;
    }
    if (s->arena && s->attempt == 1) {
        dma_proc_retire_file(comm->proc, s->arena);
    }
    s->arena = NULL;
}

void dma_setup_drop(dma_comm_t *comm)
{
    setup_t *s = comm->setup;

    if (s) {
        drop_attempt(comm, s);
        dma_bootstrap_end(&s->exchange);
        free(s->peers);
        free(s->all);
        free(s->acks);
        free(s->stream);
        free(s->measured);
        free(s);
        comm->setup = NULL;
    }
}

void dma_setup_poison(dma_comm_t *comm, dma_status_t status)
{
    setup_t *s = comm->setup;

    if (s && s->judging && s->block) {
        /* Our verdict is out: some peers may be READY with this block. It stays theirs. */
        atomic_store_explicit(&s->block->head.poison, (int32_t)status, memory_order_relaxed);
        pthread_mutex_lock(&comm->proc->lock);
        dma_arena_retire(s->arena, s->block);
        pthread_mutex_unlock(&comm->proc->lock);
        s->block = NULL;
    }
}

/* One peer's hello: its block mapped, its memory tried. NULL or what failed. */
static const char *meet(dma_comm_t *comm, setup_t *s, int r, bool *cross)
{
    const hello_t *h = &s->all[r];
    dma_peer_t *peer = &s->peers[r];
    const char *why;

    if (h->protocol != PROTOCOL || h->first_seq != s->first_seq) {
        return "the ranks run different versions of this component";
    }
    if (!h->arena.nonce) {
        return h->why;
    }
    if (!dma_geom_valid(&h->geom) || h->block % DMA_ARENA_ALIGN) {
        return "a rank's shared memory is laid out in a way that cannot be";
    }
    if (dma_registry_get(&h->arena, &peer->mapping, &why) != DMA_OK) {
        return why;
    }
    if (h->block > peer->mapping->bytes ||
        dma_block_layout(&h->geom, comm->nranks).bytes > peer->mapping->bytes - h->block) {
        return "a rank's block is outside its shared memory";
    }
    peer->block = (dma_block_t *)(peer->mapping->base + h->block);
    if (r != comm->rank) {
        if (dma_cross_probe(peer->mapping->pid, h->probe_addr, h->probe)) {
            peer->pid = peer->mapping->pid;
        } else {
            *cross = false;
        }
    }
    return NULL;
}

/* Sixteenths: ranks per core that this communicator may use, and processes per core of the node. */
static uint32_t ranks_per_core(const dma_comm_t *comm, const setup_t *s)
{
    uint32_t cores = 0, procs = 0, online = UINT32_MAX, own, node;

    for (unsigned i = 0; i < CPU_SETSIZE / 64; i++) {
        uint64_t any = 0;

        for (int r = 0; r < comm->nranks; r++) {
            any |= s->all[r].cpus[i];
        }
        cores += (uint32_t)__builtin_popcountll(any);
    }
    for (int r = 0; r < comm->nranks; r++) {
        procs = s->all[r].local_procs > procs ? s->all[r].local_procs : procs;
        online = s->all[r].online < online ? s->all[r].online : online;
    }
    own = 16 * (uint32_t)comm->nranks / (cores ? cores : online); /* a machine with more CPUs than a set can name */
    node = 16 * procs / (online ? online : 1);
    own = own > node ? own : node;
    return own < 16 ? 16 : own > 1024 ? 1024 : own;
}

/* Memory that a rank has written for us to read, or NULL. */
static char *region_of(const dma_comm_t *comm, const setup_t *s, int rank)
{
    const hello_t *h = &s->all[rank];

    return h->region && h->region <= dma_block_layout(&h->geom, comm->nranks).bytes - DMA_MEASURE_BYTES
               ? (char *)s->peers[rank].block + h->region
               : NULL;
}

/* What it costs to have what the rank half the communicator away has written, and to write again what the rank as far away
 * in the other direction has read. */
static void measure(const dma_comm_t *comm, const setup_t *s, dma_measured_t *m)
{
    int half = comm->nranks / 2, far = (comm->rank + half) % comm->nranks;
    int reader = (comm->rank - half + comm->nranks) % comm->nranks;
    char *own, *theirs, *readers;

    if (!s->all[0].measure || far == comm->rank) {
        return;
    }
    own = region_of(comm, s, comm->rank);
    theirs = region_of(comm, s, far);
    readers = region_of(comm, s, reader);
    if (theirs) {
        *m = dma_measure_read(theirs, s->peers[far].pid, s->all[far].region_addr);
    }
    if (own && readers) {
        dma_measure_tell(own);
        m->push = s->per_core > 16 ? 0 : dma_measure_rewrite(own, readers);
    }
}

static dma_status_t begin_verdict(dma_comm_t *comm, setup_t *s)
{
    verdict_t v = {.mapped = 1};
    bool cross = true;

    for (int r = 0; r < comm->nranks; r++) {
        s->all[r] = *(const hello_t *)dma_bootstrap_record(&s->exchange, r);
        s->all[r].why[DMA_WHY_BYTES - 1] = s->all[r].arena.path[sizeof(s->all[r].arena.path) - 1] = '\0';
    }
    s->per_core = ranks_per_core(comm, s);
    for (int r = 0; r < comm->nranks && v.mapped; r++) {
        const char *why = meet(comm, s, r, &cross);

        if (why) {
            v.mapped = 0;
            snprintf(v.why, sizeof(v.why), "%s", why);
        }
    }
    v.cross = cross;
    if (v.mapped) {
        measure(comm, s, &v.measured);
    }
    s->judging = true;
    return exchange(comm, s, &v, sizeof(v));
}

static dma_geom_t agreed_geom(const dma_comm_t *comm, const setup_t *s)
{
    dma_geom_t g = s->all[0].geom;

    for (int r = 1; r < comm->nranks; r++) {
        const dma_geom_t *h = &s->all[r].geom;

        g.ring_depth = h->ring_depth < g.ring_depth ? h->ring_depth : g.ring_depth;
        g.slot_bytes = h->slot_bytes < g.slot_bytes ? h->slot_bytes : g.slot_bytes;
        g.chunk_bytes = h->chunk_bytes < g.chunk_bytes ? h->chunk_bytes : g.chunk_bytes;
        g.chunk_depth = h->chunk_depth < g.chunk_depth ? h->chunk_depth : g.chunk_depth;
        g.pair_bytes = h->pair_bytes < g.pair_bytes ? h->pair_bytes : g.pair_bytes;
        g.pair_depth = h->pair_depth < g.pair_depth ? h->pair_depth : g.pair_depth;
    }
    return g;
}

static void become_ready(dma_comm_t *comm, setup_t *s, bool cross)
{
    dma_window_t *w = &comm->window;
    uint32_t ack = (uint32_t)(s->mine.first_seq - 1), per_core = s->per_core;

    for (int r = 0; r < comm->nranks; r++) {
        s->acks[r] = ack;
    }
    *w = (dma_window_t){
        .rank = comm->rank,
        .nranks = comm->nranks,
        .geom = agreed_geom(comm, s),
        .own = s->block,
        .arena = s->arena,
        .peers = s->peers,
        .acks = s->acks,
        .ack = ack,
        .ack_published = ack,
        .ack_floor = ack,
    };
    w->layout = dma_block_layout(&w->geom, comm->nranks);
    if (s->attempt == 1) {
        comm->file_arena = s->arena;
        dma_arena_unlink(s->arena);
    }
    comm->profile = comm->wanted.ring_depth ? comm->parent->profile : s->all[0].profile;
    comm->oversubscribed = per_core > 16;
    if (dma_measure_adopt(&comm->profile, s->measured, comm->nranks, comm->oversubscribed) && comm->rank == 0) {
        const dma_profile_t *p = &comm->profile;

        dma_proc_report(
            comm->proc, DMA_REPORT_INFO, "measured",
            "ranks of %s, MB/s: copy %llu, pull %llu, push %llu, into slots %llu; cross memory %llu after %llu ns",
            comm->text, (unsigned long long)p->copy_mbps, (unsigned long long)p->pull_mbps,
            (unsigned long long)p->push_mbps, (unsigned long long)p->slot_mbps, (unsigned long long)p->cross_mbps,
            (unsigned long long)p->cross_ps / 1000);
    }
    comm->forced = s->all[0].forced;
    comm->gpu_profile = s->all[0].gpu_profile;
    comm->gpu_forced = s->all[0].gpu_forced;
    comm->gpu_queues = s->all[0].gpu_queues;
    comm->all_want_memory_route = true;
    for (int r = 0; r < comm->nranks; r++) {
        comm->all_want_memory_route = comm->all_want_memory_route && s->all[r].wants_memory_route;
    }
    comm->req = (dma_plan_req_t){
        .nranks = comm->nranks,
        .cross_memory = cross && s->all[0].cross_memory,
        .ranks_per_core_x16 = per_core,
        .geom = w->geom,
    };
    comm->req.head = dma_profile_head(&comm->profile, (uint64_t)w->geom.pair_bytes * (uint64_t)(comm->nranks - 1));
    comm->stream = s->stream;
    comm->pair_out = s->stream + comm->nranks;
    comm->pair_in = s->stream + 2 * comm->nranks;
    comm->state = DMA_COMM_READY;
    /* the window's now */
    s->peers = NULL;
    s->acks = NULL;
    s->stream = NULL;
    s->block = NULL;
    s->arena = NULL;
}

static dma_status_t judge(dma_comm_t *comm, setup_t *s)
{
    const char *why = NULL;
    bool cross = true;

    for (int r = 0; r < comm->nranks; r++) {
        verdict_t *v = dma_bootstrap_record(&s->exchange, r);

        v->why[sizeof(v->why) - 1] = '\0';
        if (!v->mapped && !why) {
            why = v->why;
        }
        cross = cross && v->cross;
        s->measured[r] = v->measured;
    }
    if (!why) {
        become_ready(comm, s, cross);
        return DMA_OK;
    }
    snprintf(comm->reason, sizeof(comm->reason), "%s", why);
    if (s->attempt == 0 && comm->rank == 0) {
        dma_proc_report(comm->proc, DMA_REPORT_WARN, "arena",
                        "no anonymous shared memory for %s (%s): a file in the session directory is tried", comm->text,
                        why);
    }
    drop_attempt(comm, s);
    if (++s->attempt < ATTEMPTS) {
        return begin_hello(comm, s);
    }
    dma_comm_step_aside(comm);
    return DMA_OK;
}

dma_status_t dma_setup_advance(dma_comm_t *comm)
{
    setup_t *s = comm->setup;

    while (comm->state == DMA_COMM_SETUP) {
        dma_status_t status = dma_bootstrap_advance(&s->exchange);

        if (status == DMA_OK) {
            status = s->judging ? judge(comm, s) : begin_verdict(comm, s);
        }
        if (status != DMA_OK) {
            return status;
        }
    }
    dma_setup_drop(comm);
    return DMA_OK;
}
