/*
 * The memory of the emulated node as one process sees it: what is allocated, registered or imported, at which addresses,
 * and which GPUs have it mapped.
 *
 *                    CPU address              GPU address            behind it
 *     allocated      host                     the same               memfd, or anonymous if it is pageable host memory
 *     imported       host                     the same               the exporter's memfd: one memory, an address per process
 *     registered     the user's               a reserved range of    the user's pages
 *                                             its own, no access
 *     lent           the user's               the same, which      the user's pages
 *                                             remains the user's
 *
 * So a program that gives a GPU the CPU address of registered memory, or touches the GPU's address itself, fails here as it
 * does on hardware. Kinds as the thunk names them. The table is sorted by GPU address; ranges never overlap.
 *
 * One lock keeps it: API calls take it for writing, the engines' thread holds it for reading while it moves data, so that
 * memory is never unmapped under an engine that passed the check.
 */
#ifndef EMU_VM_H
#define EMU_VM_H

#include "config.h"
#include "thunk.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct emu_range {
    uint64_t va, bytes; /* as GPUs see it; whole pages */
    char *host;         /* where the CPU, and with it every engine of ours, reaches it */
    int fd;             /* or -1 */
    HSA_POINTER_TYPE kind;
    uint32_t node; /* where the memory is */
    HsaMemFlags flags;
    uint32_t mapped[EMU_MAX_NODES], mapped_count; /* GPUs' nodes */
    uint32_t registered[EMU_MAX_NODES], registered_count;
    uint64_t user, user_bytes; /* registered memory: what the user named; its GPU address is va + user % page */
    int registrations;
    bool lent; /* by the kernel's interface, kfd.c, which keeps the addresses */
    void *user_data;
    uint64_t home_va; /* imported memory: where its owner has it, */
    uint32_t home_pid, home_inode;
};

void emu_vm_lock(void);      /* for changing the table */
void emu_vm_lock_read(void); /* for keeping what a translation said true */
void emu_vm_unlock(void);

/* All below want the lock. */
struct emu_range *emu_vm_find(uint64_t va);        /* the range around a GPU address, or NULL */
struct emu_range *emu_vm_find_user(uint64_t user); /* the registered range around a CPU address, or NULL */
struct emu_range *emu_vm_find_any(const void *pointer);
/* Imported memory that the process had there, in another file than this one: it has freed it. */
struct emu_range *emu_vm_find_stale(uint32_t pid, uint32_t inode, uint64_t va, uint64_t bytes);
bool emu_vm_is_mapped(const struct emu_range *range, uint32_t node);
void emu_vm_map(struct emu_range *range, const uint32_t *nodes, size_t count);

/* The host address of bytes at va for the GPU of this node, or NULL, and then why is a sentence about it. */
char *emu_vm_translate(uint32_t node, uint64_t va, uint64_t bytes, bool write, const char **why);

/* All below return NULL without memory or address space. fd is taken over, also on failure. */
struct emu_range *emu_vm_add_anonymous(uint64_t bytes, uint64_t alignment);
struct emu_range *emu_vm_add_shared(int fd, uint64_t bytes, uint64_t alignment);
struct emu_range *emu_vm_add_user(void *user, uint64_t bytes);
struct emu_range *emu_vm_add_lent(void *user, uint64_t bytes); /* of whole pages */
void emu_vm_remove(struct emu_range *range);

#endif
