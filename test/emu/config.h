/*
 * What the environment asks of the emulated node, all of it read when the library is loaded. test/emu/README.md has the
 * table of the variables. A value that makes no sense ends the process: a test must not run on another node than it asked
 * for. It does so before the program begins, when nobody has a queue or holds a lock: what a process does when it ends
 * takes its queues down, and would wait forever for the lock of the one who reads.
 */
#ifndef EMU_CONFIG_H
#define EMU_CONFIG_H

#include "sdma.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    EMU_MAX_GPUS = 8,
    EMU_MAX_QUARANTINE = 256,
    EMU_MAX_NODES = 1 + EMU_MAX_GPUS, /* node 0 is the host */
};

struct emu_persona;

struct emu_config {
    const struct emu_persona *persona;
    int gpus;
    uint32_t hidden;       /* bit mask of the GPUs that this process may not open */
    const char *node_dir;  /* shared by the processes of one emulated node, or NULL: this process is alone on it */
    const char *log_dir;   /* or NULL: to stderr only */
    const char *stats_dir; /* or NULL: none are written */
    bool strict;           /* a violation ends the process */
    bool trace;
    uint64_t seed;
    int quarantine;        /* freed ranges whose addresses are not used again yet */
    int fail_queue_after;  /* creations that succeed; -1: all do */
    int fail_import_after; /* the same for imports of IPC handles */
    uint32_t kfd_minor;    /* version of the kernel's interface */
    enum emu_kfd_part {
        EMU_KFD_NOTHING,
        EMU_KFD_MEMORY,
        EMU_KFD_QUEUES,
        EMU_KFD_DOORBELLS
    } kfd_refuses;                          /* what is not to be had by that interface */
    uint64_t evict_every_ns, evict_most_ns; /* evict.h */
    bool hangs_stay; /* a GPU with a packet that hangs executes nothing any more, also for later processes */
    emu_sdma_config_t sdma;
};

const struct emu_config *emu_config(void);

#endif
