/*
 * Declarations of the CUDA driver API that is used here. A build needs no vendor header. Where cuda.h is installed,
 * test/gpu/cuda_api_check.c is compiled against both and fails if any declaration here differs.
 *
 * Each row: our name, the symbol in libcuda, whether it is required, parameters. All functions return CUresult, an
 * unsigned enum.
 */
#ifndef DMA_GPU_CUDA_API_H
#define DMA_GPU_CUDA_API_H

#include <stddef.h>
#include <stdint.h>

typedef unsigned cuda_error_t;
typedef unsigned cuda_enum_t;
typedef int cuda_device_t;
typedef unsigned long long cuda_addr_t;

/* The vendor's struct tags, so that the types are compatible with the vendor's. */
struct CUctx_st;
struct CUstream_st;
struct CUevent_st;
struct CUgraph_st;
struct CUgraphNode_st;
struct CUgraphExec_st;

/* Our structures, in the vendor's layout. */
typedef struct cuda_layout_ipc_handle {
    char reserved[64];
} cuda_layout_ipc_handle_t;

typedef struct cuda_layout_copy2d {
    size_t src_x, src_y;
    cuda_enum_t src_type;
    const void *src_host;
    cuda_addr_t src;
    void *src_array;
    size_t src_pitch;
    size_t dst_x, dst_y;
    cuda_enum_t dst_type;
    void *dst_host;
    cuda_addr_t dst;
    void *dst_array;
    size_t dst_pitch;
    size_t width, height;
} cuda_layout_copy2d_t;

typedef struct cuda_layout_copy3d {
    size_t src_x, src_y, src_z, src_lod;
    cuda_enum_t src_type;
    const void *src_host;
    cuda_addr_t src;
    void *src_array, *reserved0;
    size_t src_pitch, src_height;
    size_t dst_x, dst_y, dst_z, dst_lod;
    cuda_enum_t dst_type;
    void *dst_host;
    cuda_addr_t dst;
    void *dst_array, *reserved1;
    size_t dst_pitch, dst_height;
    size_t width, height, depth;
} cuda_layout_copy3d_t;

typedef struct cuda_layout_access {
    cuda_enum_t type;
    int id; /* of the device */
    cuda_enum_t flags;
} cuda_layout_access_t;

typedef struct cuda_layout_batch_attributes {
    cuda_enum_t source_order;
    struct {
        cuda_enum_t type;
        int id;
    } source, destination; /* location hints */
    unsigned flags;
} cuda_layout_batch_attributes_t;

/* One of several operations on words that a stream carries out as one. */
typedef union cuda_layout_word {
    struct cuda_word_operation {
        cuda_enum_t code;
        cuda_addr_t addr;
        uint64_t value; /* or its lower half */
        unsigned flags;
        cuda_addr_t alias;
    } what;
    uint64_t reserved[6];
} cuda_layout_word_t;

typedef struct cuda_word_operation cuda_word_operation_t;

#ifndef DMA_GPU_VENDOR_HEADERS
typedef cuda_layout_ipc_handle_t cuda_ipc_handle_t;
typedef cuda_layout_copy2d_t cuda_copy2d_t;
typedef cuda_layout_copy3d_t cuda_copy3d_t;
typedef cuda_layout_batch_attributes_t cuda_batch_attributes_t;
typedef cuda_layout_access_t cuda_access_t;
typedef cuda_layout_word_t cuda_word_t;
#else
typedef CUipcMemHandle cuda_ipc_handle_t;
typedef CUDA_MEMCPY2D cuda_copy2d_t;
typedef CUDA_MEMCPY3D cuda_copy3d_t;
typedef CUmemcpyAttributes cuda_batch_attributes_t;
typedef CUmemAccessDesc cuda_access_t;
typedef CUstreamBatchMemOpParams cuda_word_t;
#endif

#define CUDA_CALLS(X)                                                                                                  \
    X(driver_get_version, cuDriverGetVersion, true, int *version)                                                      \
    X(get_error_string, cuGetErrorString, true, cuda_error_t error, const char **text)                                 \
    X(device_get_count, cuDeviceGetCount, true, int *count)                                                            \
    X(device_get, cuDeviceGet, true, cuda_device_t *device, int ordinal)                                               \
    X(device_get_pci_bus_id, cuDeviceGetPCIBusId, true, char *text, int bytes, cuda_device_t device)                   \
    X(primary_retain, cuDevicePrimaryCtxRetain, true, struct CUctx_st **context, cuda_device_t device)                 \
    X(primary_release, cuDevicePrimaryCtxRelease_v2, true, cuda_device_t device)                                       \
    X(primary_get_state, cuDevicePrimaryCtxGetState, true, cuda_device_t device, unsigned *flags, int *active)         \
    X(ctx_get_current, cuCtxGetCurrent, true, struct CUctx_st **context)                                               \
    X(ctx_get_device, cuCtxGetDevice, true, cuda_device_t *device)                                                     \
    X(ctx_push, cuCtxPushCurrent_v2, true, struct CUctx_st *context)                                                   \
    X(ctx_pop, cuCtxPopCurrent_v2, true, struct CUctx_st **context)                                                    \
    X(exchange_capture_mode, cuThreadExchangeStreamCaptureMode, false, cuda_enum_t *mode)                              \
    X(pointer_get_attributes, cuPointerGetAttributes, true, unsigned n, cuda_enum_t *attributes, void **data,          \
      cuda_addr_t ptr)                                                                                                 \
    X(pointer_set_attribute, cuPointerSetAttribute, false, const void *value, cuda_enum_t attribute, cuda_addr_t ptr)  \
    X(mem_retain_handle, cuMemRetainAllocationHandle, true, cuda_addr_t *handle, void *ptr)                            \
    X(mem_release, cuMemRelease, true, cuda_addr_t handle)                                                             \
    X(mem_export, cuMemExportToShareableHandle, false, void *fd, cuda_addr_t handle, cuda_enum_t type,                 \
      unsigned long long flags)                                                                                        \
    X(mem_import, cuMemImportFromShareableHandle, false, cuda_addr_t *handle, void *fd, cuda_enum_t type)              \
    X(mem_reserve, cuMemAddressReserve, false, cuda_addr_t *ptr, size_t bytes, size_t alignment, cuda_addr_t wanted,   \
      unsigned long long flags)                                                                                        \
    X(mem_unreserve, cuMemAddressFree, false, cuda_addr_t ptr, size_t bytes)                                           \
    X(mem_map, cuMemMap, false, cuda_addr_t ptr, size_t bytes, size_t offset, cuda_addr_t handle,                      \
      unsigned long long flags)                                                                                        \
    X(mem_unmap, cuMemUnmap, false, cuda_addr_t ptr, size_t bytes)                                                     \
    X(mem_set_access, cuMemSetAccess, false, cuda_addr_t ptr, size_t bytes, const cuda_access_t *access, size_t n)     \
    X(ipc_get, cuIpcGetMemHandle, true, cuda_ipc_handle_t *handle, cuda_addr_t ptr)                                    \
    X(ipc_open, cuIpcOpenMemHandle_v2, true, cuda_addr_t *ptr, cuda_ipc_handle_t handle, unsigned flags)               \
    X(ipc_close, cuIpcCloseMemHandle, true, cuda_addr_t ptr)                                                           \
    X(host_register, cuMemHostRegister_v2, true, void *ptr, size_t bytes, unsigned flags)                              \
    X(host_unregister, cuMemHostUnregister, true, void *ptr)                                                           \
    X(host_device_pointer, cuMemHostGetDevicePointer_v2, true, cuda_addr_t *device, void *host, unsigned flags)        \
    X(mem_alloc, cuMemAlloc_v2, true, cuda_addr_t *ptr, size_t bytes)                                                  \
    X(mem_free, cuMemFree_v2, true, cuda_addr_t ptr)                                                                   \
    X(copy, cuMemcpyAsync, true, cuda_addr_t dst, cuda_addr_t src, size_t bytes, struct CUstream_st *stream)           \
    X(copy2d, cuMemcpy2DAsync_v2, true, const cuda_copy2d_t *what, struct CUstream_st *stream)                         \
    X(stream_create, cuStreamCreate, true, struct CUstream_st **stream, unsigned flags)                                \
    X(stream_destroy, cuStreamDestroy_v2, true, struct CUstream_st *stream)                                            \
    X(stream_query, cuStreamQuery, true, struct CUstream_st *stream)                                                   \
    X(stream_sync, cuStreamSynchronize, true, struct CUstream_st *stream)                                              \
    X(event_create, cuEventCreate, true, struct CUevent_st **event, unsigned flags)                                    \
    X(event_destroy, cuEventDestroy_v2, true, struct CUevent_st *event)                                                \
    X(event_record, cuEventRecord, true, struct CUevent_st *event, struct CUstream_st *stream)                         \
    X(event_query, cuEventQuery, true, struct CUevent_st *event)                                                       \
    X(stream_wait_event, cuStreamWaitEvent, false, struct CUstream_st *stream, struct CUevent_st *event,               \
      unsigned flags)                                                                                                  \
    X(event_elapsed, cuEventElapsedTime, false, float *ms, struct CUevent_st *from, struct CUevent_st *to)             \
    X(event_elapsed12, cuEventElapsedTime_v2, false, float *ms, struct CUevent_st *from, struct CUevent_st *to)        \
    X(write32, cuStreamWriteValue32_v2, false, struct CUstream_st *stream, cuda_addr_t addr, uint32_t value,           \
      unsigned flags)                                                                                                  \
    X(words, cuStreamBatchMemOp_v2, false, struct CUstream_st *stream, unsigned n, cuda_word_t *words, unsigned flags) \
    X(stream_get_ctx, cuStreamGetCtx, false, struct CUstream_st *stream, struct CUctx_st **context)                    \
    X(graph_create, cuGraphCreate, false, struct CUgraph_st **graph, unsigned flags)                                   \
    X(graph_destroy, cuGraphDestroy, false, struct CUgraph_st *graph)                                                  \
    X(graph_add_copy, cuGraphAddMemcpyNode, false, struct CUgraphNode_st **node, struct CUgraph_st *graph,             \
      struct CUgraphNode_st *const *after, size_t n, const cuda_copy3d_t *what, struct CUctx_st *context)              \
    X(graph_instantiate, cuGraphInstantiateWithFlags, false, struct CUgraphExec_st **exec, struct CUgraph_st *graph,   \
      unsigned long long flags)                                                                                        \
    X(graph_set_copy, cuGraphExecMemcpyNodeSetParams, false, struct CUgraphExec_st *exec, struct CUgraphNode_st *node, \
      const cuda_copy3d_t *what, struct CUctx_st *context)                                                             \
    X(graph_launch, cuGraphLaunch, false, struct CUgraphExec_st *exec, struct CUstream_st *stream)                     \
    X(graph_exec_destroy, cuGraphExecDestroy, false, struct CUgraphExec_st *exec)                                      \
    X(device_attribute, cuDeviceGetAttribute, false, int *value, cuda_enum_t attribute, cuda_device_t device)          \
    X(batch13, cuMemcpyBatchAsync_v2, false, cuda_addr_t *dst, cuda_addr_t *src, size_t *bytes, size_t n,              \
      cuda_batch_attributes_t *attributes, size_t *index, size_t n_attributes, struct CUstream_st *stream)

/* The batched copy of CUDA 12.8. Later headers do not declare it any more. It also reports the index of a copy that
 * failed. */
#define CUDA_OLD_CALLS(X)                                                                                              \
    X(batch12, cuMemcpyBatchAsync, false, cuda_addr_t *dst, cuda_addr_t *src, size_t *bytes, size_t n,                 \
      cuda_batch_attributes_t *attributes, size_t *index, size_t n_attributes, size_t *failed,                         \
      struct CUstream_st *stream)

#define CUDA_MEMBER(name, symbol, required, ...) cuda_error_t (*name)(__VA_ARGS__);
typedef struct cuda_calls {
    CUDA_CALLS(CUDA_MEMBER)
    CUDA_OLD_CALLS(CUDA_MEMBER)
} cuda_calls_t;

enum {
    CUDA_DONE = 0,
    CUDA_OUT_OF_MEMORY = 2,
    CUDA_NOT_INITIALIZED = 3,
    CUDA_DEINITIALIZED = 4,
    CUDA_NO_DEVICE = 100,
    CUDA_INVALID_CONTEXT = 201,
    CUDA_NOT_READY = 600,
    CUDA_CONTEXT_DESTROYED = 709,
    CUDA_NOT_SUPPORTED = 801,

    CUDA_ATTRIBUTE_MEMORY_TYPE = 2,
    CUDA_ATTRIBUTE_DEVICE_POINTER = 3,
    CUDA_ATTRIBUTE_SYNC_MEMOPS = 6,
    CUDA_ATTRIBUTE_BUFFER_ID = 7,
    CUDA_ATTRIBUTE_IS_MANAGED = 8,
    CUDA_ATTRIBUTE_DEVICE_ORDINAL = 9,
    CUDA_ATTRIBUTE_IPC_CAPABLE = 10,
    CUDA_ATTRIBUTE_RANGE_START = 11,
    CUDA_ATTRIBUTE_RANGE_SIZE = 12,
    CUDA_ATTRIBUTE_ALLOWED_HANDLES = 14,
    CUDA_ATTRIBUTE_MEMPOOL_HANDLE = 17,
    CUDA_ATTRIBUTE_MAPPING_SIZE = 18,
    CUDA_ATTRIBUTE_MAPPING_BASE = 19,
    CUDA_ATTRIBUTE_BLOCK_ID = 20,

    CUDA_DEVICE_MPS = 133, /* processes share it by MPS */

    CUDA_HANDLE_FD = 1,
    CUDA_LOCATION_DEVICE = 1,
    CUDA_ACCESS_READ_WRITE = 3,

    CUDA_TYPE_HOST = 1,
    CUDA_TYPE_DEVICE = 2,
    CUDA_TYPE_UNIFIED = 4,

    CUDA_CAPTURE_RELAXED = 2,
    CUDA_STREAM_NON_BLOCKING = 1,
    CUDA_WAIT_AT_LEAST = 0,
    CUDA_WORD_WAIT = 1,
    CUDA_WORD_WRITE = 2,
    CUDA_MOST_WORDS = 64, /* at once; the driver takes 256 */
    CUDA_EVENT_DISABLE_TIMING = 2,
    CUDA_IPC_LAZY_PEER_ACCESS = 1,
    CUDA_HOST_REGISTER_PORTABLE = 1,
    CUDA_HOST_REGISTER_MAPPED = 2,
    CUDA_BATCH_IN_STREAM_ORDER = 1,
    CUDA_BATCH_OVERLAP_COMPUTE = 1,

    /* CUDA 11.4: the oldest driver that has every required call and attribute */
    CUDA_OLDEST_DRIVER = 11040,
};

#endif
