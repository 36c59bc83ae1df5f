/*
 * SDMA engines in software, which execute the packets of an emulated node's DMA queues.
 *
 * They test programs for DMA engines on machines without such engines. So everything that the hardware does not specify varies
 * with a seed, and everything that it forbids is reported as the violation of a named rule.
 *
 *   node ---- env (functions of the caller: memory, reports, faults, interrupts, clock)
 *    |
 *    +-- engine (gpu, id, kind)          runs one of its queues at a time, in slices
 *    |     +-- queue                     ring, read pointer, write pointer, doorbell
 *    |     |     +-- operations under way: copies, fills, writes, which neither begin nor end in order
 *    |     +-- queue ...
 *    +-- engine ...
 *
 * Execution
 *   - COPY, WRITE and FILL packets become operations. These are executed in pieces, out of order. Each piece is read in one
 *     step and written in another.
 *   - FENCE, TRAP and ATOMIC wait until all earlier operations have ended. Packets after a TRAP or an ATOMIC wait, too. Packets
 *     after a FENCE do not: a FENCE only guarantees that whoever reads its word sees everything that was written before it.
 *   - Packets after a POLL wait for it; operations before it continue. The same holds for COND_EXE.
 *   - A POLL may read an old value for a bounded number of reads, never a value from before the packet was reached. On some
 *     hardware it sometimes ends although the value is wrong (early_polls).
 *   - The read pointer moves when a packet has been fetched. It says nothing about the data.
 *   - Before an engine changes queues, it finishes the operations of the current one. A POLL that spins keeps the engine for
 *     its slice, as any other work.
 *
 * Errors: a packet that breaks a rule is reported and not executed, and its queue is dead. If an address cannot be translated,
 * there is also a fault. Operations that race are reported and executed. A dead queue accesses no memory.
 *
 * There are no threads, no locks and no ROCm. A node has one caller at a time, which keeps translations valid during a step. A
 * step never blocks. The same seed, packets, clock and sequence of steps give the same execution.
 */
#ifndef EMU_SDMA_H
#define EMU_SDMA_H

#include "lose.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define EMU_SDMA_HOST          (-1) /* the host as an owner of memory */
#define EMU_SDMA_GPUS          64   /* owners are EMU_SDMA_HOST or 0 .. EMU_SDMA_GPUS - 1 */
#define EMU_SDMA_QUEUES        8    /* of one engine */
#define EMU_SDMA_MIN_RING      4096u
#define EMU_SDMA_DEFAULT_SLICE 1000000u /* nanoseconds */

/* Generations differ in their packets and in the size of the largest copy. */
typedef enum emu_sdma_gen {
    EMU_SDMA_GFX900, /* 22-bit counts, neither broadcast nor swap */
    EMU_SDMA_GFX90A, /* 30-bit counts, broadcast */
    EMU_SDMA_GFX942, /* 30-bit counts, broadcast, swap */
    EMU_SDMA_GFX950, /* 30-bit counts, broadcast, swap */
    EMU_SDMA_GENS
} emu_sdma_gen_t;

/* The rules that a packet or a program can break. emu_sdma_rule_name returns these names in lower case, with dashes. */
typedef enum emu_sdma_rule {
    EMU_SDMA_RING_SHAPE,    /* ring not a power of two, below 4 KiB, not 256-byte aligned or not mapped as a whole */
    EMU_SDMA_RING_OVERRUN,  /* write pointer a whole ring or more ahead of the read pointer */
    EMU_SDMA_WPTR_BACKWARD, /* write pointer moved back */
    EMU_SDMA_WPTR_ALIGN,    /* write pointer not a multiple of 4 */
    EMU_SDMA_DOORBELL,      /* doorbell ahead of the write pointer, or behind it for too long */
    EMU_SDMA_STRADDLE,      /* packet crosses the end of the ring */
    EMU_SDMA_TRUNCATED,     /* write pointer points into a packet */
    EMU_SDMA_OPCODE,        /* no such packet */
    EMU_SDMA_GENERATION,    /* this generation has no such packet */
    EMU_SDMA_RESERVED,      /* a bit that must be 0 is not, or a field has a value without a meaning */
    EMU_SDMA_ZERO_COUNT,    /* count of nothing (for a copy: bytes - 1 of 0 bytes) */
    EMU_SDMA_TOO_LARGE,     /* count beyond the limit of the packet */
    EMU_SDMA_FILL_LARGE,    /* FILL of more than AMD's runtime uses */
    EMU_SDMA_ALIGN_ADDRESS, /* address of FENCE, POLL, ATOMIC, COND_EXE, TIMESTAMP, WRITE or FILL */
    EMU_SDMA_ALIGN_BCAST,   /* destinations of a broadcast differ modulo 32 */
    EMU_SDMA_ALIGN_SWAP,    /* swap: an address or the length is no multiple of 64 */
    EMU_SDMA_ALIGN_RECT,    /* rectangle: base or pitch not dword aligned */
    EMU_SDMA_RECT_SHAPE,    /* rectangle: element size, or rows or slices of the destination overlap */
    EMU_SDMA_UNMAPPED,      /* not mapped for this GPU */
    EMU_SDMA_READ_ONLY,     /* mapped, but not for writing */
    EMU_SDMA_PEER,          /* memory of another GPU copied by a host-facing engine (if the node refuses it) */
    EMU_SDMA_OVERLAP,       /* source and destination of one copy overlap, or its two destinations */
    EMU_SDMA_SWAP_OVERLAP,  /* the two sides of one swap overlap */
    EMU_SDMA_SWAP_TWICE,    /* race of two swaps: a pair exchanged twice is not exchanged */
    EMU_SDMA_RACE,          /* two operations without an order, of which one writes what the other reads or writes */
    EMU_SDMA_COND_CROSS,    /* COND_EXE: the part to skip ends inside a packet or beyond write pointer or ring */
    EMU_SDMA_COND_VALUE,    /* COND_EXE: the word is neither 0 nor the reference; what hardware does is not known */
    EMU_SDMA_POLL_REGISTER, /* POLL of a register other than the HDP flush */
    EMU_SDMA_POLL_RETRIES,  /* POLL used all its retries; what hardware does is not known */
    EMU_SDMA_POLL_SIGN,     /* POLL whose result depends on the sign; which comparison hardware uses is not known */
    EMU_SDMA_DESTROY_BUSY,  /* queue destroyed with packets or operations that have not ended */
    EMU_SDMA_INJECTED,      /* a fault that the configuration injects */
    EMU_SDMA_RULES
} emu_sdma_rule_t;

const char *emu_sdma_rule_name(emu_sdma_rule_t rule); /* "ring-shape" */
const char *emu_sdma_rule_text(emu_sdma_rule_t rule); /* one sentence */

/* Rules that are stricter than the hardware: programs of AMD break them and work. For such programs the rules can be turned off
 * (config.lax); then the engine carries out what they forbid. */
#define EMU_SDMA_RULE_BIT(rule) (1ull << (rule))
#define EMU_SDMA_MAY_BE_LAX                                                                                            \
    (EMU_SDMA_RULE_BIT(EMU_SDMA_FILL_LARGE) | EMU_SDMA_RULE_BIT(EMU_SDMA_ALIGN_SWAP) |                                 \
     EMU_SDMA_RULE_BIT(EMU_SDMA_PEER) | EMU_SDMA_RULE_BIT(EMU_SDMA_RACE) | EMU_SDMA_RULE_BIT(EMU_SDMA_DESTROY_BUSY))

typedef enum emu_sdma_why { EMU_SDMA_WHY_UNMAPPED, EMU_SDMA_WHY_READ_ONLY } emu_sdma_why_t;

/* Results of `translate` besides the host address. */
typedef struct emu_sdma_where {
    int owner;          /* on success: the GPU whose memory it is, or EMU_SDMA_HOST */
    emu_sdma_why_t why; /* on failure */
} emu_sdma_where_t;

/* Functions of the node that the engines call, in the caller's thread. They must not call functions of this file. */
typedef struct emu_sdma_env {
    void *ctx;
    /* Returns the host address of `bytes` bytes at `va` of `gpu`. NULL: not all of them are mapped, in one piece. */
    char *(*translate)(void *ctx, int gpu, uint64_t va, uint64_t bytes, bool write, emu_sdma_where_t *where);
    /* A rule is broken. The text has GPU, engine, queue, packet and the reason, without a newline. */
    void (*report)(void *ctx, emu_sdma_rule_t rule, const char *text);
    void (*vm_fault)(void *ctx, int gpu, uint64_t va, bool write, emu_sdma_why_t why);
    void (*trap)(void *ctx, int gpu, uint32_t context);
    /* An engine was reset, and its queues are dead. */
    void (*reset)(void *ctx, int gpu, int engine);
    uint64_t (*clock)(void *ctx); /* nanoseconds; never decreases */
    /* A packet of config.hang_kinds is at the head of a queue of this engine [may be NULL]. */
    void (*hang)(void *ctx, int gpu, int engine);
    /* An injected loss: a signal is dropped, late, or sent twice [may be NULL]. */
    void (*lost)(void *ctx, int gpu, emu_lose_how_t how, emu_lose_what_t what);
} emu_sdma_env_t;

typedef struct emu_sdma_config {
    emu_sdma_gen_t gen;
    uint64_t seed;
    uint64_t slice_ns;    /* how long a queue keeps its engine while others have work; at least the default */
    unsigned in_flight;   /* operations of one queue under way at the same time: 1 .. 64 */
    uint32_t piece;       /* largest piece in bytes: a multiple of 64 up to 64 KiB */
    unsigned stale_looks; /* how often in a row a POLL may read an old value */
    uint64_t stale_ns;    /* for how long a POLL may read an old value */
    unsigned
        early_polls; /* a fault of some hardware: one of so many reads of a wrong value ends a POLL; 0: never. Not in
                            * queues that are spared */
    uint64_t doorbell_ns;  /* how long the write pointer may be ahead of the doorbell */
    bool peers_refused;    /* host-facing engines refuse memory of other GPUs */
    uint64_t delay_ns;     /* injection: the longest delay of each packet, and of its operation */
    uint64_t fault_packet; /* injection: the n-th packet of every queue that is not spared faults (from 1; 0: none) */
    uint64_t reset_packet; /* injection: an engine is reset when a queue of it reaches its n-th packet (0: never) */
    /* Injection: bit masks of emu_sdma_packet_kind_t. Not for queues that are spared. */
    uint32_t fault_kinds;  /* such a packet faults */
    uint32_t hang_kinds;   /* such a packet is never carried out, and its queue stops */
    uint64_t hang_bytes;   /* so does a packet that moves at least so many bytes (0: none) */
    uint32_t spoil_kinds;  /* such a packet goes wrong: wrong bytes; a POLL does not wait, a COND_EXE skips nothing */
    emu_lose_rules_t lose; /* injection: signals that are dropped, late, or sent twice */
    uint64_t lax;          /* EMU_SDMA_RULE_BITs of EMU_SDMA_MAY_BE_LAX: rules that are not enforced */
} emu_sdma_config_t;

/* Returns the defaults of a generation: everything that can vary varies, and nothing is injected. */
emu_sdma_config_t emu_sdma_config(emu_sdma_gen_t gen, uint64_t seed);

typedef struct emu_sdma_node emu_sdma_node_t;
typedef struct emu_sdma_engine emu_sdma_engine_t;
typedef struct emu_sdma_queue emu_sdma_queue_t;

typedef enum emu_sdma_kind { EMU_SDMA_HOST_FACING, EMU_SDMA_XGMI } emu_sdma_kind_t;

typedef enum emu_sdma_state {
    EMU_SDMA_PROGRESSED, /* something was done */
    EMU_SDMA_IDLE,       /* nothing to do until a doorbell */
    EMU_SDMA_BLOCKED,    /* waits for memory to change or for time to pass */
    EMU_SDMA_DEAD        /* after a broken rule, a fault or a reset */
} emu_sdma_state_t;

/* The ring that the owner of the queue has made. Read and write pointer count bytes from 0 and never wrap. */
typedef struct emu_sdma_ring {
    int id; /* of the queue, for reports and statistics */
    uint64_t va;
    uint64_t bytes;
    uint64_t *rptr; /* host addresses, 8-byte aligned, valid until the queue is destroyed */
    const uint64_t *wptr;
    const uint64_t *doorbell;
    bool spared; /* no injected fault, reset, hang, spoiled packet or early end of a POLL, and no refused peers */
} emu_sdma_ring_t;

/* All three return NULL if there is no memory or an argument is out of range. The node copies `env`. */
emu_sdma_node_t *emu_sdma_node_create(const emu_sdma_config_t *config, const emu_sdma_env_t *env);
emu_sdma_engine_t *emu_sdma_engine_create(emu_sdma_node_t *node, int gpu, int id, emu_sdma_kind_t kind);
/* Also returns NULL if the ring breaks a rule, which is reported, or if the engine has EMU_SDMA_QUEUES queues. */
emu_sdma_queue_t *emu_sdma_queue_create(emu_sdma_engine_t *engine, const emu_sdma_ring_t *ring);
/* A queue with packets or operations that have not ended breaks a rule, and its operations are dropped. If the rule is lax,
 * operations under way are completed first. */
void emu_sdma_queue_destroy(emu_sdma_queue_t *queue);
void emu_sdma_engine_destroy(emu_sdma_engine_t *engine); /* with its queues, without a report */
void emu_sdma_node_destroy(emu_sdma_node_t *node);       /* with its engines */

/* Executes at most `budget` actions of an engine. An action fetches a packet, or reads or writes one piece. Returns
 * EMU_SDMA_DEAD if the engine has queues and all of them are dead. */
emu_sdma_state_t emu_sdma_engine_step(emu_sdma_engine_t *engine, unsigned budget);
emu_sdma_state_t emu_sdma_queue_state(const emu_sdma_queue_t *queue); /* as of its last step */

/* A stopped queue fetches and carries out no packets; operations under way continue. Later it continues at the same packet,
 * without a doorbell. */
void emu_sdma_queue_stop(emu_sdma_queue_t *queue, bool stopped);

/* Replaces the rules for lost signals. Counting begins again. */
void emu_sdma_node_lose(emu_sdma_node_t *node, const emu_lose_rules_t *rules);

/* Kills all queues of the engine, and calls env->reset. */
void emu_sdma_engine_reset(emu_sdma_engine_t *engine);

/* The kinds of packets in the statistics. */
typedef enum emu_sdma_packet_kind {
    EMU_SDMA_NOP,
    EMU_SDMA_COPY,
    EMU_SDMA_BROADCAST,
    EMU_SDMA_SWAP,
    EMU_SDMA_RECT,
    EMU_SDMA_WRITE,
    EMU_SDMA_FENCE,
    EMU_SDMA_TRAP,
    EMU_SDMA_POLL,
    EMU_SDMA_HDP_FLUSH,
    EMU_SDMA_COND_EXE,
    EMU_SDMA_ATOMIC,
    EMU_SDMA_FILL,
    EMU_SDMA_TIMESTAMP,
    EMU_SDMA_PACKET_KINDS
} emu_sdma_packet_kind_t;

typedef struct emu_sdma_moved {
    uint64_t bytes;   /* written to memory of this owner by data packets that have ended */
    uint64_t packets; /* data packets with a destination there; a broadcast or swap counts for both destinations */
} emu_sdma_moved_t;

typedef struct emu_sdma_stats {
    uint64_t packets[EMU_SDMA_PACKET_KINDS];   /* fetched and found correct */
    uint64_t skipped;                          /* dwords that COND_EXE has skipped */
    emu_sdma_moved_t moved[EMU_SDMA_GPUS + 1]; /* by owner + 1 */
    uint64_t doorbells;                        /* changes of the doorbell that were seen */
    uint64_t fences;                           /* written */
    uint64_t polls;                            /* satisfied */
    uint64_t looks;                            /* reads of memory by POLLs */
    uint64_t blocked_ns;                       /* in POLLs and ATOMIC loops that have ended */
    uint64_t slices;                           /* times that the queue got the engine */
} emu_sdma_stats_t;

const emu_sdma_stats_t *emu_sdma_queue_stats(const emu_sdma_queue_t *queue);
const char *emu_sdma_packet_name(emu_sdma_packet_kind_t kind); /* "copy", "hdp-flush" */

/*
 * Prints the statistics as lines, on which tests rely. An owner is "host" or "gpuN". Lines of packets and owners with a count
 * of 0 are omitted. The order is that of the enumerations:
 *   sdma gpu 0 engine 4 queue 7 packet copy 3
 *   sdma gpu 0 engine 4 queue 7 moved gpu3 bytes 12288 packets 3
 *   sdma gpu 0 engine 4 queue 7 doorbells 1 fences 1 polls 1 skipped 0 blocked_us 17
 */
void emu_sdma_queue_print(const emu_sdma_queue_t *queue, FILE *to);
void emu_sdma_node_print(const emu_sdma_node_t *node, FILE *to); /* every queue, in the order of creation */

#endif
