/*
 * Starts of persistent calls in streams of the application, on a fake runtime whose streams are late: random mixes with starts
 * that the host makes, with every byte compared; why a start is not made so; and failures, while streams wait.
 */
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/comm.h"
#include "device/device.h"
#include "device/in_stream.h"
#include "engine/stream/stream.h"
#include "libengine_call.h"
#include "libstream.h"
#include "libunit.h"

enum { STEPS = 12 };

void __real_dma_plan_cache_free(dma_plan_cache_t *cache);
void __wrap_dma_plan_cache_free(dma_plan_cache_t *cache);

/* Another thread of the library may look at the failed starts of all communicators now. */
void __wrap_dma_plan_cache_free(dma_plan_cache_t *cache)
{
    __real_dma_plan_cache_free(cache);
    dma_starts_push_on();
}

static dma_gpu_runtime_t *rt;
static _Atomic unsigned long made; /* starts in streams */

/* A persistent call of a rank, and its stream. */
typedef struct lane {
    call_t *call;
    dma_channel_t *channel;
    dma_gpu_stream_t *stream;
    dma_app_stream_t app;
    bool in_stream; /* the stream has starts */
    int started, steps;
    _Atomic int ended;
    dma_status_t status;
    char *sent[STEPS], *kept[STEPS];
} lane_t;

static void ended(void *arg, dma_status_t status)
{
    lane_t *lane = arg;

    lane->status = status;
    atomic_fetch_add(&lane->ended, 1);
}

static dma_comm_t *inside(const lane_t *lane)
{
    return *(dma_comm_t *const *)lane->channel; /* the first member */
}

static call_buffer_t *sent_buffer(const lane_t *lane)
{
    return lane->call->spec.in_place ? &lane->call->recv : &lane->call->send;
}

static void make_stream(rank_t *r, lane_t *lane, int device)
{
    dma_gpu_scope_t scope;

    must(r, rt->enter(device, &scope) == DMA_OK && rt->stream_create(&lane->stream) == DMA_OK, "stream");
    rt->leave(&scope);
    lane->app = (dma_app_stream_t){.cuda = true, .stream = lane->stream};
}

static void make(rank_t *r, lane_t *lane, const call_spec_t *spec)
{
    dma_status_t status;

    *lane = (lane_t){.call = call_make(r, spec)};
    status = dma_channel_create(r->comms[0], &lane->call->call, ended, lane, &lane->channel);
    must(r, status == DMA_OK, "%s: %s", dma_status_name(status), dma_comm_reason(r->comms[0]));
    make_stream(r, lane, r->rank);
}

/* With the buffers' surroundings. */
static size_t bytes_of(const call_buffer_t *b)
{
    return b->bytes + 2 * (size_t)(b->at - b->base);
}

static char *snapshot(const call_buffer_t *b)
{
    return memcpy(malloc(bytes_of(b)), b->base, bytes_of(b));
}

static void copy(rank_t *r, lane_t *lane, void *to, const void *from, size_t bytes)
{
    dma_gpu_scope_t scope;

    must(r, rt->enter(r->rank, &scope) == DMA_OK, "enter");
    must(r, rt->copy_async(lane->stream, (uintptr_t)to, (uintptr_t)from, bytes) == DMA_OK, "copy");
    rt->leave(&scope);
}

/* What the starts send, before the first one. */
static void prepare_steps(rank_t *r, lane_t *lane)
{
    for (int i = 0; i < STEPS; i++) {
        call_fill(r, lane->call, (uint64_t)i);
        lane->sent[i] = snapshot(sent_buffer(lane));
        lane->kept[i] = snapshot(&lane->call->recv);
    }
}

static void verify_steps(rank_t *r, lane_t *lane)
{
    for (int i = 0; i < STEPS; i++) {
        if (i < lane->steps) {
            lane->call->tag = (uint64_t)i;
            memcpy(lane->call->recv.base, lane->kept[i], bytes_of(&lane->call->recv));
            call_verify(r, lane->call);
        }
        free(lane->sent[i]);
        free(lane->kept[i]);
    }
}

static void destroy(rank_t *r, lane_t *lane)
{
    dma_gpu_scope_t scope;

    dma_proc_forget_stream(r->proc, &lane->app);
    must(r, !lane->app.handle, "the handle stays");
    must(r, rt->enter(r->rank, &scope) == DMA_OK && rt->stream_destroy(lane->stream) == DMA_OK, "destroy");
    rt->leave(&scope);
    dma_channel_destroy(lane->channel);
    threads_barrier(r);
    call_free(lane->call);
}

/* ---- starts ---- */

static void step_in_stream(rank_t *r, lane_t *lane)
{
    const call_buffer_t *to = sent_buffer(lane), *from = &lane->call->recv;

    copy(r, lane, to->base, lane->sent[lane->steps], bytes_of(to));
    must(r, dma_channel_start_in_stream(lane->channel, &lane->app, &(dma_in_stream_started_t){0}) == DMA_OK, "start");
    copy(r, lane, lane->kept[lane->steps++], from->base, bytes_of(from));
    lane->started += !lane->in_stream;
    lane->in_stream = true;
    atomic_fetch_add(&made, 1);
}

static void wait_for_stream(rank_t *r, lane_t *lane)
{
    while (call_stream_moves(r, rt, lane->stream)) {
        threads_host.progress();
    }
}

/* Without the stream: what the last start receives is there then, and what it sends is not needed any more. */
static void look(rank_t *r, lane_t *lane)
{
    while (dma_channel_look_in_stream(lane->channel, &lane->app) == DMA_AGAIN) {
        threads_host.progress();
    }
    lane->call->tag = (uint64_t)lane->steps - 1;
    call_verify(r, lane->call);
    memset(sent_buffer(lane)->at, 0x55, lane->call->spec.in_place ? 0 : lane->call->send.bytes);
    wait_for_stream(r, lane);
}

static void end_in_stream(rank_t *r, lane_t *lane)
{
    if (lane->in_stream) {
        threads_random(r, 2) ? look(r, lane) : wait_for_stream(r, lane);
        must(r, atomic_load(&lane->ended) == lane->started - 1, "the call has ended before its end");
        must(r, dma_channel_end_in_stream(lane->channel, false) == DMA_OK, "end");
        must(r, atomic_load(&lane->ended) == lane->started && lane->status == DMA_OK, "the call has not ended");
        lane->in_stream = false;
    }
}

static dma_status_t wait_by_host(lane_t *lane)
{
    while (atomic_load(&lane->ended) < lane->started) {
        threads_host.progress();
    }
    return lane->status;
}

static void step_by_host(rank_t *r, lane_t *lane)
{
    end_in_stream(r, lane);
    memcpy(sent_buffer(lane)->base, lane->sent[lane->steps], bytes_of(sent_buffer(lane)));
    lane->started++;
    must(r, dma_channel_start(lane->channel, NULL) == DMA_OK, "start");
    must(r, wait_by_host(lane) == DMA_OK, "%s", dma_status_name(lane->status));
    memcpy(lane->kept[lane->steps++], lane->call->recv.base, bytes_of(&lane->call->recv));
}

static void any_mix_body(rank_t *r)
{
    static const size_t sizes[] = {3, 700, 40000};

    for (int coll = 0; coll < DMA_COLL_COUNT; coll++) {
        for (int in_place = 0; in_place < 2; in_place++) {
            call_spec_t spec = call_spec_on_device(coll, in_place, sizes[(coll + r->n) % 3]);
            lane_t lane;

            make(r, &lane, &spec);
            prepare_steps(r, &lane);
            threads_barrier(r); /* the first call_fill of a peer must not be late: it writes what others receive into */
            while (lane.steps < STEPS) {
                if (threads_random(r, 4) == 0) {
                    usleep(threads_random(r, 300));
                }
                if (threads_random(r, 3) == 0) {
                    step_by_host(r, &lane);
                } else {
                    step_in_stream(r, &lane);
                }
            }
            end_in_stream(r, &lane);
            threads_barrier(r);
            verify_steps(r, &lane);
            destroy(r, &lane);
        }
    }
}

START_TEST(any_mix)
{
    for (int n = 2; n <= 5; n++) {
        job_t job;

        rt = stream_machine(_i % 2 ? 40 : 0);
        job = stream_job(n, any_mix_body, rt, "auto");
        atomic_store(&made, 0);
        threads_run(&job);
        ck_assert_uint_eq(counts_sum(DMA_COUNT_calls_in_stream), atomic_load(&made));
        ck_assert_int_eq(reports_count("failed"), 0);
        fake_gpu_stop();
    }
}
END_TEST

/* One rank: a copy in the stream, without a task. */
static void alone_body(rank_t *r)
{
    for (int coll = 0; coll < DMA_COLL_COUNT; coll++) {
        for (int in_place = 0; in_place < 2; in_place++) {
            call_spec_t spec = call_spec_on_device(coll, in_place, 900);
            lane_t lane;

            make(r, &lane, &spec);
            prepare_steps(r, &lane);
            while (lane.steps < STEPS) {
                step_in_stream(r, &lane);
            }
            look(r, &lane);
            must(r, dma_channel_end_in_stream(lane.channel, false) == DMA_OK, "end");
            must(r, atomic_load(&lane.ended) == 0, "there is a task");
            verify_steps(r, &lane);
            destroy(r, &lane);
        }
    }
}

START_TEST(alone)
{
    job_t job;

    rt = stream_machine(20);
    job = stream_job(1, alone_body, rt, "auto");
    atomic_store(&made, 0);
    threads_run(&job);
    ck_assert_uint_eq(counts_sum(DMA_COUNT_calls_in_stream), atomic_load(&made));
    fake_gpu_stop();
}
END_TEST

/* ---- reasons ---- */

typedef struct obstacle {
    dma_reason_t reason;
    const char *function; /* that fails on rank 0 */
    bool elsewhere;       /* its stream is one of another device */
    bool for_good;        /* also its next start */
} obstacle_t;

static const obstacle_t obstacles[] = {
    {DMA_REASON_in_stream_refused, "alloc", false, true},
    {DMA_REASON_in_stream_refused, "host_register", false, true},
    {DMA_REASON_in_stream_refused, "write_and_wait32", false, false},
    {DMA_REASON_in_stream_device, "stream_adopt", false, false},
    {DMA_REASON_in_stream_refused, "stream_create", false, false},
    {DMA_REASON_in_stream_refused, "event_create", false, false},
    {DMA_REASON_in_stream_device, NULL, true, false},
};

/* A start that is refused. Nothing has happened. */
static void be_refused(rank_t *r, lane_t *lane, const obstacle_t *o)
{
    int device = o->elsewhere ? r->rank + 1 : r->rank;
    lane_t refused = *lane;
    dma_gpu_scope_t scope;
    dma_status_t status;

    make_stream(r, &refused, device);
    if (o->function) {
        fake_gpu_fail(o->function, 0, DMA_ERR_NOMEM);
    }
    status = dma_channel_start_in_stream(lane->channel, &refused.app, &(dma_in_stream_started_t){0});
    must(r, status == DMA_UNSUPPORTED, "%s", dma_status_name(status));
    dma_proc_forget_stream(r->proc, &refused.app);
    must(r, rt->enter(device, &scope) == DMA_OK && rt->stream_destroy(refused.stream) == DMA_OK, "destroy");
    rt->leave(&scope);
}

/* Rank 0 cannot make some starts in its stream, and makes them by the host. The others do not notice. */
static void obstacle_body(rank_t *r)
{
    const obstacle_t *o = r->job->arg;
    call_spec_t spec = call_spec_on_device(DMA_ALLTOALL, true, 3000);
    lane_t lane;

    make(r, &lane, &spec);
    prepare_steps(r, &lane);
    threads_barrier(r);
    if (r->rank == 0) {
        be_refused(r, &lane, o);
    }
    threads_barrier(r);
    for (int i = 0; i < 4; i++) {
        if (r->rank > 0 || (i % 2 && !o->for_good)) {
            step_in_stream(r, &lane);
        } else {
            step_by_host(r, &lane);
        }
    }
    end_in_stream(r, &lane);
    if (r->rank == 0 && o->for_good) {
        must(r, dma_channel_start_in_stream(lane.channel, &lane.app, &(dma_in_stream_started_t){0}) == DMA_UNSUPPORTED,
             "again");
    }
    threads_barrier(r);
    verify_steps(r, &lane);
    destroy(r, &lane);
}

START_TEST(why_not)
{
    const obstacle_t *o = &obstacles[_i];
    job_t job;

    rt = stream_machine(20);
    job = stream_job(3, obstacle_body, rt, "auto");
    job.arg = o;
    threads_run(&job);
    ck_assert_uint_eq(reasons_count(o->reason), o->for_good ? 2 : 1);
    fake_gpu_stop();
}
END_TEST

static void refused_body(rank_t *r)
{
    call_spec_t spec = call_spec_on_device(DMA_ALLGATHER, false, 100);
    lane_t lane;

    spec.send = spec.recv = *(const call_place_t *)r->job->arg;
    make(r, &lane, &spec);
    prepare_steps(r, &lane);
    threads_barrier(r);
    must(r, dma_channel_start_in_stream(lane.channel, &lane.app, &(dma_in_stream_started_t){0}) == DMA_UNSUPPORTED,
         "start");
    step_by_host(r, &lane);
    threads_barrier(r);
    verify_steps(r, &lane);
    destroy(r, &lane);
}

/* Host memory; a runtime without waits; an engine that submits nothing to streams of the application. */
START_TEST(on_no_rank)
{
    static const dma_reason_t reasons[] = {DMA_REASON_in_stream_unprepared, DMA_REASON_in_stream_engine,
                                           DMA_REASON_in_stream_engine};
    call_place_t place = _i == 0 ? PLACE_HOST : PLACE_DEVICE;
    dma_gpu_engine_t engine = dma_gpu_engine_stream;
    const dma_gpu_engine_t *engines[] = {&engine, NULL};
    job_t job;

    rt = stream_machine(0);
    job = stream_job(3, refused_body, rt, "auto");
    job.arg = &place;
    if (_i == 1) {
        rt->write_and_wait32 = NULL;
    } else if (_i == 2) {
        engine.enqueue = NULL;
        job.engines = engines;
    }
    threads_run(&job);
    ck_assert_uint_eq(reasons_count(reasons[_i]), 3);
    fake_gpu_stop();
}
END_TEST

/* ---- failures ---- */

typedef enum way { FAILS_LATER, BREAKS, PARTLY, WAYS } way_t;

static void fail_comm(lane_t *lane)
{
    dma_comm_t *comm = inside(lane);

    dma_comm_lock(comm);
    dma_comm_fail(comm, DMA_ERR_ENGINE, "a rank fails on purpose");
    dma_comm_unlock(comm);
}

/* Enqueues some starts, and looks at nothing. */
static void enqueue(rank_t *r, lane_t *lane, int steps)
{
    for (int i = 0; i < steps; i++) {
        step_in_stream(r, lane);
    }
}

/* Rank 0 fails, and has no starts; or its stream does not go on; or the runtime refuses a part of its start. */
static void fail_first(rank_t *r, lane_t *lane, way_t way)
{
    if (way == FAILS_LATER) {
        usleep(2000);
        fail_comm(lane);
    } else if (way == BREAKS) {
        enqueue(r, lane, 1);
        must(r, dma_channel_end_in_stream(lane->channel, true) != DMA_OK, "end");
    } else {
        unsigned waits = fake_gpu_calls("stream_wait_event");

        fake_gpu_fail("write_and_wait32", 1, DMA_ERR_ENGINE);
        must(r, dma_channel_start_in_stream(lane->channel, &lane->app, &(dma_in_stream_started_t){0}) == DMA_ERR_ENGINE,
             "start");
        /* the stream waits for the own block nevertheless */
        must(r, fake_gpu_calls("stream_wait_event") == waits + 2, "the own block is not waited for");
    }
    must(r, dma_channel_start_in_stream(lane->channel, &lane->app, &(dma_in_stream_started_t){0}) != DMA_OK,
         "a start after the failure");
}

/* Nothing has been received since the last call_fill. */
static void must_be_untouched(rank_t *r, const lane_t *lane)
{
    must(r, !memcmp(lane->call->recv.base, lane->kept[STEPS - 1], bytes_of(&lane->call->recv)), "a late copy");
}

/* Ranks 1 and 2 have enqueued starts. The last rank has started by the host, and makes progress only when all words say that all
 * ranks have started. */
static void failure_body(rank_t *r)
{
    way_t way = *(const way_t *)r->job->arg;
    call_spec_t spec = call_spec_on_device(DMA_ALLTOALL, false, 3000);
    bool by_host = r->rank == r->n - 1;
    lane_t lane;

    make(r, &lane, &spec);
    prepare_steps(r, &lane);
    threads_barrier(r);
    if (by_host) {
        lane.started++;
        must(r, dma_channel_start(lane.channel, NULL) == DMA_OK, "start");
    } else if (r->rank) {
        enqueue(r, &lane, 4);
    }
    threads_barrier(r);
    if (r->rank == 0) {
        fail_first(r, &lane, way);
        wait_for_stream(r, &lane);
    } else if (!by_host) {
        /* Rank 2 makes no progress: rank 1 forges the words that both streams wait for. */
        for (int i = 0; r->rank == 2 && i < 20000 && call_stream_moves(r, rt, lane.stream); i++) {
            usleep(100);
        }
        wait_for_stream(r, &lane);
        must(r, dma_channel_end_in_stream(lane.channel, false) != DMA_OK, "end");
        must(r, atomic_load(&lane.ended) == 1 && lane.status != DMA_OK, "the call has not failed");
        must(r, dma_channel_start_in_stream(lane.channel, &lane.app, &(dma_in_stream_started_t){0}) < 0, "again");
    }
    threads_barrier(r);
    if (r->rank == 0 && way == FAILS_LATER) {
        call_fill(r, lane.call, STEPS - 1);
    }
    threads_barrier(r);
    if (by_host) {
        must(r, wait_by_host(&lane) != DMA_OK, "a start by the host");
        usleep(5000);
    }
    threads_barrier(r);
    if (r->rank == 0 && way == FAILS_LATER) {
        must_be_untouched(r, &lane);
    }
    lane.steps = 0;
    verify_steps(r, &lane);
    destroy(r, &lane);
}

/* Whoever fails gives copies two seconds to end, so there are few cases. */
START_TEST(failures)
{
    way_t way = (way_t)_i;
    job_t job;

    mallopt(M_PERTURB, 0x5a); /* who reads what has been freed gets no addresses */
    rt = stream_machine(30);
    job = stream_job(4, failure_body, rt, "auto");
    job.arg = &way;
    threads_run(&job);
    fake_gpu_may_stay();
    fake_gpu_stop();
}
END_TEST

/* ---- another stream waits ---- */

enum { WAITERS = 3 };
static char *arenas[WAITERS];

/* While the communicator is freed, the runtime ends no registration. */
static void held_body(rank_t *r)
{
    call_spec_t spec = call_spec_on_device(DMA_ALLGATHER, false, 1000);
    unsigned uses[WAITERS];
    dma_mapping_t *peers[WAITERS];
    lane_t lane;

    make(r, &lane, &spec);
    prepare_steps(r, &lane);
    threads_barrier(r);
    step_in_stream(r, &lane);
    end_in_stream(r, &lane);
    for (int i = 0; i < WAITERS; i++) {
        peers[i] = inside(&lane)->window.peers[i].mapping;
        uses[i] = peers[i]->uses;
    }
    arenas[r->rank] = peers[r->rank]->base;
    threads_barrier(r);
    if (r->rank == 0) {
        fake_gpu_fail_often("host_unregister", 0, 1000, DMA_AGAIN);
    }
    threads_barrier(r);
    verify_steps(r, &lane);
    destroy(r, &lane);
    threads_barrier(r);
    for (int i = 0; i < WAITERS; i++) {
        /* Each rank had one for its communicator. All but the owner have one for the registration now. */
        must(r, peers[i]->uses == uses[i] - 1, "of %u uses of rank %d's arena %u are left", uses[i], i, peers[i]->uses);
    }
    threads_barrier(r);
}

START_TEST(what_is_registered_stays_mapped)
{
    unsigned char resident;
    job_t job;

    rt = stream_machine(20);
    job = stream_job(WAITERS, held_body, rt, "auto");
    threads_run(&job);
    ck_assert_uint_gt(fake_gpu_pinned(), 0);
    for (int i = 0; i < WAITERS; i++) {
        ck_assert_int_eq(mincore(arenas[i], 1, &resident), 0);
    }
    fake_gpu_may_stay();
    fake_gpu_stop();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("in_stream");

    unit_loop(suite, any_mix, 0, 4, 120);
    unit_test(suite, alone, 60);
    unit_loop(suite, why_not, 0, (int)(sizeof(obstacles) / sizeof(obstacles[0])), 60);
    unit_loop(suite, on_no_rank, 0, 3, 60);
    unit_loop(suite, failures, 0, WAYS, 60);
    unit_test(suite, what_is_registered_stays_mapped, 60);
    return unit_main(suite);
}
