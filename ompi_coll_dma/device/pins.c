/* Copies through pinned memory: see pins.h. */
#include "device/pins.h"

#include <string.h>

#include "node/pause.h"

#define SLOTS_MOST  (UINT64_C(8) << 20) /* bytes of both slots; the processor copies half of it while the engine does */
#define SLOTS_LEAST (UINT64_C(256) << 10) /* smaller slots take longer to start than to copy */

static dma_lease_t *take(dma_proc_t *proc, const dma_gpu_runtime_t *rt, int device, uint64_t bytes, uint64_t least)
{
    dma_lease_want_t want = {.kind = DMA_LEASE_PINNED,
                             .rt = rt,
                             .device = device,
                             .bytes = bytes,
                             .least = least,
                             .streams = 1,
                             .events = 2};
    dma_lease_t *lease;

    return dma_lease_take(proc, &want, &lease) == DMA_OK ? lease : NULL;
}

dma_lease_t *dma_pin_get(dma_proc_t *proc, const dma_gpu_runtime_t *rt, int device, uint64_t bytes)
{
    return take(proc, rt, device, bytes, bytes);
}

dma_lease_t *dma_pin_get_slots(dma_proc_t *proc, const dma_gpu_runtime_t *rt, int device)
{
    return take(proc, rt, device, SLOTS_MOST, SLOTS_LEAST);
}

dma_status_t dma_pin_start(dma_lease_t *p, const void *to, const void *from, uint64_t bytes)
{
    p->copies = true;
    return p->rt->copy_async(p->stream[0], (uint64_t)(uintptr_t)to, (uint64_t)(uintptr_t)from, bytes);
}

dma_status_t dma_pin_end(dma_lease_t *p)
{
    dma_status_t status = p->rt->stream_sync(p->stream[0]);

    p->copies = status != DMA_OK;
    return status;
}

/* Starts the copy of a slot. */
static dma_status_t start_slot(dma_lease_t *p, unsigned slot, const void *to, const void *from, uint64_t bytes)
{
    dma_status_t status = dma_pin_start(p, to, from, bytes);

    return status == DMA_OK ? p->rt->event_record(p->event[slot], p->stream[0]) : status;
}

static dma_status_t wait_slot(const dma_lease_t *p, unsigned slot)
{
    dma_pause_t pause = {0};
    dma_status_t status;

    while ((status = p->rt->event_query(p->event[slot])) == DMA_AGAIN) {
        dma_pause(&pause);
    }
    return status;
}

static uint64_t slot_bytes(const dma_lease_t *p)
{
    uint64_t bytes = p->bytes < SLOTS_MOST ? p->bytes : SLOTS_MOST;

    return bytes / 2;
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

dma_status_t dma_pin_read(dma_lease_t *p, char *to, const char *from, uint64_t bytes)
{
    uint64_t slot = slot_bytes(p), started = 0;
    dma_status_t status = DMA_OK;
    unsigned next = 0;

    for (uint64_t done = 0; status == DMA_OK && done < bytes;) {
        uint64_t n = least(bytes - done, slot);

        /* at most two pieces ahead: what is in the other slot has been copied out */
        while (status == DMA_OK && started < bytes && started < done + 2 * slot) {
            uint64_t more = least(bytes - started, slot);

            status = start_slot(p, next, p->memory + next * slot, from + started, more);
            started += more;
            next ^= 1;
        }
        if (status == DMA_OK && (status = wait_slot(p, (unsigned)(done / slot % 2))) == DMA_OK) {
            memcpy(to + done, p->memory + done / slot % 2 * slot, n);
        }
        done += n;
    }
    p->copies = status != DMA_OK;
    return status;
}

dma_status_t dma_pin_write(dma_lease_t *p, char *to, const char *from, uint64_t bytes)
{
    uint64_t slot = slot_bytes(p);
    dma_status_t status = DMA_OK, ended;

    for (uint64_t done = 0; status == DMA_OK && done < bytes; done += slot) {
        unsigned at = (unsigned)(done / slot % 2);
        char *memory = p->memory + at * slot;
        uint64_t n = least(bytes - done, slot);

        if (done >= 2 * slot) {
            status = wait_slot(p, at);
        }
        if (status == DMA_OK) {
            memcpy(memory, from + done, n);
            status = start_slot(p, at, to + done, memory, n);
        }
    }
    ended = dma_pin_end(p);
    return status == DMA_OK ? ended : status;
}
