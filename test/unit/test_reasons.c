/*
 * Reasons to leave the fast path that no other test causes. The test checks that each is counted. test/reasons.sh
 * looks for a test of every reason.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "core/comm.h"
#include "core/setup/bootstrap.h"
#include "engine/sdma/sdma.h"
#include "engine/stream/stream.h"
#include "libengine_call.h"
#include "libpart.h"
#include "libsdma_tree.h"
#include "libunit.h"
#include "node/registry.h"

#define RANKS 3
#define BYTES 400

/* ---- device memory ---- */

/* The send and the receive side of an all-gather, of a kind of memory that the runtime reports. */
typedef struct memory {
    dma_gpu_kind_t send, recv;
    int send_device; /* behind the rank's own */
} memory_t;

static void gather(rank_t *r)
{
    const memory_t *m = r->job->arg;
    char *send = m->send == DMA_GPU_HOST ? calloc(1, BYTES)
                                         : fake_gpu_alloc(m->send, (r->rank + m->send_device) % ENGINE_DEVICES, BYTES);
    char *recv =
        m->recv == DMA_GPU_HOST ? calloc(RANKS, BYTES) : fake_gpu_alloc(m->recv, r->rank, (uint64_t)RANKS * BYTES);
    dma_side_t from = data_buffer(send, BYTES), to = data_buffer(recv, BYTES);

    threads_prepare(r, r->comms[0]);
    must(r, data_allgather(r->comms[0], &from, &to) == DMA_OK, "%s", dma_comm_reason(r->comms[0]));
    threads_barrier(r);
    if (m->send == DMA_GPU_HOST) {
        free(send);
    } else {
        fake_gpu_free(send);
    }
    if (m->recv == DMA_GPU_HOST) {
        free(recv);
    } else {
        fake_gpu_free(recv);
    }
}

/* Expected on every rank. */
static void run_gather(memory_t m, dma_reason_t reason)
{
    job_t job = call_job(RANKS, gather, NULL);

    job.arg = &m;
    call_run_job(&job);
    ck_assert_msg(reasons_count(reason) == RANKS, "%s: %lu", dma_reasons[reason].name, reasons_count(reason));
    for (int other = 1; other < DMA_REASON_COUNT; other++) {
        ck_assert_msg(other == (int)reason || !reasons_count((dma_reason_t)other), "also %s", dma_reasons[other].name);
    }
}

START_TEST(scratch_memory)
{
    const dma_gpu_kind_t plain = DMA_GPU_DEVICE_PLAIN;

    run_gather((memory_t){.send = plain, .recv = DMA_GPU_DEVICE_FINE}, DMA_REASON_memory_kind);
    run_gather((memory_t){.send = plain, .recv = DMA_GPU_DEVICE_POOL}, DMA_REASON_memory_kind);
    run_gather((memory_t){.send = plain, .recv = DMA_GPU_DEVICE_VMM}, DMA_REASON_memory_vmm);
    run_gather((memory_t){.send = plain, .recv = DMA_GPU_HOST}, DMA_REASON_memory_kind);
    run_gather((memory_t){.send = plain, .recv = DMA_GPU_MANAGED}, DMA_REASON_memory_kind);
    run_gather((memory_t){.send = DMA_GPU_HOST, .recv = plain}, DMA_REASON_scratch_device);
    run_gather((memory_t){.send = plain, .recv = plain, .send_device = 1}, DMA_REASON_scratch_device);
}
END_TEST

START_TEST(memory_of_unknown_kind)
{
    run_gather((memory_t){.send = DMA_GPU_UNKNOWN, .recv = DMA_GPU_UNKNOWN}, DMA_REASON_memory_kind);
}
END_TEST

/* The second call is on another device than the first. */
static void on_two_devices(rank_t *r)
{
    for (int device = 0; device < 2; device++) {
        char *memory = fake_gpu_alloc(DMA_GPU_DEVICE_PLAIN, (r->rank + device) % ENGINE_DEVICES, RANKS * BYTES);
        dma_side_t side = data_buffer(memory, BYTES);

        threads_prepare(r, r->comms[0]);
        must(r, data_allgather(r->comms[0], NULL, &side) == DMA_OK, "%s", dma_comm_reason(r->comms[0]));
        threads_barrier(r);
        fake_gpu_free(memory);
    }
}

START_TEST(another_device)
{
    job_t job = call_job(RANKS, on_two_devices, NULL);

    call_run_job(&job);
    ck_assert_uint_eq(reasons_count(DMA_REASON_scratch_device), RANKS);
}
END_TEST

START_TEST(memory_without_a_handle)
{
    const memory_t plain = {.send = DMA_GPU_DEVICE_PLAIN, .recv = DMA_GPU_DEVICE_PLAIN};
    job_t job = call_job(RANKS, gather, NULL);

    job.arg = &plain;
    fake_gpu_fail("ipc_export", 0, DMA_UNSUPPORTED);
    call_run_job(&job);
    ck_assert_uint_eq(reasons_count(DMA_REASON_staged_export), 1);
    ck_assert_uint_eq(reasons_count(DMA_REASON_staged_peer), RANKS - 1);
}
END_TEST

/* Datatypes whose rows the engine does not copy, and datatypes in place. */
static void vectors(rank_t *r)
{
    call_spec_t spec = {.coll = DMA_ALLTOALL,
                        .in_place = true,
                        .vector = true,
                        .elements = 30,
                        .send = PLACE_DEVICE,
                        .recv = PLACE_DEVICE};
    call_t *c = call_make(r, &spec);

    threads_prepare(r, r->comms[0]);
    call_run(r, r->comms[0], c, 1);
    threads_barrier(r);
    call_free(c);
    spec.in_place = false;
    c = call_make(r, &spec);
    call_run(r, r->comms[0], c, 2);
    threads_barrier(r);
    call_free(c);
}

START_TEST(datatypes)
{
    job_t job = call_job(RANKS, vectors, NULL);

    call_run_job(&job);
    ck_assert_uint_eq(reasons_count(DMA_REASON_staged_type), RANKS);
    ck_assert_uint_eq(reasons_count(DMA_REASON_scratch_type), RANKS);
}
END_TEST

/* A communicator that is not served: messages cannot use device memory. */
static void post_aside(rank_t *r)
{
    char *memory = fake_gpu_alloc(DMA_GPU_DEVICE_PLAIN, r->rank, RANKS * BYTES);
    dma_side_t side = data_buffer(memory, BYTES);
    dma_task_t *task;

    must(r, dma_comm_prepare(r->comms[0]) == DMA_UNSUPPORTED, "served");
    must(r, data_iallgather(r->comms[0], NULL, &side, &task) == DMA_OK, "not posted");
    while (dma_task_test(task) == DMA_AGAIN) {
        threads_host.progress();
    }
    task_free(task);
    threads_barrier(r);
    fake_gpu_free(memory);
}

START_TEST(not_served)
{
    job_t job = call_job(RANKS, post_aside, NULL);

    job.params.arena_bytes = 0;
    call_run_job(&job);
    ck_assert_uint_eq(reasons_count(DMA_REASON_staged_aside), RANKS);
    ck_assert_uint_eq(reasons_count(DMA_REASON_arena_limit), RANKS); /* no file is tried */
}
END_TEST

static void no_such_engine(int rank, dma_params_t *params)
{
    snprintf(params->engine, sizeof(params->engine), "%s", rank == 1 ? "nonsense" : "threads");
}

START_TEST(engine_that_is_not_there)
{
    const memory_t plain = {.send = DMA_GPU_DEVICE_PLAIN, .recv = DMA_GPU_DEVICE_PLAIN};
    job_t job = call_job(RANKS, gather, NULL);

    job.arg = &plain;
    job.tune = no_such_engine;
    call_run_job(&job);
    ck_assert_uint_eq(reasons_count(DMA_REASON_engine_refused), 1);
}
END_TEST

/* ---- the engine sdma, and the place of its device ---- */

static dma_status_t no_pci(int device, dma_gpu_pci_t *pci)
{
    (void)device;
    (void)pci;
    return DMA_UNSUPPORTED;
}

static dma_status_t pci_of_nothing(int device, dma_gpu_pci_t *pci)
{
    (void)device;
    *pci = (dma_gpu_pci_t){.domain = 99, .has_function = true};
    return DMA_OK;
}

START_TEST(devices_that_are_nowhere)
{
    static const struct {
        dma_status_t (*pci)(int device, dma_gpu_pci_t *pci);
        const char *why;
    } cases[] = {{no_pci, "the runtime does not say where the device is"},
                 {pci_of_nothing, "the device is not among the GPUs that the kernel describes"}};
    dma_gpu_runtime_t *rt = fake_gpu_start(&(fake_gpu_options_t){.devices = 1, .seed = unit_seed()});
    char *root = tree_make("mi300x-spx"), why[DMA_GPU_WHY_BYTES];
    dma_gpu_config_t config = {.rt = rt, .sysfs = root, .record = "all"};
    dma_gpu_unit_t *unit;

    rt->name = "hip";
    for (int i = 0; i < 2; i++) {
        rt->device_pci = cases[i].pci;
        ck_assert_int_eq(dma_gpu_engine_sdma.open(&config, &unit, why), DMA_UNSUPPORTED);
        ck_assert_str_eq(why, cases[i].why);
    }
    tree_remove(root);
    fake_gpu_stop();
}
END_TEST

START_TEST(streams_that_cannot_be)
{
    dma_gpu_runtime_t *rt = fake_gpu_start(&(fake_gpu_options_t){.devices = 1, .seed = unit_seed()});
    dma_gpu_config_t config = {.rt = rt, .own_copy = "nosuch"};
    char why[DMA_GPU_WHY_BYTES];
    dma_gpu_unit_t *unit;

    ck_assert_int_eq(dma_gpu_engine_stream.open(&config, &unit, why), DMA_UNSUPPORTED);
    ck_assert_str_eq(why, "there is no such method to copy the own block");
    config.own_copy = "auto";
    fake_gpu_fail("stream_create", 0, DMA_ERR_ENGINE);
    ck_assert_int_ne(dma_gpu_engine_stream.open(&config, &unit, why), DMA_OK);
    fake_gpu_stop();
}
END_TEST

/* ---- set-up ---- */

/* What rank 1 publishes, or what others find of it, is wrong. */
static enum { RIGHT, OTHER_VERSION, WRONG_LAYOUT, OUTSIDE } wrong;

void *__real_dma_bootstrap_record(const dma_bootstrap_t *exchange, int rank);
void *__wrap_dma_bootstrap_record(const dma_bootstrap_t *exchange, int rank);
void *__wrap_dma_bootstrap_record(const dma_bootstrap_t *exchange, int rank)
{
    void *record = __real_dma_bootstrap_record(exchange, rank);

    if (wrong == OTHER_VERSION && rank == 1) {
        *(uint32_t *)record ^= 0x100; /* in INFO, the version; in RESULT, not 0 */
    }
    return record;
}

bool __real_dma_geom_valid(const dma_geom_t *geom);
bool __wrap_dma_geom_valid(const dma_geom_t *geom);
bool __wrap_dma_geom_valid(const dma_geom_t *geom)
{
    return wrong != WRONG_LAYOUT && __real_dma_geom_valid(geom);
}

dma_status_t __real_dma_registry_get(const dma_arena_id_t *id, dma_mapping_t **mapping, dma_reason_t *why);
dma_status_t __wrap_dma_registry_get(const dma_arena_id_t *id, dma_mapping_t **mapping, dma_reason_t *why);
dma_status_t __wrap_dma_registry_get(const dma_arena_id_t *id, dma_mapping_t **mapping, dma_reason_t *why)
{
    static _Thread_local dma_mapping_t small;
    dma_status_t status = __real_dma_registry_get(id, mapping, why);

    if (status == DMA_OK && wrong == OUTSIDE) {
        small = **mapping;
        small.bytes = 64;
        dma_registry_put(*mapping);
        *mapping = &small;
    }
    return status;
}

static void is_not_served(rank_t *r)
{
    must(r, dma_comm_prepare(r->comms[0]) == DMA_UNSUPPORTED, "served");
}

START_TEST(set_ups_that_cannot_be)
{
    job_t job = threads_job(RANKS, is_not_served);

    wrong = _i;
    threads_run(&job);
    ck_assert_uint_gt(reasons_count(DMA_REASON_versions_differ), 0);
    wrong = RIGHT;
}
END_TEST

START_TEST(files_that_may_not_be_large)
{
    job_t job = threads_job(RANKS, is_not_served);
    struct rlimit before, none;

    getrlimit(RLIMIT_FSIZE, &before);
    none = before;
    none.rlim_cur = 0;
    setrlimit(RLIMIT_FSIZE, &none);
    threads_run(&job);
    setrlimit(RLIMIT_FSIZE, &before);
    ck_assert_uint_eq(reasons_count(DMA_REASON_arena_system), 2 * RANKS); /* anonymous memory, and a file */
}
END_TEST

/* ---- variants ---- */

/* Each variant says why it cannot do a request. */
static const char *why_not(const char *variant, dma_plan_req_t req)
{
    return dma_variants[dma_variant_find(variant)]->unfit(&req);
}

START_TEST(unfit_variants_say_why)
{
    static const dma_gpu_profile_t gpu;
    dma_plan_req_t fits = {.coll = DMA_ALLTOALL,
                           .nranks = 4,
                           .bytes = 8,
                           .gpu = &gpu,
                           .max_queues = 8,
                           .bcst = true,
                           .cross_memory = true,
                           .geom = {.ring_depth = 8,
                                    .slot_bytes = 4096,
                                    .chunk_bytes = 4096,
                                    .chunk_depth = 4,
                                    .pair_bytes = 16384,
                                    .pair_depth = 4}};
    dma_plan_req_t in_place = fits, large = fits, bare = fits, few = fits;

    in_place.in_place = true;
    large.bytes = 1 << 20;
    bare.geom.chunk_depth = bare.geom.pair_bytes = 0;
    few.max_queues = 1;
    few.coll = DMA_ALLGATHER;
    ck_assert_ptr_null(why_not("host_line", fits));
    ck_assert_str_eq(why_not("host_line", large), "the block is larger than its place in a descriptor");
    ck_assert_str_eq(why_not("host_slot", large), "the block is larger than its place in a slot");
    ck_assert_str_eq(why_not("host_pair", bare), "there is no room for pair buffers");
    ck_assert_str_eq(why_not("host_reach", in_place), "in place, what a peer reads would be overwritten");
    fits.cross_memory = false;
    ck_assert_str_eq(why_not("host_reach", fits), "not every pair of ranks can read each other's memory");
    ck_assert_str_eq(why_not("pcpy", in_place), "the blocks of an all-to-all in place have to be exchanged");
    ck_assert_str_eq(why_not("b2b", in_place), "the blocks of an all-to-all in place have to be exchanged");
    ck_assert_str_eq(why_not("swap", fits), "nothing is to be exchanged out of place");
    ck_assert_str_eq(why_not("pcpy", few), "the engine has fewer queues than there are peers");
    ck_assert_str_eq(why_not("bcst", few), "the engine has fewer queues than there are pairs of peers");
    few.bcst = false;
    ck_assert_str_eq(why_not("bcst", few), "not all engines write two places at once");
    bare.coll = DMA_ALLGATHER;
    ck_assert_str_eq(why_not("host_pipe", bare), "there is no room for chunk buffers");
}
END_TEST

/* ---- several nodes ---- */

static void one_gather(rank_t *r)
{
    part_t p;
    dma_call_t call;

    part_open(r, &p, 100);
    threads_prepare(r, p.comm);
    call = part_call(r, &p, DMA_ALLGATHER, false, 100, 1);
    must(r, dma_comm_run(p.comm, &call) == DMA_OK, "a call: %s", dma_comm_reason(p.comm));
    part_close(&p);
}

static void no_part(rank_t *r)
{
    part_t p;

    part_open(r, &p, 100);
    must(r, dma_comm_prepare(p.comm) == DMA_UNSUPPORTED, "served");
    part_close(&p);
}

static void no_arena_on_rank_1(int rank, dma_params_t *params)
{
    params->arena_bytes = rank == 1 ? 4096 : params->arena_bytes;
}

START_TEST(without_shared_memory_on_one_node)
{
    job_t job = part_job(6, part_of_six, no_part, "auto");

    job.tune = no_arena_on_rank_1;
    part_run(&job);
    ck_assert_uint_eq(reasons_count(DMA_REASON_arena_system), 6);
}
END_TEST

START_TEST(a_forced_variant_that_does_not_fit)
{
    job_t job = part_job(6, part_of_six, one_gather, "cluster_rails");

    part_run(&job);
    ck_assert_uint_gt(reasons_count(DMA_REASON_variant_unfit), 0);
    ck_assert_ptr_nonnull(strstr(reports_first("forced"), "cluster_rails cannot do"));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("reasons");

    unit_test(suite, scratch_memory, 60);
    unit_test(suite, memory_of_unknown_kind, 30);
    unit_test(suite, another_device, 30);
    unit_test(suite, memory_without_a_handle, 30);
    unit_test(suite, datatypes, 30);
    unit_test(suite, not_served, 30);
    unit_test(suite, engine_that_is_not_there, 30);
    unit_test(suite, devices_that_are_nowhere, 30);
    unit_test(suite, streams_that_cannot_be, 30);
    unit_loop(suite, set_ups_that_cannot_be, OTHER_VERSION, OUTSIDE + 1, 30);
    unit_test(suite, files_that_may_not_be_large, 30);
    unit_test(suite, unfit_variants_say_why, 10);
    unit_test(suite, without_shared_memory_on_one_node, 30);
    unit_test(suite, a_forced_variant_that_does_not_fit, 30);
    return unit_main(suite);
}
