/*
 * The environment variables of the emulated node. test/emu/README.md has their table. All are read when the library is loaded.
 * An invalid value ends the process, because a test must not run on another node than it asked for. This must happen before the
 * program begins: exit destroys queues and takes locks, so it would deadlock if the calling thread held one of these locks.
 */
#ifndef EMU_CONFIG_H
#define EMU_CONFIG_H

#include "sdma.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    EMU_MAX_GPUS = 8,
    EMU_MAX_QUARANTINE = 256,
    EMU_MAX_NODES = 1 + EMU_MAX_GPUS, /* the host is node 0 */
};

struct emu_persona;

struct emu_config {
    const struct emu_persona *persona;
    int gpus;
    uint32_t hidden;       /* bit mask of the GPUs that this process may not open */
    const char *node_dir;  /* shared by the processes of a node; NULL: the process has a node of its own */
    const char *log_dir;   /* NULL: stderr only */
    const char *stats_dir; /* NULL: no statistics are written */
    bool strict;           /* a violation ends the process */
    bool trace;
    uint64_t seed;
    int quarantine;        /* number of freed ranges whose addresses are not used again */
    int fail_queue_after;  /* number of creations that succeed; -1: all */
    int fail_import_after; /* number of imports of IPC handles that succeed; -1: all */
    uint32_t kfd_minor;    /* minor version of the kernel's interface */
    enum emu_kfd_part {
        EMU_KFD_NOTHING,
        EMU_KFD_MEMORY,
        EMU_KFD_QUEUES,
        EMU_KFD_DOORBELLS
    } kfd_refuses;                          /* what calls of this interface refuse */
    uint64_t evict_every_ns, evict_most_ns; /* evict.h */
    bool hangs_stay;                        /* a packet that hangs stops its GPU, also for later processes */
    emu_sdma_config_t sdma;
};

const struct emu_config *emu_config(void);

#endif
