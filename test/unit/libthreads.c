/* Ranks as threads: see libthreads.h. */
#include "libthreads.h"

#include <errno.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "dma/clock.h"
#include "libunit.h"

/* ---- messages ---- */

typedef struct message {
    struct message *next;
    bool send, done, eager;
    double due; /* not received yet */
    const void *from;
    void *to;
    size_t bytes;
    int tag;
    char *data; /* eager: a copy */
    group_t *group;
    int src, dst;
} message_t;

struct group {
    int n;
    int *sent; /* by rank: messages */
    uint64_t rng;
    unsigned delay_us;
    member_t *members;
    pthread_mutex_t lock;
    message_t **sends, **recvs; /* per pair, in order */
    bool *failing;
};

static uint32_t draw(uint64_t *rng, uint32_t below)
{
    uint64_t x = *rng += 0x9e3779b97f4a7c15ull;

    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    x ^= x >> 31;
    return below ? (uint32_t)((x >> 32) * below >> 32) : 0;
}

group_t *group_create(int n, uint64_t seed, unsigned delay_us)
{
    group_t *g = calloc(1, sizeof(*g));
    size_t pairs = (size_t)n * (size_t)n;

    *g = (group_t){.n = n, .rng = seed, .delay_us = delay_us};
    pthread_mutex_init(&g->lock, NULL);
    g->members = calloc((size_t)n, sizeof(*g->members));
    g->failing = calloc((size_t)n, sizeof(*g->failing));
    g->sent = calloc((size_t)n, sizeof(*g->sent));
    g->sends = calloc(pairs, sizeof(*g->sends));
    g->recvs = calloc(pairs, sizeof(*g->recvs));
    for (int r = 0; r < n; r++) {
        g->members[r] = (member_t){.group = g, .rank = r};
    }
    return g;
}

static void drop_messages(message_t **lists, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        while (lists[i]) {
            message_t *m = lists[i];
            lists[i] = m->next;
            free(m->data);
            free(m);
        }
    }
    free(lists);
}

void group_destroy(group_t *g)
{
    size_t pairs = (size_t)g->n * (size_t)g->n;

    free(g->sent);
    drop_messages(g->sends, pairs);
    drop_messages(g->recvs, pairs);
    pthread_mutex_destroy(&g->lock);
    free(g->members);
    free(g->failing);
    free(g);
}

member_t *group_handle(group_t *g, int rank)
{
    return &g->members[rank];
}

void group_fail_sends(group_t *g, int rank)
{
    pthread_mutex_lock(&g->lock);
    g->failing[rank] = true;
    pthread_mutex_unlock(&g->lock);
}

static void append(message_t **list, message_t *m)
{
    while (*list) {
        list = &(*list)->next;
    }
    *list = m;
}

static dma_status_t post(member_t *me, int peer, message_t m, void **req)
{
    group_t *g = me->group;
    message_t *p = malloc(sizeof(*p));
    dma_status_t status = DMA_OK;
    size_t pair;

    pthread_mutex_lock(&g->lock);
    m.group = g;
    m.src = m.send ? me->rank : peer;
    m.dst = m.send ? peer : me->rank;
    pair = (size_t)m.src * (size_t)g->n + (size_t)m.dst;
    g->sent[me->rank] += m.send;
    if (m.send && !m.tag && g->failing[me->rank]) {
        status = DMA_ERR_NET;
        free(p);
    } else {
        if (m.send) {
            m.due = dma_now() + 1e-6 * draw(&g->rng, g->delay_us + 1);
            m.eager = draw(&g->rng, 2);
        }
        if (m.send && m.eager) {
            m.data = malloc(m.bytes + 1);
            memcpy(m.data, m.from, m.bytes);
            m.from = m.data;
        }
        *p = m;
        append(m.send ? &g->sends[pair] : &g->recvs[pair], p);
        *req = p;
    }
    pthread_mutex_unlock(&g->lock);
    return status;
}

static dma_status_t thread_isend(void *comm, const void *buf, size_t bytes, int peer, int tag, void **req)
{
    return post(comm, peer, (message_t){.send = true, .from = buf, .bytes = bytes, .tag = tag}, req);
}

static dma_status_t thread_irecv(void *comm, void *buf, size_t bytes, int peer, int tag, void **req)
{
    return post(comm, peer, (message_t){.to = buf, .bytes = bytes, .tag = tag}, req);
}

/* Delivers the due messages of one pair. An eager send has no owner once its sender has forgotten it. */
static void deliver(group_t *g, int src, int dst)
{
    size_t pair = (size_t)src * (size_t)g->n + (size_t)dst;
    message_t **s_link = &g->sends[pair], **r_link, *s, *r;

    while ((s = *s_link) && s->due <= dma_now()) {
        for (r_link = &g->recvs[pair]; (r = *r_link) && r->tag != s->tag;) {
            r_link = &r->next;
        }
        if (!r) {
            s_link = &s->next;
            continue;
        }
        if (s->bytes != r->bytes) {
            must_fail(__FILE__, __LINE__, dst, "a message of %zu bytes for a receive of %zu", s->bytes, r->bytes);
        }
        memcpy(r->to, s->from, s->bytes);
        *s_link = s->next;
        *r_link = r->next;
        r->done = true;
        free(s->data);
        s->data = NULL;
        if (s->done) {
            free(s); /* eager, and tested before */
        } else {
            s->done = true;
            s->next = s; /* in no list any more */
        }
    }
}

static dma_status_t thread_test(void *comm, void **req)
{
    group_t *g = ((member_t *)comm)->group;
    message_t *m = *req;
    dma_status_t status = DMA_AGAIN;

    pthread_mutex_lock(&g->lock);
    deliver(g, m->src, m->dst);
    if (m->done) {
        free(m);
        *req = NULL;
        status = DMA_OK;
    } else if (m->eager) {
        m->done = true; /* it stays in its list without an owner */
        *req = NULL;
        status = DMA_OK;
    }
    pthread_mutex_unlock(&g->lock);
    return status;
}

static void thread_cancel(void *comm, void **req)
{
    group_t *g = ((member_t *)comm)->group;
    message_t *m = *req, **link;

    pthread_mutex_lock(&g->lock);
    for (link = &g->recvs[m->src * g->n + m->dst]; *link && *link != m; link = &(*link)->next) {
    }
    if (*link) {
        *link = m->next;
        free(m);
        *req = NULL;
    }
    pthread_mutex_unlock(&g->lock);
}

int group_sends(const group_t *g, int rank)
{
    return g->sent[rank];
}

/* ---- the other services ---- */

static _Thread_local dma_proc_t *my_proc;

void threads_enter(dma_proc_t *proc)
{
    my_proc = proc;
}

static void thread_progress(void)
{
    if (my_proc) {
        dma_proc_progress(my_proc);
    }
    sched_yield();
}

static dma_status_t thread_pack(const void *buf, size_t count, void *type, void *packed, size_t bytes)
{
    const vector_type_t *t = type;

    if (bytes != count * t->piece) {
        return DMA_ERR_ARG;
    }
    for (size_t i = 0; i < count; i++) {
        memcpy((char *)packed + i * t->piece, (const char *)buf + t->lead + i * t->stride, t->piece);
    }
    return DMA_OK;
}

static dma_status_t thread_unpack(void *buf, size_t count, void *type, const void *packed, size_t bytes)
{
    const vector_type_t *t = type;

    if (bytes != count * t->piece) {
        return DMA_ERR_ARG;
    }
    for (size_t i = 0; i < count; i++) {
        memcpy((char *)buf + t->lead + i * t->stride, (const char *)packed + i * t->piece, t->piece);
    }
    return DMA_OK;
}

static void thread_type_side(void *type, dma_side_t *side)
{
    const vector_type_t *t = type;

    side->dense = t->piece == t->stride;
    side->addr = (char *)side->addr + (side->dense ? t->lead : 0);
    side->size = t->piece;
    side->extent = (ptrdiff_t)t->stride;
    side->type = type;
}

static dma_status_t thread_type_rows(const void *type, dma_rows_t *layout)
{
    *layout = (dma_rows_t){.row = ((const vector_type_t *)type)->piece};
    return DMA_OK;
}

static dma_status_t thread_type_strips(const void *type, dma_visit_t visit, void *arg)
{
    return visit(arg, &(dma_strip_t){.bytes = ((const vector_type_t *)type)->piece, .n = 1});
}

static struct {
    pthread_mutex_t lock;
    int count;
    char topics[64][32], texts[64][512];
} reports = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void thread_report(dma_report_t level, const char *topic, const char *text)
{
    (void)level;
    pthread_mutex_lock(&reports.lock);
    if (reports.count < 64) {
        snprintf(reports.topics[reports.count], sizeof(reports.topics[0]), "%s", topic);
        snprintf(reports.texts[reports.count++], sizeof(reports.texts[0]), "%s", text);
    }
    pthread_mutex_unlock(&reports.lock);
}

int reports_with(const char *topic, const char *text)
{
    int n = 0;

    pthread_mutex_lock(&reports.lock);
    for (int i = 0; i < reports.count; i++) {
        n += !strcmp(reports.topics[i], topic) && strstr(reports.texts[i], text);
    }
    pthread_mutex_unlock(&reports.lock);
    return n;
}

int reports_count(const char *topic)
{
    return reports_with(topic, "");
}

const char *reports_first(const char *topic)
{
    const char *text = "";

    pthread_mutex_lock(&reports.lock);
    for (int i = 0; i < reports.count; i++) {
        text = *text || strcmp(reports.topics[i], topic) ? text : reports.texts[i];
    }
    pthread_mutex_unlock(&reports.lock);
    return text;
}

const dma_host_t threads_host = {
    .isend = thread_isend,
    .irecv = thread_irecv,
    .test = thread_test,
    .cancel = thread_cancel,
    .progress = thread_progress,
    .pack = thread_pack,
    .unpack = thread_unpack,
    .type_side = thread_type_side,
    .type_rows = thread_type_rows,
    .type_strips = thread_type_strips,
    .report = thread_report,
};

dma_status_t task_post(dma_comm_t *comm, const dma_call_t *call, dma_done_t done, void *arg, dma_task_t **task)
{
    dma_status_t status;

    *task = aligned_alloc(DMA_TASK_ALIGN, DMA_TASK_BYTES); /* `done` may be called before this function returns */
    if (!*task) {
        dma_comm_fail_call(comm, DMA_ERR_NOMEM);
        return DMA_ERR_NOMEM;
    }
    status = dma_comm_post_in(comm, call, done, arg, *task, NULL);
    if (status != DMA_OK) {
        free(*task);
        *task = NULL;
    }
    return status;
}

void task_free(dma_task_t *task)
{
    free(task);
}

dma_arena_t *threads_blocks(dma_window_t *w)
{
    dma_arena_t *arena;
    const char *why;

    ck_assert_int_eq(dma_arena_create(DMA_ARENA_MEMFD, 1 << 20, NULL, &arena, &why), DMA_OK);
    for (int r = 0; r < w->nranks; r++) {
        w->peers[r].block = dma_window_block(arena, &w->geom, w->nranks, 1);
    }
    w->own = w->peers[0].block;
    w->layout = dma_block_layout(&w->geom, w->nranks);
    return arena;
}

/* ---- system calls of this program ---- */

_Atomic int fail_cross_after = -1;
_Atomic bool fail_cross_once;
_Atomic bool fail_memfd;

/* Counts down. Exactly one caller gets the 0. */
static bool fails_now(void)
{
    int left = atomic_load(&fail_cross_after);

    while (left >= 0) {
        int next = left > 0 ? left - 1 : fail_cross_once ? -1 : 0;

        if (atomic_compare_exchange_weak(&fail_cross_after, &left, next)) {
            return left == 0;
        }
    }
    return false;
}

/* Replaces the function of the C library. Between ranks of this program it is a plain copy, which a race detector
 * sees, and which fails on request. */
ssize_t process_vm_readv(pid_t pid, const struct iovec *local, unsigned long nlocal, const struct iovec *remote,
                         unsigned long nremote, unsigned long flags)
{
    if (pid != getpid() || nlocal != 1 || nremote != 1) {
        return syscall(SYS_process_vm_readv, pid, local, nlocal, remote, nremote, flags);
    }
    if (fails_now()) {
        errno = EFAULT;
        return -1;
    }
    memcpy(local->iov_base, remote->iov_base, local->iov_len);
    return (ssize_t)local->iov_len;
}

int memfd_create(const char *name, unsigned flags)
{
    if (fail_memfd) {
        errno = ENOSYS;
        return -1;
    }
    return (int)syscall(SYS_memfd_create, name, flags);
}

/* ---- ranks ---- */

void must_fail(const char *file, int line, int rank, const char *fmt, ...)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    va_list args;

    pthread_mutex_lock(&lock); /* one rank reports, the others are silent */
    fprintf(stderr, "%s:%d: rank %d: ", file, line, rank);
    va_start(args, fmt);
    vfprintf(stderr, fmt, args);
    va_end(args);
    fprintf(stderr, " (DMA_SEED=%llu)\n", (unsigned long long)unit_seed());
    pthread_mutex_lock(&reports.lock);
    for (int i = 0; i < reports.count; i++) {
        fprintf(stderr, "    reported: %s\n", reports.texts[i]);
    }
    _exit(EXIT_FAILURE);
}

job_t threads_job(int n, void (*body)(rank_t *r))
{
    job_t job = {.n = n, .ncomms = 1, .body = body, .delay_us = 200};

    dma_params_default(&job.params);
    job.params.net_first_calls = 0; /* test_first has others */
    job.params.local_procs = (uint32_t)n;
    job.params.arena_bytes = 2u << 20;
    job.params.measure = 0; /* so that every run makes the same choices */
    return job;
}

uint32_t threads_random(rank_t *r, uint32_t below)
{
    return draw(&r->rng, below);
}

void threads_keep(rank_t *r, void *memory)
{
    must(r, r->nkept < 64, "too much to keep");
    r->kept[r->nkept++] = memory;
}

void threads_prepare(rank_t *r, dma_comm_t *comm)
{
    dma_status_t status = dma_comm_prepare(comm);

    must(r, status == DMA_OK, "set-up: %s: %s", dma_status_name(status), dma_comm_reason(comm));
}

void threads_barrier(rank_t *r)
{
    pthread_barrier_wait(&r->job->barrier);
}

dma_comm_t *threads_comm(rank_t *r, int index)
{
    dma_comm_t *comm = NULL;
    dma_comm_config_t config = {.handle = group_handle(r->job->groups[index], r->rank),
                                .rank = r->rank,
                                .nranks = r->n,
                                .threads = &r->job->threads,
                                .text = "a test communicator"};

    must(r, dma_comm_create(r->proc, &config, &comm) == DMA_OK, "dma_comm_create");
    return comm;
}

static void *rank_main(void *arg)
{
    rank_t *r = arg;
    job_t *job = r->job;
    dma_proc_config_t config = {.session_dir = job->session_dir,
                                .host = &threads_host,
                                .routes = dma_routes,
                                .net_ops = job->net_ops,
                                .params = job->params,
                                .job = THREADS_JOB,
                                .rank = r->rank,
                                .counters = job->own_counters ? NULL : &threads_counters,
                                .runtime = job->runtime,
                                .engines = job->engines};

    if (job->tune) {
        job->tune(r->rank, &config.params);
    }
    must(r, dma_proc_create(&config, &r->proc) == DMA_OK, "dma_proc_create");
    threads_enter(r->proc);
    for (int c = 0; c < job->ncomms; c++) {
        r->comms[c] = threads_comm(r, c);
    }
    threads_barrier(r);
    job->body(r);
    if (job->ending) {
        job->ending();
    }
    for (int c = 0; c < job->ncomms; c++) {
        if (r->comms[c]) {
            dma_comm_destroy(r->comms[c]);
        }
    }
    must(r, dma_proc_active(r->proc) == 0, "something is still active");
    threads_barrier(r); /* threads share the mappings of the arenas: no arena may end before all ranks have left */
    dma_proc_destroy(r->proc);
    while (r->nkept) {
        free(r->kept[--r->nkept]);
    }
    return NULL;
}

void threads_run(job_t *job)
{
    pthread_t *threads = calloc((size_t)job->n, sizeof(*threads));
    rank_t *ranks = calloc((size_t)job->n, sizeof(*ranks));

    reports.count = 0;
    memset((void *)threads_counters.at, 0, sizeof(threads_counters.at));
    job->reached = 0;
    pthread_barrier_init(&job->barrier, NULL, (unsigned)job->n);
    for (int c = 0; c < THREADS_COMMS; c++) {
        job->groups[c] = group_create(job->n, unit_seed() * 77 + (uint64_t)c, job->delay_us);
    }
    for (int i = 0; i < job->n; i++) {
        ranks[i] = (rank_t){.job = job, .rank = i, .n = job->n, .rng = unit_seed() * 1000003 + (uint64_t)i};
        if (pthread_create(&threads[i], NULL, rank_main, &ranks[i])) {
            must_fail(__FILE__, __LINE__, i, "pthread_create");
        }
    }
    for (int i = 0; i < job->n; i++) {
        pthread_join(threads[i], NULL);
    }
    for (int c = 0; c < THREADS_COMMS; c++) {
        group_destroy(job->groups[c]);
    }
    pthread_barrier_destroy(&job->barrier);
    free(threads);
    free(ranks);
}
