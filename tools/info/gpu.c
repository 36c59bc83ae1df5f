/*
 * GPUs: which engine serves each, and why not a better one. See info.h.
 *
 * Without the self-test nothing is made on a GPU: the kernel's description is read, providers of queues are opened and
 * closed, and the record is read. From these follows what a job would try first. With the self-test the engine is opened as
 * in a job's first collective.
 */
#include <stdlib.h>
#include <string.h>

#include "device/device.h"
#include "tools/gpu_start.h"
#include "tools/info/info.h"

#define NO_ENGINE "none"

/* ---- providers of queues ---- */

static bool open_provider(const dma_provider_ops_t *ops, const char *wanted, const dma_provider_gpu_t *gpu,
                          info_provider_t *found)
{
    dma_provider_t *provider;

    found->usable = dma_provider_open(ops, wanted, gpu, &provider, found->why) == DMA_OK;
    if (found->usable) {
        found->names_engines = provider->names_engines;
        ops->close(provider);
    }
    return found->usable;
}

static void find_providers(info_gpu_t *gpu, const dma_proof_t *proof, const dma_params_t *params)
{
    dma_provider_gpu_t where = dma_sdma_provider_gpu(&gpu->unit, proof);
    info_provider_t used = {0};

    for (int i = 0; dma_providers[i] && i < INFO_PROVIDERS; i++) {
        gpu->providers[i].name = dma_providers[i]->name;
        open_provider(dma_providers[i], NULL, &where, &gpu->providers[i]);
        gpu->nproviders++;
        if (!used.usable && open_provider(dma_providers[i], params->queues, &where, &used)) {
            gpu->provider = dma_providers[i]->name;
            gpu->named = used.names_engines;
        }
    }
    if (!used.usable) {
        snprintf(gpu->sdma_why, sizeof(gpu->sdma_why), "%s", used.why);
    }
}

/* ---- packets ---- */

static const char *state_word(const dma_proof_t *proof, bool recorded, dma_record_state_t state)
{
    static const char *const words[] = {
        [DMA_RECORD_NOT_TRIED] = "not tried", [DMA_RECORD_PROVEN] = "proven", [DMA_RECORD_FAILED] = "failed"};

    return proof->all ? "all" : recorded ? words[state] : "no record";
}

/* What the record says about each kind of packet. The unit keeps those that a job may use. */
static void find_packets(info_gpu_t *gpu, const dma_proof_t *proof)
{
    dma_record_result_t results[DMA_RECORD_FEATURES] = {{0}};
    const char *reason;
    uint32_t has = dma_gen_find(gpu->unit.gpu->device_id, gpu->unit.gpu->version, &reason)->has;

    gpu->recorded =
        !proof->all && gpu->provider && dma_proof_find(proof, gpu->provider, results, gpu->record_why) == DMA_OK;
    if (!proof->all) {
        gpu->unit.limited.has = dma_proof_limit(gpu->unit.limited.has, gpu->recorded ? results : NULL);
        if (!gpu->provider) {
            snprintf(gpu->record_why, sizeof(gpu->record_why), "%s",
                     proof->loaded == DMA_OK ? "no provider makes queues" : proof->reason);
        }
    }
    for (int i = 0; i < DMA_TRIAL_PACKETS; i++) {
        const dma_trial_packet_t *p = &dma_trial_packets[i];
        const dma_record_result_t *r = &results[p->feature];

        gpu->packets[i].has = has & p->has;
        gpu->packets[i].used = gpu->unit.limited.has & p->has;
        snprintf(gpu->packets[i].record, sizeof(gpu->packets[i].record), "%s",
                 state_word(proof, gpu->recorded, r->state));
        snprintf(gpu->packets[i].why, sizeof(gpu->packets[i].why), "%s", gpu->recorded ? r->reason : "");
    }
}

/* ---- one GPU ---- */

static void name_isa(info_gpu_t *gpu)
{
    uint32_t version = gpu->unit.gpu->version;

    if (version) {
        snprintf(gpu->isa, sizeof(gpu->isa), "gfx%u%x%x", version / 10000, version / 100 % 100, version % 100);
    }
}

static void find_sdma(info_gpus_t *gpus, info_gpu_t *gpu, int device, const dma_params_t *params)
{
    const dma_gpu_config_t config = {
        .rt = gpus->rt, .device = device, .sysfs = params->sysfs, .stamps = params->trace != NULL};

    gpu->unit.rt = gpus->rt;
    gpu->unit.device = device;
    if (strcmp(gpus->rt->name, "hip") != 0) {
        snprintf(gpu->sdma_why, sizeof(gpu->sdma_why), "%s", "the device is not AMD's");
        return;
    }
    gpu->located = dma_sdma_locate(&config, &gpu->unit, gpu->sdma_why) == DMA_OK;
    if (!gpu->located) {
        return;
    }
    gpus->proof.gpu = gpu->unit.gpu;
    name_isa(gpu);
    find_providers(gpu, &gpus->proof, params);
    find_packets(gpu, &gpus->proof);
    gpu->traits = dma_sdma_traits(&gpu->unit);
}

/* The engine that a job would try first, from what has been read. */
static void expect_engine(info_gpu_t *gpu, const dma_params_t *params)
{
    bool any = !strcmp(params->engine, "auto"), sdma = any || !strcmp(params->engine, "sdma");

    if (!strcmp(params->engine, NO_ENGINE)) {
        snprintf(gpu->engine_why, sizeof(gpu->engine_why), "%s", dma_reason_text(DMA_REASON_engine_none));
    } else if (sdma && gpu->located && gpu->provider) {
        snprintf(gpu->engine, sizeof(gpu->engine), "sdma");
        snprintf(gpu->engine_why, sizeof(gpu->engine_why), "queues from %s%s", gpu->provider,
                 gpu->named ? ", on engines by number" : ", on engines that the driver picks");
    } else if (any || !strcmp(params->engine, "stream")) {
        snprintf(gpu->engine, sizeof(gpu->engine), "stream");
        snprintf(gpu->engine_why, sizeof(gpu->engine_why), "%s", any ? "the engine sdma does not serve it" : "");
        gpu->traits = (dma_gpu_traits_t){.node = UINT32_MAX, .max_ways = 1};
    } else {
        snprintf(gpu->engine_why, sizeof(gpu->engine_why), "%s", gpu->sdma_why);
    }
}

/* ---- the self-test ---- */

static info_gpu_t *listener; /* the device that the engine's messages are about */

static void listen(dma_report_t level, const char *topic, const char *text)
{
    (void)level;
    if (!listener) {
        return;
    }
    if (!strcmp(topic, "advice")) {
        snprintf(listener->advice, sizeof(listener->advice), "%s", text);
    } else if (!strcmp(topic, "engine")) {
        const char *how = strstr(text, ": "); /* after "device 0 is served by the engine sdma" */

        snprintf(listener->engine_why, sizeof(listener->engine_why), "%s", how ? how + 2 : "");
    } else if (!strcmp(topic, "sdma")) {
        snprintf(listener->sdma_why, sizeof(listener->sdma_why), "%s", text);
    }
}

/* The packets that are left, if the engine is sdma. */
static void read_unit(info_gpu_t *gpu, const dma_device_t *device)
{
    const dma_sdma_unit_t *unit = (const dma_sdma_unit_t *)device->unit;

    if (strcmp(device->engine->name, "sdma") != 0) {
        return;
    }
    for (int i = 0; i < DMA_TRIAL_PACKETS; i++) {
        info_packet_t *packet = &gpu->packets[i];
        bool works = unit->gen->has & dma_trial_packets[i].has;

        packet->self_test = works ? "passed" : packet->used ? "failed" : NULL;
        packet->used = works;
    }
    gpu->provider = unit->queues.provider->ops->name;
    gpu->named = unit->queues.provider->names_engines;
}

static void test_gpu(dma_proc_t *proc, const info_gpus_t *gpus, int i)
{
    info_gpu_t *gpu = &gpus->gpus[i];
    dma_device_t *device;

    gpu->engine[0] = '\0';
    listener = gpu;
    device = dma_device_of(proc, gpus->rt, i);
    listener = NULL;
    gpu->tested = device != NULL;
    if (!device) {
        snprintf(gpu->engine_why, sizeof(gpu->engine_why), "no memory");
    } else if (!device->engine) {
        snprintf(gpu->engine_why, sizeof(gpu->engine_why), "%s", device->why);
    } else {
        snprintf(gpu->engine, sizeof(gpu->engine), "%s", device->engine->name);
        gpu->traits = device->traits;
        read_unit(gpu, device);
    }
}

/* All devices are open at the same time, which is not so in a job. Each has queues of its own. */
static void test_gpus(const info_gpus_t *gpus, const dma_params_t *params)
{
    static const dma_host_t host = {.report = listen};
    const dma_proc_config_t config = {.host = &host, .params = *params, .routes = dma_routes};
    dma_proc_t *proc;

    if (dma_proc_create(&config, &proc) != DMA_OK) {
        return;
    }
    for (int i = 0; i < gpus->n; i++) {
        test_gpu(proc, gpus, i);
    }
    dma_proc_destroy(proc);
}

/* ---- all GPUs ---- */

/* The engine of each link, if every GPU is a rank. */
static void find_links(const info_gpus_t *gpus)
{
    uint32_t nodes[INFO_GPUS];

    for (int i = 0; i < gpus->n; i++) {
        nodes[i] = gpus->gpus[i].located ? gpus->gpus[i].unit.gpu->node : UINT32_MAX;
    }
    for (int i = 0; i < gpus->n; i++) {
        const dma_sdma_unit_t *unit = &gpus->gpus[i].unit;

        if (gpus->gpus[i].located) {
            dma_map_build(unit->gen, unit->gpu, nodes, gpus->n, i, gpus->gpus[i].picks);
        }
    }
}

static void find_kernel(info_gpus_t *gpus, const dma_params_t *params)
{
    const char *reason = "no memory";
    dma_topo_t *topo;

    if (dma_topo_read(params->sysfs ? params->sysfs : DMA_TOPO_ROOT, &topo, &reason) != DMA_OK) {
        snprintf(gpus->kernel_why, sizeof(gpus->kernel_why), "%s", reason);
        return;
    }
    gpus->kernel_gpus = topo->ngpus;
    gpus->hidden = topo->hidden;
    dma_topo_free(topo);
}

static void find_record(info_gpus_t *gpus, const dma_params_t *params)
{
    dma_proof_load(&gpus->proof, params->record);
    snprintf(gpus->proof_state, sizeof(gpus->proof_state), "%s",
             gpus->proof.all                         ? "all"
             : gpus->proof.loaded == DMA_OK          ? "valid"
             : gpus->proof.loaded == DMA_UNSUPPORTED ? "unusable"
                                                     : "invalid");
}

bool info_gpus_find(info_gpus_t *gpus, const dma_params_t *params, bool self_test)
{
    const char *why;
    int count = 0;

    find_kernel(gpus, params);
    find_record(gpus, params);
    if ((why = gpu_start(NULL, &gpus->rt))) {
        gpus->rt = NULL;
        snprintf(gpus->why, sizeof(gpus->why), "%s", why);
        return true;
    }
    if (gpus->rt->device_count(&count) != DMA_OK) {
        count = 0;
    }
    gpus->n = count < INFO_GPUS ? count : INFO_GPUS;
    if (!(gpus->gpus = calloc((size_t)gpus->n + 1, sizeof(*gpus->gpus)))) {
        return false;
    }
    for (int i = 0; i < gpus->n; i++) {
        info_gpu_t *gpu = &gpus->gpus[i];

        (void)gpus->rt->device_pci(i, &gpu->pci);
        info_runtime_describe(gpus->rt, i, gpu);
        find_sdma(gpus, gpu, i, params);
        expect_engine(gpu, params);
    }
    find_links(gpus);
    if (self_test) {
        test_gpus(gpus, params);
    }
    return true;
}

void info_gpus_free(info_gpus_t *gpus)
{
    for (int i = 0; i < gpus->n; i++) {
        dma_topo_free(gpus->gpus[i].unit.topo);
    }
    free(gpus->gpus);
    dma_proof_free(&gpus->proof);
}
