/*
 * Operations: data packets under way, and FENCEs.
 *
 * An operation is divided into pieces of a random size, which are executed in a random order. A piece is read into a buffer in
 * one action and written in later ones. So source and destination are accessed at different times, and actions of different
 * operations mix. A swap reads both sides of a piece, then writes one side after the other.
 *
 * A FENCE writes its word when all operations before it have ended. Later packets do not wait for that.
 *
 * Every action translates its addresses again, so it is a fault to unmap memory during an operation.
 */
#include "sdma_internal.h"

#include <stdlib.h>
#include <string.h>

/* The approximate number of pieces of an operation, unless the pieces would be too large. */
#define PIECES 64

static bool add_side(emu_sdma_queue_t *q, emu_sdma_access_t *access, unsigned side, const emu_sdma_shape_t *shape,
                     unsigned use)
{
    emu_sdma_node_t *node = emu_sdma_node_of(q);
    emu_sdma_region_t *region = &access->side[side];
    const emu_sdma_packet_t *p = &q->head;

    *region = (emu_sdma_region_t){.va = shape->va,
                                  .row_bytes = p->row_bytes,
                                  .rows = p->rows,
                                  .pitch = shape->pitch,
                                  .slices = p->slices,
                                  .slice_pitch = shape->slice_pitch};
    access->reads |= use & 1 ? 1u << side : 0;
    access->writes |= use & 2 ? 1u << side : 0;
    region->host = emu_sdma_touch(q, access->at, shape->va, emu_sdma_region_extent(region), use & 2, &region->owner);
    if (!region->host) {
        return false;
    }
    if (node->config.peers_refused && !emu_sdma_is_lax(node, EMU_SDMA_PEER) && !q->ring.spared &&
        q->engine->kind == EMU_SDMA_HOST_FACING && region->owner != EMU_SDMA_HOST && region->owner != q->engine->gpu) {
        emu_sdma_complain(q, access->at, EMU_SDMA_PEER, "memory of GPU %d", region->owner);
        return false;
    }
    return true;
}

/* Finds the sides of a packet, and checks that they do not overlap. */
static bool find_sides(emu_sdma_queue_t *q, emu_sdma_access_t *access)
{
    enum { READ = 1, WRITE = 2 };
    const emu_sdma_packet_t *p = &q->head;
    bool swap = p->kind == EMU_SDMA_SWAP, sourced = p->kind != EMU_SDMA_WRITE && p->kind != EMU_SDMA_FILL;

    if ((sourced && !add_side(q, access, SIDE_SRC, &p->src, swap ? READ | WRITE : READ)) ||
        !add_side(q, access, SIDE_DST, &p->dst[0], swap ? READ | WRITE : WRITE) ||
        (p->kind == EMU_SDMA_BROADCAST && !add_side(q, access, SIDE_DST2, &p->dst[1], WRITE))) {
        return false;
    }
    for (unsigned a = 0; a < SIDES; a++) {
        for (unsigned b = a + 1; b < SIDES; b++) {
            unsigned both = 1u << a | 1u << b;

            if (((access->reads | access->writes) & both) == both &&
                emu_sdma_region_overlap(&access->side[a], &access->side[b])) {
                emu_sdma_complain(q, access->at, swap ? EMU_SDMA_SWAP_OVERLAP : EMU_SDMA_OVERLAP, "%#llx and %#llx",
                                  (unsigned long long)access->side[a].va, (unsigned long long)access->side[b].va);
                return false;
            }
        }
    }
    return true;
}

static uint64_t gcd(uint64_t a, uint64_t b)
{
    while (b) {
        uint64_t rest = a % b;

        a = b;
        b = rest;
    }
    return a;
}

/* Chooses size and order of the pieces. */
static void cut(emu_sdma_queue_t *q, emu_sdma_op_t *op)
{
    uint64_t most = emu_sdma_node_of(q)->config.piece, row = q->head.row_bytes, rows = q->head.rows * q->head.slices;
    uint64_t piece = 4ull << emu_sdma_below(&q->random, 8);

    while (piece < most && (row + piece - 1) / piece * rows > PIECES) {
        piece *= 2;
    }
    op->piece = piece < most ? piece : most;
    op->pieces = (row + op->piece - 1) / op->piece * rows;
    op->done = 0;
    op->next = emu_sdma_below(&q->random, op->pieces);
    op->stride = 1 + emu_sdma_below(&q->random, op->pieces);
    while (gcd(op->stride, op->pieces) != 1) {
        op->stride++;
    }
    op->todo = 0;
}

/* Copies the data of a WRITE out of the ring, which may be overwritten after the packet was fetched. */
static emu_sdma_state_t keep_payload(emu_sdma_queue_t *q, emu_sdma_op_t *op)
{
    uint64_t offset = (q->head_at & (q->ring.bytes - 1)) + 16;
    int owner;
    const char *from = emu_sdma_touch(q, q->head_at, q->ring.va + offset, q->head.row_bytes, false, &owner);

    if (!from) {
        return emu_sdma_die(q);
    }
    op->payload = malloc(q->head.row_bytes);
    if (!op->payload) {
        return EMU_SDMA_BLOCKED; /* the caller tries again */
    }
    memcpy(op->payload, from, q->head.row_bytes);
    return EMU_SDMA_PROGRESSED;
}

emu_sdma_state_t emu_sdma_op_begin(emu_sdma_queue_t *q, uint64_t now)
{
    const emu_sdma_config_t *config = &emu_sdma_node_of(q)->config;
    emu_sdma_op_t *op;
    emu_sdma_state_t state = EMU_SDMA_PROGRESSED;

    if (q->ops == config->in_flight) {
        return EMU_SDMA_BLOCKED;
    }
    op = q->op[q->ops];
    op->access = (emu_sdma_access_t){.kind = q->head.kind, .at = q->head_at};
    if (q->head.kind == EMU_SDMA_FENCE) {
        op->access.writes = 1u << SIDE_DST;
        op->access.side[SIDE_DST] =
            (emu_sdma_region_t){.va = q->head.dst[0].va, .row_bytes = 4, .rows = 1, .slices = 1};
        op->pattern = q->head.data;
        op->ready = 0;
        op->lost = emu_sdma_lose_fence(q, op, now);
        q->ops++;
        return state;
    }
    if (!find_sides(q, &op->access)) {
        return emu_sdma_die(q);
    }
    if (q->head.kind == EMU_SDMA_WRITE) {
        state = keep_payload(q, op);
    }
    if (state == EMU_SDMA_PROGRESSED) {
        emu_sdma_check_race(q, &op->access);
        cut(q, op);
        op->pattern = q->head.pattern;
        op->ready = config->delay_ns ? now + emu_sdma_below(&q->random, config->delay_ns + 1) : 0;
        q->ops++;
    }
    return state;
}

/* Returns the host address of the current piece on one side. */
static char *piece_at(emu_sdma_queue_t *q, const emu_sdma_op_t *op, unsigned side, bool write, uint64_t *offset,
                      uint32_t *bytes)
{
    const emu_sdma_region_t *r = &op->access.side[side];
    uint64_t per_row = (r->row_bytes + op->piece - 1) / op->piece, row = op->next / per_row;
    uint64_t column = op->next % per_row * op->piece;
    int owner;

    *offset = column;
    *bytes = r->row_bytes - column < op->piece ? r->row_bytes - column : op->piece;
    return emu_sdma_touch(q, op->access.at, r->va + row / r->rows * r->slice_pitch + row % r->rows * r->pitch + column,
                          *bytes, write, &owner);
}

static bool piece_read(emu_sdma_queue_t *q, emu_sdma_op_t *op)
{
    for (unsigned side = 0; side < SIDES; side++) {
        uint64_t offset;
        uint32_t bytes;
        const char *from;

        if (!(op->access.reads & 1u << side)) {
            continue;
        }
        from = piece_at(q, op, side, false, &offset, &bytes);
        if (!from) {
            return false;
        }
        memcpy(op->held[side], from, bytes);
    }
    return true;
}

static bool piece_write(emu_sdma_queue_t *q, emu_sdma_op_t *op, unsigned side)
{
    uint64_t offset;
    uint32_t bytes;
    char *to = piece_at(q, op, side, true, &offset, &bytes);

    if (!to) {
        return false;
    }
    if (op->payload) {
        memcpy(to, op->payload + offset, bytes);
    } else if (op->access.kind == EMU_SDMA_FILL) {
        for (uint32_t i = 0; i < bytes; i++) {
            to[i] = (char)(op->pattern >> 8 * (i % 4)); /* pieces begin at multiples of 4 */
        }
    } else {
        memcpy(to, op->held[op->access.kind == EMU_SDMA_SWAP && side == SIDE_SRC ? SIDE_DST : SIDE_SRC], bytes);
    }
    if (emu_sdma_is_injected(q, emu_sdma_node_of(q)->config.spoil_kinds, op->access.kind)) {
        to[bytes - 1] ^= 1;
    }
    return true;
}

static void op_remove(emu_sdma_queue_t *q, unsigned index)
{
    emu_sdma_op_t *op = q->op[index];

    free(op->payload);
    op->payload = NULL;
    q->ops--;
    q->op[index] = q->op[q->ops];
    q->op[q->ops] = op;
}

static void op_end(emu_sdma_queue_t *q, unsigned index)
{
    const emu_sdma_op_t *op = q->op[index];

    for (unsigned side = 0; side < SIDES; side++) {
        const emu_sdma_region_t *r = &op->access.side[side];

        if (op->access.writes & 1u << side) {
            q->stats.moved[r->owner + 1].bytes += r->row_bytes * r->rows * r->slices;
            q->stats.moved[r->owner + 1].packets++;
        }
    }
    q->ended[q->past++ % EMU_SDMA_PAST] = op->access;
    op_remove(q, index);
}

/* Release: whoever reads this word sees everything that was written before. */
static emu_sdma_state_t fence_write(emu_sdma_queue_t *q, unsigned index)
{
    emu_sdma_access_t *access = &q->op[index]->access;
    emu_sdma_region_t *word = &access->side[SIDE_DST];

    word->host = emu_sdma_touch(q, access->at, word->va, 4, true, &word->owner);
    if (!word->host) {
        return emu_sdma_die(q);
    }
    emu_sdma_check_race(q, access);
    if (q->op[index]->lost) {
        op_remove(q, index);
        return EMU_SDMA_PROGRESSED;
    }
    __atomic_store_n((uint32_t *)word->host, q->op[index]->pattern, __ATOMIC_RELEASE);
    q->fenced[q->fences++ % EMU_SDMA_FENCED] =
        (emu_sdma_fenced_t){.va = word->va, .at = access->at, .data = q->op[index]->pattern};
    q->stats.fences++;
    emu_sdma_fence_gates(q, access->at);
    emu_sdma_lose_fence_written(q, q->op[index]);
    op_remove(q, index);
    return EMU_SDMA_PROGRESSED;
}

static bool may_advance(const emu_sdma_queue_t *q, unsigned index, uint64_t now)
{
    const emu_sdma_op_t *op = q->op[index];

    for (unsigned i = 0; op->access.kind == EMU_SDMA_FENCE && i < q->ops; i++) {
        if (q->op[i]->access.at < op->access.at) {
            return false;
        }
    }
    return op->ready <= now;
}

/* Reads the next piece, or writes one side of the current piece. */
static emu_sdma_state_t op_action(emu_sdma_queue_t *q, unsigned index)
{
    emu_sdma_op_t *op = q->op[index];
    unsigned side;

    if (op->access.kind == EMU_SDMA_FENCE) {
        return fence_write(q, index);
    }
    if (!op->todo) {
        if (!piece_read(q, op)) {
            return emu_sdma_die(q);
        }
        op->todo = op->access.writes;
        if (op->access.reads) {
            return EMU_SDMA_PROGRESSED;
        }
    }
    do {
        side = emu_sdma_below(&q->random, SIDES);
    } while (!(op->todo & 1u << side));
    if (!piece_write(q, op, side)) {
        return emu_sdma_die(q);
    }
    op->todo &= ~(1u << side);
    if (!op->todo) {
        op->next = (op->next + op->stride) % op->pieces;
        if (++op->done == op->pieces) {
            op_end(q, index);
        }
    }
    return EMU_SDMA_PROGRESSED;
}

emu_sdma_state_t emu_sdma_op_advance(emu_sdma_queue_t *q, uint64_t now)
{
    unsigned first;

    if (!q->ops) {
        return EMU_SDMA_IDLE;
    }
    first = emu_sdma_below(&q->random, q->ops);
    for (unsigned i = 0; i < q->ops; i++) {
        unsigned index = (first + i) % q->ops;

        if (may_advance(q, index, now)) {
            return op_action(q, index);
        }
    }
    return EMU_SDMA_BLOCKED;
}
