/* The devices of a process. The engine of a device is chosen at the first collective in its memory. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/device.h"

/* Opens the first engine that works, or the one that coll_dma_engine names. */
static void find_engine(dma_proc_t *proc, const dma_gpu_runtime_t *rt, dma_device_t *d)
{
    char why[DMA_GPU_WHY_BYTES] = "", advice[DMA_GPU_ADVICE_BYTES] = "";
    dma_gpu_config_t config = {.rt = rt,
                               .device = d->ordinal,
                               .sysfs = proc->sysfs,
                               .queues = proc->params.queues,
                               .record = proc->record,
                               .timeout = proc->params.timeout,
                               .own_copy = proc->params.own_copy,
                               .counters = proc->counters,
                               .budget = &proc->budget,
                               .stamps = proc->trace != NULL,
                               .advice = advice};
    const dma_gpu_engine_t *const *engines = proc->engines ? proc->engines : dma_gpu_engines;
    const char *wanted = proc->params.engine;
    bool tried = false;

    if (!strcmp(wanted, "none")) {
        snprintf(d->why, sizeof(d->why), "%s", dma_reason_text(DMA_REASON_engine_none));
        dma_counters_add_reason(proc->counters, DMA_REASON_engine_none);
        return;
    }
    snprintf(d->why, sizeof(d->why), "there is no engine \"%.60s\"", wanted);
    for (int i = 0; engines[i]; i++) {
        const dma_gpu_engine_t *engine = engines[i];

        if (wanted[0] && strcmp(wanted, "auto") && strcmp(wanted, engine->name)) {
            continue;
        }
        why[0] = advice[0] = '\0';
        if (engine->open(&config, &d->unit, why) == DMA_OK) {
            d->engine = engine;
            d->engine_index = i;
            engine->traits(d->unit, &d->traits);
            dma_proc_report(proc, DMA_REPORT_INFO, "engine", "device %d is served by the engine %s%s%s", d->ordinal,
                            engine->name, why[0] ? ": " : "", why);
            if (advice[0]) {
                dma_proc_report(proc, DMA_REPORT_NOTE, "advice", "device %d: %s", d->ordinal, advice);
            }
            return;
        }
        tried = true;
        dma_counters_add_reason(proc->counters, DMA_REASON_engine_refused);
        dma_proc_report(proc, DMA_REPORT_INFO, engine->name, "the engine %s does not serve device %d: %s", engine->name,
                        d->ordinal, why);
        snprintf(d->why, sizeof(d->why), "%s", why);
    }
    if (!tried) { /* there is no such engine */
        dma_counters_add_reason(proc->counters, DMA_REASON_engine_refused);
    }
}

static void close_device(dma_device_t *d)
{
    if (d->engine) {
        d->engine->close(d->unit);
    }
    free(d);
}

/* With the device lock, which it gives away while an engine is tried: calls of other threads need it, in memory of devices that
 * have an engine. Threads that need the same device wait. */
static void open_device(dma_proc_t *proc, const dma_gpu_runtime_t *rt, dma_device_t *d)
{
    d->opening = true;
    d->next = proc->devices;
    proc->devices = d;
    pthread_mutex_unlock(&proc->device_lock);
    find_engine(proc, rt, d);
    if (!d->engine) {
        dma_proc_report(proc, DMA_REPORT_WARN, "device",
                        "no engine serves device %d (%s): collectives in its memory go through the host", d->ordinal,
                        d->why);
    }
    pthread_mutex_lock(&proc->device_lock);
    d->opening = false;
    pthread_cond_broadcast(&proc->device_opened);
}

dma_device_t *dma_device_of(dma_proc_t *proc, const dma_gpu_runtime_t *rt, int ordinal)
{
    dma_device_t *d;

    pthread_mutex_lock(&proc->device_lock);
    for (d = proc->devices; d && d->ordinal != ordinal; d = d->next) {
    }
    if (!proc->ipc) {
        proc->ipc = dma_ipc_create(rt, proc->counters);
        if (proc->ipc) {
            dma_ipc_owner(proc->ipc)->dir = proc->session_dir;
        }
    }
    if (d) {
        d->uses++;
        while (d->opening) {
            pthread_cond_wait(&proc->device_opened, &proc->device_lock);
        }
    } else if (proc->ipc && (d = calloc(1, sizeof(*d)))) {
        d->ordinal = ordinal;
        d->uses = 1;
        open_device(proc, rt, d);
    }
    pthread_mutex_unlock(&proc->device_lock);
    return d;
}

void dma_device_put(dma_proc_t *proc, const dma_gpu_runtime_t *rt, dma_device_t *d)
{
    pthread_mutex_lock(&proc->device_lock);
    if (!--d->uses) {
        dma_lease_trim(proc, rt, d->ordinal);
    }
    pthread_mutex_unlock(&proc->device_lock);
}

void dma_devices_destroy(dma_proc_t *proc)
{
    dma_device_t *next;

    for (dma_device_t *d = proc->devices; d; d = next) {
        next = d->next;
        close_device(d);
    }
    if (proc->ipc) {
        dma_ipc_destroy(proc->ipc);
    }
}
