/*
 * The memory of the emulated node in one process: what is allocated, registered or imported, at which addresses, and for which
 * GPUs it is mapped.
 *
 *                    CPU address              GPU address            memory
 *     allocated      host                     the same               memfd, or anonymous if it is pageable host memory
 *     imported       host                     the same               the exporter's memfd; each process has its own address
 *     registered     the user's               a reserved range of    the user's pages
 *                                             its own, no access
 *     lent           the user's, or one of    any that the user    the user's pages, or a memfd
 *                    our own                  names
 *
 * So a program that passes the CPU address of registered memory to a GPU, or accesses the GPU address itself, fails as on
 * hardware. "Lent" addresses are those of the kernel's interface, whose callers manage addresses. For memory that does not
 * consist of the user's pages, the node has a CPU mapping of its own, because the user may map the memory anywhere or not at
 * all. The table is sorted by GPU address. Ranges never overlap.
 *
 * It has one lock. API calls take it for writing. The engines' thread holds it for reading while it copies data, so that memory
 * cannot be unmapped between the check and the access.
 */
#ifndef EMU_VM_H
#define EMU_VM_H

#include "config.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum emu_kind { EMU_ALLOCATED, EMU_REGISTERED, EMU_IMPORTED };

struct emu_range {
    uint64_t va, bytes; /* addresses of GPUs; whole pages */
    char *host;         /* the address that the CPU and the emulated engines use */
    int fd;             /* or -1 */
    enum emu_kind kind;
    uint32_t node;  /* the node that has the memory */
    uint32_t flags; /* of the allocation call */
    bool read_only, executable;
    bool svm;   /* pages of the process with attributes; such ranges may be split and joined */
    int queues; /* number of queues that need it */
    uint32_t mapped[EMU_MAX_NODES], mapped_count; /* nodes of the GPUs */
    uint32_t registered[EMU_MAX_NODES], registered_count;
    uint64_t user, user_bytes; /* registered memory: the user's range; its GPU address is va + user % page */
    int registrations;
    bool lent;     /* the user manages the GPU address */
    bool own_host; /* `host` is a mapping of the node */
    void *user_data;
    uint64_t home_va; /* imported memory: where its owner has it, */
    uint32_t home_pid, home_inode;
};

void emu_vm_lock(void);      /* to change the table */
void emu_vm_lock_read(void); /* to keep the result of a translation valid */
void emu_vm_unlock(void);

/* The callers of all functions below hold the lock. */
struct emu_range *emu_vm_find(uint64_t va);        /* the range around a GPU address, or NULL */
struct emu_range *emu_vm_find_user(uint64_t user); /* the registered range around a CPU address, or NULL */
struct emu_range *emu_vm_find_any(const void *pointer);
/* Returns memory imported from this process at these addresses, with another file: the exporter has freed it. */
struct emu_range *emu_vm_find_stale(uint32_t pid, uint32_t inode, uint64_t va, uint64_t bytes);
bool emu_vm_is_mapped(const struct emu_range *range, uint32_t node);
/* Map the range for these nodes only; map it for these nodes, too; unmap it for these nodes. */
void emu_vm_map(struct emu_range *range, const uint32_t *nodes, size_t count);
void emu_vm_map_more(struct emu_range *range, const uint32_t *nodes, size_t count);
void emu_vm_unmap(struct emu_range *range, const uint32_t *nodes, size_t count);

/* Returns the host address of `bytes` at `va` for the GPU of this node. NULL: *why is the reason. The bytes must be in one
 * range, or in several ranges of pages of the process. */
char *emu_vm_translate(uint32_t node, uint64_t va, uint64_t bytes, bool write, const char **why);

/* All functions below return NULL if there is no memory or address space. They take ownership of fd, also on failure. */
struct emu_range *emu_vm_add_anonymous(uint64_t bytes, uint64_t alignment);
struct emu_range *emu_vm_add_shared(int fd, uint64_t bytes, uint64_t alignment);
struct emu_range *emu_vm_add_user(void *user, uint64_t bytes);
/* Adds whole pages at an address that the user manages: the user's pages or, with fd >= 0, pages of a file from an offset
 * on. */
struct emu_range *emu_vm_add_lent(uint64_t va, void *user, int fd, off_t offset, uint64_t bytes);
/* Returns the first range that has one of these addresses, or NULL. */
struct emu_range *emu_vm_find_overlap(uint64_t va, uint64_t bytes);
/* Splits a range of the user's pages; the second one begins at `at`. False: no memory. */
bool emu_vm_split(struct emu_range *range, uint64_t at);
void emu_vm_remove(struct emu_range *range);

#endif
