/*
 * The sdma engine under whole collectives: ranks that are threads, each with a GPU of a recorded machine, their packets
 * executed by the emulated node's executor, which reports every rule that they break.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/comm.h"
#include "device/device.h"
#include "engine/sdma/private.h"
#include "libengine_call.h"
#include "libkfd_fake.h"
#include "libsdma_tree.h"
#include "libunit.h"

#define STUCK_SECONDS 2 /* an engine that works does not stand still for so long, even on a busy machine */

static const dma_gpu_engine_t *const sdma_only[] = {&dma_gpu_engine_sdma, NULL};
static dma_topo_t *machine;
static char *root;
static dma_gpu_runtime_t *table;

/* Device i is the i-th GPU of the machine. */
static dma_status_t pci_of(int device, dma_gpu_pci_t *pci)
{
    const dma_topo_gpu_t *gpu = &machine->gpus[device];

    *pci = (dma_gpu_pci_t){.domain = gpu->domain,
                           .bus = gpu->location >> 8,
                           .device = gpu->location >> 3 & 31,
                           .function = gpu->location & 7,
                           .has_function = true};
    return DMA_OK;
}

/* A runtime that does not tell partitions of a device apart. */
static dma_status_t pci_of_device(int device, dma_gpu_pci_t *pci)
{
    dma_status_t status = pci_of(device, pci);

    pci->function = pci->has_function = 0;
    return status;
}

static job_t sdma_job(const char *name, emu_sdma_gen_t gen, int n, void (*body)(rank_t *r), fake_options_t options)
{
    job_t job = call_job(n, body, NULL);

    root = tree_make(name);
    machine = tree_read(name);
    table = (dma_gpu_runtime_t *)(uintptr_t)job.runtime;
    table->name = "hip";
    table->device_pci = pci_of;
    job.engines = sdma_only;
    job.params.sysfs = root;
    job.params.record = "all";
    job.params.arena_bytes = 4u << 20;
    options.running = true;
    options.seed = unit_seed() + (uint64_t)n;
    options.gen = gen;
    options.rt = job.runtime;
    options.topo = machine;
    fake_begin(&options);
    if (options.left) {
        fake_gpu_may_stay();
    }
    return job;
}

static void run_job(job_t *job)
{
    call_run_job(job);
    fake_end();
    tree_remove(root);
    dma_topo_free(machine);
}

static void prepare(rank_t *r)
{
    dma_status_t status = dma_comm_prepare(r->comms[0]);

    must(r, status == DMA_OK, "%s: %s", dma_status_name(status), dma_comm_reason(r->comms[0]));
}

static uint32_t epochs(const rank_t *r)
{
    return call_runs(r->comms[0]);
}

/* ---- all operations ---- */

static void by_whatever(rank_t *r)
{
    static const size_t sizes[] = {64, 1000, 20000};
    uint64_t tag = 0;

    prepare(r);
    for (int coll = 0; coll < DMA_COLL_COUNT; coll++) {
        for (int in_place = 0; in_place < 2; in_place++) {
            for (int s = 0; s < 3; s++) {
                call_spec_t spec = {.coll = (dma_coll_t)coll,
                                    .in_place = in_place,
                                    .sizes = tag,
                                    .elements = sizes[s],
                                    .send = PLACE_DEVICE,
                                    .recv = PLACE_DEVICE};
                call_t *c = call_make(r, &spec);

                call_run(r, r->comms[0], c, ++tag);
                call_run(r, r->comms[0], c, ++tag);
                threads_barrier(r);
                call_free(c);
            }
        }
    }
}

static void all_operations(rank_t *r)
{
    by_whatever(r);
    must(r, epochs(r) >= 24, "the engine has run %u times", epochs(r));
    must(r, r->comms[0]->device->device->traits.node == machine->gpus[r->rank].node, "by another GPU's engines");
}

static const char *const variants[] = {"auto", "pcpy", "b2b", "bcst", "swap", "halves"};

static const struct {
    const char *name;
    emu_sdma_gen_t gen;
    int ranks;
    bool old;
    uint32_t missing;
    unsigned early_polls;
} machines[] = {
    {"mi300x-spx", EMU_SDMA_GFX942, 4, false, 0, 0}, {"mi300x-4", EMU_SDMA_GFX942, 3, true, 0, 0},
    {"mi210-2", EMU_SDMA_GFX90A, 2, true, 0, 0},     {"mi308x", EMU_SDMA_GFX942, 3, false, 0xaaaa, 0},
    {"mi350x", EMU_SDMA_GFX950, 2, false, 0, 0},     {"mi300x-dpx-functions", EMU_SDMA_GFX942, 4, false, 0, 0},
    {"mi100", EMU_SDMA_GFX900, 3, true, 0, 4},
};

START_TEST(collectives)
{
    for (size_t m = 0; m < sizeof(machines) / sizeof(machines[0]); m++) {
        fake_options_t options = {
            .minor = machines[m].old ? 16 : 0, .missing = machines[m].missing, .early_polls = machines[m].early_polls};
        job_t job = sdma_job(machines[m].name, machines[m].gen, machines[m].ranks, all_operations, options);

        snprintf(job.params.gpu_variant, sizeof(job.params.gpu_variant), "%s", variants[_i]);
        run_job(&job);
        ck_assert_msg(fake_broken() == 0, "%s: %s", machines[m].name, fake_broken_text());
        ck_assert_int_eq(reports_count("device"), 0);
    }
}
END_TEST

/* ---- persistent ---- */

static void ended(void *arg, dma_status_t status)
{
    atomic_store((_Atomic int *)arg, status == DMA_OK ? 1 : -1);
}

/* Starts of several calls, armed and not, some after a pause that disarms. Each rank starts them in an order of its own, and waits
 * for its first call at once. So the programs of that call may be queued behind programs that wait for other ranks, which wait
 * for this rank. */
static void starts(rank_t *r)
{
    dma_channel_t *ch[3];
    call_t *c[3];
    _Atomic int flags[3];
    uint64_t tag = 0;

    for (int i = 0; i < 3; i++) {
        call_spec_t spec = {.coll = (dma_coll_t)(i + (i > 0)),
                            .in_place = i == 1,
                            .elements = (size_t)(3000 + 64 * i),
                            .send = PLACE_DEVICE,
                            .recv = PLACE_DEVICE};

        c[i] = call_make(r, &spec);
        must(r, dma_channel_create(r->comms[0], &c[i]->call, ended, &flags[i], &ch[i]) == DMA_OK, "create");
    }
    for (int round = 0; round < 12; round++) {
        if (threads_random(r, 4) == 0) {
            double until = dma_now() + 0.02;

            while (dma_now() < until) {
                threads_host.progress();
            }
        }
        for (int k = 0, first = (int)threads_random(r, 3); k < 3; k++) {
            int i = (first + k) % 3;

            call_fill(r, c[i], tag + (uint64_t)i);
            atomic_store(&flags[i], 0);
            must(r, dma_channel_start(ch[i], NULL) == DMA_OK, "start");
            dma_channel_prepare_next(ch[i]);
            while (i == 0 && !atomic_load(&flags[0])) {
                threads_host.progress();
            }
        }
        tag += 3;
        for (int i = 0; i < 3; i++) {
            while (!atomic_load(&flags[i])) {
                threads_host.progress();
            }
            must(r, atomic_load(&flags[i]) == 1, "%s", dma_comm_reason(r->comms[0]));
            call_verify(r, c[i]);
        }
    }
    for (int i = 0; i < 3; i++) {
        dma_channel_destroy(ch[i]);
        threads_barrier(r);
        call_free(c[i]);
    }
}

/* Waits of the CPU, where a POLL may end early: nothing is armed. */
START_TEST(persistent_without_polls)
{
    job_t job = sdma_job("mi100", EMU_SDMA_GFX900, 3, starts, (fake_options_t){.early_polls = 4});

    run_job(&job);
    ck_assert_msg(fake_broken() == 0, "%s", fake_broken_text());
    ck_assert_msg(strstr(reports_first("engine"), "waits by the CPU"), "%s", reports_first("engine"));
}
END_TEST

START_TEST(persistent)
{
    fake_options_t options = {0};
    job_t job = sdma_job("mi300x-spx", EMU_SDMA_GFX942, 2 + _i, starts, options);

    job.params.armed_seconds = 0.01;
    run_job(&job);
    ck_assert_msg(fake_broken() == 0, "%s", fake_broken_text());
    ck_assert_uint_gt(fake_counts.made, 3 * (2 + (unsigned)_i)); /* queues of their own for armed programs */
}
END_TEST

/* ---- what a machine or a driver does not have ---- */

static void host_serves(rank_t *r)
{
    call_spec_t spec = {.coll = DMA_ALLGATHER, .elements = 3000, .send = PLACE_DEVICE, .recv = PLACE_DEVICE};
    call_t *c = call_make(r, &spec);

    prepare(r);
    for (uint64_t tag = 1; tag <= 4; tag++) {
        call_run(r, r->comms[0], c, tag);
    }
    must(r, epochs(r) == 0, "an engine has run");
    threads_barrier(r);
    call_free(c);
}

static void check_refusal(job_t *job, const char *topic, const char *reason)
{
    run_job(job);
    ck_assert_uint_eq(reasons_count(DMA_REASON_engine_refused), 2);
    ck_assert_msg(strstr(reports_first(topic), reason), "reported: \"%s\"", reports_first(topic));
    ck_assert_uint_eq(fake_broken(), 0);
}

START_TEST(refusals)
{
    job_t job = sdma_job("mi300x-4", EMU_SDMA_GFX942, 2, host_serves, (fake_options_t){.no_rocr = true});

    check_refusal(&job, "sdma", "kfd: ROCr is not loaded");

    job = sdma_job("mi308x", EMU_SDMA_GFX942, 2, host_serves, (fake_options_t){.minor = 16});
    check_refusal(&job, "sdma", "kfd: it cannot name engines");

    job = sdma_job("mi300x-4", EMU_SDMA_GFX942, 2, host_serves, (fake_options_t){0});
    table->name = "cuda";
    check_refusal(&job, "sdma", "not AMD's");

    job = sdma_job("mi300x-dpx-functions", EMU_SDMA_GFX942, 2, host_serves, (fake_options_t){0});
    table->device_pci = pci_of_device;
    check_refusal(&job, "sdma", "which partition");

    job = sdma_job("mi300x-cpx", EMU_SDMA_GFX942, 2, host_serves, (fake_options_t){0});
    check_refusal(&job, "sdma", "several GPUs or partitions");

    job = sdma_job("mi300x-4", EMU_SDMA_GFX942, 2, host_serves, (fake_options_t){0});
    job.params.sysfs = "/nonexistent";
    check_refusal(&job, "device", "no engine serves");

    setenv("HSA_ENABLE_SDMA", "0", 1);
    job = sdma_job("mi300x-4", EMU_SDMA_GFX942, 2, host_serves, (fake_options_t){0});
    check_refusal(&job, "sdma", "HSA_ENABLE_SDMA");
    unsetenv("HSA_ENABLE_SDMA");
}
END_TEST

/* A machine whose engines lack packets that their generation should have. A packet that kills its queue in the self-test is not
 * used, and the rest works. */
START_TEST(packets_that_are_not_there)
{
    job_t job = sdma_job("mi300x-spx", EMU_SDMA_GFX90A, 2, all_operations, (fake_options_t){.left = true});

    run_job(&job);
    ck_assert_msg(strstr(fake_broken_text(), "generation"), "%s", fake_broken_text());
    ck_assert_uint_eq(fake_broken(), 2); /* one exchange on each rank */
    ck_assert_uint_gt(reasons_count(DMA_REASON_packet_failed), 0);
}
END_TEST

/* The driver gives so few queues that a rank has none for a link: no rank uses the engines, and the data are right. */
START_TEST(few_queues)
{
    job_t job = sdma_job("mi300x-spx", EMU_SDMA_GFX942, 4, by_whatever, (fake_options_t){.max_queues = 6});

    run_job(&job);
    ck_assert_msg(fake_broken() == 0, "%s", fake_broken_text());
    /* it says so when it binds, or, with not even one queue, when it opens */
    ck_assert_int_gt(reports_count("bind") + reports_count("device"), 0);
    ck_assert_uint_gt(reasons_count(DMA_REASON_bind_refused) + reasons_count(DMA_REASON_engine_refused), 0);
}
END_TEST

/* ---- what breaks ---- */

/* Queues that still wait are left on purpose. */
__attribute__((visibility("default"))) const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
    return "leak:dma_queue";
}

static void broken(rank_t *r)
{
    call_spec_t spec = {.coll = DMA_ALLGATHER, .elements = 3000, .send = PLACE_DEVICE, .recv = PLACE_DEVICE};
    call_t *c = call_make(r, &spec);
    dma_status_t status = DMA_OK;

    prepare(r);
    for (uint64_t tag = 1; status == DMA_OK && tag < 100; tag++) {
        status = call_try(r, r->comms[0], c, tag);
    }
    must(r, status == DMA_ERR_ENGINE, "%s", dma_status_name(status));
    threads_barrier(r);
    call_free(c);
}

/* Every queue faults at its so-manieth packet: an error on all ranks, not a hang. */
START_TEST(queues_that_fault)
{
    job_t job = sdma_job("mi300x-spx", EMU_SDMA_GFX942, 3, broken, (fake_options_t){.fault_packet = 25, .left = true});

    job.params.timeout = STUCK_SECONDS; /* the driver reports none */
    run_job(&job);
    ck_assert_uint_gt(fake_broken(), 0);
}
END_TEST

static dma_channel_t *created(rank_t *r, call_t *c, _Atomic int *flag)
{
    dma_channel_t *ch;

    must(r, dma_channel_create(r->comms[0], &c->call, ended, flag, &ch) == DMA_OK, "create");
    return ch;
}

/* The same where the queue is one of an armed program's own. */
static void broken_armed(rank_t *r)
{
    call_spec_t spec = {.coll = DMA_ALLGATHER, .elements = 3000, .send = PLACE_DEVICE, .recv = PLACE_DEVICE};
    call_t *c = call_make(r, &spec);
    _Atomic int flag = 1;
    dma_channel_t *ch = created(r, c, &flag);
    int k;

    for (k = 0; atomic_load(&flag) == 1 && k < 100; k++) {
        atomic_store(&flag, 0);
        if (dma_channel_start(ch, NULL) != DMA_OK) {
            break;
        }
        dma_channel_prepare_next(ch);
        while (!atomic_load(&flag)) {
            threads_host.progress();
        }
    }
    must(r, k < 100, "no error");
    dma_channel_destroy(ch);
    threads_barrier(r);
    call_free(c);
}

START_TEST(armed_queues_that_fault)
{
    job_t job =
        sdma_job("mi300x-spx", EMU_SDMA_GFX942, 2, broken_armed, (fake_options_t){.fault_packet = 40, .left = true});

    job.params.timeout = STUCK_SECONDS;
    run_job(&job);
    ck_assert_uint_gt(fake_broken(), 0);
}
END_TEST

/* An armed run may stand still until the last rank has started it, however long the others wait. If it stands still after that,
 * this is an error, even if the driver reports none. */
static void standing_still(rank_t *r)
{
    call_spec_t spec = {.coll = DMA_ALLGATHER, .elements = 3000, .send = PLACE_DEVICE, .recv = PLACE_DEVICE};
    call_t *c = call_make(r, &spec);
    _Atomic int flag;
    dma_channel_t *ch = created(r, c, &flag);

    for (int k = 0; k < 4; k++) {
        threads_barrier(r);
        if (k == 3 && r->rank == 0) {
            fake_hold(true);
        }
        threads_barrier(r);
        if (k == 2 && r->rank == 1) {
            usleep(3 * (useconds_t)(1e6 * STUCK_SECONDS));
        }
        call_fill(r, c, (uint64_t)k);
        atomic_store(&flag, 0);
        must(r, dma_channel_start(ch, NULL) == DMA_OK, "start");
        dma_channel_prepare_next(ch);
        while (!atomic_load(&flag)) {
            threads_host.progress();
        }
        must(r, atomic_load(&flag) == (k < 3 ? 1 : -1), "start %d", k);
    }
    threads_barrier(r);
    fake_hold(false);
    must(r, fake_quiet(), "an engine still has something to do");
    threads_barrier(r);
    dma_channel_destroy(ch);
    threads_barrier(r);
    call_free(c);
}

START_TEST(armed_queues_that_stand_still)
{
    job_t job = sdma_job("mi300x-spx", EMU_SDMA_GFX942, 2, standing_still, (fake_options_t){.left = true});

    job.params.timeout = STUCK_SECONDS;
    run_job(&job);
    ck_assert_msg(fake_broken() == 0, "%s", fake_broken_text());
}
END_TEST

static void another_communicator(rank_t *r)
{
    call_spec_t spec = {.coll = DMA_ALLTOALL, .elements = 3000, .send = PLACE_DEVICE, .recv = PLACE_DEVICE};
    call_t *c = call_make(r, &spec);
    _Atomic int flag;
    dma_channel_t *ch;

    must(r, dma_channel_create(r->comms[1], &c->call, ended, &flag, &ch) == DMA_OK, "create");
    for (uint64_t tag = 1; tag < 4; tag++) {
        call_fill(r, c, tag);
        atomic_store(&flag, 0);
        must(r, dma_channel_start(ch, NULL) == DMA_OK, "start");
        dma_channel_prepare_next(ch);
        while (!atomic_load(&flag)) {
            threads_host.progress();
        }
        must(r, atomic_load(&flag) == 1, "start %d", (int)tag);
        call_verify(r, c);
    }
    dma_channel_destroy(ch);
    threads_barrier(r);
    call_free(c);
}

/* A rank has started, its programs wait for one that fails instead. They are revoked; other communicators work. */
static void without_a_peer(rank_t *r)
{
    call_spec_t spec = {.coll = DMA_ALLTOALL, .elements = 3000, .send = PLACE_DEVICE, .recv = PLACE_DEVICE};
    call_t *c = call_make(r, &spec);
    _Atomic int flag = 0;
    dma_channel_t *ch;

    must(r, dma_comm_prepare(r->comms[1]) == DMA_OK,
         "prepare"); /* so that the other channel comes to this one's place */
    ch = created(r, c, &flag);
    call_fill(r, c, 1);
    threads_barrier(r);
    if (r->rank == 1) {
        usleep(100000);
        dma_comm_lock(r->comms[0]);
        dma_comm_fail(r->comms[0], DMA_ERR_ENGINE, "told to");
        dma_comm_unlock(r->comms[0]);
    } else {
        must(r, dma_channel_start(ch, NULL) == DMA_OK, "start");
        dma_channel_prepare_next(ch);
        while (!atomic_load(&flag)) {
            threads_host.progress();
        }
        must(r, atomic_load(&flag) == -1, "no error");
    }
    dma_channel_destroy(ch);
    threads_barrier(r);
    another_communicator(r);
    call_free(c);
}

START_TEST(started_without_a_peer)
{
    job_t job = sdma_job("mi300x-spx", EMU_SDMA_GFX942, 2, without_a_peer, (fake_options_t){0});

    job.ncomms = 2;
    run_job(&job);
    ck_assert_msg(fake_broken() == 0, "%s", fake_broken_text());
}
END_TEST

/* ---- what comes behind a failure ---- */

static void wait_in_vain(rank_t *r, dma_channel_t *ch, _Atomic int *flag)
{
    must(r, dma_channel_start(ch, NULL) == DMA_OK, "start");
    dma_channel_prepare_next(ch);
    usleep(20000); /* its engines wait */
    dma_comm_lock(r->comms[0]);
    dma_comm_fail(r->comms[0], DMA_ERR_ENGINE, "told to");
    dma_comm_unlock(r->comms[0]);
    while (!atomic_load(flag)) {
        threads_host.progress();
    }
    must(r, atomic_load(flag) == -1, "no error");
}

/* One rank waits for another one and fails. Then the other one comes after all. It is refused, and lets no program go: the engines
 * must not move these buffers any more. */
static void too_late(rank_t *r)
{
    call_spec_t spec = {.coll = DMA_ALLGATHER, .elements = 3000, .send = PLACE_DEVICE, .recv = PLACE_DEVICE};
    call_t *c = call_make(r, &spec);
    _Atomic int flag = 0;
    dma_channel_t *ch = created(r, c, &flag);
    char *before = malloc(c->recv.bytes);

    call_fill(r, c, 1);
    memcpy(before, c->recv.at, c->recv.bytes);
    threads_barrier(r);
    if (r->rank == 0) {
        wait_in_vain(r, ch, &flag);
        dma_channel_destroy(ch);
    }
    threads_barrier(r);
    if (r->rank == 1) { /* and a third one lets this one's engines go, since it has not yet seen the failure */
        const dma_comm_t *inside = *(dma_comm_t *const *)ch;
        uint32_t epoch = inside->first_epoch + 1;
        _Atomic uint32_t *trigger = dma_window_trigger(&inside->window, 1, epoch);

        dma_trigger_release(trigger, epoch);
        must(r, *trigger == dma_trigger_go(epoch) + 2, "the trigger is %u in epoch %u", *trigger, epoch);
    }
    if (r->rank == 1 && dma_channel_start(ch, NULL) == DMA_OK) {
        while (!atomic_load(&flag)) {
            threads_host.progress();
        }
        must(r, atomic_load(&flag) == -1, "no error");
    }
    usleep(50000); /* of the engines */
    threads_barrier(r);
    must(r, r->rank == 0 || !memcmp(before, c->recv.at, c->recv.bytes), "an engine has written");
    if (r->rank == 1) {
        dma_channel_destroy(ch);
    }
    threads_barrier(r);
    free(before);
    call_free(c);
}

START_TEST(started_behind_a_failure)
{
    job_t job = sdma_job("mi300x-spx", EMU_SDMA_GFX942, 2, too_late, (fake_options_t){0});

    run_job(&job);
    ck_assert_msg(fake_broken() == 0, "%s", fake_broken_text());
}
END_TEST

int main(void)
{
    Suite *s = suite_create("sdma_engine");

    unit_loop(s, collectives, 0, 6, 60);
    unit_loop(s, persistent, 0, 3, 60);
    unit_test(s, persistent_without_polls, 60);
    unit_test(s, refusals, 20);
    unit_test(s, packets_that_are_not_there, 30);
    unit_test(s, few_queues, 30);
    unit_test(s, queues_that_fault, 30);
    unit_test(s, armed_queues_that_fault, 30);
    unit_test(s, armed_queues_that_stand_still, 30);
    unit_test(s, started_without_a_peer, 30);
    unit_test(s, started_behind_a_failure, 30);
    return unit_main(s);
}
