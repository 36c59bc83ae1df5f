/*
 * Armed programs of the sdma engine: what stands in their queues, read back by a decoder of its own; that they run when all
 * have started and not before; that those given up do nothing.
 *
 * Rank 0 of three, each on a GPU of an MI300X machine, without the other two: the test writes their ready words.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/sdma/bound.h"
#include "libgpu_fake.h"
#include "libsdma_decode.h"
#include "libsdma_tree.h"
#include "libthunk.h"
#include "libunit.h"
#include "node/window.h"

#define RANKS 3
#define BYTES 4096 /* of a block */

/* What a test begins with. */
typedef struct stage {
    char *root;
    dma_topo_t *machine;
    dma_gpu_runtime_t *rt;
    dma_gpu_unit_t *unit;
    struct dma_bound *bound;
    dma_gpu_card_t cards[RANKS];
    uint64_t ready_at[RANKS];
    dma_engine_line_t *ready; /* by rank */
    dma_window_t window;
    dma_peer_t peers[RANKS];
    char *block; /* ours */
    size_t block_bytes;
    char *send, *recv[RANKS];
    dma_target_t targets[RANKS];
    dma_plan_t *plan;
    dma_run_t run;
} stage_t;

static dma_topo_t *machine;

static dma_status_t pci_of(int device, dma_gpu_pci_t *pci)
{
    const dma_topo_gpu_t *gpu = &machine->gpus[device];

    *pci = (dma_gpu_pci_t){.domain = gpu->domain, .bus = gpu->location >> 8, .device = gpu->location >> 3 & 31};
    return DMA_OK;
}

static char *shown(size_t bytes)
{
    char *p = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);

    memset(p, 0, (bytes + 4095) / 4096 * 4096);
    thunk_show(p, (bytes + 4095) / 4096 * 4096);
    return p;
}

static void make_window(stage_t *s)
{
    dma_geom_t geom = {.ring_depth = 4, .slot_bytes = 64};

    s->window = (dma_window_t){.rank = 0, .nranks = RANKS, .geom = geom, .peers = s->peers};
    s->window.layout = dma_block_layout(&geom, RANKS);
    s->block_bytes = s->window.layout.bytes;
    s->block = shown(s->block_bytes);
    s->peers[0].block = (dma_block_t *)s->block;
}

static void make_plan(stage_t *s, const char *variant, dma_coll_t coll, bool in_place)
{
    dma_plan_req_t req = {.coll = coll, .nranks = RANKS, .in_place = in_place, .max_ways = 16, .swap = true};
    dma_choice_t choice = {.variant = (uint32_t)dma_variant_find(variant), .ways = RANKS - 1};

    ck_assert_int_eq(dma_plan_build(&req, &choice, 0, &s->plan), DMA_OK);
    s->run = (dma_run_t){.plan = s->plan, .window = &s->window, .targets = s->targets, .bound = s->bound, .epoch = 5};
    s->run.send = (dma_blocks_t){.addr = s->send, .bytes = BYTES};
    s->run.recv = (dma_blocks_t){.addr = s->recv[0], .bytes = BYTES};
}

static void bind(stage_t *s)
{
    dma_gpu_job_t job = {.rank = 0, .nranks = RANKS, .cards = s->cards, .ready = s->ready_at};
    char why[DMA_GPU_WHY_BYTES];

    job.lines = (uint64_t)(uintptr_t)dma_window_queue(&s->window, 0, 0);
    ck_assert_int_eq(dma_gpu_engine_sdma.bind(s->unit, &job, &s->bound, why), DMA_OK);
}

static void begin(stage_t *s, thunk_options_t options)
{
    fake_gpu_options_t gpus = {.devices = 8, .seed = 1};
    dma_gpu_config_t config = {.device = 0, .timeout = 60};
    char why[DMA_GPU_WHY_BYTES] = "";

    memset(s, 0, sizeof(*s));
    s->rt = fake_gpu_start(&gpus);
    s->root = tree_make("mi300x-spx");
    s->machine = machine = tree_read("mi300x-spx");
    s->rt->name = "hip";
    s->rt->device_pci = pci_of;
    options.gen = EMU_SDMA_GFX942;
    options.seed = unit_seed();
    options.rt = s->rt;
    thunk_begin(&options);
    config.rt = s->rt;
    config.sysfs = s->root;
    ck_assert_msg(dma_gpu_engine_sdma.open(&config, &s->unit, why) == DMA_OK, "%s", why);
    make_window(s);
    s->ready = (dma_engine_line_t *)(void *)shown(RANKS * sizeof(*s->ready));
    s->send = shown(RANKS * BYTES);
    for (int i = 0; i < RANKS * BYTES; i++) {
        s->send[i] = (char)(i * 7 + i / 256 + 1);
    }
    for (int r = 0; r < RANKS; r++) {
        s->cards[r].node = s->machine->gpus[r].node;
        s->ready_at[r] = (uint64_t)(uintptr_t)&s->ready[r].word;
        s->recv[r] = shown(RANKS * BYTES);
        s->targets[r] = (dma_target_t){.addr = (uint64_t)(uintptr_t)s->recv[r], .bytes = BYTES};
    }
    bind(s);
    make_plan(s, "pcpy", DMA_ALLGATHER, false);
}

static void end(stage_t *s)
{
    dma_gpu_engine_sdma.unbind(s->bound);
    dma_gpu_engine_sdma.close(s->unit);
    thunk_end();
    fake_gpu_stop();
    dma_plan_free(s->plan);
    tree_remove(s->root);
    dma_topo_free(s->machine);
    free(s->block);
    free(s->ready);
    free(s->send);
    for (int r = 0; r < RANKS; r++) {
        free(s->recv[r]);
    }
}

static uint32_t line(const stage_t *s, int queue)
{
    return atomic_load(&dma_window_queue(&s->window, 0, queue)->word);
}

/* Has our block arrived at a rank? */
static bool arrived(const stage_t *s, int rank)
{
    return !memcmp(s->recv[rank], s->send, BYTES);
}

static bool untouched(const stage_t *s, int rank)
{
    for (int i = 0; i < RANKS * BYTES; i++) {
        if (s->recv[rank][i]) {
            return false;
        }
    }
    return true;
}

static void start_rank(stage_t *s, int rank)
{
    atomic_store(&s->ready[rank].word, dma_ready_start(s->run.epoch));
}

/* All lines of the run are written. */
static void wait_end(const stage_t *s)
{
    for (int q = 0; q + 1 < (int)s->plan->nprogs; q++) {
        for (int k = 0; line(s, q) != s->run.epoch; k++) {
            ck_assert_int_lt(k, 100000);
            usleep(100);
        }
    }
}

/* ---- what stands in the queues ---- */

static size_t decode(const uint32_t *p, size_t left, sdma_packet_t *packet)
{
    const char *why = "";
    size_t n = sdma_decode(p, left, packet, &why);

    ck_assert_msg(n > 0, "%s", why);
    return n;
}

/* A program from dword `at` on; returns where it ends. */
static size_t expect_program(const stage_t *s, const dma_queue_t *queue, size_t at, int peer, int number)
{
    const uint32_t *ring = queue->ring.mem.ring;
    size_t all = queue->ring.published / 4, covered;
    sdma_packet_t p;

    at += decode(ring + at, all - at, &p);
    ck_assert_int_eq(p.kind, SDMA_POLL);
    ck_assert_uint_eq(p.addr, s->ready_at[0]);
    ck_assert_uint_eq(p.mask, UINT32_MAX - 1); /* a start, or one given up */
    ck_assert_uint_eq(p.value, dma_ready_start(s->run.epoch));
    ck_assert_uint_eq(p.test, 3);
    at += decode(ring + at, all - at, &p);
    ck_assert_int_eq(p.kind, SDMA_COND);
    ck_assert_uint_eq(p.addr, queue->go_addr);
    ck_assert_uint_eq(p.value, 1);
    covered = at + p.covered;
    if (peer) {
        at += decode(ring + at, all - at, &p);
        ck_assert_int_eq(p.kind, SDMA_POLL);
        ck_assert_uint_eq(p.addr, s->ready_at[peer]);
        ck_assert_uint_eq(p.mask, UINT32_MAX);
        ck_assert_uint_eq(p.value, dma_ready_start(s->run.epoch));
    }
    at += decode(ring + at, all - at, &p);
    ck_assert_int_eq(p.kind, SDMA_COPY);
    ck_assert_uint_eq(p.src, (uint64_t)(uintptr_t)s->send);
    ck_assert_uint_eq(p.dst, s->targets[peer].addr);
    ck_assert_uint_eq(p.bytes, BYTES);
    at += decode(ring + at, all - at, &p);
    ck_assert_int_eq(p.kind, SDMA_FENCE);
    ck_assert_uint_eq(p.addr, (uint64_t)(uintptr_t)dma_window_queue(&s->window, 0, number));
    ck_assert_uint_eq(p.value, s->run.epoch);
    ck_assert_uint_eq(at, covered); /* given up, all of it is skipped, the line too, and nothing behind it */
    return at;
}

START_TEST(packets)
{
    stage_t s;
    size_t at;

    begin(&s, (thunk_options_t){0});
    ck_assert(thunk_quiet(10));
    thunk_hold(true);
    ck_assert_int_eq(dma_gpu_engine_sdma.arm(&s.run), DMA_OK);
    ck_assert_ptr_nonnull(s.bound->waiting[1]);
    ck_assert_ptr_nonnull(s.bound->waiting[2]);
    ck_assert_ptr_null(s.bound->waiting[3]); /* the own block's */
    ck_assert_ptr_ne(s.bound->waiting[1], s.bound->waiting[2]);
    at = expect_program(&s, s.bound->waiting[1], 0, 0, 2); /* it waits for nobody, so it is first */
    at = expect_program(&s, s.bound->waiting[1], at, 1, 0);
    ck_assert_uint_eq(at * 4, s.bound->waiting[1]->ring.published);
    at = expect_program(&s, s.bound->waiting[2], 0, 2, 1);
    ck_assert_uint_eq(at * 4, s.bound->waiting[2]->ring.published);
    thunk_hold(false);
    atomic_store(&s.ready[1].word, 0);
    dma_gpu_engine_sdma.disarm(s.bound, &s.ready[0].word);
    end(&s);
}
END_TEST

/* ---- what they do ---- */

START_TEST(runs_when_all_have_started)
{
    stage_t s;

    begin(&s, (thunk_options_t){0});
    for (int k = 0; k < 6; k++) {
        for (int r = 0; r < RANKS; r++) {
            memset(s.recv[r], 0, RANKS * BYTES);
        }
        ck_assert_int_eq(dma_gpu_engine_sdma.arm(&s.run), DMA_OK);
        start_rank(&s, 1);
        usleep(2000);
        ck_assert(untouched(&s, 0) && untouched(&s, 1) && untouched(&s, 2)); /* we have not */
        start_rank(&s, 0);
        while (line(&s, 0) != s.run.epoch || line(&s, 2) != s.run.epoch) {
            usleep(100);
        }
        ck_assert(arrived(&s, 0) && arrived(&s, 1));
        ck_assert(untouched(&s, 2) && line(&s, 1) != s.run.epoch);
        atomic_store(&s.ready[2].word, dma_ready_start(s.run.epoch) - 1); /* the one before, given up */
        usleep(1000);
        ck_assert(untouched(&s, 2));
        start_rank(&s, 2);
        wait_end(&s);
        ck_assert(arrived(&s, 2));
        s.run.epoch++;
    }
    ck_assert_msg(thunk_reports() == 0, "%s", thunk_report());
    end(&s);
}
END_TEST

/* Given up: no byte, no line; and the same epoch can be started by the processor then, or armed once more. */
START_TEST(given_up)
{
    stage_t s;

    begin(&s, (thunk_options_t){0});
    for (int k = 0; k < 6; k++) {
        for (int r = 0; r < RANKS; r++) {
            memset(s.recv[r], 0, RANKS * BYTES);
        }
        ck_assert_int_eq(dma_gpu_engine_sdma.arm(&s.run), DMA_OK);
        start_rank(&s, 1); /* peers may have started */
        start_rank(&s, 2);
        dma_gpu_engine_sdma.disarm(s.bound, &s.ready[0].word);
        ck_assert(thunk_quiet(10));
        ck_assert_uint_eq(s.ready[0].word, dma_ready_start(s.run.epoch) + 1);
        for (int r = 0; r < RANKS; r++) {
            ck_assert(untouched(&s, r));
            ck_assert_uint_ne(line(&s, r), s.run.epoch);
        }
        ck_assert_int_eq(k % 2 ? dma_gpu_engine_sdma.arm(&s.run) : dma_gpu_engine_sdma.start(&s.run), DMA_OK);
        start_rank(&s, 0);
        wait_end(&s);
        ck_assert(arrived(&s, 0) && arrived(&s, 1) && arrived(&s, 2));
        s.run.epoch++;
    }
    ck_assert_msg(thunk_reports() == 0, "%s", thunk_report());
    end(&s);
}
END_TEST

/* ---- what is not armed ---- */

static void expect_nothing(stage_t *s)
{
    ck_assert_int_eq(dma_gpu_engine_sdma.arm(&s->run), DMA_UNSUPPORTED);
    for (int i = 1; i <= RANKS; i++) {
        dma_queue_t *queue = s->bound->waiting[i];

        if (queue) {
            ck_assert_uint_eq(queue->ring.published, 0);
            ck_assert_uint_eq(queue->ring.reserved, 0);
        }
    }
    dma_gpu_engine_sdma.disarm(s->bound, &s->ready[0].word);
    ck_assert_uint_eq(s->ready[0].word, 0); /* there is nothing to give up */
    ck_assert_int_eq(dma_gpu_engine_sdma.start(&s->run), DMA_OK);
    wait_end(s);
}

/* A program of more packets than one condition covers: none of the run's is armed, those that would fit neither. */
START_TEST(too_long_a_program)
{
    static const uint64_t counts[RANKS] = {BYTES, BYTES, 3 * 4096};
    stage_t s;
    dma_gen_t gen;

    begin(&s, (thunk_options_t){0});
    gen = *s.unit->gen;
    gen.max_copy = 8; /* 12288 bytes are 1536 packets */
    s.unit->gen = &gen;
    dma_plan_free(s.plan);
    make_plan(&s, "pcpy", DMA_ALLTOALLV, false);
    s.run.send.counts = counts;
    s.run.send.displs = (int64_t[]){0, 0, 0};
    expect_nothing(&s);
    ck_assert(!memcmp(s.recv[2], s.send, 3 * 4096));
    end(&s);
}
END_TEST

/* An exchange that is not by exchange packets alone. */
START_TEST(exchange_through_memory)
{
    stage_t s;

    begin(&s, (thunk_options_t){0});
    dma_plan_free(s.plan);
    make_plan(&s, "swap", DMA_ALLTOALL, true);
    s.run.recv.bytes = BYTES - 1;
    expect_nothing(&s);
    end(&s);
}
END_TEST

/* Engines that serve two of us, or nobody knows which: they must not wait. And where there is no queue left. */
START_TEST(queues_that_must_not_wait)
{
    unsigned before;
    stage_t s;

    begin(&s, (thunk_options_t){.old = _i == 0, .queues = _i == 2 ? 4 : 0});
    if (_i == 1) {
        dma_gpu_engine_sdma.unbind(s.bound);
        s.cards[2].node = s.cards[1].node;
        bind(&s);
        s.run.bound = s.bound;
    }
    before = thunk_queues();
    expect_nothing(&s);
    ck_assert_uint_le(thunk_queues() - before, _i == 2 ? 1 : 0);
    ck_assert_ptr_null(s.bound->waiting[1]); /* what there was has been given back */
    ck_assert_int_eq(dma_gpu_engine_sdma.arm(&s.run), DMA_UNSUPPORTED);
    ck_assert_uint_le(thunk_queues() - before, _i == 2 ? 1 : 0); /* and is not asked for again */
    end(&s);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("sdma_arm");

    unit_test(s, packets, 20);
    unit_test(s, runs_when_all_have_started, 40);
    unit_test(s, given_up, 40);
    unit_test(s, too_long_a_program, 40);
    unit_test(s, exchange_through_memory, 20);
    unit_loop(s, queues_that_must_not_wait, 0, 3, 20);
    return unit_main(s);
}
