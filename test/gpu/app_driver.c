/* See app_driver.h. */
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>
#include <string.h>

#include "app_driver.h"

struct app_cu app_cu;
const char *const app_kind_names[APP_KINDS] = {
    "plain", "odd address", "pool", "mapped", "mapped and exportable", "mapped in parts", "managed", "pinned host"};
int app_device;
static int rank;

#define ENTRY(name, symbol, args) {#symbol, (void **)&app_cu.name},
static const struct {
    const char *symbol;
    void **entry;
} entries[] = {APP_DRIVER(ENTRY)};

void app_must(const char *what, int code)
{
    if (code) {
        fprintf(stderr, "app_check: rank %d: %s: %d\n", rank, what, code);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
}

void app_open(int my_rank)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    handle_t context;
    int count = 0;

    rank = my_rank;
    app_must("libcuda.so.1", !library);
    for (size_t i = 0; i < sizeof(entries) / sizeof(*entries); i++) {
        *entries[i].entry = dlsym(library, entries[i].symbol);
        app_must(entries[i].symbol, !*entries[i].entry);
    }
    app_must("cuInit", app_cu.init(0));
    app_must("cuDeviceGetCount", app_cu.count(&count));
    app_must("cuDeviceGet", app_cu.get(&app_device, rank % count));
    app_must("cuDevicePrimaryCtxRetain", app_cu.retain(&context, app_device));
    app_must("cuCtxSetCurrent", app_cu.current(context));
}

addr_t app_alloc(size_t bytes)
{
    addr_t addr = 0;

    app_must("cuMemAlloc", app_cu.alloc(&addr, bytes));
    return addr;
}

/* CUmemAllocationProp and CUmemAccessDesc in the driver's layout. */
typedef struct {
    int type, handles, location, id;
    void *unused;
    unsigned char flags[8];
} mem_prop_t;

/* Maps new memory at reserved addresses. Only the mapping holds it. */
static void map_at(addr_t addr, size_t bytes, const mem_prop_t *prop)
{
    struct {
        int location, id, flags;
    } desc = {1, app_device, 3};
    handle_t memory;

    app_must("cuMemCreate", app_cu.create(&memory, bytes, prop, 0));
    app_must("cuMemMap", app_cu.map(addr, bytes, 0, memory, 0));
    app_must("cuMemSetAccess", app_cu.access(addr, bytes, &desc, 1));
    app_must("cuMemRelease", app_cu.drop(memory));
}

void app_remap(addr_t part)
{
    mem_prop_t prop = {.type = 1, .handles = 1, .location = 1, .id = app_device};

    app_must("cuMemUnmap", app_cu.unmap(part, APP_PART));
    map_at(part, APP_PART, &prop);
}

/* `part`: bytes of each allocation; 0: one for all. */
static addr_t mapped_alloc(size_t bytes, int handles, size_t part)
{
    mem_prop_t prop = {.type = 1, .handles = handles, .location = 1, .id = app_device};
    size_t unit = part;
    addr_t addr = 0;

    if (!part) {
        app_must("cuMemGetAllocationGranularity", app_cu.granularity(&unit, &prop, 0));
    }
    bytes = (bytes + unit - 1) / unit * unit;
    app_must("cuMemAddressReserve", app_cu.reserve(&addr, bytes, 0, 0, 0));
    for (size_t at = 0; at < bytes; at += part ? part : bytes) {
        map_at(addr + at, part ? part : bytes, &prop);
    }
    return addr;
}

addr_t app_kind_alloc(int kind, size_t bytes)
{
    addr_t addr = 0;

    switch (kind) {
    case APP_POOL:
        app_must("cuMemAllocAsync", app_cu.alloc_async(&addr, bytes, NULL));
        app_must("cuCtxSynchronize", app_cu.wait());
        return addr;
    case APP_MAPPED:
        return mapped_alloc(bytes, 0, 0);
    case APP_EXPORTABLE:
        return mapped_alloc(bytes, 1, 0);
    case APP_PARTS:
        return mapped_alloc(bytes, 1, APP_PART);
    case APP_MANAGED:
        app_must("cuMemAllocManaged", app_cu.alloc_managed(&addr, bytes, 1));
        return addr;
    case APP_PINNED:
        app_must("cuMemHostAlloc", app_cu.alloc_host((void **)&addr, bytes, 1));
        return addr;
    case APP_ODD:
        return app_alloc(bytes + 3) + 3;
    default:
        return app_alloc(bytes);
    }
}
