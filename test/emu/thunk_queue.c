/*
 * The thunk's calls for queues.
 *
 * A ring must be mapped for the GPU, in an allocation of its own of exactly its size, because newer drivers refuse others and
 * older ones do not. It must be executable, because an engine fetches from it. The thunk owns the pointers of an SDMA queue and
 * all doorbells.
 */
#include "api.h"
#include "queue.h"
#include "report.h"
#include "vm.h"

enum { PAGE = 4096 };

/* Returns what is wrong with the ring, or NULL. */
static const char *ring_wrong(uint32_t node, uint64_t ring, uint64_t bytes)
{
    if (bytes < PAGE || (bytes & (bytes - 1)))
        return "its size is not a power of two of at least a page";
    const struct emu_range *range = emu_vm_find(ring);
    if (!range)
        return "there is no memory";
    if (range->va != ring || range->bytes != bytes)
        return "it is not an allocation of its own of exactly this size";
    if (!emu_vm_is_mapped(range, node))
        return "it is not mapped for this GPU";
    if (!range->executable)
        return "it is not executable";
    return NULL;
}

HSAKMT_STATUS hsaKmtCreateQueue(HSAuint32 node, HSA_QUEUE_TYPE type, HSAuint32 percentage, HSA_QUEUE_PRIORITY priority,
                                void *ring, HSAuint64 bytes, HsaEvent *event, HsaQueueResource *resource)
{
    EMU_API_ENTER();
    (void)percentage;
    (void)priority;
    (void)event;
    const char *owner = emu_process_caller(__builtin_return_address(0));
    if (!emu_is_gpu(node))
        return HSAKMT_STATUS_INVALID_NODE_UNIT;
    if (type != HSA_QUEUE_COMPUTE_AQL && type != HSA_QUEUE_SDMA && type != HSA_QUEUE_SDMA_XGMI)
        return HSAKMT_STATUS_NOT_SUPPORTED;
    emu_vm_lock_read();
    const char *wrong = ring_wrong(node, (uintptr_t)ring, bytes);
    emu_vm_unlock();
    if (wrong) {
        emu_violation("ring", "queue of %s on GPU %d with a ring of %#llx bytes at %p: %s", owner, emu_gpu_of(node),
                      (unsigned long long)bytes, ring, wrong);
        return HSAKMT_STATUS_INVALID_PARAMETER;
    }
    struct emu_queue_made made;
    bool is_aql = type == HSA_QUEUE_COMPUTE_AQL;
    struct emu_queue_wish wish = {
        .owner = owner,
        .node = node,
        .type = (enum emu_queue_type)type,
        .ring = (uintptr_t)ring,
        .ring_host = ring,
        .bytes = bytes,
        .write = is_aql ? resource->Queue_write_ptr_aql : NULL,
        .read = is_aql ? resource->Queue_read_ptr_aql : NULL,
    };
    if (!emu_queue_create(&wish, &made))
        return HSAKMT_STATUS_ERROR;
    resource->QueueId = (HSA_QUEUEID)made.id;
    resource->Queue_DoorBell_aql = made.doorbell;
    resource->Queue_write_ptr_aql = made.write;
    resource->Queue_read_ptr_aql = made.read;
    return HSAKMT_STATUS_SUCCESS;
}

HSAKMT_STATUS hsaKmtDestroyQueue(HSA_QUEUEID id)
{
    EMU_API_ENTER();
    if (emu_queue_destroy((int)id))
        return HSAKMT_STATUS_SUCCESS;
    emu_violation("queue", "hsaKmtDestroyQueue of queue %llu, which is not there", (unsigned long long)id);
    return HSAKMT_STATUS_INVALID_PARAMETER;
}

HSAKMT_STATUS hsaKmtUpdateQueue(HSA_QUEUEID id, HSAuint32 percentage, HSA_QUEUE_PRIORITY priority, void *ring,
                                HSAuint64 bytes, HsaEvent *event)
{
    EMU_API_ENTER();
    (void)priority;
    (void)event;
    return emu_queue_update((int)id, (uintptr_t)ring, bytes, percentage) ? HSAKMT_STATUS_SUCCESS
                                                                         : HSAKMT_STATUS_INVALID_PARAMETER;
}
