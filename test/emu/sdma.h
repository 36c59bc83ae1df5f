/*
 * SDMA engines in software: what executes the packets of an emulated node's DMA queues.
 *
 * Why: programs for DMA engines can be run, and be proven wrong, where no such engine is. So this is more hostile than
 * the hardware ever is: whatever the hardware's contract leaves open is varied by a seed, and whatever it forbids is
 * reported under the name of a rule.
 *
 *   node ---- env (memory, reports, faults, interrupts, clock: the caller's)
 *    |
 *    +-- engine (gpu, id, kind)          runs one of its queues at a time, in slices
 *    |     +-- queue                     ring, read pointer, write pointer, doorbell
 *    |     |     +-- operations under way: copies, fills, writes that are neither begun nor ended in order
 *    |     +-- queue ...
 *    +-- engine ...
 *
 * What a queue does
 *   COPY, WRITE and FILL packets become operations. They are done in pieces, out of order, and each piece is read at
 *   one moment and written at another. FENCE, TRAP and ATOMIC wait until all operations before them are done; TRAP and
 *   ATOMIC hold back what follows them until then, FENCE does not: what may be assumed of it is that who sees its word
 *   sees what was written before it. POLL holds back what follows it, not what precedes it; so does COND_EXE. A POLL may
 *   see an old value for a bounded number of looks, never one from before the packet was reached. On some machines it ends
 *   now and then although the value is wrong (early_polls).
 *   The read pointer moves when a packet has been fetched: that it has arrived says nothing about the data.
 *   An engine that is to change queues first finishes the operations of the one it leaves. A spinning POLL keeps the
 *   engine for its slice like any other work.
 *
 * How it fails: a packet that breaks a rule is reported, is not executed, and its queue is dead; an address that cannot
 * be translated is a fault besides. Operations that race are reported and executed. A dead queue touches no memory.
 *
 * No threads, no locks, no ROCm: one caller at a time per node, and during a step the caller keeps translations valid.
 * A step never blocks. The same seed, packets, clock and sequence of steps give the same execution.
 */
#ifndef EMU_SDMA_H
#define EMU_SDMA_H

#include "lose.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define EMU_SDMA_HOST          (-1) /* an owner of memory that is no GPU */
#define EMU_SDMA_GPUS          64   /* owners are EMU_SDMA_HOST or 0 .. EMU_SDMA_GPUS - 1 */
#define EMU_SDMA_QUEUES        8    /* of one engine */
#define EMU_SDMA_MIN_RING      4096u
#define EMU_SDMA_DEFAULT_SLICE 1000000u /* nanoseconds */

/* Generations differ in the packets they have and in the largest copy. */
typedef enum emu_sdma_gen {
    EMU_SDMA_GFX900, /* 22-bit counts, neither broadcast nor swap */
    EMU_SDMA_GFX90A, /* 30-bit counts, broadcast */
    EMU_SDMA_GFX942, /* 30-bit counts, broadcast, swap */
    EMU_SDMA_GFX950, /* the same */
    EMU_SDMA_GENS
} emu_sdma_gen_t;

/* What a packet or a program can do wrong. The names of emu_sdma_rule_name are these in lower case with dashes. */
typedef enum emu_sdma_rule {
    EMU_SDMA_RING_SHAPE,    /* ring not a power of two, below 4 KiB, not 256-byte aligned or not mapped as a whole */
    EMU_SDMA_RING_OVERRUN,  /* write pointer a whole ring or more ahead of the read pointer */
    EMU_SDMA_WPTR_BACKWARD, /* write pointer moved back */
    EMU_SDMA_WPTR_ALIGN,    /* write pointer not a multiple of 4 */
    EMU_SDMA_DOORBELL,      /* doorbell ahead of the write pointer, or behind it for too long */
    EMU_SDMA_STRADDLE,      /* packet runs over the end of the ring */
    EMU_SDMA_TRUNCATED,     /* write pointer points into a packet */
    EMU_SDMA_OPCODE,        /* no such packet */
    EMU_SDMA_GENERATION,    /* this generation has no such packet */
    EMU_SDMA_RESERVED,      /* a bit that must be 0 is not, or a field has a value without a meaning */
    EMU_SDMA_ZERO_COUNT,    /* count of nothing (for a copy: bytes - 1 of 0 bytes) */
    EMU_SDMA_TOO_LARGE,     /* count beyond the limit of the packet */
    EMU_SDMA_FILL_LARGE,    /* FILL of more than AMD's runtime asks of one */
    EMU_SDMA_ALIGN_ADDRESS, /* address of FENCE, POLL, ATOMIC, COND_EXE, TIMESTAMP, WRITE or FILL */
    EMU_SDMA_ALIGN_BCAST,   /* destinations of a broadcast differ modulo 32 */
    EMU_SDMA_ALIGN_SWAP,    /* swap: an address or the length is no multiple of 64 */
    EMU_SDMA_ALIGN_RECT,    /* rectangle: base or pitch not dword aligned */
    EMU_SDMA_RECT_SHAPE,    /* rectangle: element size, or rows or slices of the destination overlap */
    EMU_SDMA_UNMAPPED,      /* not mapped for this GPU */
    EMU_SDMA_READ_ONLY,     /* mapped, but not for writing */
    EMU_SDMA_PEER,          /* memory of another GPU moved by a host-facing engine (where the node refuses it) */
    EMU_SDMA_OVERLAP,       /* source and destination of one copy overlap, or its two destinations */
    EMU_SDMA_SWAP_OVERLAP,  /* the two sides of one swap overlap */
    EMU_SDMA_SWAP_TWICE,    /* race of two swaps: a pair exchanged twice is not exchanged */
    EMU_SDMA_RACE,          /* operations without order between them: one writes what the other reads or writes */
    EMU_SDMA_COND_CROSS,    /* COND_EXE: the part to skip ends inside a packet or beyond write pointer or ring */
    EMU_SDMA_COND_VALUE,    /* COND_EXE: the word is neither 0 nor the reference: what happens then is not known */
    EMU_SDMA_POLL_REGISTER, /* POLL of a register other than the HDP flush */
    EMU_SDMA_POLL_RETRIES,  /* POLL ran out of retries: what happens then is not known */
    EMU_SDMA_POLL_SIGN,     /* POLL for order, and signed and unsigned comparison differ: which it is, is not known */
    EMU_SDMA_DESTROY_BUSY,  /* queue destroyed with packets or operations that have not ended */
    EMU_SDMA_INJECTED,      /* a fault that the configuration asked for */
    EMU_SDMA_RULES
} emu_sdma_rule_t;

const char *emu_sdma_rule_name(emu_sdma_rule_t rule); /* "ring-shape" */
const char *emu_sdma_rule_text(emu_sdma_rule_t rule); /* one sentence */

/* Rules that are ours more than the hardware's: programs of AMD's break each of them, and run. Foreign programs may be spared
 * them (config.lax): then what the rule forbids is carried out. */
#define EMU_SDMA_RULE_BIT(rule) (1ull << (rule))
#define EMU_SDMA_MAY_BE_LAX                                                                                            \
    (EMU_SDMA_RULE_BIT(EMU_SDMA_FILL_LARGE) | EMU_SDMA_RULE_BIT(EMU_SDMA_ALIGN_SWAP) |                                 \
     EMU_SDMA_RULE_BIT(EMU_SDMA_PEER) | EMU_SDMA_RULE_BIT(EMU_SDMA_RACE) | EMU_SDMA_RULE_BIT(EMU_SDMA_DESTROY_BUSY))

typedef enum emu_sdma_why { EMU_SDMA_WHY_UNMAPPED, EMU_SDMA_WHY_READ_ONLY } emu_sdma_why_t;

/* What translate says beside the host address. */
typedef struct emu_sdma_where {
    int owner;          /* on success: the GPU whose memory it is, or EMU_SDMA_HOST */
    emu_sdma_why_t why; /* on failure */
} emu_sdma_where_t;

/* What the engines need of the node around them. Called from within the functions below, in the caller's thread; none of
 * them may call those functions in turn. */
typedef struct emu_sdma_env {
    void *ctx;
    /* The host address of `bytes` bytes at `va` as `gpu` sees it; NULL unless all of them are mapped, in one piece. */
    char *(*translate)(void *ctx, int gpu, uint64_t va, uint64_t bytes, bool write, emu_sdma_where_t *where);
    /* A rule is broken; the text names GPU, engine, queue, packet and what is wrong, without a newline. */
    void (*report)(void *ctx, emu_sdma_rule_t rule, const char *text);
    void (*vm_fault)(void *ctx, int gpu, uint64_t va, bool write, emu_sdma_why_t why);
    void (*trap)(void *ctx, int gpu, uint32_t context);
    /* An engine was reset, its queues are dead. */
    void (*reset)(void *ctx, int gpu, int engine);
    uint64_t (*clock)(void *ctx); /* nanoseconds, never back */
    /* A packet of config.hang_kinds stands at the head of a queue of this engine [may be NULL]. */
    void (*hang)(void *ctx, int gpu, int engine);
    /* Something was lost, is late, or comes twice, on request [may be NULL]. */
    void (*lost)(void *ctx, int gpu, emu_lose_how_t how, emu_lose_what_t what);
} emu_sdma_env_t;

typedef struct emu_sdma_config {
    emu_sdma_gen_t gen;
    uint64_t seed;
    uint64_t slice_ns;    /* how long a queue keeps its engine while others want it; at least the default */
    unsigned in_flight;   /* operations of one queue under way at once: 1 .. 64 */
    uint32_t piece;       /* largest piece in bytes: a multiple of 64 up to 64 KiB */
    unsigned stale_looks; /* a POLL may see an old value so often in a row */
    uint64_t stale_ns;    /* ... and for so long */
    unsigned
        early_polls; /* a fault of some hardware: a POLL ends at one of so many looks at a wrong value; 0: never. Queues
                            * that are spared do not have it */
    uint64_t doorbell_ns;  /* so long may the write pointer be ahead of the doorbell */
    bool peers_refused;    /* host-facing engines do not move other GPUs' memory */
    uint64_t delay_ns;     /* injection: each packet, and then its operation, is held back for up to so long */
    uint64_t fault_packet; /* injection: the n-th packet of every queue that is not spared faults (from 1; 0: none) */
    uint64_t reset_packet; /* injection: an engine is reset when a queue of it reaches its n-th packet (0: never) */
    /* Injection: bit masks of emu_sdma_packet_kind_t. Queues that are spared do these packets as always. */
    uint32_t fault_kinds; /* such a packet faults */
    uint32_t hang_kinds;  /* such a packet is never carried out, and its queue stands still */
    uint32_t
        spoil_kinds; /* such a packet does something else: wrong bytes; POLL does not wait, COND_EXE skips nothing */
    emu_lose_rules_t lose; /* injection: what is lost, late, or there twice */
    uint64_t lax;          /* EMU_SDMA_RULE_BITs of EMU_SDMA_MAY_BE_LAX: rules that nobody has to keep */
} emu_sdma_config_t;

/* Defaults of a generation: everything that varies does, nothing is injected. */
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

/* A ring as the queue's owner made it. Read and write pointer count bytes from 0 and never wrap. */
typedef struct emu_sdma_ring {
    int id; /* of the queue, for reports and statistics */
    uint64_t va;
    uint64_t bytes;
    uint64_t *rptr; /* host addresses, 8-byte aligned, valid until the queue is destroyed */
    const uint64_t *wptr;
    const uint64_t *doorbell;
    bool
        spared; /* no fault, reset, hang, spoiled packet or early end of a POLL happens to this queue, and peers are not refused to it */
} emu_sdma_ring_t;

/* All of them NULL when memory is short or the arguments are out of range. The node's env is copied. */
emu_sdma_node_t *emu_sdma_node_create(const emu_sdma_config_t *config, const emu_sdma_env_t *env);
emu_sdma_engine_t *emu_sdma_engine_create(emu_sdma_node_t *node, int gpu, int id, emu_sdma_kind_t kind);
/* Also NULL when the ring breaks a rule, which is reported, or when the engine has EMU_SDMA_QUEUES already. */
emu_sdma_queue_t *emu_sdma_queue_create(emu_sdma_engine_t *engine, const emu_sdma_ring_t *ring);
/* An unfinished queue breaks a rule; its operations stay undone. Where that rule is lax, those under way are ended first. */
void emu_sdma_queue_destroy(emu_sdma_queue_t *queue);
void emu_sdma_engine_destroy(emu_sdma_engine_t *engine); /* and its queues, without complaint */
void emu_sdma_node_destroy(emu_sdma_node_t *node);       /* and its engines */

/* Moves an engine on by at most `budget` actions (an action fetches a packet, or reads or writes one piece).
 * Dead when it has queues and all are. */
emu_sdma_state_t emu_sdma_engine_step(emu_sdma_engine_t *engine, unsigned budget);
emu_sdma_state_t emu_sdma_queue_state(const emu_sdma_queue_t *queue); /* as of its last step */

/* A stopped queue fetches nothing and carries out no packet; operations under way go on. It goes on where it was, without a
 * doorbell. */
void emu_sdma_queue_stop(emu_sdma_queue_t *queue, bool stopped);

/* Other rules of what is lost from now on; counting begins anew. */
void emu_sdma_node_lose(emu_sdma_node_t *node, const emu_lose_rules_t *rules);

/* Kills all queues of the engine, whatever they are doing, and says so to env->reset. */
void emu_sdma_engine_reset(emu_sdma_engine_t *engine);

/* Packets as the statistics count them. */
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
    uint64_t packets; /* data packets with a destination there (a broadcast or swap counts at each of its two) */
} emu_sdma_moved_t;

typedef struct emu_sdma_stats {
    uint64_t packets[EMU_SDMA_PACKET_KINDS];   /* fetched and found correct */
    uint64_t skipped;                          /* dwords that COND_EXE left out */
    emu_sdma_moved_t moved[EMU_SDMA_GPUS + 1]; /* by owner + 1 */
    uint64_t doorbells;                        /* changes of the doorbell that were seen */
    uint64_t fences;                           /* written */
    uint64_t polls;                            /* satisfied */
    uint64_t looks;                            /* of POLLs at memory */
    uint64_t blocked_ns;                       /* in POLLs and ATOMIC loops that have ended */
    uint64_t slices;                           /* times that the queue got the engine */
} emu_sdma_stats_t;

const emu_sdma_stats_t *emu_sdma_queue_stats(const emu_sdma_queue_t *queue);
const char *emu_sdma_packet_name(emu_sdma_packet_kind_t kind); /* "copy", "hdp-flush" */

/*
 * The statistics as lines, for assertions. OWNER is "host" or "gpuN"; lines of packets and owners that do not occur are
 * left out; the order is that of the enumerations:
 *   sdma gpu 0 engine 4 queue 7 packet copy 3
 *   sdma gpu 0 engine 4 queue 7 moved gpu3 bytes 12288 packets 3
 *   sdma gpu 0 engine 4 queue 7 doorbells 1 fences 1 polls 1 skipped 0 blocked_us 17
 */
void emu_sdma_queue_print(const emu_sdma_queue_t *queue, FILE *to);
void emu_sdma_node_print(const emu_sdma_node_t *node, FILE *to); /* every queue, in the order of creation */

#endif
