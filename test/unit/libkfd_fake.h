/*
 * A kernel driver and a ROCr that are not there, for the providers of queues from /dev/kfd and from ROCr: one process, three GPUs of two
 * host-facing and four XGMI engines, whose queues the emulated engines execute (test/emu/sdma.h).
 *
 * It is as strict as the newest kernel: a ring and a page of pointers must each begin a mapping of exactly their size that
 * the GPU has, and a ring must be executable; doorbells are mapped all or none; memory that a queue uses must not be freed.
 * What is left over, and what was done wrong, is counted. Every call can be made to fail.
 */
#ifndef DMA_TEST_LIBKFD_FAKE_H
#define DMA_TEST_LIBKFD_FAKE_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/sdma/kfd.h"
#include "engine/sdma/queue.h"
#include "engine/sdma/rocr_queue.h"

#define FAKE_NODE         2 /* the GPU that the tests use, as the thunk counts; 1 and 3 are others */
#define FAKE_DOMAIN       7u
#define FAKE_LOCATION     (FAKE_NODE << 8)
#define FAKE_GPU_ID       0xbeefu
#define FAKE_HOST_ENGINES 2
#define FAKE_XGMI_ENGINES 4
#define FAKE_ENGINES      (FAKE_HOST_ENGINES + FAKE_XGMI_ENGINES)
#define FAKE_PER_ENGINE   8

/* What the world is like; zeros are the usual one. */
typedef struct fake_options {
    uint32_t major, minor;  /* of the interface; 0: 1 and 17 */
    int open_error;         /* errno of opening the driver's file */
    bool no_rocr;           /* it is not loaded */
    bool rocr_down;         /* it is, and does not run */
    bool hidden;            /* it does not show the GPU */
    bool twins;             /* the GPU after it has the same PCI address */
    bool no_address;        /* it does not say where GPUs are */
    bool no_fine;           /* only coarse memory */
    bool only_kernarg;      /* fine-grained memory is for kernels' arguments */
    bool old_rocr;          /* does not know which CPU is nearest */
    uint64_t extra;         /* bytes that ROCr adds to every mapping */
    uint64_t cut;           /* bytes that the kernel leaves out of memory for a ring */
    bool no_ring_memory;    /* the kernel makes none */
    bool no_ring_map;       /* it does, and does not map it */
    bool keep_rings;        /* it does not free it */
    bool no_doorbells;      /* it does not map them */
    uint32_t rocr_minor;    /* of ROCr's AMD extensions; 0: 31 */
    bool no_queues;         /* ROCr has no functions for DMA queues */
    bool user_signal;       /* the doorbell signal of a queue is an ordinary one */
    bool no_doorbell;       /* it is one of hardware that is not there */
    bool other_engine;      /* a queue is not on the engine that it was made for */
    bool short_ring;        /* its ring is half as long */
    bool no_pointers;       /* ROCr does not say where its pointers are */
    unsigned max_queues;    /* of the device; 0: as many as its engines have */
    unsigned interruptions; /* of every ioctl, before it is done */
    unsigned fail_call;     /* this call, from 1, fails; 0: none */
    int fail_error;         /* with this errno */
} fake_options_t;

void fake_begin(const fake_options_t *options);
/* Ends the test if anything is left over or was done wrong. */
void fake_end(void);
/* The end of the process: takes away what is left, which nothing may use any more. */
void fake_sweep(void);

/* The provider in this world, and a list of it alone. */
extern const dma_provider_ops_t *const fake_providers[];
extern const dma_provider_gpu_t fake_gpu;

/* ROCr and its DMA queues; with `extra`, `no_rocr` and so on as above. */
dma_status_t fake_find_rocr(dma_rocr_t *rocr, const char **reason);
dma_status_t fake_find_queues(dma_rocr_queues_t *queues, const char **reason);
/* ROCr hears that a queue has failed, and calls back. */
void fake_report(const dma_provider_queue_t *queue, uint32_t status);

/* A copy and a fence through a queue, in memory of its provider. */
void fake_copies(dma_queues_t *q, dma_queue_t *queue, uint32_t value);

/* Tests of any provider's queues (libkfd_fake_use.c): they come to the engines that they name, or to one of their kind, and move
 * data; they come and go in any order, and those there are work; a queue waits for the word at an address. */
void fake_use_kinds(dma_queues_t *q);
void fake_use_in_any_order(dma_queues_t *q);
void fake_use_poll(dma_queue_t *queue, uint64_t addr);

/* Lets the engines work until they are idle, or for a while if they wait. */
void fake_run(void);

typedef struct fake_counts {
    unsigned calls;  /* of all functions of the world and of ROCr */
    unsigned system; /* of the system calls among them */
    unsigned opens, files, maps, mapped, queues, allocations;
    unsigned rings; /* memory objects that the kernel has made, and has not freed */
    unsigned pages; /* mappings for them */
    unsigned pool;  /* that the last allocation came from */
} fake_counts_t;
extern fake_counts_t fake_counts;

/* The pools of ROCr: of the nearest CPU, and of the first. */
#define FAKE_POOL_COARSE       100u
#define FAKE_POOL_KERNARG      101u
#define FAKE_POOL_FINE         102u
#define FAKE_POOL_FINE_DISTANT 112u

/* The engine that a doorbell's queue is on, or -1. */
int fake_engine_of(const uint64_t *doorbell);
/* Queues of the other processes of the machine. */
void fake_occupy(unsigned engine, unsigned queues);

#endif
