/* A unit of the stream engine: see unit.h. */
#include "engine/stream/unit.h"

#include <stdlib.h>

#define PROBE_BYTES UINT64_C(256) /* of a copy; memory has room for both of its sides */

static void destroy_streams(dma_stream_unit_t *unit)
{
    for (int i = 0; i < DMA_STREAMS; i++) {
        if (unit->streams[i]) {
            (void)unit->rt->stream_destroy(unit->streams[i]);
        }
    }
}

static dma_status_t make_streams(dma_stream_unit_t *unit)
{
    dma_gpu_scope_t scope;
    dma_status_t status = unit->rt->enter(unit->device, &scope);

    if (status != DMA_OK) {
        return status;
    }
    for (int i = 0; i < DMA_STREAMS && status == DMA_OK; i++) {
        status = unit->rt->stream_create(&unit->streams[i]);
        if (status != DMA_OK) {
            unit->streams[i] = NULL;
        }
    }
    if (status != DMA_OK) {
        destroy_streams(unit);
    }
    unit->rt->leave(&scope);
    return status;
}

dma_status_t dma_stream_open(const dma_gpu_config_t *config, dma_gpu_unit_t **result, char *why)
{
    dma_stream_unit_t *unit = calloc(1, sizeof(*unit));
    dma_status_t status;

    if (!unit) {
        return dma_gpu_refuse(why, "no memory for the engine stream");
    }
    unit->rt = config->rt;
    unit->device = config->device;
    unit->counters = config->counters;
    unit->budget = config->budget;
    unit->writes = config->rt->write32 != NULL;
    if (dma_self_copy_method_find(config->own_copy, &unit->method) != DMA_OK) {
        status = dma_gpu_refuse(why, "there is no such method to copy the own block");
    } else if ((status = make_streams(unit)) != DMA_OK) {
        status = dma_gpu_refuse(why, dma_gpu_error());
    }
    if (status != DMA_OK) {
        free(unit);
        return status;
    }
    if (!unit->writes) {
        dma_gpu_count(unit->counters, DMA_STREAM_EVENTS, 1);
    }
    pthread_mutex_init(&unit->lock, NULL);
    *result = (dma_gpu_unit_t *)unit;
    return DMA_OK;
}

static void destroy_probe(dma_stream_unit_t *unit)
{
    if (unit->probe.memory) {
        (void)unit->rt->free(unit->probe.memory);
    }
    if (unit->probe.event) {
        (void)unit->rt->event_destroy(unit->probe.event);
    }
}

void dma_stream_close(dma_gpu_unit_t *handle)
{
    dma_stream_unit_t *unit = (dma_stream_unit_t *)handle;
    dma_gpu_scope_t scope;

    /* otherwise the application has shut the runtime down, which destroys our streams and memory */
    if (unit->rt->enter_to_release(unit->device, &scope) == DMA_OK) {
        destroy_streams(unit);
        dma_stream_clock_destroy(&unit->clock, unit->rt);
        destroy_probe(unit);
        if (unit->temp) {
            (void)unit->rt->free(unit->temp);
        }
        unit->rt->leave(&scope);
    }
    dma_budget_give(unit->budget, DMA_BUDGET_DEVICE, unit->temp_bytes + (unit->probe.memory ? 2 * PROBE_BYTES : 0));
    pthread_mutex_destroy(&unit->lock);
    free(unit);
}

dma_status_t dma_stream_allocate_temp(dma_stream_unit_t *unit)
{
    uint64_t bytes = 2 * DMA_WORK_TEMP;
    dma_status_t status;

    do {
        bytes /= 2;
        if (bytes == DMA_WORK_LEAST) {
            dma_budget_force(unit->budget, DMA_BUDGET_DEVICE, bytes);
        } else if (!dma_budget_take(unit->budget, DMA_BUDGET_DEVICE, bytes)) {
            status = DMA_ERR_NOMEM;
            continue;
        }
        if ((status = unit->rt->alloc(bytes, &unit->temp)) == DMA_OK) {
            unit->temp_bytes = bytes;
            return DMA_OK;
        }
        dma_budget_give(unit->budget, DMA_BUDGET_DEVICE, bytes);
    } while (status == DMA_ERR_NOMEM && bytes > DMA_WORK_LEAST);
    unit->temp = 0;
    return status;
}

/* ---- the probe ---- */

static bool make_probe(dma_stream_unit_t *unit)
{
    dma_stream_probe_t *probe = &unit->probe;

    if (!probe->memory && unit->rt->alloc(2 * PROBE_BYTES, &probe->memory) != DMA_OK) {
        dma_budget_give(unit->budget, DMA_BUDGET_DEVICE, 2 * PROBE_BYTES);
        probe->memory = 0;
        return false;
    }
    if (!probe->event && unit->rt->event_create(&probe->event) != DMA_OK) {
        probe->event = NULL;
        return false;
    }
    return true;
}

bool dma_stream_probe_ended(dma_stream_unit_t *unit, uint64_t number)
{
    dma_stream_probe_t *probe = &unit->probe;
    dma_status_t status;

    if (number != probe->number || !probe->out) {
        return true;
    }
    status = unit->rt->event_query(probe->event);
    probe->out = status == DMA_AGAIN;
    probe->broken |= status != DMA_OK && status != DMA_AGAIN;
    return status == DMA_OK;
}

uint64_t dma_stream_probe_begin(dma_stream_unit_t *unit)
{
    dma_stream_probe_t *probe = &unit->probe;
    dma_gpu_stream_t *stream = unit->streams[DMA_STREAM_OWN];

    if (probe->broken || !dma_stream_probe_ended(unit, probe->number)) {
        return 0;
    }
    if (!probe->memory && !dma_budget_take(unit->budget, DMA_BUDGET_DEVICE, 2 * PROBE_BYTES)) {
        return 0; /* later, if calls have given memory back by then */
    }
    probe->out = make_probe(unit) &&
                 unit->rt->copy_async(stream, probe->memory, probe->memory + PROBE_BYTES, PROBE_BYTES) == DMA_OK &&
                 unit->rt->event_record(probe->event, stream) == DMA_OK;
    probe->broken = !probe->out;
    return probe->out ? ++probe->number : 0;
}
