/*
 * The memory of the emulated node as one process sees it: what is allocated, registered or imported, at which addresses,
 * and which GPUs have it mapped.
 *
 *                    CPU address              GPU address            behind it
 *     allocated      host                     the same               memfd, or anonymous if it is pageable host memory
 *     imported       host                     the same               the exporter's memfd: one memory, an address per process
 *     registered     the user's               a reserved range of    the user's pages
 *                                             its own, no access
 *     lent           the user's, or one of    any that the user    the user's pages, or a memfd
 *                    our own                  names
 *
 * So a program that gives a GPU the CPU address of registered memory, or touches the GPU's address itself, fails here as it
 * does on hardware. Lent addresses are those of the kernel's interface, whose callers manage them. There, the CPU address of
 * memory that is not the user's is a mapping of our own: the user may map the memory where and how it likes.
 * The table is sorted by GPU address; ranges never overlap.
 *
 * One lock keeps it: API calls take it for writing, the engines' thread holds it for reading while it moves data, so that
 * memory is never unmapped under an engine that passed the check.
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
    uint64_t va, bytes; /* as GPUs see it; whole pages */
    char *host;         /* where the CPU, and with it every engine of ours, reaches it */
    int fd;             /* or -1 */
    enum emu_kind kind;
    uint32_t node;  /* where the memory is */
    uint32_t flags; /* as its maker gave them */
    bool read_only, executable;
    bool svm;   /* attributes of the process's own pages, which may be split and joined */
    int queues; /* that need it */
    uint32_t mapped[EMU_MAX_NODES], mapped_count; /* GPUs' nodes */
    uint32_t registered[EMU_MAX_NODES], registered_count;
    uint64_t user, user_bytes; /* registered memory: what the user named; its GPU address is va + user % page */
    int registrations;
    bool lent;     /* the GPU address is the user's */
    bool own_host; /* the CPU address is ours */
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
/* Mapped for these nodes alone, for these besides, for these no more. */
void emu_vm_map(struct emu_range *range, const uint32_t *nodes, size_t count);
void emu_vm_map_more(struct emu_range *range, const uint32_t *nodes, size_t count);
void emu_vm_unmap(struct emu_range *range, const uint32_t *nodes, size_t count);

/* The host address of bytes at va for the GPU of this node, or NULL, and then why is a sentence about it. They are in one
 * range, or in several of the process's own pages. */
char *emu_vm_translate(uint32_t node, uint64_t va, uint64_t bytes, bool write, const char **why);

/* All below return NULL without memory or address space. fd is taken over, also on failure. */
struct emu_range *emu_vm_add_anonymous(uint64_t bytes, uint64_t alignment);
struct emu_range *emu_vm_add_shared(int fd, uint64_t bytes, uint64_t alignment);
struct emu_range *emu_vm_add_user(void *user, uint64_t bytes);
/* Whole pages at an address that the user keeps: pages of the user's, or, with fd >= 0, of a file from an offset on. */
struct emu_range *emu_vm_add_lent(uint64_t va, void *user, int fd, off_t offset, uint64_t bytes);
/* The first range that has one of these addresses, or NULL. */
struct emu_range *emu_vm_find_overlap(uint64_t va, uint64_t bytes);
/* Makes a range of the user's pages two, the second from `at` on. False without memory. */
bool emu_vm_split(struct emu_range *range, uint64_t at);
void emu_vm_remove(struct emu_range *range);

#endif
