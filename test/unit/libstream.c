#include "libstream.h"

#include <stdio.h>

#include "engine/stream/stream.h"
#include "libunit.h"

static const dma_gpu_engine_t *const engines[] = {&dma_gpu_engine_stream, NULL};

dma_gpu_runtime_t *stream_machine(unsigned late_us)
{
    return fake_gpu_start(
        &(fake_gpu_options_t){.devices = FAKE_GPU_MAX_DEVICES, .seed = unit_seed(), .late_us = late_us});
}

job_t stream_job(int n, void (*body)(rank_t *), dma_gpu_runtime_t *rt, const char *own_copy)
{
    job_t job = threads_job(n, body);

    job.runtime = rt;
    job.engines = engines;
    job.ending = fake_gpu_ending;
    snprintf(job.params.own_copy, sizeof(job.params.own_copy), "%s", own_copy);
    return job;
}
