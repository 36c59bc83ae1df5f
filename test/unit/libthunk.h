/*
 * A thunk without a kernel: queues made through it are executed by the SDMA executor of the emulated node, which varies
 * what the hardware leaves open and reports what it forbids. For programs that are linked with --wrap=dma_thunk_find,
 * --wrap=dma_rocr_find and --wrap=dma_providers. The ROCr above it has one GPU, or those of a machine. Its numbers of nodes
 * are not the kernel's.
 *
 * The providers of these programs are "named", whose queues can name their engine, as those of the kernel driver can, and
 * the product's own for the thunk.
 *
 * Addresses of engines are those of the host. An engine may touch what has been mapped through the thunk, what the test has
 * shown (thunk_show), and what the fake GPU runtime knows, and nothing else. A thread moves the engines.
 *
 * It is strict: a queue of a ring that is not mapped, memory that is freed with another size or that is still mapped, and
 * anything that is left at the end abort the program. Broken rules of the hardware are counted and told.
 */
#ifndef DMA_TEST_LIBTHUNK_H
#define DMA_TEST_LIBTHUNK_H

#include <stdbool.h>
#include <stdint.h>

#include "../emu/sdma.h"
#include "engine/sdma/provider.h"
#include "engine/sdma/thunk.h"
#include "engine/sdma/topology.h"
#include "gpu/runtime.h"

typedef struct thunk_options {
    uint64_t seed;
    emu_sdma_gen_t gen;
    const dma_gpu_runtime_t *rt; /* or NULL */
    const dma_topo_t *topo;      /* the machine; NULL: one GPU, whose PCI address is 0 */
    bool old;                    /* queues cannot name their engine: there is no provider "named" */
    bool absent;                 /* there is none to be found */
    uint32_t missing;            /* engines that are fused off: a queue on one is misuse */
    unsigned queues;             /* at most so many at a time; 0: any */
    uint64_t fault_packet;       /* see emu_sdma_config_t, as the next two */
    unsigned early_polls;
    uint32_t spoil_kinds;
    unsigned late;       /* the so-manieth queue that is made does nothing before thunk_late_goes; 0: none */
    unsigned late_until; /* or before the so-manieth queue is made; 0: no matter */
    bool left;           /* queues that have not come to an end may be left, and their memory */
} thunk_options_t;

void thunk_begin(const thunk_options_t *options);
/* Nothing of the thunk's is left. */
void thunk_end(void);

void thunk_show(const void *addr, uint64_t bytes);
/* No engine moves while they are held. */
void thunk_hold(bool hold);
/* What is lost from now on, as in EMU_LOSE, and how late what is late is at most. */
void thunk_lose(const char *rules, uint64_t late_ns);
/* From now on a late queue is like others. */
void thunk_late_goes(void);
/* Waits until no engine has anything to do; false: one still has, after so many seconds, or is dead. */
bool thunk_quiet(double seconds);

/* Rules broken so far, and what the last was. */
unsigned thunk_reports(void);
const char *thunk_report(void);
/* Queues made so far. */
unsigned thunk_queues(void);
/* Packets of this kind that queues have executed which are no more. */
uint64_t thunk_packets(emu_sdma_packet_kind_t kind);

/* ROCr's GPUs, from this number on, in the machine's order. */
#define THUNK_FIRST_NODE 16
void thunk_rocr_begin(const dma_topo_t *topo);
bool thunk_rocr_has(uint32_t node);

/* The provider "named", and for it: the table, whether there is none, and a queue on an engine, or on the next one of a kind. */
dma_status_t thunk_table(dma_thunk_t *thunk);
extern const dma_provider_ops_t thunk_named;
bool thunk_is_old(void);
uint32_t thunk_make(uint32_t node, dma_map_kind_t kind, uint32_t engine, void *ring, uint64_t bytes,
                    dma_thunk_queue_t *queue);

#endif
