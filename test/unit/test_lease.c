/*
 * Memory that calls take and give back (device/lease.h).
 *
 * A model knows of each lease who has it and when it was last taken. Random sequences of calls, in some of which the runtime
 * fails, are compared with it. It asks: who gets what, is a larger one only made if nothing idle fits, who gives way, and is what
 * has been taken counted? Threads do the same at once, without the model. Each that has memory writes its mark there, so two that
 * have the same memory show.
 */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "libgpu_fake.h"
#include "liblease.h"
#include "libunit.h"

enum { ENTRIES = 64 };

/* ---- the model ---- */

/* A lease and what is known of it. `used` tells it from a later one at the same address. */
typedef struct entry {
    dma_lease_t *lease;
    dma_lease_kind_t kind;
    dma_lease_state_t state;
    int device, comm;
    uint64_t bytes, used;
    unsigned taken; /* a greater number: later */
    unsigned char mark;
} entry_t;

typedef struct model {
    entry_t at[ENTRIES];
    int n;
    unsigned seed, takes;
} model_t;

static unsigned draw(unsigned *seed, unsigned below)
{
    *seed = *seed * 1103515245 + 12345;
    return (*seed >> 8) % below;
}

static dma_budget_kind_t bound_of(dma_lease_kind_t kind)
{
    return kind == DMA_LEASE_DEVICE ? DMA_BUDGET_DEVICE : DMA_BUDGET_PINNED;
}

/* The fake runtime's device memory can be read by the processor. */
static unsigned char *bytes_of(const dma_lease_t *l)
{
    return (unsigned char *)(l->memory ? l->memory : (char *)(uintptr_t)l->addr);
}

static void write_mark(entry_t *e, unsigned char mark)
{
    e->mark = mark;
    memset(bytes_of(e->lease), mark, e->bytes);
}

static void check_mark(const entry_t *e)
{
    const unsigned char *at = bytes_of(e->lease);

    ck_assert_msg(at[0] == e->mark && !memcmp(at, at + 1, e->bytes - 1), "somebody else has written to the memory");
}

static bool is_there(const entry_t *e)
{
    for (const dma_lease_t *l = lease_proc.leases; l; l = l->next) {
        if (l == e->lease && l->used == e->used) {
            return true;
        }
    }
    return false;
}

static entry_t *any_in(model_t *m, dma_lease_state_t state)
{
    int skip = (int)draw(&m->seed, ENTRIES);

    for (int i = 0; i < m->n; i++) {
        entry_t *e = &m->at[(i + skip) % m->n];

        if (e->state == state) {
            return e;
        }
    }
    return NULL;
}

/* What is not idle stays. Bytes are counted, and not more than the bound. */
static void check_all(const model_t *m)
{
    uint64_t held[DMA_BUDGET_KINDS] = {0}, shared = 0;
    int n = 0;

    for (const dma_lease_t *l = lease_proc.leases; l; l = l->next) {
        held[bound_of(l->kind)] += l->bytes;
        shared += l->kind == DMA_LEASE_SHARED ? l->bytes : 0;
        n++;
    }
    ck_assert_int_eq(n, m->n);
    for (int i = 0; i < m->n; i++) {
        ck_assert_msg(is_there(&m->at[i]), "lease %d is gone", i);
        ck_assert_int_eq(m->at[i].lease->state, m->at[i].state);
    }
    for (int kind = 0; kind < DMA_BUDGET_KINDS; kind++) {
        ck_assert_uint_eq(lease_counted((dma_budget_kind_t)kind), held[kind]);
        ck_assert_uint_le(held[kind], lease_proc.budget.limit[kind]);
    }
    ck_assert_uint_eq(held[DMA_BUDGET_DEVICE], fake_gpu_given(0) + fake_gpu_given(1));
    ck_assert_uint_eq(held[DMA_BUDGET_PINNED], fake_gpu_pinned() + shared);
    ck_assert_uint_ge(dma_arena_used(lease_arena), shared);
}

static bool serves(const entry_t *e, const dma_lease_want_t *w)
{
    return e->state == DMA_LEASE_IDLE && e->kind == w->kind && e->device == w->device;
}

/* The smallest idle one of at least `bytes` bytes. */
static entry_t *best(model_t *m, const dma_lease_want_t *w, uint64_t bytes)
{
    entry_t *found = NULL;

    for (int i = 0; i < m->n; i++) {
        entry_t *e = &m->at[i];

        found = serves(e, w) && e->bytes >= bytes && (!found || e->bytes < found->bytes) ? e : found;
    }
    return found;
}

/* Bytes of a bound that calls do not have. */
static uint64_t free_for_calls(const model_t *m, dma_lease_kind_t kind)
{
    uint64_t bytes = lease_proc.budget.limit[bound_of(kind)];

    for (int i = 0; i < m->n; i++) {
        bytes -= bound_of(m->at[i].kind) == bound_of(kind) && m->at[i].state != DMA_LEASE_IDLE ? m->at[i].bytes : 0;
    }
    return bytes;
}

/* New memory of so many bytes was made, or was to be made: what would have served and is smaller went first, then the
 * least recently used, and no more than was needed. Forgets what is gone. */
static void note_gone(model_t *m, const dma_lease_want_t *w, bool made)
{
    uint64_t last = 0;
    unsigned newest_gone = 0, oldest = UINT_MAX;

    for (int i = 0; i < m->n; i++) {
        const entry_t *e = &m->at[i];
        bool gone = !is_there(e);

        ck_assert_msg(!gone || e->state == DMA_LEASE_IDLE, "a call's memory gave way");
        ck_assert_msg(!gone || bound_of(e->kind) == bound_of(w->kind), "memory of another bound gave way");
        if (serves(e, w)) {
            ck_assert_msg(gone, "memory that is too small stays beside what was made in its place");
        } else if (gone && e->taken > newest_gone) {
            newest_gone = e->taken;
            last = e->bytes;
        } else if (!gone && e->state == DMA_LEASE_IDLE && bound_of(e->kind) == bound_of(w->kind)) {
            oldest = e->taken < oldest ? e->taken : oldest;
        }
    }
    ck_assert_msg(newest_gone < oldest, "memory gave way that was used later than what stays");
    if (made) {
        ck_assert_msg(dma_budget_left(&lease_proc.budget, bound_of(w->kind)) < last || !last,
                      "more gave way than necessary");
    }
    for (int i = 0; i < m->n;) {
        if (is_there(&m->at[i])) {
            i++;
        } else {
            m->at[i] = m->at[--m->n];
        }
    }
}

/* ---- steps ---- */

static dma_lease_want_t any_want(model_t *m)
{
    uint64_t bytes = 1 + draw(&m->seed, 80) * KIB;
    dma_lease_kind_t kind = (dma_lease_kind_t)draw(&m->seed, 3);

    return (dma_lease_want_t){.kind = kind,
                              .arena = kind == DMA_LEASE_SHARED ? lease_arena : NULL,
                              .rt = lease_rt,
                              .device = (int)draw(&m->seed, LEASE_DEVICES),
                              .bytes = bytes,
                              .least = draw(&m->seed, 2) ? bytes : 1 + draw(&m->seed, 40) * KIB,
                              .streams = draw(&m->seed, DMA_LEASE_STREAMS + 1),
                              .events = draw(&m->seed, DMA_LEASE_EVENTS + 1),
                              .exact = draw(&m->seed, 2)};
}

static void keep_taken(model_t *m, dma_lease_t *l, const dma_lease_want_t *w, int comm)
{
    entry_t *e = &m->at[m->n++];

    ck_assert(l->kind == w->kind && l->device == w->device && l->streams >= w->streams && l->events >= w->events);
    *e = (entry_t){.lease = l,
                   .kind = l->kind,
                   .state = DMA_LEASE_TAKEN,
                   .device = l->device,
                   .comm = comm,
                   .bytes = l->bytes,
                   .used = l->used,
                   .taken = ++m->takes};
    write_mark(e, (unsigned char)m->takes);
}

/* It is taken again. */
static void forget(model_t *m, const dma_lease_t *l)
{
    int i = 0;

    while (i < m->n && m->at[i].lease != l) {
        i++;
    }
    ck_assert_msg(i < m->n && m->at[i].state == DMA_LEASE_IDLE, "a call gets what is not idle");
    m->at[i] = m->at[--m->n];
}

static _Atomic unsigned blocks; /* of the arena */

void *__real_dma_arena_alloc(dma_arena_t *arena, size_t bytes, size_t zeroed, uint32_t readers);
void *__wrap_dma_arena_alloc(dma_arena_t *arena, size_t bytes, size_t zeroed, uint32_t readers);

void *__wrap_dma_arena_alloc(dma_arena_t *arena, size_t bytes, size_t zeroed, uint32_t readers)
{
    blocks++;
    return __real_dma_arena_alloc(arena, bytes, zeroed, readers);
}

static unsigned made_so_far(void)
{
    return fake_gpu_calls("alloc") + fake_gpu_calls("host_register") + blocks;
}

static void take_any(model_t *m, const char *failing)
{
    int comm = (int)draw(&m->seed, LEASE_COMMS);
    dma_lease_want_t w = any_want(m);
    uint64_t least = w.least < w.bytes ? w.least : w.bytes, most = free_for_calls(m, w.kind);
    entry_t *idle;
    unsigned made = made_so_far();
    dma_lease_t *l = NULL;
    dma_status_t status;

    if (m->n == ENTRIES) {
        return;
    }
    if (w.kind != DMA_LEASE_DEVICE) {
        least = (least + 4095) / 4096 * 4096;
    }
    idle = best(m, &w, w.kind == DMA_LEASE_SHARED ? least : w.bytes);
    w.comm = &lease_comms[comm];
    status = dma_lease_take(&lease_proc, &w, &l);
    made = made_so_far() - made;
    if (idle) {
        ck_assert_msg(!made, "memory is made although some is idle");
        ck_assert(status == DMA_OK || failing);
        if (status == DMA_OK) {
            ck_assert_uint_eq(l->bytes, idle->bytes);
            forget(m, l);
            keep_taken(m, l, &w, comm);
        }
        return;
    }
    if (status != DMA_OK) {
        ck_assert_msg(failing || least > most, "%lu bytes of %lu: %s", least, most, dma_status_name(status));
        if (made) {
            note_gone(m, &w, false);
        }
        return;
    }
    ck_assert_msg(l->bytes >= least, "%lu bytes, less than %lu", l->bytes, least);
    ck_assert_msg(l->bytes >= w.bytes || w.bytes > most || failing, "%lu bytes of %lu, for %lu", l->bytes, most,
                  w.bytes);
    ck_assert_msg(l->bytes <= w.bytes || !w.exact || !made || w.kind != DMA_LEASE_DEVICE, "more than wanted");
    if (made) {
        note_gone(m, &w, !failing);
    } else {
        forget(m, l);
    }
    keep_taken(m, l, &w, comm);
}

/* A step that frees idle memory of a device. */
static void trim_any(model_t *m)
{
    int device = (int)draw(&m->seed, LEASE_DEVICES);

    lease_trim(device);
    for (int i = 0; i < m->n;) {
        entry_t *e = &m->at[i];

        if (e->state == DMA_LEASE_IDLE && e->device == device) {
            ck_assert_msg(!is_there(e), "idle memory stays when its device has no communicator");
            *e = m->at[--m->n];
        } else {
            i++;
        }
    }
}

static void leave_any(model_t *m)
{
    int comm = (int)draw(&m->seed, LEASE_COMMS);
    bool permanent = draw(&m->seed, 4) == 0;

    dma_lease_leave(&lease_comms[comm], permanent);
    for (int i = 0; i < m->n;) {
        entry_t *e = &m->at[i];

        if (e->state != DMA_LEASE_LOST || e->comm != comm) {
            i++;
        } else if (permanent) {
            e->comm = -1;
        } else {
            ck_assert_msg(!is_there(e), "what the communicator has lost stays behind it");
            *e = m->at[--m->n];
        }
    }
}

/* A call ends, or fails with copies that do not end. */
static void end_any(model_t *m, bool late)
{
    entry_t *e = any_in(m, DMA_LEASE_TAKEN);
    dma_gpu_scope_t scope;
    uint64_t at;

    if (!e) {
        return;
    }
    check_mark(e);
    at = (uint64_t)(uintptr_t)bytes_of(e->lease);
    if (late && e->lease->streams) {
        fake_gpu_hold(e->device, true);
        ck_assert_int_eq(lease_rt->enter(e->device, &scope), DMA_OK);
        ck_assert_int_eq(lease_rt->copy_async(e->lease->stream[0], at, at, 1), DMA_OK);
        lease_rt->leave(&scope);
        e->lease->copies = true;
        e->state = DMA_LEASE_LATE;
        dma_lease_give_back(&lease_proc, e->lease);
        fake_gpu_hold(e->device, false);
        lease_wait(e->lease);
    } else if (draw(&m->seed, 6) == 0) {
        e->state = DMA_LEASE_LOST;
        dma_lease_lose(&lease_proc, e->lease);
    } else {
        e->state = DMA_LEASE_IDLE;
        dma_lease_give_back(&lease_proc, e->lease);
    }
}

static void step(model_t *m)
{
    static const char *const failing[] = {"alloc", "host_register", "stream_create", "event_create"};
    unsigned what = draw(&m->seed, 100);

    if (what < 40) {
        take_any(m, NULL);
    } else if (what < 50) {
        const char *name = failing[draw(&m->seed, 4)];

        fake_gpu_fail(name, draw(&m->seed, 2), draw(&m->seed, 2) ? DMA_ERR_NOMEM : DMA_ERR_ENGINE);
        take_any(m, name);
        fake_gpu_fail_often(name, 0, 0, DMA_OK);
    } else if (what < 90) {
        end_any(m, draw(&m->seed, 60) == 0);
    } else if (what < 95) {
        leave_any(m);
    } else {
        trim_any(m);
    }
}

/* What peers may use for ever is left to the end of the process. Here, the test frees it. */
static void free_lost(void)
{
    for (dma_lease_t *l = lease_proc.leases; l; l = l->next) {
        l->state = l->state == DMA_LEASE_LOST ? DMA_LEASE_IDLE : l->state;
    }
}

START_TEST(any_sequence)
{
    model_t m = {.seed = (unsigned)unit_seed() + (unsigned)_i * 7919};

    lease_begin(300 * KIB, 256 * KIB);
    for (int i = 0; i < 600; i++) {
        step(&m);
        check_all(&m);
    }
    for (int i = 0; i < m.n; i++) {
        if (m.at[i].state == DMA_LEASE_TAKEN) {
            dma_lease_give_back(&lease_proc, m.at[i].lease);
        }
    }
    free_lost();
    lease_end();
    ck_assert_uint_eq(lease_counters.at[DMA_COUNT_scratch_held] + lease_counters.at[DMA_COUNT_pinned_held], 0);
    ck_assert_uint_le(lease_counters.at[DMA_COUNT_pinned_most], 256 * KIB);
}
END_TEST

/* ---- threads ---- */

enum { THREADS = 4, TURNS = 300 };

static void *use(void *arg)
{
    unsigned seed = *(unsigned *)arg;
    unsigned char mark = (unsigned char)(seed % 251);

    for (int i = 0; i < TURNS; i++) {
        model_t one = {.seed = seed};
        dma_lease_want_t w = any_want(&one);
        entry_t e = {0};

        seed = one.seed;
        if (dma_lease_take(&lease_proc, &w, &e.lease) != DMA_OK) {
            continue;
        }
        e.bytes = e.lease->bytes;
        write_mark(&e, mark);
        check_mark(&e);
        if (draw(&seed, 20) == 0) {
            lease_trim((int)draw(&seed, LEASE_DEVICES));
        }
        dma_lease_give_back(&lease_proc, e.lease);
    }
    return NULL;
}

START_TEST(threads)
{
    unsigned seeds[THREADS];
    pthread_t ids[THREADS];

    lease_begin(300 * KIB, 256 * KIB);
    for (int i = 0; i < THREADS; i++) {
        seeds[i] = (unsigned)unit_seed() + (unsigned)i;
        ck_assert_int_eq(pthread_create(&ids[i], NULL, use, &seeds[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(ids[i], NULL);
    }
    lease_end();
    ck_assert_uint_eq(lease_counters.at[DMA_COUNT_scratch_held] + lease_counters.at[DMA_COUNT_pinned_held], 0);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("lease");

    unit_loop(s, any_sequence, 0, 40 / UNIT_SHARE, 30);
    unit_test(s, threads, 30);
    return unit_main(s);
}
