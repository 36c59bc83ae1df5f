/*
 * The kernel's door of the emulated node: calls on /dev/kfd. They check what Linux's amdkfd checks, and return its error
 * numbers. The calls and their structures are declared here independently of the component, so that a mistake in the
 * component's declarations is noticed.
 *
 *    kfd.c          dispatches calls; version, address spaces, clocks, and calls without effect on this node
 *    kfd_memory.c   memory: allocated, mapped, exported, imported
 *    kfd_svm.c      memory of the process's own, by attributes
 *    kfd_queue.c    queues and doorbells
 *    kfd_event.c    events
 *
 * At the thunk's door only the component and test programs make these calls. At the kernel's door the real thunk uses them for
 * everything.
 */
#ifndef EMU_KFD_H
#define EMU_KFD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum { KFD_PAGE = 4096, KFD_NOT_SUPPORTED = 524 /* ENOTSUPP of the kernel */ };

struct kfd_create_queue {
    uint64_t ring, write_pointer, read_pointer, doorbell_offset;
    uint32_t ring_bytes, gpu_id, type, percentage, priority, id;
    uint64_t eop, eop_bytes, save_area;
    uint32_t save_area_bytes, control_stack_bytes, engine, pad;
};
_Static_assert(sizeof(struct kfd_create_queue) == 96, "as Linux has it from 1.17 on");

struct kfd_update_queue {
    uint64_t ring;
    uint32_t id, ring_bytes, percentage, priority;
};

struct kfd_alloc {
    uint64_t va, bytes, handle, mmap_offset;
    uint32_t gpu_id, flags;
};

struct kfd_map {
    uint64_t handle, gpu_ids;
    uint32_t n_gpus, n_success;
};

struct kfd_dmabuf_info {
    uint64_t bytes, metadata;
    uint32_t metadata_bytes, gpu_id, flags;
    int32_t fd;
};

struct kfd_import_dmabuf {
    uint64_t va, handle;
    uint32_t gpu_id;
    int32_t fd;
};

struct kfd_export_dmabuf {
    uint64_t handle;
    uint32_t flags;
    int32_t fd;
};

/* Two calls of AMD's own driver, which Linux does not have. */
struct kfd_ipc_export {
    uint64_t handle;
    uint32_t share[4], gpu_id, flags;
};

struct kfd_ipc_import {
    uint64_t handle, va, mmap_offset;
    uint32_t share[4], gpu_id, flags;
};

struct kfd_available {
    uint64_t bytes;
    uint32_t gpu_id, pad;
};

struct kfd_set_cu_mask {
    uint32_t id, n_bits;
    uint64_t mask;
};

struct kfd_svm_attribute {
    uint32_t type, value;
};

struct kfd_svm {
    uint64_t start, bytes;
    uint32_t op, n_attributes;
    struct kfd_svm_attribute attributes[];
};

struct kfd_create_event {
    uint64_t page; /* in: a handle of memory, out: an offset */
    uint32_t trigger, type, auto_reset, gpu_id, id, slot;
};

struct kfd_event_data {
    union {
        struct {
            uint32_t not_present, read_only, no_execute, imprecise;
            uint64_t va;
            uint32_t gpu_id, error_type;
        } fault;
        struct {
            uint32_t reset_type, reset_cause, memory_lost, gpu_id;
        } reset;
        uint64_t age; /* of a signal event: in and out */
    };
    uint64_t extension;
    uint32_t id, pad;
};
_Static_assert(sizeof(struct kfd_event_data) == 48, "as Linux has it");

struct kfd_wait_events {
    uint64_t events;
    uint32_t n_events, all, milliseconds, result;
};

/* Finds the GPU with this id of the driver. 0; EINVAL: this process has no such GPU; ENODEV: it has no address space there. */
int emu_kfd_find(uint32_t gpu_id, int *gpu);
/* Returns the node of a GPU on which this process has an address space, otherwise 0. */
uint32_t emu_kfd_node(uint32_t gpu_id);
/* Returns the number (file.h) of the render node's file whose address space the process has given to the driver, or 0. */
uint64_t emu_kfd_space_of(int gpu);
uint32_t emu_kfd_gpu_id(uint32_t node);

/* Each returns 0 or an errno. */
int emu_kfd_alloc(struct kfd_alloc *args);
int emu_kfd_free(uint64_t handle);
int emu_kfd_map_memory(struct kfd_map *args, bool mapped);
int emu_kfd_dmabuf_info(struct kfd_dmabuf_info *args);
int emu_kfd_import_dmabuf(struct kfd_import_dmabuf *args);
int emu_kfd_export_dmabuf(struct kfd_export_dmabuf *args);
int emu_kfd_ipc_export(struct kfd_ipc_export *args);
int emu_kfd_ipc_import(struct kfd_ipc_import *args);
int emu_kfd_available(struct kfd_available *args);
int emu_kfd_svm(struct kfd_svm *args);
int emu_kfd_create_queue(const char *owner, struct kfd_create_queue *args);
int emu_kfd_destroy_queue(uint32_t id);
int emu_kfd_update_queue(const struct kfd_update_queue *args);
int emu_kfd_set_cu_mask(const struct kfd_set_cu_mask *args);
int emu_kfd_create_event(struct kfd_create_event *args);
int emu_kfd_wait_events(struct kfd_wait_events *args);

/* Returns the memfd for an offset of a render node, and sets *at to the offset in it. -1: there is none. */
int emu_kfd_file_at(uint64_t offset, uint64_t bytes, off_t *at);
/* Returns the host address of the memory of a handle. NULL: there is none, or it has less than `bytes`. */
void *emu_kfd_memory(uint64_t handle, uint64_t bytes);
/* The memory of this handle cannot be freed any more. */
void emu_kfd_keep(uint64_t handle);

/* Memory as a file: a dma-buf. */
struct emu_bo {
    int fd, gpu;            /* gpu: the GPU that has the memory, or -1 for the host */
    uint32_t flags;         /* of the allocation */
    uint64_t bytes, number; /* number: of the file (file.h) */
};

/* Reads a descriptor into *bo. 0; EBADF: it is no descriptor; EINVAL: it is no memory. */
int emu_kfd_read_bo(int fd, struct emu_bo *bo);

/* Makes addresses free that belong to memory without a GPU mapping; with the lock of vm.h. */
void emu_kfd_yield(uint64_t va, uint64_t bytes);
/* Removes what the process's attributes say about these addresses; with the lock of vm.h. */
void emu_kfd_svm_forget(uint64_t va, uint64_t bytes);

/* Offsets for mmap. In the driver's file the upper bits say what is mapped. In a render node's file, offsets of the driver's
 * handles and of those of gem.h begin at different values. */
#define KFD_OFFSET_DOORBELL (3ull << 62)
#define KFD_OFFSET_EVENTS   (2ull << 62)
#define KFD_OFFSET_GPU(id)  ((uint64_t)((id)&0xffff) << 46)
#define KFD_OFFSET_MEMORY   (1ull << 45)
#define KFD_OFFSET_GEM      (1ull << 60)

#endif
