/*
 * The kernel's calls for queues; see kfd.h.
 *
 * As in Linux from 6.12 on, a ring and a page of pointers must each be a mapping of exactly their size, mapped for the GPU. A
 * compute queue also needs an area for its waves, whose size follows from the GPU. None of these can be unmapped before the
 * queue is destroyed. A ring that is not executable is a violation: the kernel would accept it, and the engine could not fetch
 * from it.
 */
#include "kfd.h"

#include "config.h"
#include "persona.h"
#include "process.h"
#include "queue.h"
#include "report.h"
#include "vm.h"

#include <errno.h>
#include <string.h>

enum {
    TYPE_SDMA = 1,
    TYPE_AQL = 2,
    TYPE_XGMI = 3,
    TYPE_BY_ENGINE = 4,
    BY_ENGINE_MINOR = 17,
    MOST_PERCENT = 100,
    MOST_PRIORITY = 15,
    EOP_BYTES = 4096,
    /* Sizes: of a compute unit, of each wave, and of the part before the control stack. */
    VECTOR_BYTES = 0x80000,
    SCALAR_BYTES = 0x4000,
    LOCAL_BYTES = 0x10000,
    REGISTER_BYTES = 0x1000,
    WAVES = 40,
    WAVES_OF_ARRAY = 512,
    STACK_BYTES = 8,
    HEADER_BYTES = 40,
    DEBUG_BYTES = 32,
};

/* The mapping at an address. */
struct place {
    char *host;
    bool exact, executable;
    bool svm; /* registered pages of the process, all of them accessible by the GPU */
};

/* Returns the mapping at an address. It is `exact` if it begins at the page of the address and has exactly `bytes`. */
static struct place look(uint32_t node, uint64_t at, uint64_t bytes)
{
    struct place place = {.host = NULL};
    uint64_t start = at & ~(uint64_t)(KFD_PAGE - 1);
    emu_vm_lock_read();
    const struct emu_range *range = emu_vm_find(at);
    if (range && emu_vm_is_mapped(range, node)) {
        const char *why;
        place.host = range->host + (at - range->va);
        place.exact = !range->svm && range->va == start && range->bytes == bytes;
        place.executable = range->executable;
        place.svm = range->svm && emu_vm_translate(node, start, bytes, true, &why);
    }
    emu_vm_unlock();
    return place;
}

static bool is_exact(const struct place *place, const char *what, uint64_t at, uint64_t bytes)
{
    if (!place->exact)
        emu_note("the kernel refuses a queue: the %s at %#llx does not begin a mapping of %llu bytes", what,
                 (unsigned long long)at, (unsigned long long)bytes);
    return place->exact;
}

static uint64_t round_up(uint64_t bytes, uint64_t to)
{
    return (bytes + to - 1) / to * to;
}

/* Checks the area to which the waves of a compute queue are saved. Its size follows from the GPU. */
static bool has_save_area(uint32_t node, const struct kfd_create_queue *args)
{
    const struct emu_persona *persona = emu_config()->persona;
    uint64_t parts = persona->gfx_target_version >= 90400 ? EMU_PARTS : 1;
    uint64_t units = persona->compute_units / parts;
    uint64_t waves = units * WAVES < EMU_ARRAYS * WAVES_OF_ARRAY ? units * WAVES : EMU_ARRAYS * WAVES_OF_ARRAY;
    uint64_t stack = round_up(HEADER_BYTES + waves * STACK_BYTES + 8, KFD_PAGE);
    uint64_t data = round_up(units * (VECTOR_BYTES + SCALAR_BYTES + LOCAL_BYTES + REGISTER_BYTES), KFD_PAGE);
    uint64_t debug = round_up(waves * DEBUG_BYTES, 64);
    if (args->control_stack_bytes != stack || args->save_area_bytes < stack + data) {
        emu_note("the kernel refuses a queue: control stack %u (%llu), save area %u (%llu)", args->control_stack_bytes,
                 (unsigned long long)stack, args->save_area_bytes, (unsigned long long)(stack + data));
        return false;
    }
    uint64_t total = round_up((args->save_area_bytes + debug) * parts, KFD_PAGE);
    struct place area = look(node, args->save_area, total);
    return area.svm || is_exact(&area, "save area", args->save_area, total);
}

static bool has_eop(uint32_t node, const struct kfd_create_queue *args)
{
    if (!args->eop)
        return true;
    struct place eop = look(node, args->eop, EOP_BYTES);
    return args->eop_bytes == EOP_BYTES && is_exact(&eop, "EOP buffer", args->eop, EOP_BYTES);
}

/* Returns the thunk's number for a type of the kernel, or 0. */
static enum emu_queue_type type_of(uint32_t type)
{
    switch (type) {
    case TYPE_SDMA:
        return EMU_QUEUE_SDMA;
    case TYPE_XGMI:
        return EMU_QUEUE_SDMA_XGMI;
    case TYPE_AQL:
        return EMU_QUEUE_AQL;
    case TYPE_BY_ENGINE:
        return emu_config()->kfd_minor >= BY_ENGINE_MINOR ? EMU_QUEUE_BY_ENGINE : 0;
    default:
        return 0;
    }
}

/* Checks the size of the ring, and the share of the queue. The upper bits of the percentage are for queues that this node does
 * not have. */
static bool is_ring(uint32_t bytes, uint32_t percentage, uint32_t priority)
{
    return (percentage & 0xff) <= MOST_PERCENT && priority <= MOST_PRIORITY && (bytes & (bytes - 1)) == 0;
}

static bool is_sound(const struct kfd_create_queue *args, enum emu_queue_type type)
{
    const struct emu_persona *persona = emu_config()->persona;
    return args->ring_bytes >= KFD_PAGE && args->ring % KFD_PAGE == 0 &&
           (type != EMU_QUEUE_BY_ENGINE || args->engine < persona->host_engines + persona->xgmi_engines);
}

int emu_kfd_create_queue(const char *owner, struct kfd_create_queue *args)
{
    enum emu_queue_type type = type_of(args->type);
    int gpu, error;
    if (!is_ring(args->ring_bytes, args->percentage, args->priority))
        return EINVAL;
    if (!type)
        return KFD_NOT_SUPPORTED;
    if (emu_config()->kfd_refuses == EMU_KFD_QUEUES && !emu_process_is_runtime(owner))
        return ENOMEM;
    if ((error = emu_kfd_find(args->gpu_id, &gpu)))
        return error == ENODEV ? ESRCH : error;
    if (!is_sound(args, type))
        return EINVAL;
    uint32_t node = emu_node_of(gpu);
    struct place write = look(node, args->write_pointer, KFD_PAGE), read = look(node, args->read_pointer, KFD_PAGE);
    struct place ring = look(node, args->ring, args->ring_bytes);
    if (!is_exact(&write, "write pointer", args->write_pointer, KFD_PAGE) ||
        !is_exact(&read, "read pointer", args->read_pointer, KFD_PAGE) ||
        !is_exact(&ring, "ring", args->ring, args->ring_bytes))
        return EINVAL;
    if (type == EMU_QUEUE_AQL && (!has_eop(node, args) || !has_save_area(node, args)))
        return EINVAL;
    if (type != EMU_QUEUE_AQL && !ring.executable) {
        emu_violation("ring", "queue of %s with a ring at %#llx: it is not executable", owner,
                      (unsigned long long)args->ring);
        return EINVAL;
    }
    struct emu_queue_made made;
    struct emu_queue_wish wish = {
        .owner = owner,
        .node = node,
        .type = type,
        .engine = args->engine,
        .ring = args->ring,
        .ring_host = ring.host,
        .bytes = args->ring_bytes,
        .write = (uint64_t *)write.host,
        .read = (uint64_t *)read.host,
        .held = {args->ring, args->write_pointer, args->read_pointer, args->eop, args->save_area},
    };
    if (!emu_queue_create(&wish, &made))
        return ENOMEM;
    args->id = (uint32_t)made.id;
    args->doorbell_offset = KFD_OFFSET_DOORBELL | KFD_OFFSET_GPU(args->gpu_id) | made.doorbell_offset;
    return 0;
}

int emu_kfd_destroy_queue(uint32_t id)
{
    if (emu_queue_destroy((int)id))
        return 0;
    emu_violation("queue", "queue %u, which is not there, is destroyed", id);
    return EINVAL;
}

int emu_kfd_update_queue(const struct kfd_update_queue *args)
{
    if (!is_ring(args->ring_bytes, args->percentage, args->priority))
        return EINVAL;
    if (!emu_queue_exists((int)args->id))
        return EFAULT;
    return emu_queue_update((int)args->id, args->ring, args->ring_bytes, args->percentage & 0xff) ? 0 : EINVAL;
}

/* Only checked, because compute units are not modelled. */
int emu_kfd_set_cu_mask(const struct kfd_set_cu_mask *args)
{
    if (args->n_bits == 0 || args->n_bits % 32 != 0)
        return EINVAL;
    return emu_queue_exists((int)args->id) ? 0 : EFAULT;
}
