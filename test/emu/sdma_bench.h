/*
 * A test bench for the SDMA emulation: a node of four GPUs, without the rest of the emulated node.
 *
 *   device address          memory
 *   BENCH_GPU(g)            256 KiB of GPU g, mapped for all
 *   BENCH_HOST              256 KiB of the host, mapped for all
 *   BENCH_CONST             4 KiB of the host, for reading
 *   BENCH_PRIVATE           4 KiB of GPU 0, mapped for GPU 0 alone
 *   BENCH_RING(i)           ring of queue i
 *
 * The clock advances by `tick` whenever it is read. Packets are built from plain dwords.
 */
#ifndef EMU_SDMA_BENCH_H
#define EMU_SDMA_BENCH_H

#include "sdma.h"

#define BENCH_GPUS    4
#define BENCH_BYTES   0x40000u
#define BENCH_GPU(g)  (0x7f0000000000ull + (uint64_t)(g)*0x10000000ull)
#define BENCH_HOST    0x100000000ull
#define BENCH_CONST   0x200000000ull
#define BENCH_PRIVATE 0x300000000ull
#define BENCH_RING(i) (0x400000000ull + (uint64_t)(i)*0x100000ull)
#define BENCH_QUEUES  8

typedef struct bench_segment {
    uint64_t va, bytes;
    int owner;
    unsigned gpus; /* bit g: mapped for GPU g */
    bool writable;
    char *host;
} bench_segment_t;

typedef struct bench_queue {
    emu_sdma_engine_t *engine;
    emu_sdma_queue_t *queue;
    uint64_t bytes, rptr, wptr, doorbell; /* the words that the engine accesses */
    uint64_t written;                     /* place of the next packet */
    char *ring;
} bench_queue_t;

typedef struct bench {
    emu_sdma_node_t *node;
    bench_segment_t segments[BENCH_GPUS + 3 + BENCH_QUEUES];
    unsigned nsegments;
    bench_queue_t queues[BENCH_QUEUES];
    uint64_t now, tick;
    unsigned reports[EMU_SDMA_RULES], reported, faults, resets, traps;
    uint32_t trap; /* context of the last TRAP */
    char text[512];
} bench_t;

/* Makes the node. Ends the test on failure. The contents of memory are random. */
void bench_begin(bench_t *b, const emu_sdma_config_t *config);
void bench_end(bench_t *b);
char *bench_at(bench_t *b, uint64_t va); /* host address */
uint32_t *bench_word(bench_t *b, uint64_t va);

emu_sdma_engine_t *bench_engine(bench_t *b, int gpu, int id, emu_sdma_kind_t kind);
/* Queue i, with a ring of its own, on an engine. */
bench_queue_t *bench_queue(bench_t *b, unsigned i, emu_sdma_engine_t *engine, uint64_t bytes);
/* Puts a packet into the ring, after zero dwords if it would cross the end. Steps the engine while there is no room. */
void bench_put(bench_queue_t *q, const uint32_t *dw, unsigned n);
void bench_ring(bench_queue_t *q); /* stores write pointer and doorbell */
/* Steps until the engine is idle or dead, or was blocked for `patience` steps. Returns the last state. */
emu_sdma_state_t bench_run(emu_sdma_engine_t *engine, unsigned patience);

/* Packets. */
void put_copy(bench_queue_t *q, uint64_t dst, uint64_t src, uint64_t bytes);
void put_broadcast(bench_queue_t *q, uint64_t dst, uint64_t dst2, uint64_t src, uint64_t bytes);
void put_swap(bench_queue_t *q, uint64_t x, uint64_t y, uint64_t bytes);
void put_fence(bench_queue_t *q, uint64_t va, uint32_t data);
void put_trap(bench_queue_t *q, uint32_t context);
void put_poll(bench_queue_t *q, unsigned func, uint64_t va, uint32_t reference, uint32_t retries);
void put_cond(bench_queue_t *q, uint64_t va, uint32_t count);
void put_atomic(bench_queue_t *q, unsigned code, uint64_t va, uint64_t operand, uint64_t comparand);
void put_fill(bench_queue_t *q, uint64_t va, uint32_t data, uint32_t bytes);

#endif
