/* Creates queues; see queue.h. */
#include "queue.h"

#include "config.h"
#include "machine.h"
#include "persona.h"
#include "process.h"
#include "report.h"
#include "slots.h"
#include "vm.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAGE = 4096, DOORBELLS = EMU_DOORBELL_BYTES / sizeof(uint64_t), AQL_PACKET = 64 };

static struct {
    int fd;
    uint64_t *page;
    bool used[DOORBELLS];
} doorbells; /* with the machine's lock */

static int next_id = 1, created; /* with the machine's lock */

static void *map_doorbells(void *at)
{
    void *page =
        mmap(at, EMU_DOORBELL_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | (at ? MAP_FIXED : 0), doorbells.fd, 0);
    if (page == MAP_FAILED)
        return NULL;
    madvise(page, EMU_DOORBELL_BYTES, MADV_DONTFORK);
    return page;
}

/* Doorbells are in a memfd, so that they can be mapped several times. A child does not inherit the mapping. */
static bool have_doorbells(void)
{
    if (doorbells.page)
        return true;
    doorbells.fd = memfd_create("emu-doorbells", MFD_CLOEXEC);
    if (doorbells.fd < 0)
        return false;
    if (ftruncate(doorbells.fd, EMU_DOORBELL_BYTES) == 0)
        doorbells.page = map_doorbells(NULL);
    if (!doorbells.page)
        close(doorbells.fd);
    return doorbells.page;
}

void *emu_queue_map_doorbells(void *at)
{
    emu_machine_lock();
    void *page = have_doorbells() ? map_doorbells(at) : NULL;
    emu_machine_unlock();
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

/* The driver creates queues on engines that are fused off, and these never run. */
static bool on_missing(const struct emu_queue *queue)
{
    int engine = emu_slot_engine(queue->slot);
    bool missing = emu_config()->persona->missing >> engine & 1;
    if (missing)
        emu_violation("engine", "queue of %s on engine %d of GPU %d, which is fused off", queue->owner, engine,
                      emu_gpu_of(queue->node));
    return missing;
}

/* Takes a slot for an SDMA queue. A compute queue needs none. */
static bool take_slot(struct emu_queue *queue, uint32_t engine)
{
    const struct emu_persona *persona = emu_config()->persona;
    int limit = emu_config()->fail_queue_after;
    queue->slot = -1;
    if (queue->type == EMU_QUEUE_AQL)
        return true;
    if (limit >= 0 && !emu_process_is_runtime(queue->owner) && created++ >= limit) {
        emu_note("creation of a queue fails, as asked for");
        return false;
    }
    int wanted = EMU_ANY_ENGINE;
    bool xgmi = queue->type == EMU_QUEUE_SDMA_XGMI;
    if (queue->type == EMU_QUEUE_BY_ENGINE) {
        wanted = (int)engine;
        xgmi = engine >= persona->host_engines;
        if (engine >= persona->host_engines + persona->xgmi_engines)
            return false;
    }
    /* AMD's runtime always gets a queue that runs, also if it names an engine that is fused off. What it does on hardware is
     * not known. */
    if (wanted >= 0 && emu_process_is_runtime(queue->owner) && persona->missing >> wanted & 1)
        wanted = EMU_ANY_ENGINE;
    queue->slot = emu_slot_take(emu_gpu_of(queue->node), xgmi, wanted,
                                emu_process_is_runtime(queue->owner) ? persona->missing : 0);
    if (queue->slot < 0)
        emu_note("no queue is free on the engines of GPU %d for %s", emu_gpu_of(queue->node), queue->owner);
    return queue->slot >= 0 && !on_missing(queue);
}

/* The page of pointers is unmapped with the queue, so that a late access to them ends the process. */
static bool take_pages(struct emu_queue *queue, const struct emu_queue_wish *wish)
{
    queue->doorbell = take_doorbell();
    if (!queue->doorbell)
        return false;
    if (queue->type == EMU_QUEUE_AQL) {
        *queue->doorbell = UINT64_MAX; /* no packet yet */
        queue->aql = (struct emu_aql){
            .node = queue->node,
            .ring = wish->ring_host,
            .packets = wish->bytes / AQL_PACKET,
            .read = queue->read,
            .doorbell = queue->doorbell,
            .rung = UINT64_MAX,
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

/* Frees a queue and all that it has. */
static void drop(struct emu_queue *queue)
{
    if (queue->slot >= 0)
        emu_slot_release(emu_gpu_of(queue->node), queue->slot);
    if (queue->pointers)
        munmap(queue->pointers, PAGE);
    give_doorbell(queue->doorbell);
    free(queue);
}

static void hold(const struct emu_queue *queue, int change)
{
    emu_vm_lock();
    for (int i = 0; i < EMU_QUEUE_HOLDS; i++) {
        struct emu_range *range = queue->held[i] ? emu_vm_find(queue->held[i]) : NULL;
        if (range)
            range->queues += change;
    }
    emu_vm_unlock();
}

static bool create(struct emu_queue *queue, const struct emu_queue_wish *wish)
{
    queue->id = next_id++;
    if (!take_slot(queue, wish->engine) || !take_pages(queue, wish) ||
        !emu_machine_add(queue, wish->ring, wish->bytes)) {
        drop(queue);
        return false;
    }
    hold(queue, 1);
    emu_trace("queue %d of type %d on GPU %d, engine %d, for %s", queue->id, queue->type, emu_gpu_of(queue->node),
              queue->slot < 0 ? -1 : emu_slot_engine(queue->slot), queue->owner);
    return true;
}

bool emu_queue_create(const struct emu_queue_wish *wish, struct emu_queue_made *made)
{
    struct emu_queue *queue = calloc(1, sizeof *queue);
    if (!queue)
        return false;
    queue->node = wish->node;
    queue->type = wish->type;
    queue->write = wish->write;
    queue->read = wish->read;
    queue->ring = wish->ring;
    queue->bytes = wish->bytes;
    strncpy(queue->owner, wish->owner, sizeof queue->owner - 1);
    memcpy(queue->held, wish->held, sizeof queue->held);
    emu_machine_lock();
    bool done = create(queue, wish);
    if (done)
        *made = (struct emu_queue_made){
            .id = queue->id,
            .write = queue->write,
            .read = queue->read,
            .doorbell = queue->doorbell,
            .doorbell_offset = (uint32_t)((char *)queue->doorbell - (char *)doorbells.page),
        };
    emu_machine_unlock();
    return done;
}

bool emu_queue_destroy(int id)
{
    emu_machine_lock();
    struct emu_queue *queue = emu_machine_find(id);
    bool there = queue;
    if (there) {
        emu_machine_remove(queue);
        hold(queue, -1);
        drop(queue);
    }
    emu_machine_unlock();
    return there;
}

bool emu_queue_any(void)
{
    emu_machine_lock();
    bool any = emu_machine_any();
    emu_machine_unlock();
    return any;
}

bool emu_queue_update(int id, uint64_t ring, uint64_t bytes, uint32_t percentage)
{
    bool stopped = ring == 0 || bytes == 0 || percentage == 0;
    emu_machine_lock();
    struct emu_queue *queue = emu_machine_find(id);
    bool there = queue && (ring == 0 || bytes == 0 || (ring == queue->ring && bytes == queue->bytes));
    if (queue && !there)
        emu_note("queue %d asks for another ring, which is not modelled", id);
    if (there && queue->sdma)
        emu_sdma_queue_stop(queue->sdma, stopped);
    else if (there)
        queue->stopped = stopped;
    emu_machine_unlock();
    return there;
}

bool emu_queue_exists(int id)
{
    emu_machine_lock();
    bool there = emu_machine_find(id);
    emu_machine_unlock();
    return there;
}
