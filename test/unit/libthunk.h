/*
 * A thunk without a kernel. The SDMA executor of the emulated node executes the queues that are made through it. It
 * varies what the hardware leaves open, and reports what the hardware forbids. For programs that are linked with
 * --wrap=dma_thunk_find, --wrap=dma_rocr_find and --wrap=dma_providers. The ROCr above the thunk has one GPU, or the
 * GPUs of a machine. Its node numbers differ from the kernel's.
 *
 * The providers of these programs are the product's own provider for the thunk, and "named". Queues of "named" can
 * name their engine, as those of the kernel driver can.
 *
 * Engine addresses are host addresses. An engine may access what was mapped through the thunk, what the test has shown
 * (thunk_show), and what the fake GPU runtime knows, and nothing else. A thread moves the engines.
 *
 * The thunk is strict. These mistakes abort the program: a queue whose ring is not mapped, memory that is freed with
 * another size or that is still mapped, and anything that is left at the end. Violations of hardware rules are counted
 * and reported.
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
    bool absent;                 /* there is no thunk */
    uint32_t missing;            /* engines that are fused off: a queue on one of them is a misuse */
    unsigned queues;             /* the most queues at a time; 0: no limit */
    uint64_t fault_packet;       /* see emu_sdma_config_t; the same for the next two */
    unsigned early_polls;
    uint32_t spoil_kinds;
    unsigned late;       /* number, from 1, of the queue that does nothing before thunk_late_goes; 0: none */
    unsigned late_until; /* or before the queue of this number is made; 0: never */
    bool left;           /* queues that have not ended may be left, with their memory */
} thunk_options_t;

void thunk_begin(const thunk_options_t *options);
/* Checks that nothing of the thunk is left. */
void thunk_end(void);

void thunk_show(const void *addr, uint64_t bytes);
/* While the engines are held, none of them moves. */
void thunk_hold(bool hold);
/* What is lost from now on, as in EMU_LOSE, and the longest delay of what is late. */
void thunk_lose(const char *rules, uint64_t late_ns);
/* For the engines so much time passes at once. */
void thunk_skip_time(uint64_t ns);
/* From now on a late queue behaves like the others. */
void thunk_late_goes(void);
/* Waits until no engine has work. False: one still has work after two minutes, or is dead. */
bool thunk_quiet(void);

/* The number of violated rules, and the last one. */
unsigned thunk_reports(void);
const char *thunk_report(void);
/* The number of queues made. */
unsigned thunk_queues(void);
/* Packets of this kind that were executed by queues which no longer exist. */
uint64_t thunk_packets(emu_sdma_packet_kind_t kind);

/* ROCr's GPUs from this number on, in the order of the machine. */
#define THUNK_FIRST_NODE 16
void thunk_rocr_begin(const dma_topo_t *topo);
bool thunk_rocr_has(uint32_t node);

/* The provider "named", and its services: the table, whether there is none, and a queue on an engine or on the next
 * engine of a kind. */
dma_status_t thunk_table(dma_thunk_t *thunk);
extern const dma_provider_ops_t thunk_named;
bool thunk_is_old(void);
uint32_t thunk_make(uint32_t node, dma_map_kind_t kind, uint32_t engine, void *ring, uint64_t bytes,
                    dma_thunk_queue_t *queue);

#endif
