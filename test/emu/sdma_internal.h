/*
 * Declarations that the files of the SDMA emulation share: operations under way, queues, engines, the node.
 *
 *   sdma_packet   decodes packets (pure)
 *   sdma_region   where the bytes of an operation are, and which regions share bytes
 *   sdma_op       begins and advances one operation
 *   sdma_exec     executes the packet at the head of a queue
 *   sdma_queue    ring, pointers, doorbell; one action of one queue
 *   sdma_race     finds operations that race
 *   sdma_lose     injection: signals that are dropped, late, or sent twice
 *   sdma_engine   decides which queue has the engine; create and destroy
 *   sdma_text     names, reports, statistics as text
 */
#ifndef EMU_SDMA_INTERNAL_H
#define EMU_SDMA_INTERNAL_H

#include "lose.h"
#include "sdma.h"
#include "sdma_packet.h"

/* Ended operations that a queue remembers, because later packets are not in order with them. */
#define EMU_SDMA_PAST 128

/* FENCEs that a queue remembers, because a POLL may wait for their words. */
#define EMU_SDMA_FENCED 16

/* Signals that a queue remembers, because they are sent twice. */
#define EMU_SDMA_AGAIN 16

/* Bytes of one side: `slices` times `rows` rows of `row_bytes`. */
typedef struct emu_sdma_region {
    uint64_t va;
    char *host; /* of `va` when the operation began. It identifies the bytes; accesses translate `va` again */
    uint64_t row_bytes, rows, pitch, slices, slice_pitch;
    int owner;
} emu_sdma_region_t;

uint64_t emu_sdma_region_extent(const emu_sdma_region_t *region); /* from its first byte to the byte after its last */
bool emu_sdma_region_overlap(const emu_sdma_region_t *a, const emu_sdma_region_t *b);

enum { SIDE_SRC, SIDE_DST, SIDE_DST2, SIDES };

/* The regions (sides) that an operation accesses. Bit s of `reads` and `writes` is about side s. */
typedef struct emu_sdma_access {
    emu_sdma_packet_kind_t kind;
    uint64_t at; /* place of its packet in the ring, for reports */
    unsigned reads, writes;
    emu_sdma_region_t side[SIDES];
} emu_sdma_access_t;

/* A word that a FENCE has written. */
typedef struct emu_sdma_fenced {
    uint64_t va, at;
    uint32_t data;
} emu_sdma_fenced_t;

/* An operation under way. A FENCE has a single piece. The order of the pieces is first, first + stride, ... modulo their
 * number. */
typedef struct emu_sdma_op {
    emu_sdma_access_t access;
    uint64_t ready; /* is not executed before this time */
    uint32_t piece; /* bytes */
    uint64_t pieces, done, next, stride;
    unsigned todo; /* sides to which the current piece must still be written; 0: no current piece */
    uint32_t pattern;
    char *payload;  /* of WRITE */
    bool lost;      /* a FENCE that is not written */
    uint64_t twice; /* a FENCE is written again after this time; 0: it is not */
    char *held[2];  /* data of the current piece; a swap has both sides */
} emu_sdma_op_t;

/* A signal that is sent a second time. */
typedef struct emu_sdma_again {
    emu_lose_what_t what;
    uint64_t at; /* when; 0: nothing */
    uint64_t va, value;
} emu_sdma_again_t;

struct emu_sdma_queue {
    emu_sdma_engine_t *engine;
    emu_sdma_queue_t *next; /* of the node, in the order of creation */
    emu_sdma_ring_t ring;
    emu_sdma_state_t state;
    bool stopped; /* by its owner */
    uint64_t random;

    uint64_t read;             /* the value of *ring.rptr */
    uint64_t limit;            /* packets up to here may be fetched */
    uint64_t wptr, doorbell;   /* as last seen */
    uint64_t lag_ns, lag_look; /* for how long the doorbell was seen behind; the last look */

    bool headed; /* head was fetched and not executed */
    emu_sdma_packet_t head;
    uint64_t head_at;       /* its place in the ring */
    uint64_t head_ready;    /* not executed before this time */
    uint64_t waiting_since; /* POLL and ATOMIC: the first look; 0: not looked yet */
    uint64_t next_look;
    uint64_t looks;
    uint32_t seen;        /* the last value that a POLL has really read */
    unsigned stale_left;  /* how often it may be used again */
    uint64_t stale_until; /* until when it may be used again */

    unsigned ops; /* number of operations under way, the first ones of op[] */
    emu_sdma_op_t *op[64];
    char *held; /* memory of all op[]->held */
    unsigned
        past; /* number of ended operations with which later packets are not in order; the last EMU_SDMA_PAST are kept */
    emu_sdma_access_t ended[EMU_SDMA_PAST];
    uint64_t gate,
        gated;       /* a POLL whose word did not have its value after the FENCE at `gated` was written; both 0: none */
    uint64_t fences; /* number of FENCEs written; the last EMU_SDMA_FENCED are kept */
    emu_sdma_fenced_t fenced[EMU_SDMA_FENCED];

    unsigned agains;
    emu_sdma_again_t again[EMU_SDMA_AGAIN];
    uint64_t read_late;     /* the read pointer is not stored before this time; 0: not late */
    uint64_t doorbell_late; /* the doorbell is not seen before this time */
    bool rung_again;        /* a second doorbell: the queue reads its write pointer once more */
    uint64_t judged;        /* the last doorbell for which emu_lose was called */
    bool unrung;            /* a doorbell is lost or late, so the write pointer may be ahead for long */

    uint64_t fetched;
    emu_sdma_stats_t stats;
};

struct emu_sdma_engine {
    emu_sdma_node_t *node;
    emu_sdma_engine_t *next;
    int gpu, id;
    emu_sdma_kind_t kind;
    unsigned queues;
    emu_sdma_queue_t *queue[EMU_SDMA_QUEUES];
    unsigned current; /* the queue whose turn it is */
    bool taken;       /* the current queue has the engine */
    uint64_t slice_start;
};

struct emu_sdma_node {
    emu_sdma_config_t config;
    emu_sdma_env_t env;
    emu_lose_t lose;
    emu_sdma_engine_t *engines;
    emu_sdma_queue_t *queues;
};

uint64_t emu_sdma_random(uint64_t *state);
static inline uint64_t emu_sdma_below(uint64_t *state, uint64_t bound)
{
    return emu_sdma_random(state) % bound;
}

static inline emu_sdma_node_t *emu_sdma_node_of(const emu_sdma_queue_t *q)
{
    return q->engine->node;
}

/* Reports a broken rule of the packet at ring position `at`. */
void emu_sdma_complain(const emu_sdma_queue_t *q, uint64_t at, emu_sdma_rule_t rule, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* Returns whether this rule is not enforced. */
static inline bool emu_sdma_is_lax(const emu_sdma_node_t *node, emu_sdma_rule_t rule)
{
    return node->config.lax & EMU_SDMA_RULE_BIT(rule);
}

/* Decodes the packet at `dw`. False: it breaks a rule that is enforced, and *problem is set. */
static inline bool emu_sdma_decode(const emu_sdma_queue_t *q, const uint32_t *dw, emu_sdma_packet_t *packet,
                                   emu_sdma_problem_t *problem)
{
    const emu_sdma_node_t *node = emu_sdma_node_of(q);

    return emu_sdma_packet_decode(node->config.gen, dw, packet, problem) || emu_sdma_is_lax(node, problem->rule);
}

/* Makes the queue dead. Returns EMU_SDMA_DEAD. */
emu_sdma_state_t emu_sdma_die(emu_sdma_queue_t *q);

/* Returns whether an injection with this mask applies to a packet of this kind. */
static inline bool emu_sdma_is_injected(const emu_sdma_queue_t *q, uint32_t kinds, emu_sdma_packet_kind_t kind)
{
    return !q->ring.spared && kinds >> kind & 1;
}

/* Returns the host address. NULL: the fault was reported, and the caller must make the queue dead. */
char *emu_sdma_touch(emu_sdma_queue_t *q, uint64_t at, uint64_t va, uint64_t bytes, bool write, int *owner);
/* Reports if the access races with an operation under way, or with an ended one of its own queue. */
void emu_sdma_check_race(emu_sdma_queue_t *q, const emu_sdma_access_t *access);

/* Later packets are in order with ended operations before this place in the ring. */
void emu_sdma_in_order(emu_sdma_queue_t *q, uint64_t at);

/* Begins the operation of the head of the queue, a data packet or a FENCE. Returns PROGRESSED, BLOCKED if no more operations
 * may be under way, or DEAD. */
emu_sdma_state_t emu_sdma_op_begin(emu_sdma_queue_t *q, uint64_t now);
/* One action of an operation. Returns PROGRESSED, BLOCKED if all are delayed, IDLE if there is none, or DEAD. */
emu_sdma_state_t emu_sdma_op_advance(emu_sdma_queue_t *q, uint64_t now);

/* Tries to execute the head. Returns PROGRESSED if it was executed, BLOCKED or DEAD. */
emu_sdma_state_t emu_sdma_head_execute(emu_sdma_queue_t *q, uint64_t now);
/* The FENCE at this place was written. Whoever stores the word of the next POLL from now on may have seen it. */
void emu_sdma_fence_gates(emu_sdma_queue_t *q, uint64_t at);

/* In sdma_lose.c: stores `read` to the read pointer of the ring. */
void emu_sdma_show_read(emu_sdma_queue_t *q);
/* Returns the doorbell, or its former value if the change is lost or late. */
uint64_t emu_sdma_see_doorbell(emu_sdma_queue_t *q, uint64_t now);
/* A FENCE begins. True: it is not written. */
bool emu_sdma_lose_fence(emu_sdma_queue_t *q, emu_sdma_op_t *op, uint64_t now);
void emu_sdma_lose_fence_written(emu_sdma_queue_t *q, const emu_sdma_op_t *op);
/* Sends signals that are late or sent a second time, if they are due. */
void emu_sdma_lose_advance(emu_sdma_queue_t *q, uint64_t now);

/* Reads doorbell and write pointer, and returns whether the queue has work. Makes the queue dead if they break a rule. */
bool emu_sdma_queue_wants(emu_sdma_queue_t *q, uint64_t now);
/* One action. If `leaving`, only of operations under way, and IDLE if there are none. */
emu_sdma_state_t emu_sdma_queue_action(emu_sdma_queue_t *q, uint64_t now, bool leaving);
emu_sdma_queue_t *emu_sdma_queue_new(emu_sdma_engine_t *engine, const emu_sdma_ring_t *ring);
void emu_sdma_queue_free(emu_sdma_queue_t *q);

#endif
