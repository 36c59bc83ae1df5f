/*
 * Work of the application that still uses the buffers of a call. Bytes of its synchronous copies may arrive late. So memory is
 * adopted: a call waits for copies that are under way, and later copies are complete when they return. coll_dma_stream_sync waits
 * for the default stream before every call and every start; an error of that wait is an error on all ranks.
 */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "core/comm.h"
#include "device/device.h"
#include "libengine_call.h"
#include "libunit.h"

enum { RANKS = 3 };

static const call_spec_t gather = {.coll = DMA_ALLGATHER, .elements = 900, .send = PLACE_DEVICE, .recv = PLACE_DEVICE};

typedef struct persistent {
    dma_channel_t *channel;
    _Atomic int status; /* of the last start; DMA_AGAIN: it is under way */
} persistent_t;

static void ended(void *arg, dma_status_t status)
{
    atomic_store(&((persistent_t *)arg)->status, (int)status);
}

static void make(rank_t *r, persistent_t *p, call_t *c)
{
    dma_status_t status = dma_channel_create(r->comms[0], &c->call, ended, p, &p->channel);

    must(r, status == DMA_OK, "%s: %s", dma_status_name(status), dma_comm_reason(r->comms[0]));
}

static dma_status_t finish_start(persistent_t *p)
{
    dma_status_t status;

    atomic_store(&p->status, DMA_AGAIN);
    if ((status = dma_channel_start(p->channel, NULL)) != DMA_OK) {
        return status;
    }
    while (atomic_load(&p->status) == DMA_AGAIN) {
        threads_host.progress();
    }
    return (dma_status_t)atomic_load(&p->status);
}

static dma_status_t run_start(rank_t *r, persistent_t *p, call_t *c, uint64_t tag)
{
    call_fill(r, c, tag);
    return finish_start(p);
}

static dma_status_t finish_posted(rank_t *r, call_t *c)
{
    dma_status_t status;
    dma_task_t *task;

    if ((status = task_post(r->comms[0], &c->call, NULL, NULL, &task)) != DMA_OK) {
        return status;
    }
    while ((status = dma_task_test(task)) == DMA_AGAIN) {
        threads_host.progress();
    }
    task_free(task);
    return status;
}

static dma_status_t run_posted(rank_t *r, call_t *c, uint64_t tag)
{
    call_fill(r, c, tag);
    return finish_posted(r, c);
}

/* All ranks have made a call or start: each has waited for the default stream once, or not at all. */
static void count_waits(rank_t *r, unsigned *before, const char *what)
{
    unsigned want = r->job->params.stream_sync ? RANKS : 0, now;

    threads_barrier(r);
    now = fake_gpu_calls("default_sync");
    must(r, now - *before == want, "%s: %u waits, not %u", what, now - *before, want);
    *before = now;
    threads_barrier(r);
}

static bool is_prepared(const persistent_t *p)
{
    const dma_comm_t *comm = *(dma_comm_t *const *)p->channel; /* the first member of a channel */

    return comm->device && comm->device->prepared;
}

static void prepare(rank_t *r)
{
    must(r, dma_comm_prepare(r->comms[0]) == DMA_OK, "%s", dma_comm_reason(r->comms[0]));
}

/* ---- every form ---- */

/* With FINE memory the starts are not prepared. */
static void in_every_form(rank_t *r)
{
    const call_place_t *place = r->job->arg;
    call_spec_t spec = gather;
    unsigned waits = 0;
    persistent_t p;
    call_t *c;

    spec.send = spec.recv = *place;
    c = call_make(r, &spec);
    prepare(r);
    for (uint64_t tag = 1; tag <= 3; tag++) {
        call_run(r, r->comms[0], c, tag);
        count_waits(r, &waits, "a blocking call");
        must(r, run_posted(r, c, 10 + tag) == DMA_OK, "posted");
        call_verify(r, c);
        count_waits(r, &waits, "a non-blocking call");
    }
    make(r, &p, c);
    must(r, is_prepared(&p) == (*place == PLACE_DEVICE), "prepared: %d", is_prepared(&p));
    if (is_prepared(&p)) {
        count_waits(r, &waits, "the making of a persistent call");
    }
    for (uint64_t tag = 21; tag <= 24; tag++) {
        must(r, run_start(r, &p, c, tag) == DMA_OK, "start");
        call_verify(r, c);
        count_waits(r, &waits, "a start");
    }
    dma_channel_destroy(p.channel);
    threads_barrier(r);
    call_free(c);
}

/* Loop variable: with the parameter, with programs that are armed, in memory that engines reach. */
START_TEST(every_call_waits)
{
    call_place_t place = _i & 4 ? PLACE_FINE : PLACE_DEVICE;
    job_t job = call_job(RANKS, in_every_form, NULL);

    job.arg = &place;
    job.params.stream_sync = _i & 1;
    job.params.prelaunch = _i & 2;
    call_run_job(&job);
    ck_assert_int_eq(engine_armed() > 0, !(_i & 4) && (_i & 2));
}
END_TEST

/* ---- a wait that fails ---- */

typedef struct failure {
    dma_status_t (*run)(rank_t *r, persistent_t *p, call_t *c, uint64_t tag);
    dma_status_t how;
} failure_t;

static dma_status_t try_blocking(rank_t *r, persistent_t *p, call_t *c, uint64_t tag)
{
    (void)p;
    return call_try(r, r->comms[0], c, tag);
}

static dma_status_t try_posted(rank_t *r, persistent_t *p, call_t *c, uint64_t tag)
{
    (void)p;
    return run_posted(r, c, tag);
}

/* Whose wait fails is chance. The data of the others must not be taken for complete either. */
static void one_wait_fails(rank_t *r)
{
    const failure_t *f = r->job->arg;
    call_t *c = call_make(r, &gather);
    dma_status_t status;
    persistent_t p;

    prepare(r);
    make(r, &p, c);
    must(r, f->run(r, &p, c, 1) == DMA_OK, "the first");
    call_verify(r, c);
    threads_barrier(r);
    if (r->rank == 1) {
        fake_gpu_fail("default_sync", 0, f->how);
    }
    threads_barrier(r);
    for (uint64_t tag = 2; tag <= 3; tag++) {
        status = f->run(r, &p, c, tag);
        must(r, status == DMA_ERR_ENGINE, "call %d: %s", (int)tag, dma_status_name(status));
    }
    dma_channel_destroy(p.channel);
    threads_barrier(r);
    call_free(c);
}

START_TEST(a_failing_wait_is_an_error_on_all_ranks)
{
    static const failure_t failures[] = {{try_blocking, DMA_ERR_ENGINE}, {try_blocking, DMA_UNSUPPORTED},
                                         {try_posted, DMA_ERR_ENGINE},   {try_posted, DMA_UNSUPPORTED},
                                         {run_start, DMA_ERR_ENGINE},    {run_start, DMA_UNSUPPORTED}};
    job_t job = call_job(RANKS, one_wait_fails, NULL);

    job.arg = &failures[_i / 2];
    job.params.stream_sync = 1;
    job.params.prelaunch = _i % 2;
    call_run_job(&job);
    ck_assert_int_eq(reports_count("failed"), RANKS);
}
END_TEST

/* ---- copies of the application that come late ---- */

static void make_late(const call_buffer_t *b)
{
    char *data = malloc(b->bytes);

    memcpy(data, b->at, b->bytes);
    memset(b->at, 0x11, b->bytes);
    fake_gpu_copy_late(b->at, data, b->bytes);
    free(data);
}

/* The data of a use, and what the application had written to the receive buffer before: both come late. */
static void fill_late(rank_t *r, call_t *c, uint64_t tag)
{
    call_fill(r, c, tag);
    make_late(&c->recv);
    if (!c->spec.in_place) {
        make_late(&c->send);
    }
}

static void verify_at_the_end(rank_t *r, call_t *c, dma_status_t status)
{
    must(r, status == DMA_OK, "%s", dma_status_name(status));
    fake_gpu_arrive(); /* what is still under way overwrites what has been received */
    call_verify(r, c);
}

/* Each form in memory of its own, so that each has to adopt it. */
static void late_in_every_form(rank_t *r)
{
    const call_spec_t *spec = r->job->arg;
    call_t *c[] = {call_make(r, spec), call_make(r, spec), call_make(r, spec)};
    persistent_t p;

    prepare(r);
    make(r, &p, c[2]);
    for (uint64_t tag = 1; tag <= 3; tag++) {
        fill_late(r, c[0], tag);
        verify_at_the_end(r, c[0], dma_comm_run(r->comms[0], &c[0]->call));
        fill_late(r, c[1], tag + 10);
        verify_at_the_end(r, c[1], finish_posted(r, c[1]));
        fill_late(r, c[2], tag + 20);
        verify_at_the_end(r, c[2], finish_start(&p));
    }
    dma_channel_destroy(p.channel);
    threads_barrier(r);
    for (int i = 0; i < 3; i++) {
        call_free(c[i]);
    }
}

/* Loop variable: in place or not; on how many ranks; memory that engines reach, or that is staged; and a runtime that cannot adopt
 * memory, with which the user asks for the wait. */
START_TEST(late_copies)
{
    for (int coll = 0; coll < DMA_COLL_COUNT; coll++) {
        call_spec_t spec = {.coll = (dma_coll_t)coll, .in_place = _i & 1, .elements = 700, .sizes = 3};
        int n = _i & 2 ? 1 : RANKS;
        job_t job = call_job(n, late_in_every_form, NULL);

        spec.send = spec.recv = _i & 4 ? PLACE_FINE : PLACE_DEVICE;
        job.arg = &spec;
        if (_i & 8) {
            ((dma_gpu_runtime_t *)(uintptr_t)job.runtime)->adopt = NULL;
            job.params.stream_sync = 1;
        }
        call_run_job(&job);
    }
}
END_TEST

/* The module below is called with host memory in place of the buffers. */
static void bounced(rank_t *r)
{
    call_t *c = call_make(r, &gather);
    dma_bounce_t *bounce;
    const char *sent;

    fill_late(r, c, 1);
    must(r, dma_bounce_make(r->comms[0], &c->call, &bounce) == DMA_OK && bounce, "no bounce");
    must(r, dma_bounce_in(bounce) == DMA_OK, "in");
    sent = dma_bounce_send(bounce, c->call.send.addr);
    for (size_t i = 0; i < c->send.bytes; i++) {
        must(r, (uint8_t)sent[i] == data_byte(1, 16 * r->rank, i), "byte %zu", i);
    }
    dma_bounce_free(bounce);
    threads_barrier(r);
    call_free(c);
}

START_TEST(late_copies_in_front_of_the_module_below)
{
    job_t job = call_job(2, bounced, NULL);

    call_run_job(&job);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("device_sync");

    unit_loop(s, every_call_waits, 0, 8, 20);
    unit_loop(s, late_copies, 0, 16, 20);
    unit_test(s, late_copies_in_front_of_the_module_below, 10);
    unit_loop(s, a_failing_wait_is_an_error_on_all_ranks, 0, 12, 20);
    return unit_main(s);
}
