/* For the programs that behave like applications on CUDA: the driver, opened at run time, and memory of each kind. */
#ifndef DMA_TEST_GPU_APP_DRIVER_H
#define DMA_TEST_GPU_APP_DRIVER_H

#include <stddef.h>
#include <stdint.h>

typedef uintptr_t addr_t;
typedef void *handle_t;

#define APP_DRIVER(X)                                                                                                  \
    X(init, cuInit, (unsigned flags))                                                                                  \
    X(count, cuDeviceGetCount, (int *count))                                                                           \
    X(get, cuDeviceGet, (int *device, int index))                                                                      \
    X(retain, cuDevicePrimaryCtxRetain, (handle_t * context, int device))                                              \
    X(reset, cuDevicePrimaryCtxReset_v2, (int device))                                                                 \
    X(current, cuCtxSetCurrent, (handle_t context))                                                                    \
    X(wait, cuCtxSynchronize, (void))                                                                                  \
    X(alloc, cuMemAlloc_v2, (addr_t * addr, size_t bytes))                                                             \
    X(release, cuMemFree_v2, (addr_t addr))                                                                            \
    X(alloc_managed, cuMemAllocManaged, (addr_t * addr, size_t, unsigned))                                             \
    X(alloc_async, cuMemAllocAsync, (addr_t * addr, size_t bytes, handle_t))                                           \
    X(write, cuMemcpyHtoD_v2, (addr_t to, const void *from, size_t bytes))                                             \
    X(read, cuMemcpyDtoH_v2, (void *to, addr_t from, size_t bytes))                                                    \
    X(alloc_host, cuMemHostAlloc, (void **host, size_t bytes, unsigned flags))                                         \
    X(set, cuMemsetD8Async, (addr_t to, unsigned char, size_t, handle_t))                                              \
    X(granularity, cuMemGetAllocationGranularity, (size_t *, const void *prop, int option))                            \
    X(create, cuMemCreate, (handle_t *, size_t, const void *prop, uint64_t flags))                                     \
    X(reserve, cuMemAddressReserve, (addr_t *, size_t, size_t, addr_t, uint64_t))                                      \
    X(map, cuMemMap, (addr_t, size_t, size_t, handle_t, uint64_t))                                                     \
    X(access, cuMemSetAccess, (addr_t, size_t, const void *desc, size_t count))                                        \
    X(unmap, cuMemUnmap, (addr_t, size_t))                                                                             \
    X(drop, cuMemRelease, (handle_t))

#define APP_MEMBER(name, symbol, args) int(*name) args;
extern struct app_cu {
    APP_DRIVER(APP_MEMBER)
} app_cu;

enum { APP_PLAIN, APP_ODD, APP_POOL, APP_MAPPED, APP_EXPORTABLE, APP_PARTS, APP_MANAGED, APP_PINNED, APP_KINDS };
extern const char *const app_kind_names[APP_KINDS];
extern int app_device;

/* Ends the job if `code` is not 0. */
void app_must(const char *what, int code);
/* Ranks share the GPUs of the machine. */
void app_open(int rank);
addr_t app_alloc(size_t bytes);
addr_t app_kind_alloc(int kind, size_t bytes);
/* For APP_PARTS: other memory replaces the part that begins there. */
#define APP_PART ((size_t)2 << 20)
void app_remap(addr_t part);

#endif
