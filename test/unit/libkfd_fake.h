/*
 * A simulated kernel driver and a simulated ROCr, for the providers of queues that use /dev/kfd and ROCr. There is one process. It
 * has three GPUs with two host-facing and four XGMI engines each, and uses the second; or the GPUs of a machine (libsdma_tree.h).
 * The emulated engines execute the queues (test/emu/sdma.h): when the test says so (fake_run), or in a thread (`running`).
 *
 * The driver is as strict as the newest kernel. A ring and a page of pointers must each begin a mapping of exactly their size that
 * the GPU has. A ring must be executable. All doorbells are mapped at once, or none. Memory that a queue uses must not be freed.
 * What is left over and what was done wrong is counted. A test can make each call fail.
 *
 * An engine may access what the kernel and ROCr have mapped, what the test has shown (fake_show), and what the fake GPU runtime
 * knows, and nothing else. A broken rule of the hardware ends the test, or, if the engines run in a thread, is counted.
 *
 * Programs that open the engine sdma are linked with --wrap=dma_rocr_find and --wrap=dma_providers. ROCr makes no
 * queues for them.
 */
#ifndef DMA_TEST_LIBKFD_FAKE_H
#define DMA_TEST_LIBKFD_FAKE_H

#include <stdbool.h>
#include <stdint.h>

#include "../emu/sdma.h"
#include "engine/sdma/node/topology.h"
#include "engine/sdma/queues/kfd.h"
#include "engine/sdma/queues/queue.h"
#include "engine/sdma/queues/rocr_queue.h"
#include "gpu/runtime.h"

#define FAKE_NODE         2 /* the GPU that the tests use; 1 and 3 are others */
#define FAKE_DOMAIN       7u
#define FAKE_LOCATION     (FAKE_NODE << 8)
#define FAKE_GPU_ID       0xbeefu
#define FAKE_HOST_ENGINES 2
#define FAKE_XGMI_ENGINES 4
#define FAKE_ENGINES      (FAKE_HOST_ENGINES + FAKE_XGMI_ENGINES)
#define FAKE_PER_ENGINE   8

/* The properties of the machine. Zeros stand for the usual ones. */
typedef struct fake_options {
    uint32_t major, minor;  /* version of the driver's interface; 0: 1 and 17 */
    int open_error;         /* errno of opening the driver's file */
    bool no_rocr;           /* ROCr is not loaded */
    bool rocr_down;         /* ROCr is loaded, and is not running */
    bool hidden;            /* ROCr does not show the GPU */
    bool twins;             /* the GPU after it has the same PCI address */
    bool no_address;        /* ROCr does not say where GPUs are */
    bool no_fine;           /* only coarse-grained memory */
    bool only_kernarg;      /* fine-grained memory is for kernel arguments only */
    bool old_rocr;          /* ROCr does not know which CPU is nearest */
    uint64_t extra;         /* bytes that ROCr adds to every mapping */
    uint64_t cut;           /* bytes that the kernel leaves out of memory for a ring */
    bool no_ring_memory;    /* the kernel makes no memory object for a ring */
    bool no_ring_map;       /* the kernel makes it, and does not map it */
    bool keep_rings;        /* the kernel does not free it */
    bool no_doorbells;      /* the kernel does not map the doorbells */
    uint32_t rocr_minor;    /* version of ROCr's AMD extensions; 0: 31 */
    bool no_queues;         /* ROCr has no functions for DMA queues */
    bool user_signal;       /* the doorbell signal of a queue is an ordinary signal */
    bool no_doorbell;       /* the doorbell signal belongs to hardware that does not exist */
    bool other_engine;      /* a queue is not on the engine that was asked for */
    bool short_ring;        /* its ring has half the size */
    bool no_pointers;       /* ROCr does not say where the pointers of a queue are */
    unsigned max_queues;    /* queues of the device; 0: as many as its engines have */
    unsigned interruptions; /* of every ioctl before it is done */
    unsigned fail_call;     /* the number of the call that fails, from 1; 0: none */
    int fail_error;         /* the errno of that call */
    bool running;           /* a thread moves the engines. The options that follow are for such a machine alone */
    uint64_t seed;
    emu_sdma_gen_t gen;
    const dma_gpu_runtime_t *rt; /* or NULL */
    const dma_topo_t *topo;      /* the machine, or NULL */
    uint32_t missing;            /* engines that are fused off: a queue on one of them is a misuse */
    uint64_t fault_packet;       /* see emu_sdma_config_t; the same for the next two */
    unsigned early_polls;
    uint32_t spoil_kinds;
    unsigned late;       /* number, from 1, of the queue that does nothing before fake_late_goes; 0: none */
    unsigned late_until; /* or before the queue of this number is made; 0: never */
    bool left;           /* queues that have not ended may be left, with their memory */
} fake_options_t;

void fake_begin(const fake_options_t *options);
/* Ends the test if anything is left over or was done wrong. */
void fake_end(void);
/* The end of the process: removes what is left, which nothing may use any more. */
void fake_sweep(void);

/* The kfd provider on this machine, and a list that contains only this provider. */
extern const dma_provider_ops_t fake_kfd;
extern const dma_provider_ops_t *const fake_providers[];
extern const dma_provider_gpu_t fake_gpu;

/* ROCr and its DMA queues; `extra`, `no_rocr` and the others are used as above. */
dma_status_t fake_find_rocr(dma_rocr_t *rocr, const char **reason);
dma_status_t fake_find_queues(dma_rocr_queues_t *queues, const char **reason);
/* Tells ROCr that a queue has failed. ROCr calls back. */
void fake_report(const dma_provider_queue_t *queue, uint32_t status);

/* A copy and a fence through a queue, in memory of its provider. */
void fake_copies(dma_queues_t *q, dma_queue_t *queue, uint32_t value);

/* Tests of the queues of any provider (libkfd_fake_use.c). Queues are on the engines that they name, or on an
 * engine of the kind that they name, and move data. Queues are made and destroyed in any order, and the others
 * work. A queue waits for the word at an address. */
void fake_use_kinds(dma_queues_t *q);
void fake_use_in_any_order(dma_queues_t *q);
void fake_use_poll(dma_queue_t *queue, uint64_t addr);

/* Lets the engines work until they are idle, or for some time if they wait. */
void fake_run(void);

/* Of engines that run in a thread: while they are held, none of them moves. */
void fake_hold(bool hold);
/* What is lost from now on, as in EMU_LOSE, and the longest delay of what is late. */
void fake_lose(const char *rules, uint64_t late_ns);
/* For the engines so much time passes at once. */
void fake_skip_time(uint64_t ns);
/* From now on a late queue behaves like the others. */
void fake_late_goes(void);
/* Waits until no engine has work. False: one still has work after two minutes, or is dead. */
bool fake_quiet(void);
/* The number of broken rules, and the last one. */
unsigned fake_broken(void);
const char *fake_broken_text(void);
/* Packets of this kind that were executed by queues which no longer exist. */
uint64_t fake_packets(emu_sdma_packet_kind_t kind);
void fake_show(const void *at, uint64_t bytes);

typedef struct fake_counts {
    unsigned calls;  /* calls of all functions of the machine and of ROCr */
    unsigned system; /* those of them that are system calls */
    unsigned opens, files, maps, mapped, queues, allocations;
    unsigned made;  /* queues, also those that are destroyed */
    unsigned rings; /* memory objects that the kernel has made and not freed */
    unsigned pages; /* mappings of these objects */
    unsigned pool;  /* the pool of the last allocation */
} fake_counts_t;
extern fake_counts_t fake_counts;

/* The pools of ROCr: those of the nearest CPU, and those of the first CPU. */
#define FAKE_POOL_COARSE       100u
#define FAKE_POOL_KERNARG      101u
#define FAKE_POOL_FINE         102u
#define FAKE_POOL_FINE_DISTANT 112u

/* The engine that a doorbell's queue is on, or -1. */
int fake_engine_of(const uint64_t *doorbell);
/* Queues of other processes on the machine. */
void fake_occupy(unsigned engine, unsigned queues);

#endif
