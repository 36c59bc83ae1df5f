/*
 * Declarations of the HIP and ROCr APIs that are used here. A build needs no vendor header. Where the vendor's headers
 * are installed, test/gpu/hip_api_check.c is compiled against both and fails if any declaration here differs.
 *
 * Each row: name, whether it is required, parameters. All functions return hipError_t, an unsigned enum.
 */
#ifndef DMA_GPU_HIP_API_H
#define DMA_GPU_HIP_API_H

#include <stddef.h>
#include <stdint.h>

typedef unsigned hip_error_t;
typedef unsigned hip_enum_t;

/* The vendor's struct tags, so that the types are compatible with the vendor's. */
struct ihipStream_t;
struct ihipEvent_t;
struct ihipGraph;
struct hipGraphNode;
struct hipGraphExec;

typedef void (*hip_callback_t)(struct ihipStream_t *stream, hip_error_t error, void *data);

#ifndef DMA_GPU_VENDOR_HEADERS
/* passed by value */
typedef struct hip_ipc_handle {
    char reserved[64];
} hip_ipc_handle_t;
#else
typedef hipIpcMemHandle_t hip_ipc_handle_t;
#endif

/* Always NULL: ROCm takes no attributes yet. */
struct hip_batch_attributes;

#define HIP_CALLS(X)                                                                                                   \
    X(hipRuntimeGetVersion, true, int *version)                                                                        \
    X(hipGetLastError, true, void)                                                                                     \
    X(hipGetDeviceCount, true, int *count)                                                                             \
    X(hipGetDevice, true, int *device)                                                                                 \
    X(hipSetDevice, true, int device)                                                                                  \
    X(hipDeviceGetPCIBusId, true, char *text, int bytes, int device)                                                   \
    X(hipThreadExchangeStreamCaptureMode, false, hip_enum_t *mode)                                                     \
    X(hipDrvPointerGetAttributes, true, unsigned n, hip_enum_t *attributes, void **data, void *ptr)                    \
    X(hipIpcGetMemHandle, true, hip_ipc_handle_t *handle, void *ptr)                                                   \
    X(hipIpcOpenMemHandle, true, void **ptr, hip_ipc_handle_t handle, unsigned flags)                                  \
    X(hipIpcCloseMemHandle, true, void *ptr)                                                                           \
    X(hipHostRegister, true, void *ptr, size_t bytes, unsigned flags)                                                  \
    X(hipHostUnregister, true, void *ptr)                                                                              \
    X(hipHostGetDevicePointer, true, void **device, void *host, unsigned flags)                                        \
    X(hipMalloc, true, void **ptr, size_t bytes)                                                                       \
    X(hipFree, true, void *ptr)                                                                                        \
    X(hipMemcpyAsync, true, void *dst, const void *src, size_t bytes, hip_enum_t kind, struct ihipStream_t *stream)    \
    X(hipMemcpy2DAsync, true, void *dst, size_t dst_pitch, const void *src, size_t src_pitch, size_t width,            \
      size_t height, hip_enum_t kind, struct ihipStream_t *stream)                                                     \
    X(hipStreamCreateWithFlags, true, struct ihipStream_t **stream, unsigned flags)                                    \
    X(hipStreamCreateWithPriority, true, struct ihipStream_t **stream, unsigned flags, int priority)                   \
    X(hipStreamDestroy, true, struct ihipStream_t *stream)                                                             \
    X(hipStreamQuery, true, struct ihipStream_t *stream)                                                               \
    X(hipStreamSynchronize, true, struct ihipStream_t *stream)                                                         \
    X(hipStreamAddCallback, true, struct ihipStream_t *stream, hip_callback_t call, void *data, unsigned flags)        \
    X(hipStreamWaitEvent, true, struct ihipStream_t *stream, struct ihipEvent_t *event, unsigned flags)                \
    X(hipEventCreateWithFlags, true, struct ihipEvent_t **event, unsigned flags)                                       \
    X(hipEventDestroy, true, struct ihipEvent_t *event)                                                                \
    X(hipEventRecord, true, struct ihipEvent_t *event, struct ihipStream_t *stream)                                    \
    X(hipEventQuery, true, struct ihipEvent_t *event)                                                                  \
    X(hipEventElapsedTime, false, float *ms, struct ihipEvent_t *from, struct ihipEvent_t *to)                         \
    X(hipStreamWriteValue32, false, struct ihipStream_t *stream, void *ptr, uint32_t value, unsigned flags)            \
    X(hipGraphCreate, false, struct ihipGraph **graph, unsigned flags)                                                 \
    X(hipGraphDestroy, false, struct ihipGraph *graph)                                                                 \
    X(hipGraphAddMemcpyNode1D, false, struct hipGraphNode **node, struct ihipGraph *graph,                             \
      struct hipGraphNode *const *after, size_t n, void *dst, const void *src, size_t bytes, hip_enum_t kind)          \
    X(hipGraphInstantiate, false, struct hipGraphExec **exec, struct ihipGraph *graph, struct hipGraphNode **bad,      \
      char *log, size_t log_bytes)                                                                                     \
    X(hipGraphExecMemcpyNodeSetParams1D, false, struct hipGraphExec *exec, struct hipGraphNode *node, void *dst,       \
      const void *src, size_t bytes, hip_enum_t kind)                                                                  \
    X(hipGraphLaunch, false, struct hipGraphExec *exec, struct ihipStream_t *stream)                                   \
    X(hipGraphExecDestroy, false, struct hipGraphExec *exec)                                                           \
    X(hipMemcpyBatchAsync, false, void **dst, void **src, size_t *bytes, size_t n,                                     \
      struct hip_batch_attributes *attributes, size_t *index, size_t n_attributes, size_t *failed,                     \
      struct ihipStream_t *stream)

#define HIP_MEMBER(name, required, ...) hip_error_t (*name)(__VA_ARGS__);
typedef struct hip_calls {
    HIP_CALLS(HIP_MEMBER)
} hip_calls_t;

/* hipGetErrorString, the only call that does not return hipError_t. */
typedef const char *(*hip_error_string_t)(hip_error_t error);

enum {
    HIP_DONE = 0,
    HIP_ERROR_OUT_OF_MEMORY = 2,
    HIP_ERROR_NO_DEVICE = 100,
    HIP_ERROR_NOT_READY = 600,
    HIP_ERROR_NOT_SUPPORTED = 801,

    HIP_MEMCPY_HOST_TO_HOST = 0,
    HIP_MEMCPY_HOST_TO_DEVICE = 1,
    HIP_MEMCPY_DEVICE_TO_HOST = 2,
    HIP_MEMCPY_DEVICE_TO_DEVICE = 3,
    HIP_MEMCPY_DEFAULT = 4,

    HIP_CAPTURE_RELAXED = 2,
    HIP_STREAM_NON_BLOCKING = 1,
    HIP_STREAM_PRIORITY_LOW = 1, /* clamped to the lowest priority of the device */
    HIP_EVENT_DISABLE_TIMING = 2,
    HIP_HOST_REGISTER_PORTABLE = 1,
    HIP_HOST_REGISTER_MAPPED = 2,

    HIP_ATTRIBUTE_MEMORY_TYPE = 2,
    HIP_ATTRIBUTE_BUFFER_ID = 7,
    HIP_ATTRIBUTE_IS_MANAGED = 8,
    HIP_ATTRIBUTE_DEVICE_ORDINAL = 9,
    HIP_ATTRIBUTE_RANGE_SIZE = 12,
    HIP_ATTRIBUTE_MEMPOOL_HANDLE = 17,

    /* HIP 5.4: releases the memory of a graph that was launched. HIP 6: other values of MEMORY_TYPE, another value
     * of the only flag of hipIpcOpenMemHandle. */
    HIP_5_4 = 50400000,
    HIP_6 = 60000000,
    HIP_5_IPC_LAZY_PEER_ACCESS = 0,
    HIP_6_IPC_LAZY_PEER_ACCESS = 1,
    HIP_5_TYPE_DEVICE = 1,
    HIP_6_TYPE_DEVICE = 2,
};

/* ROCr, the layer below HIP. It knows how an allocation was made, and queries do not initialize it. */
typedef enum hsa_pointer_type {
    HSA_POINTER_UNKNOWN = 0,
    HSA_POINTER_ALLOCATED = 1,
    HSA_POINTER_LOCKED = 2,
    HSA_POINTER_GRAPHICS = 3,
    HSA_POINTER_IPC = 4,
    HSA_POINTER_RESERVED = 5, /* this and the next are newer than ROCm 5.2.3 */
    HSA_POINTER_VMEM = 6,
} hsa_pointer_type_t;

enum {
    HSA_DONE = 0,
    HSA_INFO_VERSION_MAJOR = 0,
    HSA_FLAG_FINE_GRAINED = 2,
    HSA_FLAG_COARSE_GRAINED = 4,
};

/* ROCr may extend it at the end; `size` tells ROCr how much of it the caller knows. */
typedef struct hsa_pointer_info {
    uint32_t size;
    uint32_t type;
    void *agent_base;
    void *host_base;
    size_t bytes;
    void *user_data;
    uint64_t owner;
    uint32_t flags;
} hsa_pointer_info_t;

typedef struct hsa_calls {
    uint32_t (*system_get_info)(uint32_t what, void *value);
    uint32_t (*pointer_info)(const void *ptr, hsa_pointer_info_t *info, void *(*alloc)(size_t), uint32_t *n_agents,
                             void **agents);
} hsa_calls_t;

#endif
