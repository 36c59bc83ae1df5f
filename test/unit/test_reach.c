/*
 * Blocks that are read where their owner says that they are (host_reach): plans of that kind with faults, which the
 * interpreter must find; who waits for whom; and memory that cannot be read, or not any more.
 */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "libinterp.h"
#include "libthreads.h"
#include "libunit.h"
#include "plan/profile.h"
#include "plan/variants.h"
#include "task/comm.h"

#define N     3
#define CALLS 2

/* ---- plans with faults ---- */

static const dma_geom_t geom = {
    .ring_depth = 2, .slot_bytes = 256, .chunk_bytes = 4096, .chunk_depth = 2, .pair_bytes = 512, .pair_depth = 2};

static dma_plan_t *plan_of(dma_coll_t coll, int rank)
{
    dma_profile_t profile = dma_profile_default();
    dma_plan_req_t req = {.coll = coll,
                          .nranks = N,
                          .bytes = DMA_ALLTOALLV_BYTES,
                          .cross_memory = true,
                          .ranks_per_core_x16 = 16,
                          .geom = geom};
    dma_choice_t choice;
    dma_plan_t *plan;
    const char *reason;

    ck_assert_int_eq(dma_plan_choose(&profile, &req, dma_variant_find("host_reach"), &choice, &reason), DMA_OK);
    ck_assert_ptr_null(reason);
    ck_assert_int_eq(dma_plan_build(&req, &choice, rank, &plan), DMA_OK);
    return plan;
}

static bool tells(const dma_op_t *op)
{
    return op->code == DMA_OP_COPY && op->src.base == DMA_BASE_BYTES;
}

static bool reads(const dma_op_t *op)
{
    return op->code == DMA_OP_COPY && op->flags & DMA_OP_DIRECT;
}

static bool waits_landed(const dma_op_t *op)
{
    return op->code == DMA_OP_WAIT && op->flag.kind == DMA_FLAG_LANDED;
}

static bool signals_landed(const dma_op_t *op)
{
    return op->code == DMA_OP_SIGNAL && op->flag.kind == DMA_FLAG_LANDED;
}

static bool waits_produced(const dma_op_t *op)
{
    return op->code == DMA_OP_WAIT && op->flag.kind == DMA_FLAG_PAIR_PRODUCED;
}

static bool waits_entry(const dma_op_t *op)
{
    return op->code == DMA_OP_WAIT && op->flag.kind == DMA_FLAG_ENTRY;
}

static void not_awaited(dma_op_t *op)
{
    op->value = 0;
}

static void other_word(dma_op_t *op)
{
    op->src.offset -= 8;
}

static void other_block(dma_op_t *op)
{
    op->src.block = (op->src.block + 1) % N;
}

static void own_block(dma_op_t *op)
{
    op->src.block = (op->dst[0].rank + 1) % N; /* the right one for one peer, the wrong one for the other */
}

static void three_words(dma_op_t *op)
{
    op->len.len = 24;
}

static void one_word(dma_op_t *op)
{
    op->len.len = 8;
}

static void in_each_trip(dma_op_t *op)
{
    op->flags &= (uint8_t)~DMA_OP_LAST;
}

static void in_no_way(dma_op_t *op)
{
    op->flags &= (uint8_t) ~(DMA_OP_DIRECT | DMA_OP_STAGED);
}

static void in_both_ways(dma_op_t *op)
{
    op->flags |= DMA_OP_DIRECT | DMA_OP_STAGED;
}

static void as_head(dma_op_t *op)
{
    op->len.part = DMA_HEAD;
}

static void about_another(dma_op_t *op)
{
    op->flag.peer = (op->flag.peer + 1) % N;
    op->flag.rank = (op->flag.rank + 1) % N;
}

static const struct {
    bool (*where)(const dma_op_t *op);
    void (*what)(dma_op_t *op);
    interp_error_t expected, other;
    bool refused; /* found where a rank is refused */
} faults[] = {
    {waits_landed, not_awaited, INTERP_USER, INTERP_DATA, false},
    {waits_entry, not_awaited, INTERP_NOT_ENTERED, INTERP_NOT_ENTERED, false},
    {waits_produced, not_awaited, INTERP_CHUNK, INTERP_CHUNK, true},
    {reads, other_word, INTERP_BOUNDS, INTERP_BOUNDS, false},
    {reads, other_block, INTERP_PLAN, INTERP_PLAN, false},
    {tells, own_block, INTERP_SIZE, INTERP_BOUNDS, false},
    {tells, one_word, INTERP_BOUNDS, INTERP_BOUNDS, false},
    {tells, three_words, INTERP_PLAN, INTERP_PLAN, false},
    {signals_landed, in_each_trip, INTERP_PLAN, INTERP_PLAN, false},
    {signals_landed, about_another, INTERP_PLAN, INTERP_PLAN, false},
    {waits_landed, about_another, INTERP_PLAN, INTERP_PLAN, false},
    {waits_landed, in_no_way, INTERP_PLAN, INTERP_PLAN, false},
    {waits_produced, in_both_ways, INTERP_PLAN, INTERP_PLAN, false},
    {reads, in_no_way, INTERP_PLAN, INTERP_PLAN, false},
    {reads, as_head, INTERP_PLAN, INTERP_PLAN, false},
};
#define FAULTS (sizeof(faults) / sizeof(faults[0]))

/* Only all-to-all-v tells peers where its blocks are. */
static bool is_there(dma_coll_t coll, size_t fault)
{
    return coll == DMA_ALLTOALLV || faults[fault].where != tells;
}

static dma_plan_t *faulty_plan(dma_coll_t coll, int rank, size_t fault)
{
    dma_plan_t *plan = plan_of(coll, rank);
    unsigned found = 0;

    for (uint32_t p = 0; p < plan->nprogs; p++) {
        for (uint32_t i = 0; i < plan->progs[p].nops; i++) {
            dma_op_t *op = (dma_op_t *)&plan->progs[p].ops[i];

            if (faults[fault].where(op)) {
                faults[fault].what(op);
                found++;
            }
        }
    }
    ck_assert_uint_gt(found, 0);
    return plan;
}

static void interpret(dma_coll_t coll, const dma_plan_t *const *plans, uint64_t seed, interp_report_t *report)
{
    uint64_t bytes[N * N];
    interp_call_t call[CALLS];
    interp_job_t job = {
        .nranks = N, .geom = geom, .calls = call, .ncalls = CALLS, .outstanding = 1, .flags = 0, .seed = seed};

    for (int i = 0; i < N * N; i++) {
        bytes[i] = coll == DMA_ALLTOALLV ? (uint64_t)(700 + 50 * i) : 900;
    }
    for (int c = 0; c < CALLS; c++) {
        call[c] = (interp_call_t){.plans = plans, .chunk = 100, .bytes = bytes};
    }
    interp_run(&job, report);
}

START_TEST(faults_are_found)
{
    dma_coll_t coll = (dma_coll_t)((size_t)_i / FAULTS);
    size_t fault = (size_t)_i % FAULTS;
    dma_plan_t *plans[N];
    interp_report_t report;
    int found = 0;

    if (!is_there(coll, fault)) {
        return;
    }
    for (int r = 0; r < N; r++) {
        plans[r] = faulty_plan(coll, r, fault);
    }
    for (uint64_t i = 0; i < 40; i++) {
        interpret(coll, (const dma_plan_t *const *)plans, 2 * (500 * unit_seed() + i) + faults[fault].refused, &report);
        ck_assert_msg(report.error == faults[fault].expected || report.error == faults[fault].other ||
                          (faults[fault].refused && report.error == INTERP_OK),
                      "operation %d, fault %zu: expected %s, got: %s", coll, fault,
                      interp_error_name(faults[fault].expected), report.error ? report.text : "nothing");
        found += report.error != INTERP_OK;
    }
    ck_assert_int_gt(found, 30);
    for (int r = 0; r < N; r++) {
        dma_plan_free(plans[r]);
    }
}
END_TEST

/* A plan that reads peers' memory says so. */
START_TEST(it_streams)
{
    dma_plan_t *plan = plan_of(DMA_ALLGATHER, 0);
    char text[200];

    ck_assert(interp_check_plan(plan, &geom, text, sizeof(text)));
    plan->streams = false;
    ck_assert(!interp_check_plan(plan, &geom, text, sizeof(text)));
    dma_plan_free(plan);
}
END_TEST

START_TEST(fits)
{
    const dma_variant_t *v = &dma_variant_host_reach;
    dma_plan_req_t good = {.coll = DMA_ALLTOALLV, .nranks = 4, .cross_memory = true, .geom = geom}, req = good;

    ck_assert_ptr_null(v->unfit(&req));
    req.in_place = true;
    ck_assert_ptr_nonnull(v->unfit(&req));
    req.coll = DMA_ALLTOALL;
    ck_assert_ptr_nonnull(v->unfit(&req));
    req.coll = DMA_ALLGATHER;
    ck_assert_ptr_null(v->unfit(&req));
    req = good;
    req.cross_memory = false;
    ck_assert_ptr_nonnull(v->unfit(&req));
    req = good;
    req.geom.pair_bytes = 0; /* a tail that is refused needs them */
    ck_assert_ptr_nonnull(v->unfit(&req));
    req = good;
    req.geom.slot_bytes = 3 * 8;
    ck_assert_ptr_nonnull(v->unfit(&req));
    req.geom.slot_bytes = 3 * 16;
    ck_assert_ptr_null(v->unfit(&req));
}
END_TEST

/* The choice is made for blocks of 64 KiB, by what copies cost there. */
START_TEST(chosen_where_copies_are_dear)
{
    dma_profile_t profile = dma_profile_default();
    dma_plan_req_t req = {.coll = DMA_ALLTOALLV,
                          .nranks = 2,
                          .bytes = DMA_ALLTOALLV_BYTES,
                          .cross_memory = true,
                          .ranks_per_core_x16 = 16,
                          .geom = {.ring_depth = 8, .slot_bytes = 8192, .pair_bytes = 262144, .pair_depth = 4}};
    dma_choice_t choice;
    const char *reason;

    ck_assert_int_eq(dma_plan_choose(&profile, &req, -1, &choice, &reason), DMA_OK);
    ck_assert_ptr_eq(dma_variants[choice.variant], &dma_variant_host_pair);
    profile.copy_mbps /= 8;
    profile.pull_mbps /= 8;
    ck_assert_int_eq(dma_plan_choose(&profile, &req, -1, &choice, &reason), DMA_OK);
    ck_assert_ptr_eq(dma_variants[choice.variant], &dma_variant_host_reach);
    ck_assert_uint_eq(choice.chunk, 1 << 20);
    req.in_place = true;
    ck_assert_int_eq(dma_plan_choose(&profile, &req, -1, &choice, &reason), DMA_OK);
    ck_assert_ptr_eq(dma_variants[choice.variant], &dma_variant_host_pair);
}
END_TEST

/* ---- two ranks in one thread ---- */

#define LARGE 3000000
#define SMALL 200
#define APART (LARGE + 1) /* from block to block */

typedef struct duo {
    group_t *group;
    dma_proc_t *proc[2];
    dma_comm_t *comm[2];
    dma_task_t *task[2];
    char *send[2], *recv[2];
    int counts[2][2]; /* of the sender, by receiver */
} duo_t;

/* Posts a call of one rank; from [1 - r] it takes what that sends. */
static void post(duo_t *d, int r)
{
    static const int displs[] = {0, APART}; /* read when the call is posted */
    int takes[] = {d->counts[0][r], d->counts[1][r]};
    dma_call_t call = {.coll = DMA_ALLTOALLV, .send = data_buffer(d->send[r], 0), .recv = data_buffer(d->recv[r], 0)};

    call.send.counts = d->counts[r];
    call.recv.counts = takes;
    call.send.displs = call.recv.displs = displs;
    ck_assert_int_eq(dma_comm_post(d->comm[r], &call, NULL, NULL, &d->task[r]), DMA_OK);
}

static void turns(duo_t *d, int r, int n)
{
    for (int i = 0; i < n; i++) {
        dma_proc_progress(d->proc[r]);
    }
}

static void settle(duo_t *d)
{
    for (int i = 0; i < 100000 && (dma_task_test(d->task[0]) == DMA_AGAIN || dma_task_test(d->task[1]) == DMA_AGAIN);
         i++) {
        turns(d, i % 2, 1);
    }
}

static void free_tasks(duo_t *d)
{
    dma_task_free(d->task[0]);
    dma_task_free(d->task[1]);
}

static void fill(duo_t *d, uint64_t tag, int to_0, int to_1)
{
    for (int r = 0; r < 2; r++) {
        d->counts[r][0] = to_0;
        d->counts[r][1] = to_1;
        memset(d->recv[r], 0, 2 * (size_t)APART);
        for (int p = 0; p < 2; p++) {
            data_fill((uint8_t *)d->send[r] + p * APART, tag + (uint64_t)p, r, (size_t)d->counts[r][p]);
        }
    }
}

static void check_received(const duo_t *d, uint64_t tag, int r)
{
    for (int p = 0; p < 2; p++) {
        int i = 0;

        while (i < d->counts[p][r] &&
               (uint8_t)d->recv[r][p * APART + i] == data_byte(tag + (uint64_t)r, p, (uint64_t)i)) {
            i++;
        }
        ck_assert_msg(i == d->counts[p][r], "rank %d, from %d, byte %d", r, p, i);
        ck_assert_int_eq(d->recv[r][p * APART + d->counts[p][r]], 0);
    }
}

static duo_t duo_begin(void)
{
    duo_t d = {.group = group_create(2, unit_seed(), 0)};

    for (int r = 0; r < 2; r++) {
        dma_proc_config_t proc = {.host = &threads_host};
        dma_comm_config_t comm = {.handle = group_handle(d.group, r), .rank = r, .nranks = 2, .text = "duo"};

        dma_params_default(&proc.params);
        ck_assert_int_eq(dma_proc_create(&proc, &d.proc[r]), DMA_OK);
        ck_assert_int_eq(dma_comm_create(d.proc[r], &comm, &d.comm[r]), DMA_OK);
        d.send[r] = malloc(2 * (size_t)APART);
        d.recv[r] = malloc(2 * (size_t)APART);
    }
    fill(&d, 1, 8, 8);
    post(&d, 0);
    post(&d, 1);
    settle(&d);
    free_tasks(&d);
    d.comm[0]->forced = d.comm[1]->forced = dma_variant_find("host_reach");
    memset(d.comm[0]->memo, 0, sizeof(d.comm[0]->memo));
    memset(d.comm[1]->memo, 0, sizeof(d.comm[1]->memo));
    return d;
}

static void duo_end(duo_t *d)
{
    for (int r = 0; r < 2; r++) {
        dma_comm_destroy(d->comm[r]);
        free(d->send[r]);
        free(d->recv[r]);
    }
    for (int r = 0; r < 2; r++) {
        dma_proc_destroy(d->proc[r]);
    }
    group_destroy(d->group);
}

/* A rank leaves when its block has been read; one whose blocks are small needs nobody to come again. */
START_TEST(owner_waits_for_its_reader)
{
    duo_t d = duo_begin();

    for (uint64_t tag = 10; tag < 30; tag += 10) {
        fill(&d, tag, SMALL, LARGE);
        post(&d, 1);
        post(&d, 0);
        turns(&d, 0, 100);
        ck_assert_int_eq(dma_task_test(d.task[0]), DMA_AGAIN); /* rank 1 has had no turn since rank 0 has entered */
        check_received(&d, tag, 0);
        settle(&d);
        check_received(&d, tag, 1);
        free_tasks(&d);
        fill(&d, tag, LARGE, SMALL);
        post(&d, 1);
        post(&d, 0);
        turns(&d, 0, 100);
        ck_assert_int_eq(dma_task_test(d.task[0]), DMA_OK); /* what it has sent was small */
        settle(&d);
        check_received(&d, tag, 0);
        check_received(&d, tag, 1);
        free_tasks(&d);
    }
    duo_end(&d);
}
END_TEST

/* A turn reads one piece of 1 MiB: others have theirs in between. */
START_TEST(pieces)
{
    duo_t d = duo_begin();

    fill(&d, 3, LARGE, SMALL);
    post(&d, 1);
    post(&d, 0);
    for (int i = 1; i < 3; i++) {
        ck_assert_int_eq(dma_task_test(d.task[0]), DMA_AGAIN);
        turns(&d, 0, 1);
    }
    ck_assert_int_eq(dma_task_test(d.task[0]), DMA_OK);
    settle(&d);
    check_received(&d, 3, 0);
    free_tasks(&d);
    duo_end(&d);
}
END_TEST

/* A rank that has failed gives its buffer back: what is read then is no result. */
START_TEST(owner_fails)
{
    duo_t d = duo_begin();

    fill(&d, 5, LARGE, SMALL); /* rank 0 waits for nothing else */
    post(&d, 1);
    dma_comm_lock(d.comm[1]);
    dma_comm_fail(d.comm[1], DMA_ERR_NOMEM, "a test");
    dma_comm_unlock(d.comm[1]);
    ck_assert_int_eq(dma_task_test(d.task[1]), DMA_ERR_NOMEM);
    memset(d.send[1], 0, 2 * (size_t)APART);
    post(&d, 0);
    settle(&d);
    ck_assert_int_eq(dma_task_test(d.task[0]), DMA_ERR_NOMEM);
    free_tasks(&d);
    duo_end(&d);
}
END_TEST

/* ---- memory that cannot be read ---- */

enum { MOST_RANKS = 8, ROOM = 1100001 };

static int large; /* read in more than one piece, if at all */

static int bytes_of(uint64_t tag, int from, int to)
{
    static const int sizes[] = {0, 100, 20000, 300000, 70000};

    if (tag >= 15) { /* more chunks past the ring than it has buffers, then some into it */
        return tag < 21 ? large : 8000;
    }
    return sizes[(tag * 3 + (uint64_t)from * 2 + (uint64_t)to) % 5];
}

static void exchange(rank_t *r, uint64_t tag)
{
    uint8_t *send = malloc((size_t)r->n * ROOM), *recv = calloc((size_t)r->n, ROOM);
    int gives[MOST_RANKS], takes[MOST_RANKS], displs[MOST_RANKS];
    dma_call_t call = {.coll = DMA_ALLTOALLV, .send = data_buffer(send, 0), .recv = data_buffer(recv, 0)};

    for (int p = 0; p < r->n; p++) {
        gives[p] = bytes_of(tag, r->rank, p);
        takes[p] = bytes_of(tag, p, r->rank);
        displs[p] = p * ROOM;
        data_fill(send + displs[p], 10 * tag + (uint64_t)p, r->rank, (size_t)gives[p]);
    }
    call.send.counts = gives;
    call.recv.counts = takes;
    call.send.displs = call.recv.displs = displs;
    must(r, dma_comm_run(r->comms[0], &call) == DMA_OK, "%s", dma_comm_reason(r->comms[0]));
    memset(send, 0, (size_t)r->n * ROOM);
    for (int p = 0; p < r->n; p++) {
        for (int i = 0; i < takes[p]; i++) {
            must(r, recv[displs[p] + i] == data_byte(10 * tag + (uint64_t)r->rank, p, (uint64_t)i),
                 "call %d, from %d, byte %d of %d", (int)tag, p, i, takes[p]);
        }
        must(r, recv[displs[p] + takes[p]] == 0, "written beyond a block");
    }
    free(send);
    free(recv);
}

static void exchanges(rank_t *r)
{
    must(r, dma_comm_prepare(r->comms[0]) == DMA_OK, "%s", dma_comm_reason(r->comms[0]));
    for (uint64_t tag = 0; tag < 23; tag++) {
        exchange(r, tag);
    }
}

/* Reads fail from the n-th on: what cannot be read comes through shared memory, and a line says so, once per rank. */
START_TEST(refused)
{
    for (int n = 2; n < 5; n++) {
        for (int good = 0; good < 12; good += 3) {
            job_t job = threads_job(n, exchanges);

            snprintf(job.params.variant, sizeof(job.params.variant), "host_reach");
            job.params.chunk_bytes = 16384;
            large = 300000;
            fail_cross_after = n * (n - 1) + good; /* the probes of the set-up succeed */
            threads_run(&job);
            fail_cross_after = -1;
            ck_assert_int_ge(reports_count("refused"), 1);
            ck_assert_int_le(reports_count("refused"), n);
        }
    }
}
END_TEST

START_TEST(not_refused)
{
    job_t job = threads_job(3, exchanges);

    snprintf(job.params.variant, sizeof(job.params.variant), "host_reach");
    job.params.chunk_depth = 2;   /* rings of four buffers, */
    job.params.slot_bytes = 4096; /* and blocks that go there */
    large = ROOM - 1;
    threads_run(&job);
    ck_assert_int_eq(reports_count("refused"), 0);
    ck_assert_int_eq(reports_count("forced"), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("reach");

    unit_loop(suite, faults_are_found, 0, DMA_COLL_COUNT * (int)FAULTS, 20);
    unit_test(suite, it_streams, 10);
    unit_test(suite, fits, 10);
    unit_test(suite, chosen_where_copies_are_dear, 10);
    unit_test(suite, owner_waits_for_its_reader, 10);
    unit_test(suite, pieces, 10);
    unit_test(suite, owner_fails, 10);
    unit_test(suite, refused, 20);
    unit_test(suite, not_refused, 10);
    return unit_main(suite);
}
