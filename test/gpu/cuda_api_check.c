/*
 * Compiled, never run: compares every declaration of gpu/cuda/api.h with NVIDIA's own header. A row that differs does not
 * compile.
 */
#include <cuda.h>

#define DMA_GPU_VENDOR_HEADERS
#include "gpu/cuda/api.h"

/* Initialises one of our declarations with the address of the vendor's. Incompatible types are an error. */
#define CUDA_COMPARE(name, symbol, required, ...)                                                                      \
    extern cuda_error_t (*const check_##name)(__VA_ARGS__);                                                            \
    cuda_error_t (*const check_##name)(__VA_ARGS__) = symbol;
CUDA_CALLS(CUDA_COMPARE)

#define SAME(ours, our_field, theirs, their_field)                                                                     \
    _Static_assert(offsetof(ours, our_field) == offsetof(theirs, their_field) &&                                       \
                       sizeof(((ours *)0)->our_field) == sizeof(((theirs *)0)->their_field),                           \
                   #ours "." #our_field)
#define SAME_SIZE(ours, theirs) _Static_assert(sizeof(ours) == sizeof(theirs), #ours)

SAME_SIZE(cuda_layout_ipc_handle_t, CUipcMemHandle);
SAME_SIZE(cuda_addr_t, CUdeviceptr);
SAME_SIZE(cuda_device_t, CUdevice);
SAME_SIZE(cuda_error_t, CUresult);

SAME_SIZE(cuda_layout_copy2d_t, CUDA_MEMCPY2D);
SAME(cuda_layout_copy2d_t, src_type, CUDA_MEMCPY2D, srcMemoryType);
SAME(cuda_layout_copy2d_t, src, CUDA_MEMCPY2D, srcDevice);
SAME(cuda_layout_copy2d_t, src_pitch, CUDA_MEMCPY2D, srcPitch);
SAME(cuda_layout_copy2d_t, dst_type, CUDA_MEMCPY2D, dstMemoryType);
SAME(cuda_layout_copy2d_t, dst, CUDA_MEMCPY2D, dstDevice);
SAME(cuda_layout_copy2d_t, dst_pitch, CUDA_MEMCPY2D, dstPitch);
SAME(cuda_layout_copy2d_t, width, CUDA_MEMCPY2D, WidthInBytes);
SAME(cuda_layout_copy2d_t, height, CUDA_MEMCPY2D, Height);

SAME_SIZE(cuda_layout_copy3d_t, CUDA_MEMCPY3D);
SAME(cuda_layout_copy3d_t, src_type, CUDA_MEMCPY3D, srcMemoryType);
SAME(cuda_layout_copy3d_t, src, CUDA_MEMCPY3D, srcDevice);
SAME(cuda_layout_copy3d_t, src_pitch, CUDA_MEMCPY3D, srcPitch);
SAME(cuda_layout_copy3d_t, src_height, CUDA_MEMCPY3D, srcHeight);
SAME(cuda_layout_copy3d_t, dst_type, CUDA_MEMCPY3D, dstMemoryType);
SAME(cuda_layout_copy3d_t, dst, CUDA_MEMCPY3D, dstDevice);
SAME(cuda_layout_copy3d_t, dst_pitch, CUDA_MEMCPY3D, dstPitch);
SAME(cuda_layout_copy3d_t, dst_height, CUDA_MEMCPY3D, dstHeight);
SAME(cuda_layout_copy3d_t, width, CUDA_MEMCPY3D, WidthInBytes);
SAME(cuda_layout_copy3d_t, depth, CUDA_MEMCPY3D, Depth);

SAME_SIZE(cuda_layout_batch_attributes_t, CUmemcpyAttributes);
SAME(cuda_layout_batch_attributes_t, source_order, CUmemcpyAttributes, srcAccessOrder);
SAME(cuda_layout_batch_attributes_t, source, CUmemcpyAttributes, srcLocHint);
SAME(cuda_layout_batch_attributes_t, destination, CUmemcpyAttributes, dstLocHint);
SAME(cuda_layout_batch_attributes_t, flags, CUmemcpyAttributes, flags);

SAME_SIZE(cuda_layout_access_t, CUmemAccessDesc);
SAME(cuda_layout_access_t, type, CUmemAccessDesc, location.type);
SAME(cuda_layout_access_t, id, CUmemAccessDesc, location.id);
SAME(cuda_layout_access_t, flags, CUmemAccessDesc, flags);

SAME_SIZE(cuda_layout_word_t, CUstreamBatchMemOpParams);
SAME(cuda_layout_word_t, what.code, CUstreamBatchMemOpParams, writeValue.operation);
SAME(cuda_layout_word_t, what.addr, CUstreamBatchMemOpParams, writeValue.address);
SAME(cuda_layout_word_t, what.value, CUstreamBatchMemOpParams, writeValue.value64);
SAME(cuda_layout_word_t, what.flags, CUstreamBatchMemOpParams, writeValue.flags);
SAME(cuda_layout_word_t, what.alias, CUstreamBatchMemOpParams, writeValue.alias);
SAME(cuda_layout_word_t, what.addr, CUstreamBatchMemOpParams, waitValue.address);
SAME(cuda_layout_word_t, what.value, CUstreamBatchMemOpParams, waitValue.value64);
SAME(cuda_layout_word_t, what.flags, CUstreamBatchMemOpParams, waitValue.flags);

#define EQUAL(ours, theirs) _Static_assert((long long)(ours) == (long long)(theirs), #ours)

EQUAL(CUDA_DONE, CUDA_SUCCESS);
EQUAL(CUDA_OUT_OF_MEMORY, CUDA_ERROR_OUT_OF_MEMORY);
EQUAL(CUDA_NOT_INITIALIZED, CUDA_ERROR_NOT_INITIALIZED);
EQUAL(CUDA_DEINITIALIZED, CUDA_ERROR_DEINITIALIZED);
EQUAL(CUDA_NO_DEVICE, CUDA_ERROR_NO_DEVICE);
EQUAL(CUDA_INVALID_CONTEXT, CUDA_ERROR_INVALID_CONTEXT);
EQUAL(CUDA_NOT_READY, CUDA_ERROR_NOT_READY);
EQUAL(CUDA_CONTEXT_DESTROYED, CUDA_ERROR_CONTEXT_IS_DESTROYED);
EQUAL(CUDA_NOT_SUPPORTED, CUDA_ERROR_NOT_SUPPORTED);
EQUAL(CUDA_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_MEMORY_TYPE);
EQUAL(CUDA_ATTRIBUTE_DEVICE_POINTER, CU_POINTER_ATTRIBUTE_DEVICE_POINTER);
EQUAL(CUDA_ATTRIBUTE_SYNC_MEMOPS, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS);
EQUAL(CUDA_ATTRIBUTE_BUFFER_ID, CU_POINTER_ATTRIBUTE_BUFFER_ID);
EQUAL(CUDA_ATTRIBUTE_IS_MANAGED, CU_POINTER_ATTRIBUTE_IS_MANAGED);
EQUAL(CUDA_ATTRIBUTE_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL);
EQUAL(CUDA_ATTRIBUTE_ALLOWED_HANDLES, CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES);
EQUAL(CUDA_ATTRIBUTE_MAPPING_SIZE, CU_POINTER_ATTRIBUTE_MAPPING_SIZE);
EQUAL(CUDA_ATTRIBUTE_MAPPING_BASE, CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR);
EQUAL(CUDA_ATTRIBUTE_BLOCK_ID, CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID);
EQUAL(CUDA_HANDLE_FD, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
EQUAL(CUDA_LOCATION_DEVICE, CU_MEM_LOCATION_TYPE_DEVICE);
EQUAL(CUDA_ACCESS_READ_WRITE, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
EQUAL(CUDA_ATTRIBUTE_IPC_CAPABLE, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE);
EQUAL(CUDA_ATTRIBUTE_RANGE_START, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR);
EQUAL(CUDA_ATTRIBUTE_RANGE_SIZE, CU_POINTER_ATTRIBUTE_RANGE_SIZE);
EQUAL(CUDA_ATTRIBUTE_MEMPOOL_HANDLE, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE);
EQUAL(CUDA_TYPE_HOST, CU_MEMORYTYPE_HOST);
EQUAL(CUDA_TYPE_DEVICE, CU_MEMORYTYPE_DEVICE);
EQUAL(CUDA_TYPE_UNIFIED, CU_MEMORYTYPE_UNIFIED);
EQUAL(CUDA_CAPTURE_RELAXED, CU_STREAM_CAPTURE_MODE_RELAXED);
EQUAL(CUDA_STREAM_NON_BLOCKING, CU_STREAM_NON_BLOCKING);
EQUAL(CUDA_EVENT_DISABLE_TIMING, CU_EVENT_DISABLE_TIMING);
EQUAL(CUDA_IPC_LAZY_PEER_ACCESS, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
EQUAL(CUDA_HOST_REGISTER_PORTABLE, CU_MEMHOSTREGISTER_PORTABLE);
EQUAL(CUDA_HOST_REGISTER_MAPPED, CU_MEMHOSTREGISTER_DEVICEMAP);
EQUAL(CUDA_BATCH_IN_STREAM_ORDER, CU_MEMCPY_SRC_ACCESS_ORDER_STREAM);
EQUAL(CUDA_BATCH_OVERLAP_COMPUTE, CU_MEMCPY_FLAG_PREFER_OVERLAP_WITH_COMPUTE);
