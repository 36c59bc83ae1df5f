/*
 * What the files of the SDMA emulation share: operations under way, queues, engines, the node.
 *
 *   sdma_packet   dwords -> what they ask for (pure)
 *   sdma_region   where the bytes of an operation are, and which regions share bytes
 *   sdma_op       begins and moves on one operation
 *   sdma_exec     carries out the packet at the head of a queue
 *   sdma_queue    ring, pointers, doorbell; one action of one queue
 *   sdma_lose     what is lost, late or there twice on request
 *   sdma_engine   which queue has the engine; create and destroy
 *   sdma_text     names, reports, statistics as text
 */
#ifndef EMU_SDMA_INTERNAL_H
#define EMU_SDMA_INTERNAL_H

#include "lose.h"
#include "sdma.h"
#include "sdma_packet.h"

/* Ended operations that a queue remembers, because nothing has put them in order with what comes. */
#define EMU_SDMA_PAST 128

/* FENCEs that a queue remembers, because a POLL may be waiting for their words. */
#define EMU_SDMA_FENCED 16

/* What a queue remembers of that which comes twice. */
#define EMU_SDMA_AGAIN 16

/* Bytes of one side: `slices` times `rows` rows of `row_bytes`. */
typedef struct emu_sdma_region {
    uint64_t va;
    char *host; /* of va when the operation began: identifies the bytes; accesses translate again */
    uint64_t row_bytes, rows, pitch, slices, slice_pitch;
    int owner;
} emu_sdma_region_t;

uint64_t emu_sdma_region_extent(const emu_sdma_region_t *region); /* from its first byte to behind its last */
bool emu_sdma_region_overlap(const emu_sdma_region_t *a, const emu_sdma_region_t *b);

enum { SIDE_SRC, SIDE_DST, SIDE_DST2, SIDES };

/* What an operation touches: bit s of reads and writes is about side s. */
typedef struct emu_sdma_access {
    emu_sdma_packet_kind_t kind;
    uint64_t at; /* of its packet in the ring, for reports */
    unsigned reads, writes;
    emu_sdma_region_t side[SIDES];
} emu_sdma_access_t;

/* A word that a FENCE has written. */
typedef struct emu_sdma_fenced {
    uint64_t va, at;
    uint32_t data;
} emu_sdma_fenced_t;

/* An operation under way. A FENCE is one of a single piece. Pieces are done in the order first, first + stride, ... modulo
 * their number. */
typedef struct emu_sdma_op {
    emu_sdma_access_t access;
    uint64_t ready; /* not touched before this time */
    uint32_t piece; /* bytes */
    uint64_t pieces, done, next, stride;
    unsigned todo; /* sides that the piece at hand is still to be written to; 0: none at hand */
    uint32_t pattern;
    char *payload;  /* of WRITE */
    bool lost;      /* a FENCE that is not written */
    uint64_t twice; /* a FENCE that is written again so much later; 0: it is not */
    char *held[2];  /* what was read of the piece at hand; a swap holds both sides */
} emu_sdma_op_t;

/* What comes again. */
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

    uint64_t read;             /* what *ring.rptr shows */
    uint64_t limit;            /* packets up to here may be fetched */
    uint64_t wptr, doorbell;   /* as last seen */
    uint64_t lag_ns, lag_look; /* so long was the doorbell seen behind, and when last */

    bool headed; /* head is fetched and not carried out */
    emu_sdma_packet_t head;
    uint64_t head_at;       /* its place in the ring */
    uint64_t head_ready;    /* held back until then */
    uint64_t waiting_since; /* POLL and ATOMIC: the first look; 0: not looked yet */
    uint64_t next_look;
    uint64_t looks;
    uint32_t seen;        /* the last value that was really read, */
    unsigned stale_left;  /* and how often, */
    uint64_t stale_until; /* and until when it may be seen again */

    unsigned ops; /* under way; the first of op[] */
    emu_sdma_op_t *op[64];
    char *held;    /* memory of all op[]->held */
    unsigned past; /* number of ended operations that what comes is not in order with, at most EMU_SDMA_PAST are kept */
    emu_sdma_access_t ended[EMU_SDMA_PAST];
    uint64_t gate,
        gated;       /* a POLL whose word had not its value when the FENCE at `gated` had been written; both 0: none */
    uint64_t fences; /* written; the last EMU_SDMA_FENCED are kept */
    emu_sdma_fenced_t fenced[EMU_SDMA_FENCED];

    unsigned agains;
    emu_sdma_again_t again[EMU_SDMA_AGAIN];
    uint64_t read_late;     /* the read pointer is not shown before; 0: it is */
    uint64_t doorbell_late; /* the doorbell is not seen before */
    bool rung_again;        /* the queue looks at its write pointer once more */
    uint64_t judged;        /* the last doorbell of which it was decided whether it is lost */
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
    unsigned current; /* whose turn it is */
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

/* Reports, about the packet at ring position `at`. */
void emu_sdma_complain(const emu_sdma_queue_t *q, uint64_t at, emu_sdma_rule_t rule, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* Whether nobody has to keep this rule. */
static inline bool emu_sdma_is_lax(const emu_sdma_node_t *node, emu_sdma_rule_t rule)
{
    return node->config.lax & EMU_SDMA_RULE_BIT(rule);
}

/* The packet at dw; false and the problem if it breaks a rule that counts. */
static inline bool emu_sdma_decode(const emu_sdma_queue_t *q, const uint32_t *dw, emu_sdma_packet_t *packet,
                                   emu_sdma_problem_t *problem)
{
    const emu_sdma_node_t *node = emu_sdma_node_of(q);

    return emu_sdma_packet_decode(node->config.gen, dw, packet, problem) || emu_sdma_is_lax(node, problem->rule);
}

/* The queue is over. Always EMU_SDMA_DEAD. */
emu_sdma_state_t emu_sdma_die(emu_sdma_queue_t *q);

/* Whether the injection of one of these masks is about this packet. */
static inline bool emu_sdma_is_injected(const emu_sdma_queue_t *q, uint32_t kinds, emu_sdma_packet_kind_t kind)
{
    return !q->ring.spared && kinds >> kind & 1;
}

/* The host address, or NULL: then the fault is reported, and the caller ends the queue. */
char *emu_sdma_touch(emu_sdma_queue_t *q, uint64_t at, uint64_t va, uint64_t bytes, bool write, int *owner);
/* Reports if the access races with operations under way, and with ended ones of its own queue. */
void emu_sdma_check_race(emu_sdma_queue_t *q, const emu_sdma_access_t *access);

/* What comes is in order with ended operations before this place in the ring. */
void emu_sdma_in_order(emu_sdma_queue_t *q, uint64_t at);

/* Begins the operation of a data packet or a FENCE, the head of the queue: PROGRESSED, BLOCKED when no more may be under
 * way, DEAD. */
emu_sdma_state_t emu_sdma_op_begin(emu_sdma_queue_t *q, uint64_t now);
/* One action of any operation: PROGRESSED, BLOCKED when all are held back, IDLE when there is none, DEAD. */
emu_sdma_state_t emu_sdma_op_advance(emu_sdma_queue_t *q, uint64_t now);

/* Carries out the head, or tries to: PROGRESSED when it is done, BLOCKED, DEAD. */
emu_sdma_state_t emu_sdma_head_execute(emu_sdma_queue_t *q, uint64_t now);
/* The FENCE at this place has been written: whoever lets the next POLL go from now on may have seen it. */
void emu_sdma_fence_gates(emu_sdma_queue_t *q, uint64_t at);

/* sdma_lose.c. Shows `read` to the owner of the queue. */
void emu_sdma_show_read(emu_sdma_queue_t *q);
/* The doorbell, or what it was before, if that it has changed is lost or late. */
uint64_t emu_sdma_see_doorbell(emu_sdma_queue_t *q, uint64_t now);
/* A FENCE begins; true: it is not written. */
bool emu_sdma_lose_fence(emu_sdma_queue_t *q, emu_sdma_op_t *op, uint64_t now);
void emu_sdma_lose_fence_written(emu_sdma_queue_t *q, const emu_sdma_op_t *op);
/* What comes late or again, if it is time. */
void emu_sdma_lose_advance(emu_sdma_queue_t *q, uint64_t now);

/* Looks at doorbell and write pointer: whether there is anything to do. Ends the queue when they break a rule. */
bool emu_sdma_queue_wants(emu_sdma_queue_t *q, uint64_t now);
/* One action; when `leaving`, only of operations under way, and IDLE when there are none. */
emu_sdma_state_t emu_sdma_queue_action(emu_sdma_queue_t *q, uint64_t now, bool leaving);
emu_sdma_queue_t *emu_sdma_queue_new(emu_sdma_engine_t *engine, const emu_sdma_ring_t *ring);
void emu_sdma_queue_free(emu_sdma_queue_t *q);

#endif
