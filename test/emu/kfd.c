/*
 * Dispatches the calls on the driver's file; see kfd.h.
 *
 * As with the driver, a process needs an address space on a GPU for memory and queues there. Otherwise calls return ENODEV,
 * some of them ESRCH. A child does not inherit the address spaces of its parent.
 */
#include "kfd.h"

#include "clock.h"
#include "config.h"
#include "event.h"
#include "exports.h"
#include "file.h"
#include "gem.h"
#include "persona.h"
#include "process.h"
#include "queue.h"
#include "report.h"

#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

enum {
    MAJOR = 1,
    GET_VERSION = 0x01,
    CREATE_QUEUE = 0x02,
    DESTROY_QUEUE = 0x03,
    SET_MEMORY_POLICY = 0x04,
    GET_CLOCK_COUNTERS = 0x05,
    UPDATE_QUEUE = 0x07,
    CREATE_EVENT = 0x08,
    DESTROY_EVENT = 0x09,
    SET_EVENT = 0x0a,
    RESET_EVENT = 0x0b,
    WAIT_EVENTS = 0x0c,
    DEBUG_FIRST = 0x0d,
    DEBUG_LAST = 0x10,
    SET_SCRATCH_BACKING = 0x11,
    GET_TILE_CONFIG = 0x12,
    SET_TRAP_HANDLER = 0x13,
    GET_APERTURES = 0x14,
    ACQUIRE_VM = 0x15,
    ALLOC_MEMORY = 0x16,
    FREE_MEMORY = 0x17,
    MAP_MEMORY = 0x18,
    UNMAP_MEMORY = 0x19,
    SET_CU_MASK = 0x1a,
    GET_DMABUF_INFO = 0x1c,
    IMPORT_DMABUF = 0x1d,
    SVM = 0x20,
    SET_XNACK_MODE = 0x21,
    AVAILABLE_MEMORY = 0x23,
    EXPORT_DMABUF = 0x24,
    RUNTIME_ENABLE = 0x25,
    IPC_IMPORT = 0x80,
    IPC_EXPORT = 0x81,
    /* The minor versions in which some calls first appeared. */
    SVM_MINOR = 5,
    AVAILABLE_MINOR = 9,
    EXPORT_MINOR = 12,
    RUNTIME_MINOR = 13,
};

struct apertures {
    uint64_t lds_base, lds_limit, scratch_base, scratch_limit, gpuvm_base, gpuvm_limit;
    uint32_t gpu_id, pad;
};

struct get_apertures {
    uint64_t apertures;
    uint32_t n_nodes, pad;
};

struct clocks {
    uint64_t gpu, cpu, system, system_hz;
    uint32_t gpu_id, pad;
};

struct tile_config {
    uint64_t tiles, macro_tiles;
    uint32_t n_tiles, n_macro_tiles, gpu_id, gb_addr_config, n_banks, n_ranks;
};

struct memory_policy {
    uint64_t base, bytes;
    uint32_t gpu_id, policy, other_policy, flags;
};

struct runtime_enable {
    uint64_t debug;
    uint32_t mode, capabilities;
};

static int gpu_of_id(uint32_t gpu_id)
{
    for (int gpu = 0; gpu < emu_config()->gpus; gpu++)
        if (emu_persona_gpu_id(emu_config()->persona, gpu) == gpu_id)
            return emu_node_of(gpu) ? gpu : -1;
    return -1;
}

int emu_kfd_find(uint32_t gpu_id, int *gpu)
{
    *gpu = gpu_of_id(gpu_id);
    return *gpu < 0 ? EINVAL : emu_process_has(*gpu) ? 0 : ENODEV;
}

uint32_t emu_kfd_node(uint32_t gpu_id)
{
    int gpu;
    return emu_kfd_find(gpu_id, &gpu) == 0 ? emu_node_of(gpu) : 0;
}

/* For calls that return ESRCH if the process has no address space on the GPU. */
static int bound(uint32_t gpu_id)
{
    int gpu, error = emu_kfd_find(gpu_id, &gpu);
    return error == ENODEV ? ESRCH : error;
}

uint32_t emu_kfd_gpu_id(uint32_t node)
{
    return node ? emu_persona_gpu_id(emu_config()->persona, emu_gpu_of(node)) : 0;
}

uint32_t emu_gpu_id(uint32_t node)
{
    return emu_kfd_gpu_id(node);
}

/* The apertures of GFX9: LDS and scratch at addresses that no process has, and all addresses of a process for GPU memory. */
static int get_apertures(struct get_apertures *args)
{
    struct apertures *to = (struct apertures *)(uintptr_t)args->apertures;
    uint32_t room = args->n_nodes, n = 0;
    for (int gpu = 0; gpu < emu_config()->gpus; gpu++) {
        if (!emu_node_of(gpu))
            continue;
        if (n < room)
            to[n] = (struct apertures){
                .lds_base = 0x1000000000000,
                .lds_limit = 0x10000ffffffff,
                .scratch_base = 0x2000000000000,
                .scratch_limit = 0x20000ffffffff,
                .gpuvm_base = 0x4000,
                .gpuvm_limit = 0x7fffffffffff,
                .gpu_id = emu_persona_gpu_id(emu_config()->persona, gpu),
            };
        n++;
    }
    args->n_nodes = room == 0 || n < room ? n : room;
    return 0;
}

static int get_clocks(struct clocks *clocks)
{
    uint64_t now = emu_clock_ns();
    clocks->gpu = gpu_of_id(clocks->gpu_id) < 0 ? 0 : now / EMU_CLOCK_GPU_NS;
    clocks->cpu = clocks->system = now;
    clocks->system_hz = 1000000000;
    return 0;
}

static int get_tile_config(struct tile_config *config)
{
    if (gpu_of_id(config->gpu_id) < 0)
        return EINVAL;
    config->n_tiles = config->n_macro_tiles = 0;
    config->gb_addr_config = 0x104042;
    config->n_banks = config->n_ranks = 0;
    return 0;
}

static _Atomic uint64_t spaces[EMU_MAX_GPUS];

uint64_t emu_kfd_space_of(int gpu)
{
    return emu_process_has(gpu) ? atomic_load(&spaces[gpu]) : 0;
}

/* The address space of an open file of the GPU's render node becomes that of the process's queues. It cannot be changed
 * later. */
static int acquire(int fd, uint32_t gpu_id)
{
    int gpu = gpu_of_id(gpu_id);
    uint64_t number = emu_file_number(fd);
    if (gpu < 0 || number == 0)
        return EINVAL;
    if (emu_process_has(gpu))
        return number == atomic_load(&spaces[gpu]) ? 0 : EBUSY;
    if (emu_file_device(fd) != gpu)
        return EINVAL;
    atomic_store(&spaces[gpu], number);
    emu_process_acquire(gpu);
    return 0;
}

/* XNACK is always off, because no GPU of this node retries faulted accesses. A negative mode is a query. */
static int set_xnack(int32_t *mode)
{
    if (*mode >= 0 && emu_queue_any())
        return EBUSY;
    if (*mode > 0)
        return EPERM;
    *mode = 0;
    return 0;
}

/* There is no debugger, and no wave that could trap. */
static int runtime_enable(struct runtime_enable *args)
{
    static atomic_bool enabled;
    bool enables = args->mode & 1;
    if (atomic_exchange(&enabled, enables) && enables)
        return EBUSY;
    args->capabilities = 0;
    return 0;
}

static int set_memory_policy(const struct memory_policy *args)
{
    return args->policy > 1 || args->other_policy > 1 ? EINVAL : bound(args->gpu_id);
}

static int set_scratch(uint32_t gpu_id)
{
    int gpu;
    return emu_kfd_find(gpu_id, &gpu);
}

/* Carries out a call. `args` is the structure of the call. */
static int serve(const char *owner, unsigned call, void *args)
{
    uint32_t *words = args;
    uint32_t minor = emu_config()->kfd_minor;
    switch (call) {
    case GET_VERSION:
        words[0] = MAJOR;
        words[1] = minor;
        return 0;
    case CREATE_QUEUE:
        return emu_kfd_create_queue(owner, args);
    case DESTROY_QUEUE:
        return emu_kfd_destroy_queue(words[0]);
    case UPDATE_QUEUE:
        return emu_kfd_update_queue(args);
    case GET_CLOCK_COUNTERS:
        return get_clocks(args);
    case CREATE_EVENT:
        return emu_kfd_create_event(args);
    case DESTROY_EVENT:
        return emu_event_destroy(words[0]) ? 0 : EINVAL;
    case SET_EVENT:
        return emu_event_set(words[0]) ? 0 : EINVAL;
    case RESET_EVENT:
        return emu_event_reset(words[0]) ? 0 : EINVAL;
    case WAIT_EVENTS:
        return emu_kfd_wait_events(args);
    /* Only checked: caches are not modelled, and no waves run that could trap, use scratch or need certain compute units. */
    case SET_MEMORY_POLICY:
        return set_memory_policy(args);
    case SET_SCRATCH_BACKING:
        return set_scratch(words[2]);
    case SET_TRAP_HANDLER:
        return bound(words[4]);
    case SET_CU_MASK:
        return emu_kfd_set_cu_mask(args);
    case GET_TILE_CONFIG:
        return get_tile_config(args);
    case GET_APERTURES:
        return get_apertures(args);
    case ACQUIRE_VM:
        return acquire((int)words[0], words[1]);
    case ALLOC_MEMORY:
        return emu_kfd_alloc(args);
    case FREE_MEMORY:
        return emu_kfd_free(*(uint64_t *)args);
    case MAP_MEMORY:
    case UNMAP_MEMORY:
        return emu_kfd_map_memory(args, call == MAP_MEMORY);
    case GET_DMABUF_INFO:
        return emu_kfd_dmabuf_info(args);
    case IMPORT_DMABUF:
        return emu_kfd_import_dmabuf(args);
    case SVM:
        return minor < SVM_MINOR ? ENOTTY : emu_kfd_svm(args);
    case SET_XNACK_MODE:
        return set_xnack(args);
    case AVAILABLE_MEMORY:
        return minor < AVAILABLE_MINOR ? ENOTTY : emu_kfd_available(args);
    case EXPORT_DMABUF:
        return minor < EXPORT_MINOR ? ENOTTY : emu_kfd_export_dmabuf(args);
    case RUNTIME_ENABLE:
        return minor < RUNTIME_MINOR ? ENOTTY : runtime_enable(args);
    case IPC_IMPORT:
        return emu_kfd_ipc_import(args);
    case IPC_EXPORT:
        return emu_kfd_ipc_export(args);
    /* Old calls for debuggers. Linux has only their numbers. */
    case DEBUG_FIRST:
    case DEBUG_FIRST + 1:
    case DEBUG_FIRST + 2:
    case DEBUG_LAST:
        return EPERM;
    default:
        emu_note("a call on /dev/kfd that is not known here: %#x", call);
        return ENOTTY;
    }
}

int emu_kfd_ioctl(const void *caller, unsigned long request, void *argument)
{
    /* Older programs have shorter structures: the missing members are zero. The structure of SVM has no fixed size and is not
     * copied. */
    union {
        uint64_t doubles[16];
        struct kfd_create_queue create;
    } copy = {.doubles = {0}};
    unsigned call = _IOC_NR(request);
    size_t bytes = _IOC_SIZE(request);
    int error;
    if (emu_process_forked())
        return EBADF;
    const char *owner = emu_process_caller(caller);
    if (call == CREATE_QUEUE && strncmp(owner, "libhsakmt.so", 12) == 0)
        owner = emu_process_caller_of_thunk();
    if (call == SVM) {
        error = serve(owner, call, argument);
    } else if (bytes > sizeof copy) {
        error = EINVAL;
    } else {
        memcpy(&copy, argument, bytes);
        error = serve(owner, call, &copy);
        memcpy(argument, &copy, bytes);
    }
    emu_trace("ioctl %#x on /dev/kfd for %s: %s", call, owner,
              error == KFD_NOT_SUPPORTED ? "ENOTSUPP" : strerror(error));
    return error;
}

void *emu_kfd_map(void *at, size_t bytes, int protection, int flags, uint64_t offset)
{
    void *mapped = NULL;
    if (emu_process_forked()) {
        errno = EBADF;
        return MAP_FAILED;
    }
    if ((offset & KFD_OFFSET_DOORBELL) == KFD_OFFSET_DOORBELL) {
        bool known = false;
        for (int gpu = 0; gpu < emu_config()->gpus; gpu++)
            known |= emu_process_has(gpu) &&
                     offset == (KFD_OFFSET_DOORBELL | KFD_OFFSET_GPU(emu_persona_gpu_id(emu_config()->persona, gpu)));
        if (known && bytes == EMU_DOORBELL_BYTES && emu_config()->kfd_refuses != EMU_KFD_DOORBELLS)
            mapped = emu_queue_map_doorbells(flags & MAP_FIXED ? at : NULL);
    } else {
        off_t place;
        int fd =
            offset >= KFD_OFFSET_GEM ? emu_gem_file_at(offset, bytes, &place) : emu_kfd_file_at(offset, bytes, &place);
        if (fd >= 0)
            return mmap(at, bytes, protection, flags, fd, place);
    }
    errno = mapped ? errno : EINVAL;
    return mapped ? mapped : MAP_FAILED;
}
