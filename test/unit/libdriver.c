/* A process on the emulated node; see libdriver.h. */
#include "libdriver.h"

#include <check.h>
#include <sys/ioctl.h>

#include "../emu/render.h"

enum { QUEUES = 64 };

/* ---- queues that are only counted ---- */

static struct {
    struct emu_queue_wish wish;
    bool there;
} queues[QUEUES];

static void hold(const struct emu_queue_wish *wish, int change)
{
    for (int i = 0; i < EMU_QUEUE_HOLDS; i++) {
        struct emu_range *range = wish->held[i] ? emu_vm_find(wish->held[i]) : NULL;
        if (range)
            range->queues += change;
    }
}

bool emu_queue_create(const struct emu_queue_wish *wish, struct emu_queue_made *made)
{
    int id = 1;
    while (id < QUEUES && queues[id].there)
        id++;
    ck_assert_int_lt(id, QUEUES);
    queues[id].wish = *wish;
    queues[id].there = true;
    hold(wish, 1);
    *made = (struct emu_queue_made){.id = id};
    return true;
}

bool emu_queue_exists(int id)
{
    return id > 0 && id < QUEUES && queues[id].there;
}

bool emu_queue_update(int id, uint64_t ring, uint64_t bytes, uint32_t percentage)
{
    (void)ring;
    (void)bytes;
    (void)percentage;
    return emu_queue_exists(id);
}

bool emu_queue_destroy(int id)
{
    bool there = emu_queue_exists(id);
    if (there) {
        hold(&queues[id].wish, -1);
        queues[id].there = false;
    }
    return there;
}

bool emu_queue_any(void)
{
    bool any = false;
    for (int id = 1; id < QUEUES; id++)
        any |= queues[id].there;
    return any;
}

void *emu_queue_map_doorbells(void *at)
{
    (void)at;
    return NULL;
}

/* ---- the process ---- */

int driver_nodes[EMU_MAX_GPUS]; /* open render nodes */

/* The configuration is the environment's; what fails must not end the process, and one GPU is not ours. */
struct emu_config *driver_config(void)
{
    return (struct emu_config *)(uintptr_t)emu_config();
}

uint32_t driver_id(int gpu)
{
    return emu_persona_gpu_id(emu_config()->persona, gpu);
}

int driver_call(unsigned number, void *args, size_t bytes)
{
    return emu_kfd_ioctl((void *)(uintptr_t)driver_call, _IOC(_IOC_READ | _IOC_WRITE, 'K', number, bytes), args);
}

int driver_render(int gpu, unsigned number, void *args, size_t bytes)
{
    return emu_render_ioctl(driver_nodes[gpu], gpu, _IOC(_IOC_READ | _IOC_WRITE, 'd', number, bytes), args);
}

void driver_begin(void)
{
    driver_config()->strict = false;
    driver_config()->hidden = 1u << HIDDEN;
    driver_config()->kfd_minor = 17;
    for (int gpu = 0; gpu < UNBOUND; gpu++) {
        if (!driver_nodes[gpu])
            driver_nodes[gpu] = emu_file_open(gpu, O_RDWR | O_CLOEXEC);
        ROW(0, WORDS(ACQUIRE, (uint32_t)driver_nodes[gpu], driver_id(gpu)));
    }
}

/* Addresses of the process that nothing is at. */
uint64_t driver_reserve(size_t bytes)
{
    void *at = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    ck_assert_ptr_ne(at, MAP_FAILED);
    return (uintptr_t)at;
}

uint64_t driver_own_pages(size_t bytes)
{
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(at, MAP_FAILED);
    return (uintptr_t)at;
}

struct kfd_alloc driver_memory(int gpu, uint64_t bytes, uint32_t flags)
{
    struct kfd_alloc made = {.va = driver_reserve(bytes), .bytes = bytes, .gpu_id = driver_id(gpu), .flags = flags};
    ROW(0, driver_call(ALLOC, &made, sizeof made));
    return made;
}

int driver_map_for(unsigned number, uint64_t handle, const int *gpus, uint32_t count, uint32_t *done)
{
    uint32_t ids[EMU_MAX_GPUS];
    for (uint32_t i = 0; i < count; i++)
        ids[i] = driver_id(gpus[i]);
    struct kfd_map args = {.handle = handle, .gpu_ids = (uintptr_t)ids, .n_gpus = count};
    int error = driver_call(number, &args, sizeof args);
    *done = args.n_success;
    return error;
}

struct kfd_alloc driver_mapped(int gpu, uint64_t bytes, uint32_t flags)
{
    uint32_t done;
    struct kfd_alloc made = driver_memory(gpu, bytes, flags);
    ROW(0, driver_map_for(MAP, made.handle, &gpu, 1, &done));
    return made;
}

void driver_give_back(int gpu, const struct kfd_alloc *made)
{
    uint32_t done;
    ROW(0, driver_map_for(UNMAP, made->handle, &gpu, 1, &done));
    ROW(0, CALL(FREE, free, made->handle));
    munmap((void *)(uintptr_t)made->va, made->bytes);
}
