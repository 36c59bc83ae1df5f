/* The fake CUDA: answers about addresses, and synchronous copies. */
#include <string.h>

#include "fake_cuda.h"

/* How many bytes of an attribute are written, and its value. 0: unknown. */
static size_t attribute_of(cuda_enum_t attribute, uint64_t addr, const fake_range_t *r, uint64_t *value)
{
    bool known = r->size > 0, host = r->kind >= FAKE_PINNED;

    *value = 0;
    switch (attribute) {
    case CUDA_ATTRIBUTE_MEMORY_TYPE:
        *value = !known ? 0 : host ? CUDA_TYPE_HOST : CUDA_TYPE_DEVICE;
        return 4;
    case CUDA_ATTRIBUTE_DEVICE_POINTER:
        *value = known ? addr : 0;
        return 8;
    case CUDA_ATTRIBUTE_BUFFER_ID:
        *value = r->id;
        return 8;
    case CUDA_ATTRIBUTE_SYNC_MEMOPS:
    case CUDA_ATTRIBUTE_IS_MANAGED:
        *value = attribute == CUDA_ATTRIBUTE_SYNC_MEMOPS && r->waits;
        return 1;
    case CUDA_ATTRIBUTE_DEVICE_ORDINAL:
        *value = known ? (uint64_t)r->device : UINT64_MAX - 1;
        return 4;
    case CUDA_ATTRIBUTE_IPC_CAPABLE:
        *value = known && r->kind == FAKE_ALLOCATED;
        return 1;
    case CUDA_ATTRIBUTE_RANGE_START:
        *value = r->base;
        return 8;
    case CUDA_ATTRIBUTE_RANGE_SIZE:
        *value = r->size;
        return 8;
    case CUDA_ATTRIBUTE_MEMPOOL_HANDLE:
    case CUDA_ATTRIBUTE_ALLOWED_HANDLES:
        return 8;
    default:
        return 0;
    }
}

cuda_error_t cuPointerGetAttributes(unsigned n, cuda_enum_t *attributes, void **data, cuda_addr_t ptr)
{
    fake_range_t r = {0};
    cuda_error_t error;
    uint64_t value;
    int device;

    if ((error = fake_enter(&device)) != CUDA_DONE) {
        return error;
    }
    (void)fake_find(ptr, &r);
    for (unsigned i = 0; i < n; i++) {
        size_t bytes = attribute_of(attributes[i], ptr, &r, &value);

        if (!bytes) {
            return FAKE_INVALID;
        }
        memcpy(data[i], &value, bytes);
    }
    return CUDA_DONE;
}

/* Fails for addresses that the driver does not know, unlike the call for several attributes. */
cuda_error_t cuPointerGetAttribute(void *data, cuda_enum_t attribute, cuda_addr_t ptr)
{
    fake_range_t r;

    return fake_is_initialized() && !fake_find(ptr, &r) ? FAKE_INVALID
                                                        : cuPointerGetAttributes(1, &attribute, &data, ptr);
}

cuda_error_t cuPointerSetAttribute(const void *value, cuda_enum_t attribute, cuda_addr_t ptr)
{
    cuda_error_t error;
    int device;

    if ((error = fake_enter(&device)) != CUDA_DONE) {
        return error;
    }
    return attribute == CUDA_ATTRIBUTE_SYNC_MEMOPS && *(const unsigned *)value == 1 && fake_set_waits(ptr)
               ? CUDA_DONE
               : FAKE_INVALID;
}

/* No memory is mapped virtually. */
cuda_error_t cuMemRetainAllocationHandle(cuda_addr_t *handle, void *ptr)
{
    (void)handle;
    (void)ptr;
    return FAKE_INVALID;
}

cuda_error_t cuMemRelease(cuda_addr_t handle)
{
    return fake_complain(FAKE_INVALID, "cuMemRelease", "there is no such handle", handle);
}

/* ---- synchronous copies: behind all work in the default stream ---- */

static cuda_error_t copy(cuda_addr_t to, cuda_addr_t from, size_t bytes)
{
    cuda_error_t error = bytes ? cuMemcpyAsync(to, from, bytes, NULL) : CUDA_DONE;

    return error || !bytes ? error : cuStreamSynchronize(NULL);
}

cuda_error_t cuMemcpy(cuda_addr_t to, cuda_addr_t from, size_t bytes)
{
    return copy(to, from, bytes);
}

cuda_error_t cuMemcpyHtoD_v2(cuda_addr_t to, const void *from, size_t bytes)
{
    return copy(to, (uintptr_t)from, bytes);
}

cuda_error_t cuMemcpyDtoH_v2(void *to, cuda_addr_t from, size_t bytes)
{
    return copy((uintptr_t)to, from, bytes);
}

cuda_error_t cuMemcpyDtoD_v2(cuda_addr_t to, cuda_addr_t from, size_t bytes)
{
    return copy(to, from, bytes);
}

cuda_error_t cuMemsetD8_v2(cuda_addr_t to, unsigned char value, size_t bytes)
{
    cuda_error_t error = cuStreamSynchronize(NULL);

    if (!error && bytes && (!fake_is_device_address(to) || !fake_may_copy(to, bytes))) {
        return fake_complain(FAKE_INVALID, "cuMemsetD8", "no such memory", to);
    }
    if (!error) {
        memset(fake_host_address(to), value, bytes);
    }
    return error;
}
