/*
 * The stream engine, and the data that stays on a device. The own block is begun before the peers have entered, and
 * has ended before the plan of another rank ends the call. Also: exchanges that use only the links, when runs use echo, and
 * probes that end it.
 */
#include <string.h>

#include "device/device.h"
#include "dma/clock.h"
#include "engine/stream/self_copy.h"
#include "engine/stream/unit.h"
#include "libstream.h"
#include "libunit.h"

static dma_gpu_runtime_t *rt;

static void rest(double seconds)
{
    for (double end = dma_now() + seconds; dma_now() < end;) {
    }
}

/* ---- early ---- */

enum { BYTES = 3000, LATE_US = 2000 };

typedef struct buffers {
    uint8_t *send, *recv, *host;
} buffers_t;

static buffers_t allocate(const rank_t *r)
{
    return (buffers_t){.send = fake_gpu_alloc(DMA_GPU_DEVICE_PLAIN, r->rank, BYTES),
                       .recv = fake_gpu_alloc(DMA_GPU_DEVICE_PLAIN, r->rank, BYTES * (size_t)r->n),
                       .host = fake_gpu_alloc(DMA_GPU_HOST_PINNED, r->rank, BYTES * (size_t)r->n)};
}

static void release(const buffers_t *b)
{
    fake_gpu_free(b->send);
    fake_gpu_free(b->recv);
    fake_gpu_free(b->host);
}

static void gather_from(rank_t *r, uint8_t *send, uint64_t tag, uint8_t *recv)
{
    dma_side_t to = data_buffer(recv, BYTES), from = data_buffer(send, BYTES);

    data_fill(send, tag, r->rank, BYTES);
    must(r, data_allgather(r->comms[0], &from, &to) == DMA_OK, "all-gather %lu", tag);
    data_check(r, recv, tag, BYTES);
}

static void gather(rank_t *r, const buffers_t *b, uint64_t tag, uint8_t *recv)
{
    gather_from(r, b->send, tag, recv);
}

/* Calls after which the graph of the own block exists. */
static void warm_up(rank_t *r, const buffers_t *b)
{
    threads_prepare(r, r->comms[0]);
    for (uint64_t i = 0; i < 3; i++) {
        gather(r, b, i, b->recv);
    }
    threads_barrier(r);
}

static void peers_wait_for_launch(rank_t *r)
{
    buffers_t b = allocate(r);
    unsigned launched, batches;

    warm_up(r, &b);
    launched = fake_gpu_calls("graph_launch");
    batches = fake_gpu_calls("copy_batch");
    threads_barrier(r);
    /* rank 0 calls; the others call only after its own block, and nothing else, has been launched */
    for (double end = dma_now() + 120; r->rank && fake_gpu_calls("graph_launch") == launched;) {
        must(r, dma_now() < end, "the own block waits for the peers");
    }
    must(r, !r->rank || fake_gpu_calls("copy_batch") == batches, "pushed before the peers had entered");
    gather(r, &b, 10, b.recv);
    threads_barrier(r);
    must(r, fake_gpu_calls("graph_launch") == launched + (unsigned)r->n, "launched once by each");
    threads_barrier(r);
    release(&b);
}

START_TEST(own_block_does_not_wait_for_peers)
{
    job_t job;

    rt = stream_machine(0);
    job = stream_job(2, peers_wait_for_launch, rt, "graph"); /* two: a third would be counted as a launch of rank 0 */
    threads_run(&job);
    fake_gpu_stop();
}
END_TEST

/* Rank 1 has host memory, so all ranks use the host. What rank 0 has begun must not end after the call. */
static void one_by_host(rank_t *r)
{
    buffers_t b = allocate(r);
    uint8_t mine[BYTES];
    unsigned launched, seen;

    warm_up(r, &b);
    for (uint64_t i = 0; i < 8; i++) {
        threads_barrier(r);
        launched = fake_gpu_calls("graph_launch");
        threads_barrier(r);
        gather_from(r, r->rank == 1 ? mine : b.send, 20 + i, r->rank == 1 ? b.host : b.recv);
        if (r->rank == 0) {
            memset(b.recv, 0x5a, BYTES);
            rest(LATE_US * 1.5e-6);
            for (int k = 0; k < BYTES; k++) {
                must(r, b.recv[k] == 0x5a, "byte %d was written after the call", k);
            }
        }
        threads_barrier(r);
        seen = fake_gpu_calls("graph_launch") - launched;
        must(r, seen == 1, "launched %u", seen);
    }
    threads_barrier(r);
    release(&b);
}

START_TEST(nothing_comes_after_a_call_by_the_host)
{
    job_t job;

    rt = stream_machine(LATE_US);
    job = stream_job(2, one_by_host, rt, "graph");
    threads_run(&job);
    fake_gpu_stop();
}
END_TEST

/* ---- exchanges ---- */

enum { SWAPS = 3, ROOM = 1000 };

static struct {
    uint8_t ours[SWAPS][ROOM], theirs[SWAPS][ROOM];
    int batches, inside;
} world;

static bool is_theirs(uint64_t addr)
{
    return addr - (uint64_t)(uintptr_t)world.theirs < sizeof(world.theirs);
}

static dma_status_t copy_now(dma_gpu_stream_t *stream, const uint64_t *dst, const uint64_t *src, const uint64_t *bytes,
                             size_t n)
{
    (void)stream;
    world.batches++;
    for (size_t i = 0; i < n; i++) {
        world.inside += is_theirs(dst[i]) == is_theirs(src[i]);
        memcpy((void *)(uintptr_t)dst[i], (const void *)(uintptr_t)src[i], bytes[i]);
    }
    return DMA_OK;
}

START_TEST(exchange_by_links_leaves_the_device_alone)
{
    static uint8_t temp[DMA_WORK_TEMP], before[2][SWAPS][ROOM];
    dma_gpu_runtime_t table = {.copy_batch = copy_now};
    bool by_links = _i;
    dma_work_t work;

    ck_assert_int_eq(dma_work_create(&work, SWAPS + 1), DMA_OK);
    work.swaps.n = 0;
    world.batches = world.inside = 0;
    for (int i = 0; i < SWAPS; i++) {
        for (int k = 0; k < ROOM; k++) {
            world.ours[i][k] = (uint8_t)(i * 31 + k);
            world.theirs[i][k] = (uint8_t)(i * 17 + k * 3 + 1);
        }
        dma_copies_add(&work.swaps, (uint64_t)(uintptr_t)world.theirs[i], (uint64_t)(uintptr_t)world.ours[i],
                       (uint64_t)(ROOM - 100 * i));
    }
    memcpy(before[0], world.ours, sizeof(world.ours));
    memcpy(before[1], world.theirs, sizeof(world.theirs));
    ck_assert_int_eq(dma_work_exchange(&work, &table, NULL, (uint64_t)(uintptr_t)temp, sizeof(temp), by_links), DMA_OK);
    for (int i = 0; i < SWAPS; i++) {
        size_t bytes = (size_t)(ROOM - 100 * i);

        ck_assert_mem_eq(world.ours[i], before[1][i], bytes);
        ck_assert_mem_eq(world.theirs[i], before[0][i], bytes);
        ck_assert_mem_eq(world.ours[i] + bytes, before[0][i] + bytes, ROOM - bytes);
        ck_assert_mem_eq(world.theirs[i] + bytes, before[1][i] + bytes, ROOM - bytes);
    }
    ck_assert_int_eq(world.batches, by_links ? 6 : 3);
    ck_assert_int_eq(world.inside, by_links ? 0 : SWAPS);
    dma_work_destroy(&work);
}
END_TEST

/* An exchange that takes this time. Returns whether it used the links. */
static bool exchange_of(dma_self_copy_t *own, uint64_t bytes, double seconds)
{
    if (dma_self_copy_choose_echo(own)) {
        return true;
    }
    dma_self_copy_exchange_begin(own, bytes, 5);
    if (own->late) {
        /* nobody polled in between: the runtime did not return */
        dma_self_copy_observe(own, true, true, 5 + seconds);
        return false;
    }
    dma_self_copy_observe(own, true, false, 5 + seconds / 2);
    dma_self_copy_observe(own, true, false, 5 + seconds);
    dma_self_copy_observe(own, true, true, 5 + seconds);
    return false;
}

START_TEST(late_exchanges_take_to_the_links)
{
    static const uint64_t sizes[] = {1000, UINT64_C(1) << 20, UINT64_C(1) << 30};
    dma_gpu_runtime_t table = {0};
    dma_self_copy_t own;

    for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
        /* the time of an idle link, and the time behind a matrix product */
        double idle = 30e-6 + (double)sizes[s] / 300e9, busy = idle + (double)sizes[s] / 50e9 + 1.1e-3;

        dma_self_copy_init(&own, DMA_SELF_COPY_AUTO, &table);
        for (int i = 0; i < 1000; i++) {
            ck_assert(!exchange_of(&own, sizes[s], idle));
        }
        for (int i = 0; i < 3; i++) {
            ck_assert(!exchange_of(&own, sizes[s], busy));
        }
        for (int i = 0; i < 100; i++) {
            ck_assert(exchange_of(&own, sizes[s], busy));
        }
        dma_self_copy_init(&own, DMA_SELF_COPY_PLAIN, &table);
        for (int i = 0; i < 10; i++) {
            ck_assert(!exchange_of(&own, sizes[s], busy));
        }
    }
}
END_TEST

/* ---- echo ---- */

/* A run whose own copy ends `late` seconds after the pushes. Returns whether it was echoed. */
static bool own_run(dma_self_copy_t *own, double late)
{
    if (dma_self_copy_choose_echo(own)) {
        return true;
    }
    own->watching = true;
    own->since = 0;
    own->limit = 20e-6;
    dma_self_copy_observe(own, false, false, 1);
    dma_self_copy_observe(own, true, false, 1);
    dma_self_copy_observe(own, true, false, 1 + late / 2);
    dma_self_copy_observe(own, true, false, 1 + late);
    dma_self_copy_observe(own, true, true, 1 + late + 1e-6);
    return false;
}

/* Echoes until the own block is copied again; every probe is in time, or one in `miss` is not. */
static int runs_with_probes(dma_self_copy_t *own, int miss)
{
    int runs = 0, probes = 0;

    while (dma_self_copy_choose_echo(own)) {
        runs++;
        if (dma_self_copy_wants_probe(own)) {
            dma_self_copy_probed(own, !miss || ++probes % miss);
        }
    }
    own->watching = true;
    own->since = 0;
    own->limit = 20e-6;
    return runs;
}

static void end_copy(dma_self_copy_t *own, double late)
{
    dma_self_copy_observe(own, true, false, 1);
    dma_self_copy_observe(own, true, false, 1 + late);
    dma_self_copy_observe(own, true, true, 1 + late + 1e-6);
}

START_TEST(probes_end_the_echo)
{
    dma_gpu_runtime_t table = {0};
    dma_self_copy_t own;
    int without, runs, most = 20;

    dma_self_copy_init(&own, DMA_SELF_COPY_AUTO, &table);
    for (int i = 0; i < 3; i++) {
        ck_assert(!own_run(&own, 1e-3));
    }
    /* the compute units are busy */
    without = runs_with_probes(&own, 1);
    ck_assert_int_ge(without, 200);
    end_copy(&own, 1e-3);
    /* some probes find a free one */
    ck_assert_int_eq(runs_with_probes(&own, 3), 2 * without);
    end_copy(&own, 1e-3);
    /* all do, but copies are late: each time twice as many are needed, as long as echo is not over by itself */
    for (int i = 0; i < 4; i++) {
        runs = runs_with_probes(&own, 0);
        ck_assert_int_le(runs, most);
        ck_assert_int_gt(runs, most / 2);
        most *= 2;
        end_copy(&own, 1e-3);
    }
    /* the load has ended: after some time, probes count as at the beginning */
    (void)runs_with_probes(&own, 0);
    end_copy(&own, 5e-6);
    for (int i = 0; i < 200; i++) {
        ck_assert(!own_run(&own, 5e-6));
    }
    for (int i = 0; i < 3; i++) {
        ck_assert(!own_run(&own, 1e-3));
    }
    ck_assert_int_le(runs_with_probes(&own, 0), 20);
}
END_TEST

/* The memory of probes is counted. Where the bound leaves none, there is no probe until some has been given back. */
START_TEST(probes_are_counted)
{
    dma_counters_t counters = DMA_COUNTERS_INIT;
    dma_budget_t budget;
    dma_gpu_config_t config = {.rt = stream_machine(0), .own_copy = "auto", .counters = &counters, .budget = &budget};
    char why[DMA_GPU_WHY_BYTES];
    dma_stream_unit_t *unit;
    dma_gpu_unit_t *handle;
    dma_gpu_scope_t scope;

    dma_budget_init(&budget, &counters, 600, 0);
    ck_assert_int_eq(dma_stream_open(&config, &handle, why), DMA_OK);
    unit = (dma_stream_unit_t *)handle;
    ck_assert_int_eq(config.rt->enter(0, &scope), DMA_OK);
    ck_assert(dma_budget_take(&budget, DMA_BUDGET_DEVICE, 100));
    ck_assert_uint_eq(dma_stream_probe_begin(unit), 0);
    ck_assert_uint_eq(fake_gpu_calls("alloc"), 0);
    dma_budget_give(&budget, DMA_BUDGET_DEVICE, 100);
    if (_i) {
        fake_gpu_fail("alloc", 0, DMA_ERR_NOMEM);
    }
    ck_assert_uint_eq(dma_stream_probe_begin(unit) != 0, !_i);
    ck_assert_uint_eq(dma_counters_read(&counters, DMA_COUNT_scratch_held, NULL), _i ? 0 : 512);
    ck_assert_uint_eq(fake_gpu_given(0), _i ? 0 : 512);
    config.rt->leave(&scope);
    dma_stream_close(handle);
    ck_assert_uint_eq(dma_counters_read(&counters, DMA_COUNT_scratch_held, NULL), 0);
    fake_gpu_stop();
}
END_TEST

/* Streams that are late at random: echoes, probes and copies in turn, with right data. */
static void probed_body(rank_t *r)
{
    stream_gathers(r, *(const int *)r->job->arg, 5000);
}

/* Returns the number of times that a probe was looked at. */
static unsigned looks_at_probes(unsigned late_us, int calls, bool fails)
{
    unsigned looks;
    job_t job;

    rt = stream_machine(late_us);
    job = stream_job(3, probed_body, rt, "auto");
    job.arg = &calls;
    if (fails) {
        fake_gpu_fail("event_create", 0, DMA_ERR_ENGINE);
    }
    threads_run(&job);
    looks = fake_gpu_calls("event_query");
    ck_assert_uint_eq(fake_gpu_calls("event_create"), fake_gpu_calls("event_destroy") + fails);
    fake_gpu_stop();
    return looks;
}

/* A busy machine lets a rank look so rarely that it sees no copy late. Then streams are later, until one is. */
START_TEST(probes_beside_echoes)
{
    unsigned late_us = _i ? 300 : 60, looks = looks_at_probes(late_us, 400, _i == 2);

    while (!looks && late_us < 40000) {
        late_us *= 8;
        looks = looks_at_probes(late_us, 60, _i == 2);
    }
    ck_assert_uint_gt(looks, 0);
}
END_TEST

START_TEST(echo_while_copies_are_late)
{
    dma_gpu_runtime_t table = {0};
    dma_self_copy_t own;
    int echoed[3] = {0};

    dma_self_copy_init(&own, DMA_SELF_COPY_AUTO, &table);
    for (int i = 0; i < 1000; i++) {
        ck_assert(!own_run(&own, 5e-6));
    }
    /* two late copies are chance, and so are three over a long time */
    for (int i = 0; i < 3; i++) {
        ck_assert(!own_run(&own, 1e-3));
        ck_assert(!own_run(&own, 1e-3));
        for (int k = 0; k < 128; k++) {
            ck_assert(!own_run(&own, 5e-6));
        }
    }
    /* three of five are not */
    for (int i = 0; i < 5; i++) {
        ck_assert(!own_run(&own, i % 2 ? 5e-6 : 1e-3));
    }
    for (int phase = 0; phase < 3; phase++) {
        while (own_run(&own, 1e-3)) {
            echoed[phase]++;
        }
    }
    ck_assert_int_ge(echoed[0], 100);
    ck_assert_int_eq(echoed[1], 2 * echoed[0]);
    ck_assert_int_eq(echoed[2], 4 * echoed[0]);
    /* in time again: as at the beginning */
    while (own_run(&own, 5e-6)) {
    }
    for (int i = 0; i < 1000; i++) {
        ck_assert(!own_run(&own, 5e-6));
    }
    /* what the parameter demands does not change */
    dma_self_copy_init(&own, DMA_SELF_COPY_ECHO, &table);
    ck_assert(own_run(&own, 0));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("stream_own");

    unit_test(suite, own_block_does_not_wait_for_peers, 60);
    unit_test(suite, nothing_comes_after_a_call_by_the_host, 60);
    unit_loop(suite, exchange_by_links_leaves_the_device_alone, 0, 2, 20);
    unit_test(suite, late_exchanges_take_to_the_links, 20);
    unit_test(suite, echo_while_copies_are_late, 10);
    unit_test(suite, probes_end_the_echo, 10);
    unit_loop(suite, probes_are_counted, 0, 2, 10);
    unit_loop(suite, probes_beside_echoes, 0, 3, 60);
    return unit_main(suite);
}
