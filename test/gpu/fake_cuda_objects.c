/*
 * Replaces libcuda.so.1: streams, events, graphs and memory. They belong to a context. After a reset of the device, a call
 * with an object from before the reset ends the process. In the real library such a call faults or does worse.
 */
#include <stdio.h>
#include <stdlib.h>

#include "fake_cuda.h"

typedef enum object_kind { STREAM, EVENT, GRAPH, EXEC, MEMORY, IMPORT, REGISTERED } object_kind_t;

static const char *const kind_names[] = {"stream",           "event", "graph", "executable graph", "memory", "import",
                                         "registered memory"};

/* Never freed, so that no two have the same address. */
typedef struct object {
    struct object *next;
    object_kind_t kind;
    uint64_t handle, size, id;
    int device;
    unsigned resets;
    bool released, untimed;
} object_t;

static object_t *objects;
static uint64_t last_id = 1000, used[FAKE_CUDA_DEVICES];

static bool is_alive(const object_t *o)
{
    return !o->released && fake_is_active(o->device) && o->resets == fake_resets(o->device);
}

static object_t *find(object_kind_t kind, uint64_t handle)
{
    object_t *found = NULL;

    for (object_t *o = objects; o; o = o->next) {
        if (o->kind == kind && o->handle == handle && (!found || is_alive(o))) {
            found = o;
        }
    }
    return found;
}

/* The object, which must be alive. */
static object_t *need(object_kind_t kind, uint64_t handle, const char *call)
{
    object_t *o = find(kind, handle);

    if (!o || !is_alive(o)) {
        fprintf(stderr, "fake CUDA: %s with a %s that %s\n", call, kind_names[kind],
                !o            ? "is none"
                : o->released ? "has been released"
                              : "a reset has destroyed");
        abort();
    }
    return o;
}

/* Makes an object in the current context. `handle` 0: its own address. Returns NULL with an error. */
static object_t *make(object_kind_t kind, uint64_t handle, cuda_error_t *error)
{
    object_t *o;
    int device;

    if ((*error = fake_unsafe(&device)) != CUDA_DONE) {
        return NULL;
    }
    o = calloc(1, sizeof(*o));
    *o = (object_t){.next = objects,
                    .kind = kind,
                    .handle = handle ? handle : (uintptr_t)o,
                    .id = ++last_id,
                    .device = device,
                    .resets = fake_resets(device)};
    objects = o;
    return o;
}

static cuda_error_t release(object_kind_t kind, uint64_t handle, const char *call)
{
    int device;

    need(kind, handle, call)->released = true;
    fake_driver.objects--;
    return fake_unsafe(&device) == 900 ? 900 : CUDA_DONE;
}

/* ---- memory ---- */

static object_t *make_memory(object_kind_t kind, size_t bytes, cuda_error_t *error)
{
    object_t *o = make(kind, 0, error);

    if (o) {
        o->handle = 0x500000000000u + ((uint64_t)o->device << 40) + used[o->device];
        o->size = bytes;
        used[o->device] += (bytes + 511) / 512 * 512;
        fake_driver.objects++;
    }
    return o;
}

bool fake_find_memory(uint64_t addr, fake_memory_t *memory)
{
    for (const object_t *o = objects; o; o = o->next) {
        if (o->kind == MEMORY && is_alive(o) && addr - o->handle < o->size) {
            *memory = (fake_memory_t){o->handle, o->size, o->id, o->device};
            return true;
        }
    }
    return false;
}

void fake_forget_addresses(int device)
{
    for (const object_t *o = objects; o; o = o->next) {
        fake_driver.objects -= o->device == device && !o->released && o->resets + 1 == fake_resets(device);
    }
    if (fake_driver.reuses) {
        used[device] = 0;
    }
}

cuda_error_t cuMemAlloc_v2(cuda_addr_t *ptr, size_t bytes)
{
    cuda_error_t error = CUDA_OUT_OF_MEMORY;
    const object_t *o = fake_driver.full ? NULL : make_memory(MEMORY, bytes, &error);

    *ptr = o ? o->handle : 0;
    return error;
}

cuda_error_t cuMemFree_v2(cuda_addr_t ptr)
{
    return release(MEMORY, ptr, "cuMemFree");
}

cuda_error_t cuIpcOpenMemHandle_v2(cuda_addr_t *ptr, cuda_ipc_handle_t handle, unsigned flags)
{
    cuda_error_t error;
    const object_t *o = make_memory(IMPORT, 4096, &error);

    (void)handle;
    (void)flags;
    *ptr = o ? o->handle : 0;
    return error;
}

cuda_error_t cuIpcCloseMemHandle(cuda_addr_t ptr)
{
    return release(IMPORT, ptr, "cuIpcCloseMemHandle");
}

cuda_error_t cuMemHostRegister_v2(void *ptr, size_t bytes, unsigned flags)
{
    const object_t *o = find(REGISTERED, (uintptr_t)ptr);
    cuda_error_t error;

    (void)bytes;
    (void)flags;
    if (fake_driver.refuses || (o && is_alive(o))) {
        return 712;
    }
    if (make(REGISTERED, (uintptr_t)ptr, &error)) {
        fake_driver.objects++;
    }
    return error;
}

cuda_error_t cuMemHostUnregister(void *ptr)
{
    return release(REGISTERED, (uintptr_t)ptr, "cuMemHostUnregister");
}

cuda_error_t cuMemHostGetDevicePointer_v2(cuda_addr_t *device, void *host, unsigned flags)
{
    (void)flags;
    *device = (uintptr_t)host;
    return CUDA_DONE;
}

/* ---- streams ---- */

#define USE(kind, object, call) (void)need(kind, (uintptr_t)(object), call)

static cuda_error_t make_handle(object_kind_t kind, void **handle)
{
    cuda_error_t error;
    const object_t *o = make(kind, 0, &error);

    fake_driver.objects += o != NULL;
    *handle = o ? (void *)(uintptr_t)o->handle : NULL;
    return error;
}

cuda_error_t cuStreamCreate(struct CUstream_st **stream, unsigned flags)
{
    (void)flags;
    return make_handle(STREAM, (void **)stream);
}

cuda_error_t cuStreamDestroy_v2(struct CUstream_st *stream)
{
    return release(STREAM, (uintptr_t)stream, "cuStreamDestroy");
}

cuda_error_t cuStreamQuery(struct CUstream_st *stream)
{
    int device;

    USE(STREAM, stream, "cuStreamQuery");
    return fake_unsafe(&device);
}

/* NULL: the default stream of the current context. */
cuda_error_t cuStreamSynchronize(struct CUstream_st *stream)
{
    int device;

    if (stream) {
        USE(STREAM, stream, "cuStreamSynchronize");
    }
    fake_copies_arrive();
    return fake_current(&device);
}

/* Neither end may be in memory that a reset has destroyed. */
static void check_address(cuda_addr_t addr, const char *call)
{
    fake_memory_t m;

    for (const object_t *o = objects; o; o = o->next) {
        if ((o->kind == MEMORY || o->kind == IMPORT) && addr - o->handle < o->size && !is_alive(o) &&
            !fake_find_memory(addr, &m)) {
            need(o->kind, o->handle, call);
        }
    }
}

cuda_error_t cuMemcpyAsync(cuda_addr_t dst, cuda_addr_t src, size_t bytes, struct CUstream_st *stream)
{
    int device;

    (void)bytes;
    USE(STREAM, stream, "cuMemcpyAsync");
    check_address(dst, "cuMemcpyAsync to");
    check_address(src, "cuMemcpyAsync from");
    return fake_current(&device);
}

cuda_error_t cuMemcpy2DAsync_v2(const cuda_copy2d_t *what, struct CUstream_st *stream)
{
    (void)what;
    USE(STREAM, stream, "cuMemcpy2DAsync");
    return CUDA_DONE;
}

cuda_error_t cuMemcpyBatchAsync_v2(cuda_addr_t *dst, cuda_addr_t *src, size_t *bytes, size_t n,
                                   cuda_batch_attributes_t *attributes, size_t *index, size_t n_attributes,
                                   struct CUstream_st *stream)
{
    (void)dst;
    (void)src;
    (void)bytes;
    (void)n;
    (void)attributes;
    (void)index;
    (void)n_attributes;
    USE(STREAM, stream, "cuMemcpyBatchAsync");
    return CUDA_DONE;
}

cuda_error_t cuStreamWriteValue32_v2(struct CUstream_st *stream, cuda_addr_t addr, uint32_t value, unsigned flags)
{
    (void)addr;
    (void)value;
    (void)flags;
    USE(STREAM, stream, "cuStreamWriteValue32");
    return CUDA_DONE;
}

/* ---- events ---- */

cuda_error_t cuEventCreate(struct CUevent_st **event, unsigned flags)
{
    cuda_error_t error = make_handle(EVENT, (void **)event);

    if (error == CUDA_DONE) {
        find(EVENT, (uintptr_t)*event)->untimed = flags & CUDA_EVENT_DISABLE_TIMING;
    }
    return error;
}

/* The second was reached 1.5 ms after the first, if both have times. */
cuda_error_t cuEventElapsedTime(float *ms, struct CUevent_st *from, struct CUevent_st *to)
{
    const object_t *first = need(EVENT, (uintptr_t)from, "cuEventElapsedTime from");
    const object_t *last = need(EVENT, (uintptr_t)to, "cuEventElapsedTime to");

    *ms = 1.5f;
    return first->untimed || last->untimed ? 400 : CUDA_DONE;
}

cuda_error_t cuEventElapsedTime_v2(float *ms, struct CUevent_st *from, struct CUevent_st *to)
{
    return cuEventElapsedTime(ms, from, to);
}

cuda_error_t cuEventDestroy_v2(struct CUevent_st *event)
{
    return release(EVENT, (uintptr_t)event, "cuEventDestroy");
}

cuda_error_t cuEventRecord(struct CUevent_st *event, struct CUstream_st *stream)
{
    USE(EVENT, event, "cuEventRecord");
    USE(STREAM, stream, "cuEventRecord");
    return CUDA_DONE;
}

cuda_error_t cuEventQuery(struct CUevent_st *event)
{
    int device;

    USE(EVENT, event, "cuEventQuery");
    return fake_unsafe(&device);
}

/* ---- graphs ---- */

cuda_error_t cuGraphCreate(struct CUgraph_st **graph, unsigned flags)
{
    (void)flags;
    return make_handle(GRAPH, (void **)graph);
}

cuda_error_t cuGraphDestroy(struct CUgraph_st *graph)
{
    return release(GRAPH, (uintptr_t)graph, "cuGraphDestroy");
}

cuda_error_t cuGraphInstantiateWithFlags(struct CUgraphExec_st **exec, struct CUgraph_st *graph,
                                         unsigned long long flags)
{
    (void)flags;
    USE(GRAPH, graph, "cuGraphInstantiate");
    return make_handle(EXEC, (void **)exec);
}

cuda_error_t cuGraphExecMemcpyNodeSetParams(struct CUgraphExec_st *exec, struct CUgraphNode_st *node,
                                            const cuda_copy3d_t *what, struct CUctx_st *context)
{
    (void)node;
    (void)what;
    (void)context;
    USE(EXEC, exec, "cuGraphExecMemcpyNodeSetParams");
    return CUDA_DONE;
}

cuda_error_t cuGraphLaunch(struct CUgraphExec_st *exec, struct CUstream_st *stream)
{
    USE(EXEC, exec, "cuGraphLaunch");
    USE(STREAM, stream, "cuGraphLaunch");
    return CUDA_DONE;
}

cuda_error_t cuGraphExecDestroy(struct CUgraphExec_st *exec)
{
    return release(EXEC, (uintptr_t)exec, "cuGraphExecDestroy");
}
