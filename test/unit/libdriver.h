/*
 * A process on the emulated node, for tests of what its driver refuses (test_emu_kfd.c, test_emu_gem.c): the calls as the
 * kernel gets them, and a process that has opened the first GPUs. Queues below the driver are counted only.
 */
#ifndef LIBDRIVER_H
#define LIBDRIVER_H

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../emu/config.h"
#include "../emu/event.h"
#include "../emu/evict.h"
#include "../emu/exports.h"
#include "../emu/file.h"
#include "../emu/gem.h"
#include "../emu/kfd.h"
#include "../emu/persona.h"
#include "../emu/process.h"
#include "../emu/queue.h"
#include "../emu/vm.h"
#include "libunit.h"

enum {
    VRAM = 1 << 0,
    GTT = 1 << 1,
    USERPTR = 1 << 2,
    DOORBELL = 1 << 3,
    MMIO = 1 << 4,
    EXECUTABLE = 1 << 30,
    RW = (int)(1u << 31),
    PAGE = KFD_PAGE,
    RING = 8 * PAGE,
    HIDDEN = 7,  /* a GPU that this process may not open */
    UNBOUND = 2, /* one on which it has no address space */
};

/* Opens the first GPUs, once; the version and the hidden GPU are as they were at first. */
void driver_begin(void);
/* The node's configuration, for tests that change it. */
struct emu_config *driver_config(void);
uint32_t driver_id(int gpu);
/* Of the render node of a GPU; tests may put another descriptor there. */
extern int driver_nodes[EMU_MAX_GPUS];

/* Each is a call: 0 or an errno. */
int driver_call(unsigned number, void *args, size_t bytes);
int driver_render(int gpu, unsigned number, void *args, size_t bytes);

#define CALL(number, type, ...)        driver_call(number, &(struct type){__VA_ARGS__}, sizeof(struct type))
#define WORDS(number, ...)             driver_call(number, (uint32_t[]){__VA_ARGS__}, sizeof((uint32_t[]){__VA_ARGS__}))
#define RENDER(gpu, number, type, ...) driver_render(gpu, number, &(struct type){__VA_ARGS__}, sizeof(struct type))

/* A row: what is expected, then the call. */
#define ROW(error, call) ck_assert_int_eq(call, error)

enum {
    CREATE_QUEUE = 0x02,
    DESTROY_QUEUE = 0x03,
    MEMORY_POLICY = 0x04,
    UPDATE_QUEUE = 0x07,
    CREATE_EVENT = 0x08,
    DESTROY_EVENT = 0x09,
    SET_EVENT = 0x0a,
    RESET_EVENT = 0x0b,
    WAIT_EVENTS = 0x0c,
    SCRATCH = 0x11,
    TILES = 0x12,
    TRAP_HANDLER = 0x13,
    ACQUIRE = 0x15,
    ALLOC = 0x16,
    FREE = 0x17,
    MAP = 0x18,
    UNMAP = 0x19,
    CU_MASK = 0x1a,
    DMABUF_INFO = 0x1c,
    IMPORT = 0x1d,
    SVM = 0x20,
    XNACK = 0x21,
    AVAILABLE = 0x23,
    EXPORT = 0x24,
    RUNTIME = 0x25,
    GEM_CLOSE = 0x09,
    TO_DMABUF = 0x2d,
    FROM_DMABUF = 0x2e,
    GEM_MMAP = 0x41,
    GEM_VA = 0x48,
};

struct free {
    uint64_t handle;
};

struct prime {
    uint32_t handle, flags;
    int32_t dmabuf;
};

struct gem {
    uint32_t handle, pad;
};

/* Addresses of the process that nothing is at, and pages of its own. */
uint64_t driver_reserve(size_t bytes);
uint64_t driver_own_pages(size_t bytes);
/* Memory that is granted; the same, and mapped for its GPU; and its end. */
struct kfd_alloc driver_memory(int gpu, uint64_t bytes, uint32_t flags);
struct kfd_alloc driver_mapped(int gpu, uint64_t bytes, uint32_t flags);
void driver_give_back(int gpu, const struct kfd_alloc *made);
/* MAP or UNMAP for these GPUs; `done` of them were. */
int driver_map_for(unsigned number, uint64_t handle, const int *gpus, uint32_t count, uint32_t *done);

#endif
