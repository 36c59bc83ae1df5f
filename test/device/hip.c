/* HIP for test programs: see hip.h. */
#include "hip.h"

#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cuda.h"

hip_table_t hip;

#define NAME(call) #call
static const char *const names[] = {
    NAME(hipGetDeviceCount),     NAME(hipSetDevice),      NAME(hipMalloc),     NAME(hipFree),
    NAME(hipExtMallocWithFlags), NAME(hipMallocManaged),  NAME(hipHostMalloc), NAME(hipHostFree),
    NAME(hipHostRegister),       NAME(hipHostUnregister), NAME(hipMemcpy),     NAME(hipDeviceSynchronize),
    NAME(hipDeviceReset),        NAME(hipGetErrorString),
};
_Static_assert(sizeof(names) / sizeof(names[0]) * sizeof(void *) == sizeof(hip_table_t), "a name for every call");

bool hip_open(int *devices)
{
    const char *gpu = getenv("DMA_TEST_GPU");

    if (gpu && strcmp(gpu, "cuda") == 0) {
        return cuda_fill(&hip, devices);
    }

    static const char *const libraries[] = {"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5",
                                            "libamdhip64.so"};
    void *library = NULL;
    for (size_t i = 0; !library && i < sizeof(libraries) / sizeof(libraries[0]); i++) {
        library = dlopen(libraries[i], RTLD_NOW | RTLD_GLOBAL);
    }
    for (size_t i = 0; library && i < sizeof(names) / sizeof(names[0]); i++) {
        void *symbol = dlsym(library, names[i]);
        if (!symbol) {
            fprintf(stderr, "HIP has no %s\n", names[i]);
            return false;
        }
        memcpy((char *)&hip + i * sizeof(symbol), &symbol, sizeof(symbol));
    }
    if (!library || hip.hipGetDeviceCount(devices) != 0 || *devices < 1) {
        fprintf(stderr, library ? "HIP sees no device\n" : "there is no HIP\n");
        return false;
    }
    return true;
}

void hip_must(const char *call, int error)
{
    if (error != 0) {
        fprintf(stderr, "%s: %s\n", call, hip.hipGetErrorString(error));
        MPI_Abort(MPI_COMM_WORLD, 3);
    }
}

void hip_copy(void *to, const void *from, size_t bytes)
{
    if (bytes > 0) {
        hip_must("hipMemcpy", hip.hipMemcpy(to, from, bytes, HIP_COPY_DEFAULT));
        hip_must("hipDeviceSynchronize", hip.hipDeviceSynchronize());
    }
}

void *hip_take(size_t bytes)
{
    void *memory = NULL;
    hip_must("hipMalloc", hip.hipMalloc(&memory, bytes));
    return memory;
}

/* A line of the statistics about one of our queues. */
static void add_line(const char *line, hip_stats_t *stats)
{
    char kind[32];
    long n, m, k;
    if (sscanf(line, "sdma gpu %*d engine %*d queue %*d packet %31s %ld", kind, &n) == 2) {
        stats->copies += strcmp(kind, "copy") == 0 ? n : 0;
        stats->broadcasts += strcmp(kind, "broadcast") == 0 ? n : 0;
        stats->swaps += strcmp(kind, "swap") == 0 ? n : 0;
        stats->conditions += strcmp(kind, "cond-exe") == 0 ? n : 0;
        stats->packets += strcmp(kind, "nop") == 0 ? 0 : n;
    } else if (sscanf(line, "sdma gpu %*d engine %*d queue %*d doorbells %ld fences %ld polls %ld", &n, &m, &k) == 3) {
        stats->doorbells += n;
        stats->fences += m;
        stats->polls += k;
        stats->queues += m > 0;
    }
}

/* The bytes that a queue has written, and their destination. */
static void add_moved(const char *line, bool ours, hip_stats_t *stats)
{
    int gpu, to;
    long bytes;

    if (sscanf(line, "sdma gpu %*d engine %*d queue %*d moved host bytes %ld", &bytes) == 1) {
        stats->to_host += bytes;
        stats->bytes += ours ? bytes : 0;
    } else if (ours && sscanf(line, "sdma gpu %d engine %*d queue %*d moved gpu%d bytes %ld", &gpu, &to, &bytes) == 3) {
        stats->to_peers += gpu != to ? bytes : 0;
        stats->bytes += bytes;
    }
}

bool hip_stats(hip_stats_t *stats)
{
    int (*dump)(const char *path);
    void *symbol = dlsym(RTLD_DEFAULT, "emu_stats_dump");
    char path[64], line[256], owner[64];
    bool ours = false;

    memset(stats, 0, sizeof(*stats));
    if (cuda_stats(stats)) {
        return true;
    }
    memcpy(&dump, &symbol, sizeof(dump));
    snprintf(path, sizeof(path), "/tmp/coll-dma-stats.%d", (int)getpid());
    if (!symbol || dump(path) != 0) {
        fprintf(stderr, "no statistics: this is not the emulated node\n");
        return false;
    }
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof(line), file)) {
        if (sscanf(line, "queue %*d gpu %*d engine %*d type %*d owner %63s", owner) == 1) {
            ours = strstr(owner, "coll_dma") != NULL;
        } else if (ours) {
            add_line(line, stats);
        }
        add_moved(line, ours, stats);
    }
    if (file) {
        fclose(file);
    }
    unlink(path);
    return file != NULL;
}
