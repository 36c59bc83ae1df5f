/*
 * The thunk's calls for queues.
 *
 * A ring must be mapped for the GPU, in an allocation of its own of exactly the stated size: newer drivers refuse others, which
 * is not noticed on older ones. It must be executable, because an engine fetches from it. The thunk, not the caller, owns an SDMA queue's pointers and every doorbell; a queue's page of
 * pointers goes with it, so that a late access to them ends the process.
 */
#include "queue.h"
#include "api.h"
#include "config.h"
#include "machine.h"
#include "persona.h"
#include "report.h"
#include "slots.h"
#include "vm.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum {
    PAGE = 4096,
    DOORBELLS = EMU_DOORBELL_BYTES / sizeof(uint64_t),
    TYPE_BY_ENGINE = EMU_QUEUE_BY_ENGINE,
    AQL_PACKET = 64
};

static struct {
    uint64_t *page;
    bool used[DOORBELLS];
} doorbells; /* under the machine's lock */

static int next_id = 1, created; /* the same */

/* Shared, so that they can be mapped once more; a child has none. */
static bool have_doorbells(void)
{
    if (!doorbells.page) {
        void *page = mmap(NULL, EMU_DOORBELL_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (page == MAP_FAILED)
            return false;
        madvise(page, EMU_DOORBELL_BYTES, MADV_DONTFORK);
        doorbells.page = page;
    }
    return true;
}

void *emu_queue_map_doorbells(void)
{
    emu_machine_lock();
    void *page = have_doorbells() ? mremap(doorbells.page, 0, EMU_DOORBELL_BYTES, MREMAP_MAYMOVE) : MAP_FAILED;
    emu_machine_unlock();
    if (page == MAP_FAILED)
        return NULL;
    madvise(page, EMU_DOORBELL_BYTES, MADV_DONTFORK);
    return page;
}

static uint64_t *take_doorbell(void)
{
    if (!have_doorbells())
        return NULL;
    for (int i = 0; i < DOORBELLS; i++)
        if (!doorbells.used[i]) {
            doorbells.used[i] = true;
            doorbells.page[i] = 0;
            return &doorbells.page[i];
        }
    return NULL;
}

static void give_doorbell(const uint64_t *doorbell)
{
    if (doorbell)
        doorbells.used[doorbell - doorbells.page] = false;
}

/* What is wrong with the ring, or NULL. */
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
    if (!range->flags.ui32.ExecuteAccess)
        return "it is not executable";
    return NULL;
}

static bool is_sdma(HSA_QUEUE_TYPE type)
{
    return type == HSA_QUEUE_SDMA || type == HSA_QUEUE_SDMA_XGMI || (int)type == TYPE_BY_ENGINE;
}

/* The driver makes such queues. They never run. */
static bool on_missing(const struct emu_queue *queue)
{
    int engine = emu_slot_engine(queue->slot);
    bool missing = emu_config()->persona->missing >> engine & 1;
    if (missing)
        emu_violation("engine", "queue of %s on engine %d of GPU %d, which is fused off", queue->owner, engine,
                      emu_gpu_of(queue->node));
    return missing;
}

/* A compute queue needs none. */
static bool take_slot(struct emu_queue *queue, uint32_t engine)
{
    const struct emu_persona *persona = emu_config()->persona;
    int limit = emu_config()->fail_queue_after;
    queue->slot = -1;
    if (!is_sdma(queue->type))
        return true;
    if (limit >= 0 && !emu_api_is_runtime(queue->owner) && created++ >= limit) {
        emu_note("creation of a queue fails, as asked for");
        return false;
    }
    int wanted = EMU_ANY_ENGINE;
    bool xgmi = queue->type == HSA_QUEUE_SDMA_XGMI;
    if ((int)queue->type == TYPE_BY_ENGINE) {
        wanted = (int)engine;
        xgmi = engine >= persona->host_engines;
        if (engine >= persona->host_engines + persona->xgmi_engines)
            return false;
    }
    /* AMD's runtime gets queues that run: how it does that where engines are missing is not known. */
    queue->slot =
        emu_slot_take(emu_gpu_of(queue->node), xgmi, wanted, emu_api_is_runtime(queue->owner) ? persona->missing : 0);
    if (queue->slot < 0)
        emu_note("no queue is free on the engines of GPU %d for %s", emu_gpu_of(queue->node), queue->owner);
    return queue->slot >= 0 && !on_missing(queue);
}

/* The parts that the thunk owns. */
static bool take_pages(struct emu_queue *queue, uint64_t bytes, HsaQueueResource *resource)
{
    queue->doorbell = take_doorbell();
    if (!queue->doorbell)
        return false;
    if (queue->type == HSA_QUEUE_COMPUTE_AQL) {
        *queue->doorbell = UINT64_MAX; /* no packet yet */
        queue->aql = (struct emu_aql){
            .node = queue->node,
            .packets = bytes / AQL_PACKET,
            .read = resource->Queue_read_ptr_aql,
            .doorbell = queue->doorbell,
        };
        return true;
    }
    if (queue->write)
        return true;
    void *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED)
        return false;
    queue->pointers = page;
    queue->write = queue->pointers;
    queue->read = queue->pointers + 8;
    return true;
}

/* Gives back what a queue has, and the queue. */
static void drop(struct emu_queue *queue)
{
    if (queue->slot >= 0)
        emu_slot_release(emu_gpu_of(queue->node), queue->slot);
    if (queue->pointers)
        munmap(queue->pointers, PAGE);
    give_doorbell(queue->doorbell);
    free(queue);
}

static HSAKMT_STATUS create(struct emu_queue *queue, uint32_t engine, char *ring, uint64_t bytes,
                            HsaQueueResource *resource)
{
    queue->id = next_id++;
    if (!take_slot(queue, engine) || !take_pages(queue, bytes, resource))
        goto no_queue;
    queue->aql.ring = ring;
    if (!emu_machine_add(queue, (uintptr_t)ring, bytes))
        goto no_queue;
    resource->QueueId = (HSA_QUEUEID)queue->id;
    resource->Queue_DoorBell_aql = queue->doorbell;
    if (queue->pointers) {
        resource->Queue_write_ptr_aql = queue->write;
        resource->Queue_read_ptr_aql = queue->read;
    }
    emu_trace("queue %d of type %d on GPU %d, engine %d, for %s", queue->id, queue->type, emu_gpu_of(queue->node),
              queue->slot < 0 ? -1 : emu_slot_engine(queue->slot), queue->owner);
    return HSAKMT_STATUS_SUCCESS;
no_queue:
    drop(queue);
    return HSAKMT_STATUS_ERROR;
}

static HSAKMT_STATUS create_for(const char *owner, uint32_t node, HSA_QUEUE_TYPE type, void *ring, uint64_t bytes,
                                HsaQueueResource *resource)
{
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
    struct emu_queue *queue = calloc(1, sizeof *queue);
    if (!queue)
        return HSAKMT_STATUS_NO_MEMORY;
    queue->node = node;
    queue->type = type;
    strncpy(queue->owner, owner, sizeof queue->owner - 1);
    emu_machine_lock();
    HSAKMT_STATUS status = create(queue, 0, ring, bytes, resource);
    emu_machine_unlock();
    return status;
}

HSAKMT_STATUS emu_queue_create(const char *owner, uint32_t node, int type, uint32_t engine, void *ring, uint64_t bytes,
                               uint64_t *write, uint64_t *read, uint32_t *id, uint32_t *doorbell)
{
    HsaQueueResource resource;
    struct emu_queue *queue = calloc(1, sizeof *queue);
    if (!queue)
        return HSAKMT_STATUS_NO_MEMORY;
    *queue = (struct emu_queue){.node = node, .type = (HSA_QUEUE_TYPE)type, .write = write, .read = read};
    strncpy(queue->owner, owner, sizeof queue->owner - 1);
    emu_machine_lock();
    HSAKMT_STATUS status = create(queue, engine, ring, bytes, &resource);
    if (status == HSAKMT_STATUS_SUCCESS) {
        *id = (uint32_t)queue->id;
        *doorbell = (uint32_t)((char *)queue->doorbell - (char *)doorbells.page);
    }
    emu_machine_unlock();
    return status;
}

HSAKMT_STATUS hsaKmtCreateQueue(HSAuint32 node, HSA_QUEUE_TYPE type, HSAuint32 percentage, HSA_QUEUE_PRIORITY priority,
                                void *ring, HSAuint64 bytes, HsaEvent *event, HsaQueueResource *resource)
{
    EMU_API_ENTER();
    (void)percentage;
    (void)priority;
    (void)event;
    return create_for(emu_api_caller(__builtin_return_address(0)), node, type, ring, bytes, resource);
}

HSAKMT_STATUS hsaKmtDestroyQueue(HSA_QUEUEID id)
{
    EMU_API_ENTER();
    emu_machine_lock();
    struct emu_queue *queue = emu_machine_find(id);
    bool there = queue;
    if (there) {
        emu_machine_remove(queue);
        drop(queue);
    }
    emu_machine_unlock();
    if (!there) {
        emu_violation("queue", "hsaKmtDestroyQueue of queue %llu, which is not there", (unsigned long long)id);
        return HSAKMT_STATUS_INVALID_PARAMETER;
    }
    return HSAKMT_STATUS_SUCCESS;
}

/* Priority and share are not modelled; a percentage of 0 would stop the queue, and no caller of ours asks for it. */
HSAKMT_STATUS hsaKmtUpdateQueue(HSA_QUEUEID id, HSAuint32 percentage, HSA_QUEUE_PRIORITY priority, void *ring,
                                HSAuint64 bytes, HsaEvent *event)
{
    EMU_API_ENTER();
    (void)percentage;
    (void)priority;
    (void)ring;
    (void)bytes;
    (void)event;
    emu_machine_lock();
    bool there = emu_machine_find(id);
    emu_machine_unlock();
    return there ? HSAKMT_STATUS_SUCCESS : HSAKMT_STATUS_INVALID_PARAMETER;
}
