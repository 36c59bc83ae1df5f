/* What only the runtime of a GPU knows of a device, for people. */
#include <dlfcn.h>
#include <string.h>

#include "gpu/internal.h"
#include "tools/info/info.h"

#define CUDA_MAJOR 75 /* attributes of cuDeviceGetAttribute */
#define CUDA_MINOR 76

typedef struct hip_calls {
    unsigned (*name)(char *name, int bytes, int device);
    unsigned (*memory)(size_t *bytes, int device);
} info_hip_t;

static const dma_gpu_symbol_t hip_symbols[] = {{"hipDeviceGetName", false}, {"hipDeviceTotalMem", false}};

typedef struct cuda_calls {
    unsigned (*get)(int *device, int ordinal);
    unsigned (*name)(char *name, int bytes, int device);
    unsigned (*memory)(size_t *bytes, int device);
    unsigned (*attribute)(int *value, unsigned attribute, int device);
} info_cuda_t;

static const dma_gpu_symbol_t cuda_symbols[] = {
    {"cuDeviceGet", true}, {"cuDeviceGetName", true}, {"cuDeviceTotalMem_v2", true}, {"cuDeviceGetAttribute", true}};

static void describe_hip(int device, info_gpu_t *gpu)
{
    info_hip_t hip;
    size_t bytes = 0;

    dma_gpu_find_symbols(RTLD_DEFAULT, hip_symbols, 2, &hip);
    if (!hip.name || hip.name(gpu->name, sizeof(gpu->name), device)) {
        gpu->name[0] = '\0';
    }
    gpu->memory = hip.memory && !hip.memory(&bytes, device) ? bytes : 0;
}

static void describe_cuda(int ordinal, info_gpu_t *gpu)
{
    info_cuda_t cuda;
    size_t bytes = 0;
    int device, major, minor;

    if (!dma_gpu_find_symbols(RTLD_DEFAULT, cuda_symbols, 4, &cuda) || cuda.get(&device, ordinal)) {
        return;
    }
    if (cuda.name(gpu->name, sizeof(gpu->name), device)) {
        gpu->name[0] = '\0';
    }
    gpu->memory = cuda.memory(&bytes, device) ? 0 : bytes;
    if (!cuda.attribute(&major, CUDA_MAJOR, device) && !cuda.attribute(&minor, CUDA_MINOR, device)) {
        snprintf(gpu->isa, sizeof(gpu->isa), "sm_%d%d", major, minor);
    }
}

void info_runtime_describe(const dma_gpu_runtime_t *rt, int device, info_gpu_t *gpu)
{
    if (!strcmp(rt->name, "hip")) {
        describe_hip(device, gpu);
    } else if (!strcmp(rt->name, "cuda")) {
        describe_cuda(device, gpu);
    }
    gpu->name[sizeof(gpu->name) - 1] = '\0';
}
