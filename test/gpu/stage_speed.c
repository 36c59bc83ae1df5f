/*
 * stage_speed hip|cuda [DEVICE [LARGEST]]: how fast device memory is staged in host memory (device/pins.h), beside a plain
 * copy from or to pinned memory, which shows what the link can do. LARGEST: bytes, by default 256 MiB.
 *
 *     plain     one copy between device memory and pinned memory, and a wait
 *     block     the same through a borrowed block, as in calls that fit into the pinned memory of the process
 *     slots     between device memory and pageable memory, through two slots
 *
 * For each size it prints the bytes per second of each, in both directions, in units of 1e9: the median of interleaved
 * passes, and the ratio to `plain`. The line `both` is two plain copies at once, one in each direction: bytes per second of
 * each direction. Then "staging FRACTION", the least ratio from 4 MiB on. The copied data are compared.
 * mpirun is not needed. Exit status: 0; 1 if data are wrong or a call fails; 77 without a device.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/pins.h"

#define PASSES 9
#define MIB    (UINT64_C(1) << 20)

enum { PLAIN, BLOCK, SLOTS, WAYS };

typedef struct world {
    const dma_gpu_runtime_t *rt;
    int device;
    dma_proc_t proc;
    dma_counters_t counters;
    char *memory; /* of the device */
    char *target; /* likewise */
    char *host;   /* pageable */
    dma_lease_t *pin, *back, *slots;
    double least;
    bool wrong;
} world_t;

/* Loads the vendor's library, as an application does, and starts it. */
static const dma_gpu_runtime_t *load(const char *vendor)
{
    bool hip = !strcmp(vendor, "hip");
    void *library = dlopen(hip ? "libamdhip64.so" : "libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
    unsigned (*init)(unsigned);

    for (int soname = 5; hip && !library && soname < 9; soname++) {
        char name[32];

        snprintf(name, sizeof(name), "libamdhip64.so.%d", soname);
        library = dlopen(name, RTLD_NOW | RTLD_GLOBAL);
    }
    if (!library || !(init = (unsigned (*)(unsigned))dlsym(library, hip ? "hipInit" : "cuInit")) || init(0)) {
        return NULL;
    }
    return dma_gpu_runtime_loaded();
}

static dma_status_t copy(world_t *w, int way, bool write, uint64_t bytes)
{
    dma_lease_t *p = w->pin;
    dma_status_t status;

    if (way == SLOTS) {
        return write ? dma_pin_write(w->slots, w->memory, w->host, bytes)
                     : dma_pin_read(w->slots, w->host, w->memory, bytes);
    }
    if (way == BLOCK) {
        status = dma_pin_start(p, write ? w->memory : p->memory, write ? p->memory : w->memory, bytes);
        return status == DMA_OK ? dma_pin_end(p) : status;
    }
    status = w->rt->copy_async(p->stream[0], (uintptr_t)(write ? w->memory : p->memory),
                               (uintptr_t)(write ? p->memory : w->memory), bytes);
    return status == DMA_OK ? w->rt->stream_sync(p->stream[0]) : status;
}

/* Copies a pattern to the device and back, in one way. */
static void verify(world_t *w, int way, uint64_t bytes)
{
    char *host = way == SLOTS ? w->host : w->pin->memory;

    for (uint64_t i = 0; i < bytes; i++) {
        host[i] = (char)(i * 7 + i / 4099 + (uint64_t)way);
    }
    w->wrong |= copy(w, way, true, bytes) != DMA_OK;
    memset(host, 0, bytes);
    w->wrong |= copy(w, way, false, bytes) != DMA_OK;
    for (uint64_t i = 0; i < bytes && !w->wrong; i++) {
        w->wrong = host[i] != (char)(i * 7 + i / 4099 + (uint64_t)way);
    }
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static void measure(world_t *w, uint64_t bytes, bool write)
{
    double seconds[WAYS][PASSES], rate[WAYS];

    for (int pass = -1; pass < PASSES; pass++) { /* the first one warms up */
        for (int way = 0; way < WAYS; way++) {
            double began = dma_now();

            w->wrong |= copy(w, way, write, bytes) != DMA_OK;
            seconds[way][pass < 0 ? 0 : pass] = dma_now() - began;
        }
    }
    for (int way = 0; way < WAYS; way++) {
        qsort(seconds[way], PASSES, sizeof(double), compare);
        rate[way] = (double)bytes / seconds[way][PASSES / 2] / 1e9;
    }
    printf("%-5s %12llu %8.2f %8.2f %8.2f %6.2f %6.2f\n", write ? "write" : "read", (unsigned long long)bytes,
           rate[PLAIN], rate[BLOCK], rate[SLOTS], rate[BLOCK] / rate[PLAIN], rate[SLOTS] / rate[PLAIN]);
    for (int way = BLOCK; way < WAYS && bytes >= 4 * MIB; way++) {
        w->least = rate[way] / rate[PLAIN] < w->least ? rate[way] / rate[PLAIN] : w->least;
    }
}

/* One copy out of the device and one into it at the same time. */
static void measure_both(world_t *w, uint64_t bytes)
{
    const dma_gpu_runtime_t *rt = w->rt;
    double seconds[PASSES];

    for (int pass = -1; pass < PASSES; pass++) {
        double began = dma_now();

        w->wrong |=
            rt->copy_async(w->pin->stream[0], (uintptr_t)w->pin->memory, (uintptr_t)w->memory, bytes) != DMA_OK ||
            rt->copy_async(w->back->stream[0], (uintptr_t)w->target, (uintptr_t)w->back->memory, bytes) != DMA_OK ||
            rt->stream_sync(w->pin->stream[0]) != DMA_OK || rt->stream_sync(w->back->stream[0]) != DMA_OK;
        seconds[pass < 0 ? 0 : pass] = dma_now() - began;
    }
    qsort(seconds, PASSES, sizeof(double), compare);
    printf("%-5s %12llu %8.2f\n", "both", (unsigned long long)bytes, (double)bytes / seconds[PASSES / 2] / 1e9);
}

/* In the runtime's scope. */
static int run(world_t *w, uint64_t largest)
{
    uint64_t at, target;

    w->slots = dma_pin_get_slots(&w->proc, w->rt, w->device);
    w->pin = dma_pin_get(&w->proc, w->rt, w->device, largest);
    w->back = dma_pin_get(&w->proc, w->rt, w->device, largest);
    w->host = malloc(largest);
    if (!w->slots || !w->pin || !w->back || !w->host || w->rt->alloc(largest, &at) != DMA_OK ||
        w->rt->alloc(largest, &target) != DMA_OK) {
        printf("no memory: %s\n", dma_gpu_error());
        return 1;
    }
    w->memory = (char *)(uintptr_t)at;
    w->target = (char *)(uintptr_t)target;
    for (int way = 0; way < WAYS; way++) {
        verify(w, way, largest);
    }
    printf("%-5s %12s %8s %8s %8s %6s %6s\n", "", "bytes", "plain", "block", "slots", "block", "slots");
    for (uint64_t bytes = 65536; bytes <= largest; bytes *= 4) {
        measure(w, bytes, false);
        measure(w, bytes, true);
        measure_both(w, bytes);
    }
    printf("data %s\nstaging %.2f\n", w->wrong ? "wrong" : "right", w->least);
    (void)w->rt->free(at);
    (void)w->rt->free(target);
    free(w->host);
    dma_lease_give_back(&w->proc, w->pin);
    dma_lease_give_back(&w->proc, w->back);
    dma_lease_give_back(&w->proc, w->slots);
    return w->wrong;
}

int main(int argc, char **argv)
{
    static world_t w = {.least = 1e9, .counters = DMA_COUNTERS_INIT};
    uint64_t largest = argc > 3 ? strtoull(argv[3], NULL, 0) : 256 * MIB;
    dma_gpu_scope_t scope;
    int count = 0, status = 1;

    if (argc < 2) {
        fprintf(stderr, "usage: stage_speed hip|cuda [DEVICE [LARGEST]]\n");
        return 2;
    }
    w.rt = load(argv[1]);
    w.device = argc > 2 ? atoi(argv[2]) : 0;
    if (!w.rt || w.rt->device_count(&count) != DMA_OK || count <= w.device) {
        printf("no device to measure (%s)\n", dma_gpu_error());
        return 77;
    }
    pthread_mutex_init(&w.proc.device_lock, NULL);
    dma_budget_init(&w.proc.budget, &w.counters, UINT64_MAX, 3 * largest + 64 * MIB);
    if (w.rt->enter(w.device, &scope) == DMA_OK) {
        status = run(&w, largest);
        w.rt->leave(&scope);
    }
    dma_leases_destroy(&w.proc);
    return status;
}
