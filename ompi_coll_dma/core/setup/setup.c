/*
 * The set-up of a communicator of one node: a state machine over the messages of the host services. It never waits.
 *
 *     INFO      all ranks exchange where their block of shared memory is, and rank 0's parameters
 *     map       each rank maps the arenas of its peers, tries to read their private memory, and measures what copies cost
 *     RESULT    all ranks exchange whether that worked, and what they have measured; not if a rank has no block, nor if all ranks know
 *               it from an earlier communicator of the same processes (known.h)
 *
 * Attempt 0 takes the block from the process's memfd arena, attempt 1 from a file of its own. If all ranks have mapped
 * all blocks, the communicator is READY. Else the next attempt begins. After the last one the communicator is ASIDE. If a rank has
 * reached its limit, there is no attempt 1, because files count towards it, too.
 *
 * A rank decides only from records that all ranks have: results are combined with "and", sizes with "min", and
 * parameters that influence choices are those of rank 0. So all ranks decide alike.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/comm.h"
#include "core/setup/block.h"
#include "core/setup/bootstrap.h"
#include "core/setup/choices.h"
#include "core/setup/cores.h"
#include "core/setup/geometry.h"
#include "core/setup/measure.h"
#include "node/cross.h"

#define PROTOCOL 18 /* version of the records and of the window */
#define ATTEMPTS 2

/* What a rank publishes in INFO. */
typedef struct info {
    uint32_t protocol;
    dma_arena_id_t arena; /* nonce 0: this rank has no block */
    dma_why_t why;        /* then: the reason */
    uint64_t block;       /* offset of the block in the arena */
    dma_geom_t geom;      /* the block has room for it */
    uint64_t probe_addr;  /* where this rank has a random number in private memory */
    uint64_t probe;       /* the number: a peer that reads it there can read this rank's memory */
    uint64_t first_seq;
    uint64_t region, region_addr; /* for measurements (measure.h): offset in the block, 0: none; address on this rank */
    dma_choices_t choices;        /* of rank 0 only */
    uint32_t first_epoch;         /* of rank 0 only: see dma_comm_t */
    uint32_t wants_memory_route;  /* a channel: dma_memory_t.serves of this rank */
    dma_cores_t cores;
    uint64_t known[DMA_KNOWN]; /* numbers of what this rank remembers */
} info_t;

/* What a rank publishes in RESULT. */
typedef struct result {
    int32_t mapped; /* all blocks are mapped; else `why` says why not */
    int32_t cross;  /* the private memory of all peers can be read */
    dma_measured_t measured;
    dma_why_t why;
} result_t;

/* Records have a fixed size, so that ranks with different versions of this component can exchange them. */
#define RECORD_BYTES 1024

_Static_assert(sizeof(info_t) <= RECORD_BYTES && sizeof(result_t) <= RECORD_BYTES, "records fit");

typedef struct dma_setup {
    int attempt;
    bool exchanging_results; /* the exchange under way is RESULT, else INFO; peers may be READY, or soon be */
    dma_bootstrap_t exchange;
    info_t mine;
    info_t *all;       /* by rank, while results */
    uint32_t per_core; /* ranks per core, in sixteenths */
    dma_arena_t *arena;
    dma_block_t *block;
    dma_peer_t *peers;
    uint32_t *acks;
    uint64_t *stream;
    dma_measured_t *measured; /* by rank */
    dma_known_t known[DMA_KNOWN];
    uint64_t probe;
    uint64_t first_seq; /* of the first call; calls may be posted during the set-up */
} setup_t;

/* ---- INFO ---- */

/* Offers memory for measurements: that of the chunks and pair buffers, which no call uses yet. */
static void offer_measure_region(const dma_comm_t *comm, setup_t *s)
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

/* Takes a block from the arena of this attempt. If there is none, INFO says so to all ranks. */
static void allocate_block(dma_comm_t *comm, setup_t *s, dma_why_t *why)
{
    dma_geom_t geom = dma_setup_geometry(comm);
    dma_status_t status;

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
    s->block = dma_setup_take_block(comm, s->arena, &geom, s->first_seq);
    if (!s->block) {
        *why = dma_why(DMA_REASON_arena_limit, NULL);
        return;
    }
    s->mine.geom = geom;
    offer_measure_region(comm, s);
    s->mine.block = (uint64_t)((char *)s->block - dma_arena_base(s->arena));
    dma_arena_identify(s->arena, &s->mine.arena);
}

static void report_wrong(void *arg, const char *topic, const char *text)
{
    dma_comm_t *comm = arg;

    dma_proc_report(comm->proc, DMA_REPORT_WARN, topic, "%s", text);
}

static dma_status_t exchange(dma_comm_t *comm, setup_t *s, const void *record, size_t bytes)
{
    char padded[RECORD_BYTES] = {0};

    memcpy(padded, record, bytes);
    if (s->exchange.records) { /* needs no memory: from the first message on, this rank must not fail alone */
        dma_bootstrap_restart(&s->exchange, padded, sizeof(padded));
        return DMA_OK;
    }
    return dma_bootstrap_begin(&s->exchange, comm->host, comm->handle, comm->rank, comm->nranks, padded,
                               sizeof(padded));
}

/* What this rank knows now: until INFO has come, another set-up may make it forget. */
static void remember(const dma_comm_t *comm, setup_t *s)
{
    pthread_mutex_lock(&comm->proc->lock);
    memcpy(s->known, comm->proc->known, sizeof(s->known));
    pthread_mutex_unlock(&comm->proc->lock);
    for (int i = 0; i < DMA_KNOWN; i++) {
        s->mine.known[i] = s->known[i].number;
    }
}

static dma_status_t begin_attempt(dma_comm_t *comm, setup_t *s)
{
    s->exchanging_results = false;
    s->probe = dma_random64();
    s->mine = (info_t){.protocol = PROTOCOL,
                       .first_seq = s->first_seq,
                       .probe = s->probe,
                       .probe_addr = (uint64_t)(uintptr_t)&s->probe,
                       .wants_memory_route = comm->wants_memory_route};
    allocate_block(comm, s, &s->mine.why);
    if (s->attempt == 0) {
        remember(comm, s);
    }
    dma_cores_count(&s->mine.cores, &comm->proc->params);
    if (comm->rank == 0) {
        s->mine.first_epoch = dma_random_epoch();
        dma_choices_make(&s->mine.choices, &comm->proc->params, report_wrong, comm);
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
    /* Allocate all that READY needs now: from the first message on, this rank must not fail alone. */
    s->acks = calloc((size_t)comm->nranks, sizeof(*s->acks));
    s->stream = calloc(3 * (size_t)comm->nranks, sizeof(*s->stream));
    s->first_seq = comm->seq + 1;
    comm->setup = s;
    s->measured = calloc((size_t)comm->nranks, sizeof(*s->measured));
    status = s->peers && s->all && s->acks && s->stream && s->measured ? begin_attempt(comm, s) : DMA_ERR_NOMEM;
    if (status != DMA_OK) {
        dma_setup_drop(comm);
        return status;
    }
    comm->state = DMA_COMM_SETUP;
    return DMA_OK;
}

/* Gives back the mappings, the block and the file of this attempt. */
static void drop_attempt(dma_comm_t *comm, setup_t *s)
{
    for (int r = 0; s->peers && r < comm->nranks; r++) {
        if (s->peers[r].mapping) {
            dma_registry_put(s->peers[r].mapping);
        }
        s->peers[r] = (dma_peer_t){0};
    }
    if (s->block) {
        /* No rank uses the block: either RESULT has not begun here, or all ranks know that this attempt has failed. */
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

void dma_setup_cancel(dma_comm_t *comm)
{
    dma_bootstrap_cancel(&comm->setup->exchange);
    dma_setup_drop(comm);
}

void dma_setup_poison(dma_comm_t *comm, dma_status_t status)
{
    setup_t *s = comm->setup;

    if (s && s->exchanging_results && s->block) {
        /* RESULT has begun: some peers may be READY and use this block, so it is not freed before they leave it. */
        atomic_store_explicit(&s->block->head.poison, (int32_t)status, memory_order_relaxed);
        pthread_mutex_lock(&comm->proc->lock);
        dma_arena_retire(s->arena, s->block);
        pthread_mutex_unlock(&comm->proc->lock);
        s->block = NULL;
    }
}

/* ---- map ---- */

/* Can the private memory of this peer be read? */
static bool may_cross(const dma_peer_t *peer, const info_t *h, const dma_known_t *known)
{
    return known ? known->cross : dma_cross_probe(peer->mapping->pid, h->probe_addr, h->probe);
}

/* Maps the block of rank r, and finds out whether its private memory can be read. Returns why it cannot be mapped. */
static dma_why_t map_peer(dma_comm_t *comm, setup_t *s, int r, const dma_known_t *known, bool *cross)
{
    const info_t *h = &s->all[r];
    dma_peer_t *peer = &s->peers[r];
    dma_reason_t why;

    if (h->protocol != PROTOCOL || h->first_seq != s->first_seq) {
        return dma_why(DMA_REASON_versions_differ, NULL);
    }
    if (!h->arena.nonce) {
        return h->why;
    }
    if (!dma_geom_valid(&h->geom) || h->block % DMA_ARENA_ALIGN) {
        return dma_why(DMA_REASON_versions_differ, "a rank's shared memory is laid out in a way that cannot be");
    }
    if (dma_registry_get(&h->arena, &peer->mapping, &why) != DMA_OK) {
        return dma_why(why, NULL);
    }
    if (h->block > peer->mapping->bytes ||
        dma_block_layout(&h->geom, comm->nranks).bytes > peer->mapping->bytes - h->block) {
        return dma_why(DMA_REASON_versions_differ, "a rank's block is outside its shared memory");
    }
    peer->block = (dma_block_t *)(peer->mapping->base + h->block);
    if (r != comm->rank) {
        if (may_cross(peer, h, known)) {
            peer->pid = peer->mapping->pid;
        } else {
            *cross = false;
        }
    }
    return dma_why(DMA_REASON_NONE, NULL);
}

/* The memory that a rank has offered for measurements, or NULL. */
static char *measure_region(const dma_comm_t *comm, const setup_t *s, int rank)
{
    const info_t *h = &s->all[rank];

    return h->region && h->region <= dma_block_layout(&h->geom, comm->nranks).bytes - DMA_MEASURE_BYTES
               ? (char *)s->peers[rank].block + h->region
               : NULL;
}

/* Measures what it costs to read what the rank half the communicator away has written, and to write again what the rank
 * at the same distance in the other direction has read. */
static void measure(const dma_comm_t *comm, const setup_t *s, dma_measured_t *m)
{
    int half = comm->nranks / 2, far = (comm->rank + half) % comm->nranks;
    int reader = (comm->rank - half + comm->nranks) % comm->nranks;
    char *own, *theirs, *readers;

    if (!s->all[0].choices.measure || far == comm->rank) {
        return;
    }
    own = measure_region(comm, s, comm->rank);
    theirs = measure_region(comm, s, far);
    readers = measure_region(comm, s, reader);
    if (theirs) {
        *m = dma_measure_read(theirs, s->peers[far].pid, s->all[far].region_addr);
    }
    if (own && readers) {
        dma_measure_set_read(own);
        m->push = s->per_core > DMA_WHOLE_CORE ? 0 : dma_measure_rewrite(own, readers);
    }
}

/* What another rank has published, whatever it is. */
static dma_why_t valid_why(const dma_why_t *published)
{
    dma_why_t why = *published;

    why.text[sizeof(why.text) - 1] = '\0';
    why.reason = (unsigned)why.reason < DMA_REASON_COUNT ? why.reason : DMA_REASON_versions_differ;
    return why;
}

/* ---- RESULT ---- */

static dma_geom_t agreed_geom(const dma_comm_t *comm, const setup_t *s)
{
    dma_geom_t g = s->all[0].geom;

    for (int r = 1; r < comm->nranks; r++) {
        dma_geom_lessen(&g, &s->all[r].geom);
    }
    return g;
}

/* The window takes the block, the mappings and the arrays of the set-up over. */
static void init_window(dma_comm_t *comm, setup_t *s)
{
    dma_geom_t geom = agreed_geom(comm, s);

    dma_setup_init_window(comm, s->arena, s->block, s->peers, s->acks, s->stream, &geom);
    if (s->attempt == 1) {
        comm->file_arena = s->arena;
        dma_arena_unlink(s->arena);
    }
    s->peers = NULL;
    s->acks = NULL;
    s->stream = NULL;
    s->block = NULL;
    s->arena = NULL;
}

/* The constants of the cost model: those of rank 0, or of a channel's parent, except for what has been measured. */
static void init_profile(dma_comm_t *comm, const setup_t *s, const dma_measured_t *mean)
{
    const dma_profile_t *p = &comm->profile;

    if (comm->wanted.ring_depth) {
        comm->profile = comm->parent->profile;
        return;
    }
    comm->profile = s->all[0].choices.profile;
    if (!dma_measure_apply(&comm->profile, mean, comm->oversubscribed) || comm->rank != 0) {
        return;
    }
    dma_proc_report(
        comm->proc, DMA_REPORT_INFO, "measured",
        "ranks of %s, MB/s: copy %llu, pull %llu, push %llu, into slots %llu; cross memory %llu after %llu ns",
        comm->text, (unsigned long long)p->copy_mbps, (unsigned long long)p->pull_mbps,
        (unsigned long long)p->push_mbps, (unsigned long long)p->slot_mbps, (unsigned long long)p->cross_mbps,
        (unsigned long long)p->cross_ps / 1000);
}

/* What rank 0, or all ranks together, have decided about the choice of variants. */
static void init_choices(dma_comm_t *comm, const setup_t *s, bool cross)
{
    const dma_choices_t *rank0 = &s->all[0].choices;

    comm->forced = rank0->forced;
    comm->gpu_profile = rank0->gpu_profile;
    comm->gpu_forced = rank0->gpu_forced;
    comm->gpu_queues = rank0->gpu_queues;
    comm->first_epoch = s->all[0].first_epoch;
    comm->all_want_memory_route = true;
    for (int r = 0; r < comm->nranks; r++) {
        comm->all_want_memory_route = comm->all_want_memory_route && s->all[r].wants_memory_route;
    }
    comm->req = dma_choices_request(rank0, &comm->profile, comm->nranks, cross, s->per_core, &comm->window.geom);
}

static void set_ready(dma_comm_t *comm, setup_t *s, const dma_known_t *found)
{
    comm->oversubscribed = s->per_core > DMA_WHOLE_CORE;
    comm->identity = s->all[0].arena.nonce + s->all[0].block;
    init_window(comm, s);
    init_profile(comm, s, &found->measured);
    init_choices(comm, s, found->cross);
    comm->state = DMA_COMM_READY;
}

/* The attempt has failed on all ranks: the next one, or ASIDE. A file counts towards the same limit as the arena. */
static dma_status_t fail_attempt(dma_comm_t *comm, setup_t *s, const dma_why_t *why)
{
    bool next = s->attempt + 1 < ATTEMPTS && why->reason != DMA_REASON_arena_limit;

    snprintf(comm->reason, sizeof(comm->reason), "%s", why->text);
    dma_comm_count_reason(comm, why->reason);
    if (next && comm->rank == 0) {
        dma_proc_report(comm->proc, DMA_REPORT_WARN, "arena",
                        "no anonymous shared memory for %s (%s): a file in the session directory is tried", comm->text,
                        why->text);
    }
    drop_attempt(comm, s);
    if (next) {
        s->attempt++;
        return begin_attempt(comm, s);
    }
    dma_comm_step_aside(comm);
    return DMA_OK;
}

/* The ranks in this order. */
static uint64_t group_of(const dma_comm_t *comm, const setup_t *s)
{
    uint64_t group = DMA_KNOWN_NOBODY;

    for (int r = 0; r < comm->nranks; r++) {
        group = dma_known_group(group, s->all[r].arena.nonce);
    }
    return group;
}

static bool lists(const info_t *info, uint64_t number)
{
    bool found = false;

    for (int i = 0; i < DMA_KNOWN; i++) {
        found = found || info->known[i] == number;
    }
    return found;
}

/* What all ranks remember alike about this group of ranks; NULL: nothing. */
static const dma_known_t *known_to_all(const dma_comm_t *comm, setup_t *s)
{
    const dma_known_t *known = dma_known_find(s->known, group_of(comm, s));

    for (int r = 0; r < comm->nranks && known; r++) {
        const info_t *h = &s->all[r];

        if (h->protocol != PROTOCOL || h->first_seq != s->all[0].first_seq || !lists(h, known->number)) {
            known = NULL;
        }
    }
    return known;
}

static void keep(dma_proc_t *proc, const dma_known_t *found)
{
    pthread_mutex_lock(&proc->lock);
    dma_known_keep(proc->known, found);
    pthread_mutex_unlock(&proc->lock);
}

/* All results are here: READY, the next attempt, or ASIDE. */
static dma_status_t end_attempt(dma_comm_t *comm, setup_t *s)
{
    dma_why_t why = dma_why(DMA_REASON_NONE, NULL);
    dma_known_t found = {.group = group_of(comm, s), .cross = true};

    for (int r = 0; r < comm->nranks; r++) {
        const result_t *v = dma_bootstrap_record(&s->exchange, r);

        if (!v->mapped && !why.reason) {
            why = valid_why(&v->why);
        }
        found.cross = found.cross && v->cross;
        s->measured[r] = v->measured;
    }
    if (why.reason) {
        return fail_attempt(comm, s, &why);
    }
    found.measured = dma_measure_mean(s->measured, comm->nranks);
    if (s->attempt == 0 &&
        !comm->wanted.ring_depth) { /* a file is for one communicator, and a channel measures nothing */
        keep(comm->proc, &found);
    }
    set_ready(comm, s, &found);
    return DMA_OK;
}

/* Why some rank has no block, if all ranks know that already; otherwise NULL. A rank with another version may not know that
 * nothing comes after INFO then. */
static const dma_why_t *missing_block(const dma_comm_t *comm, const setup_t *s)
{
    const dma_why_t *why = NULL;

    for (int r = 0; r < comm->nranks; r++) {
        if (s->all[r].protocol != PROTOCOL) {
            return NULL;
        }
        if (!why && !s->all[r].arena.nonce) {
            why = &s->all[r].why;
        }
    }
    return why;
}

/* Does this rank map all peers? *v says so, too. */
static bool map_peers(dma_comm_t *comm, setup_t *s, const dma_known_t *known, result_t *v)
{
    bool cross = true;

    for (int r = 0; r < comm->nranks && v->mapped; r++) {
        v->why = map_peer(comm, s, r, known, &cross);
        v->mapped = !v->why.reason;
    }
    v->cross = cross;
    if (!cross && s->all[0].choices.cross_memory) {
        dma_comm_note_reason(comm, DMA_REASON_cross_refused);
    }
    return v->mapped;
}

/* No rank waits for another one, and some may be READY. All arenas have been mapped for the earlier communicator. */
static dma_status_t end_known(dma_comm_t *comm, setup_t *s, const dma_known_t *known)
{
    result_t v = {.mapped = 1};

    s->exchanging_results = true;
    if (!map_peers(comm, s, known, &v)) {
        return DMA_ERR_NOMEM;
    }
    set_ready(comm, s, known);
    return DMA_OK;
}

/* All INFO records are here: maps the peers, measures, and begins RESULT, unless a rank has no block, or all ranks know the result. */
static dma_status_t begin_results(dma_comm_t *comm, setup_t *s)
{
    result_t v = {.mapped = 1};
    const dma_known_t *known;
    const dma_why_t *missing;

    for (int r = 0; r < comm->nranks; r++) {
        s->all[r] = *(const info_t *)dma_bootstrap_record(&s->exchange, r);
        s->all[r].why = valid_why(&s->all[r].why);
        s->all[r].arena.path[sizeof(s->all[r].arena.path) - 1] = '\0';
    }
    if ((missing = missing_block(comm, s))) {
        return fail_attempt(comm, s, missing);
    }
    s->per_core = dma_cores_ranks_per_core(&s->all[0].cores, sizeof(s->all[0]), comm->nranks);
    if ((known = known_to_all(comm, s))) {
        return end_known(comm, s, known);
    }
    if (map_peers(comm, s, NULL, &v)) {
        measure(comm, s, &v.measured);
    }
    s->exchanging_results = true;
    return exchange(comm, s, &v, sizeof(v));
}

/* ---- the state machine ---- */

dma_status_t dma_setup_advance(dma_comm_t *comm)
{
    setup_t *s = comm->setup;

    while (comm->state == DMA_COMM_SETUP) {
        dma_status_t status = dma_bootstrap_advance(&s->exchange);

        if (status == DMA_OK) {
            status = s->exchanging_results ? end_attempt(comm, s) : begin_results(comm, s);
        }
        if (status != DMA_OK) {
            return status;
        }
    }
    dma_setup_drop(comm);
    return DMA_OK;
}

dma_wait_t dma_setup_waits_for(const dma_comm_t *comm, const char **phase)
{
    *phase = comm->setup->exchanging_results ? "results" : "addresses";
    return dma_bootstrap_waits_for(&comm->setup->exchange);
}
