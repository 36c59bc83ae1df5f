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

void stream_gathers(rank_t *r, int calls, uint64_t bytes)
{
    uint8_t *send = fake_gpu_alloc(DMA_GPU_DEVICE_PLAIN, r->rank, bytes);
    uint8_t *recv = fake_gpu_alloc(DMA_GPU_DEVICE_PLAIN, r->rank, bytes * (uint64_t)r->n);
    dma_side_t to = data_buffer(recv, bytes), from = data_buffer(send, bytes);

    must(r, dma_comm_prepare(r->comms[0]) == DMA_OK, "set-up");
    for (int i = 0; i < calls; i++) {
        data_fill(send, (uint64_t)i, r->rank, bytes);
        must(r, data_allgather(r->comms[0], &from, &to) == DMA_OK, "call %d", i);
        data_check(r, recv, (uint64_t)i, bytes);
    }
    threads_barrier(r);
    fake_gpu_free(send);
    fake_gpu_free(recv);
}
