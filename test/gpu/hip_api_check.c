/*
 * Compiled, never run: compares every declaration of gpu/hip/api.h with AMD's own headers. A row that differs does not
 * compile. Calls that the headers of a version do not declare yet are left out.
 */
#define __HIP_PLATFORM_AMD__ 1
#include <hip/hip_runtime_api.h>
#include <hip/hip_version.h>
#include <hsa/hsa.h>
#include <hsa/hsa_ext_amd.h>

#define DMA_GPU_VENDOR_HEADERS
#include "gpu/hip/api.h"

#if HIP_VERSION_MAJOR < 7
hip_error_t hipMemcpyBatchAsync(void **dst, void **src, size_t *bytes, size_t n,
                                struct hip_batch_attributes *attributes, size_t *index, size_t n_attributes,
                                size_t *failed, struct ihipStream_t *stream);
#else
#define hip_batch_attributes hipMemcpyAttributes
#endif

/* Initialises one of our declarations with the address of the vendor's. Incompatible types are an error. */
#define HIP_COMPARE(name, required, ...)                                                                               \
    extern hip_error_t (*const check_##name)(__VA_ARGS__);                                                             \
    hip_error_t (*const check_##name)(__VA_ARGS__) = name;
HIP_CALLS(HIP_COMPARE)

#define SAME(ours, our_field, theirs, their_field)                                                                     \
    _Static_assert(offsetof(ours, our_field) == offsetof(theirs, their_field) &&                                       \
                       sizeof(((ours *)0)->our_field) == sizeof(((theirs *)0)->their_field),                           \
                   #ours "." #our_field)

SAME(hsa_pointer_info_t, size, hsa_amd_pointer_info_t, size);
SAME(hsa_pointer_info_t, type, hsa_amd_pointer_info_t, type);
SAME(hsa_pointer_info_t, agent_base, hsa_amd_pointer_info_t, agentBaseAddress);
SAME(hsa_pointer_info_t, host_base, hsa_amd_pointer_info_t, hostBaseAddress);
SAME(hsa_pointer_info_t, bytes, hsa_amd_pointer_info_t, sizeInBytes);
SAME(hsa_pointer_info_t, user_data, hsa_amd_pointer_info_t, userData);
SAME(hsa_pointer_info_t, owner, hsa_amd_pointer_info_t, agentOwner);
SAME(hsa_pointer_info_t, flags, hsa_amd_pointer_info_t, global_flags);

#define EQUAL(ours, theirs) _Static_assert((long long)(ours) == (long long)(theirs), #ours)

EQUAL(HIP_DONE, hipSuccess);
EQUAL(HIP_ERROR_OUT_OF_MEMORY, hipErrorOutOfMemory);
EQUAL(HIP_ERROR_NO_DEVICE, hipErrorNoDevice);
EQUAL(HIP_ERROR_NOT_READY, hipErrorNotReady);
EQUAL(HIP_ERROR_NOT_SUPPORTED, hipErrorNotSupported);
EQUAL(HIP_MEMCPY_DEVICE_TO_DEVICE, hipMemcpyDeviceToDevice);
EQUAL(HIP_MEMCPY_DEFAULT, hipMemcpyDefault);
EQUAL(HIP_CAPTURE_RELAXED, hipStreamCaptureModeRelaxed);
EQUAL(HIP_STREAM_NON_BLOCKING, hipStreamNonBlocking);
EQUAL(HIP_EVENT_DISABLE_TIMING, hipEventDisableTiming);
EQUAL(HIP_HOST_REGISTER_PORTABLE, hipHostRegisterPortable);
EQUAL(HIP_HOST_REGISTER_MAPPED, hipHostRegisterMapped);
EQUAL(HIP_VERSION_MAJOR >= 6 ? HIP_6_IPC_LAZY_PEER_ACCESS : HIP_5_IPC_LAZY_PEER_ACCESS, hipIpcMemLazyEnablePeerAccess);
EQUAL(HIP_VERSION_MAJOR >= 6 ? HIP_6_TYPE_DEVICE : HIP_5_TYPE_DEVICE, hipMemoryTypeDevice);
EQUAL(HIP_ATTRIBUTE_MEMORY_TYPE, HIP_POINTER_ATTRIBUTE_MEMORY_TYPE);
EQUAL(HIP_ATTRIBUTE_BUFFER_ID, HIP_POINTER_ATTRIBUTE_BUFFER_ID);
EQUAL(HIP_ATTRIBUTE_IS_MANAGED, HIP_POINTER_ATTRIBUTE_IS_MANAGED);
EQUAL(HIP_ATTRIBUTE_DEVICE_ORDINAL, HIP_POINTER_ATTRIBUTE_DEVICE_ORDINAL);
EQUAL(HIP_ATTRIBUTE_RANGE_SIZE, HIP_POINTER_ATTRIBUTE_RANGE_SIZE);
EQUAL(HIP_ATTRIBUTE_MEMPOOL_HANDLE, HIP_POINTER_ATTRIBUTE_MEMPOOL_HANDLE);
EQUAL(HSA_DONE, HSA_STATUS_SUCCESS);
EQUAL(HSA_INFO_VERSION_MAJOR, HSA_SYSTEM_INFO_VERSION_MAJOR);
EQUAL(HSA_POINTER_UNKNOWN, HSA_EXT_POINTER_TYPE_UNKNOWN);
EQUAL(HSA_POINTER_ALLOCATED, HSA_EXT_POINTER_TYPE_HSA);
EQUAL(HSA_POINTER_LOCKED, HSA_EXT_POINTER_TYPE_LOCKED);
EQUAL(HSA_POINTER_GRAPHICS, HSA_EXT_POINTER_TYPE_GRAPHICS);
EQUAL(HSA_POINTER_IPC, HSA_EXT_POINTER_TYPE_IPC);
EQUAL(HSA_FLAG_FINE_GRAINED, HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_FINE_GRAINED);
EQUAL(HSA_FLAG_COARSE_GRAINED, HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_COARSE_GRAINED);
