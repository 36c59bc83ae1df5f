/* Plans by hand: see libinterp_hand.h. */
#include "libinterp_hand.h"

#include <string.h>

static dma_prog_t *last_prog(hand_t *h)
{
    return &h->progs[h->plan.nprogs - 1];
}

static void hand_begin(hand_t *h, dma_coll_t coll, int rank, int nranks)
{
    memset(h, 0, sizeof(*h));
    h->plan = (dma_plan_t){.coll = coll, .rank = rank, .nranks = nranks, .streams = true, .progs = h->progs};
}

static void hand_prog(hand_t *h)
{
    h->progs[h->plan.nprogs] = (dma_prog_t){.ops = h->ops[h->plan.nprogs]};
    h->plan.nprogs++;
}

static dma_op_t *hand_op(hand_t *h, dma_op_code_t code)
{
    dma_prog_t *p = last_prog(h);
    dma_op_t *op = &h->ops[h->plan.nprogs - 1][p->nops++];

    if (p->loop_len.kind == DMA_LEN_CONST) {
        p->loop_first = p->loop_last = p->nops;
    } else {
        p->loop_last = p->nops - 1;
    }
    op->code = (uint8_t)code;
    return op;
}

static void hand_loop(hand_t *h, dma_len_kind_t kind, uint64_t block)
{
    last_prog(h)->loop_first = last_prog(h)->nops;
    last_prog(h)->loop_len = (dma_len_t){.kind = (uint8_t)kind, .len = block};
}

static dma_operand_t at(dma_base_t base, int rank, int block)
{
    return (dma_operand_t){.base = (uint8_t)base, .rank = rank, .block = block};
}

static dma_op_t *copy(hand_t *h, dma_operand_t dst, dma_operand_t src, dma_len_kind_t kind, uint64_t len)
{
    dma_op_t *op = hand_op(h, DMA_OP_COPY);

    op->dst[0] = dst;
    op->src = src;
    op->len = (dma_len_t){.kind = (uint8_t)kind, .len = len};
    return op;
}

static dma_op_t *flag(hand_t *h, dma_op_code_t code, dma_flag_t kind, int rank, int peer, int value)
{
    dma_op_t *op = hand_op(h, code);

    op->flag = (dma_flag_ref_t){.kind = (uint8_t)kind, .rank = rank, .peer = peer};
    op->value = value;
    return op;
}

static dma_op_t *await(hand_t *h, dma_flag_t kind, int rank, int peer, int value)
{
    return flag(h, DMA_OP_WAIT, kind, rank, peer, value);
}

static dma_op_t *tell(hand_t *h, dma_flag_t kind, int rank, int peer, int value)
{
    return flag(h, DMA_OP_SIGNAL, kind, rank, peer, value);
}

static void own_copy(hand_t *h, int rank)
{
    copy(h, at(DMA_BASE_RECV, rank, rank), at(DMA_BASE_SEND, rank, 0), DMA_LEN_SEND, 0);
}

void hand_pull(hand_t *h, int rank, int n, fault_t fault)
{
    hand_begin(h, DMA_ALLGATHER, rank, n);
    hand_prog(h);
    if (fault == CIRCLE) {
        await(h, DMA_FLAG_ENTRY, (rank + 1) % n, 0, 1);
    }
    if (fault != NO_ENTRY_SIGNAL) {
        tell(h, DMA_FLAG_ENTRY, fault == FOREIGN_FLAG ? (rank + 1) % n : rank, 0, 1);
    }
    own_copy(h, rank);
    for (int k = 1; k < n; k++) {
        int p = (rank + k) % n;
        if (fault != NO_ENTRY_WAIT) {
            await(h, DMA_FLAG_ENTRY, p, 0, 1);
        }
        if (fault == EARLY_SIGNAL) {
            tell(h, DMA_FLAG_LANDED, rank, p, 1);
        }
        dma_op_t *op = copy(h, at(DMA_BASE_RECV, rank, p), at(DMA_BASE_SEND, fault == WRONG_SOURCE ? rank : p, 0),
                            DMA_LEN_RECV, (uint64_t)p);
        if (fault == WRONG_OFFSET) {
            op->dst[0].offset = 1;
        }
        if (fault == LONG_COPY) {
            op->len = (dma_len_t){.kind = DMA_LEN_CONST, .len = 1000};
        }
        if (fault != EARLY_SIGNAL) {
            tell(h, DMA_FLAG_LANDED, rank, p, 1);
        }
        if (fault == LOW_FLAG) {
            tell(h, DMA_FLAG_LANDED, rank, p, 0);
        }
    }
    if (fault == TWICE) {
        tell(h, DMA_FLAG_ENTRY, rank, 0, 1);
    }
    for (int k = 1; k < n && fault != NO_LANDED_WAIT; k++) {
        await(h, DMA_FLAG_LANDED, (rank + k) % n, rank, 1);
    }
    h->plan.streams = fault != NOT_STREAMING;
}

void hand_slot(hand_t *h, int rank, int n, fault_t fault)
{
    hand_begin(h, DMA_ALLGATHER, rank, n);
    hand_prog(h);
    if (fault == EARLY_SIGNAL) {
        tell(h, DMA_FLAG_ENTRY, rank, 0, 1);
    }
    copy(h, at(DMA_BASE_SLOT, rank, 0), at(DMA_BASE_SEND, rank, 0), DMA_LEN_SEND, 0);
    if (fault != EARLY_SIGNAL) {
        tell(h, DMA_FLAG_ENTRY, rank, 0, 1);
    }
    own_copy(h, rank);
    for (int k = 1; k < n; k++) {
        int p = (rank + k) % n;
        await(h, DMA_FLAG_ENTRY, p, 0, 1);
        copy(h, at(DMA_BASE_RECV, rank, p), at(DMA_BASE_SLOT, p, 0), DMA_LEN_RECV, (uint64_t)p);
    }
    h->plan.streams = false;
}

void hand_pipe(hand_t *h, int rank, int n, fault_t fault)
{
    int depth = 2 - (fault == SHALLOW ? 3 : 0);

    hand_begin(h, DMA_ALLGATHER, rank, n);
    hand_prog(h);
    tell(h, DMA_FLAG_ENTRY, rank, 0, 1);
    own_copy(h, rank);
    hand_loop(h, DMA_LEN_SEND, 0);
    for (int k = 1; k < n && fault != NO_CONSUMED_WAIT; k++) {
        await(h, DMA_FLAG_CONSUMED, (rank + k) % n, rank, 1 - depth)->flags = DMA_OP_CHUNKED;
    }
    if (fault == EARLY_SIGNAL) {
        tell(h, DMA_FLAG_PRODUCED, rank, 0, 1)->flags = DMA_OP_CHUNKED;
    }
    copy(h, at(DMA_BASE_CHUNK, rank, 0), at(DMA_BASE_SEND, rank, 0), DMA_LEN_SEND, 0)->flags = DMA_OP_CHUNKED;
    if (fault != EARLY_SIGNAL) {
        tell(h, DMA_FLAG_PRODUCED, rank, 0, 1)->flags = DMA_OP_CHUNKED;
    }
    for (int k = 1; k < n; k++) {
        int p = (rank + k) % n;
        hand_prog(h);
        await(h, DMA_FLAG_ENTRY, p, 0, 1);
        hand_loop(h, DMA_LEN_RECV, (uint64_t)p);
        if (fault != NO_PRODUCED_WAIT) {
            await(h, DMA_FLAG_PRODUCED, p, 0, 1)->flags = DMA_OP_CHUNKED;
        }
        copy(h, at(DMA_BASE_RECV, rank, p), at(DMA_BASE_CHUNK, p, 0), DMA_LEN_RECV, (uint64_t)p)->flags =
            fault == UNCHUNKED ? 0 : DMA_OP_CHUNKED;
        tell(h, DMA_FLAG_CONSUMED, rank, p, 1)->flags = DMA_OP_CHUNKED;
    }
}

void hand_swap(hand_t *h, int rank, int n, fault_t fault)
{
    hand_begin(h, DMA_ALLTOALL, rank, n);
    h->plan.in_place = true;
    hand_prog(h);
    tell(h, DMA_FLAG_ENTRY, rank, 0, 1);
    for (int p = rank + 1; p < n; p++) {
        dma_op_t *op;
        if (fault != NO_ENTRY_WAIT) {
            await(h, DMA_FLAG_ENTRY, p, 0, 1);
        }
        op = hand_op(h, DMA_OP_SWAP);
        op->dst[0] = at(DMA_BASE_RECV, rank, p);
        op->src = at(DMA_BASE_RECV, p, fault == WRONG_SOURCE ? p : rank);
        op->len = (dma_len_t){.kind = DMA_LEN_RECV, .len = (uint64_t)p};
        tell(h, DMA_FLAG_LANDED, rank, p, 1);
    }
    if (fault == TWICE && rank == 0) {
        *hand_op(h, DMA_OP_SWAP) = h->ops[0][2];
    }
    for (int p = 0; p < rank && fault != NO_LANDED_WAIT; p++) {
        await(h, DMA_FLAG_LANDED, p, rank, 1);
    }
}

void hand_push2(hand_t *h, int rank, int n, fault_t fault)
{
    dma_op_t *op;

    hand_begin(h, DMA_ALLGATHER, rank, n);
    hand_prog(h);
    tell(h, DMA_FLAG_ENTRY, rank, 0, 1);
    own_copy(h, rank);
    for (int k = 1; k < n; k++) {
        await(h, DMA_FLAG_ENTRY, (rank + k) % n, 0, 1);
    }
    op = hand_op(h, DMA_OP_COPY2);
    op->dst[0] = at(DMA_BASE_RECV, (rank + 1) % n, rank);
    op->dst[1] = at(DMA_BASE_RECV, (rank + 2) % n, fault == WRONG_SOURCE ? 0 : rank);
    op->src = at(DMA_BASE_SEND, rank, 0);
    op->len = (dma_len_t){.kind = DMA_LEN_SEND};
    for (int k = 1; k < n; k++) {
        tell(h, DMA_FLAG_LANDED, rank, (rank + k) % n, 1);
    }
    for (int k = 1; k < n && fault != NO_LANDED_WAIT; k++) {
        await(h, DMA_FLAG_LANDED, (rank + k) % n, rank, 1);
    }
}

void hand_slot_v(hand_t *h, int rank, int n, fault_t fault)
{
    hand_slot(h, rank, n, fault);
    h->plan.coll = DMA_ALLGATHERV;
}

void hand_pipe_v(hand_t *h, int rank, int n, fault_t fault)
{
    hand_pipe(h, rank, n, fault);
    h->plan.coll = DMA_ALLGATHERV;
}

#define PLACE  64
#define NUMBER 8

static dma_operand_t place(int owner, int reader, uint64_t offset)
{
    dma_operand_t o = at(DMA_BASE_SLOT, owner, 0);

    o.offset = (uint64_t)reader * PLACE + offset;
    return o;
}

void hand_places(hand_t *h, int rank, int n, fault_t fault)
{
    hand_begin(h, DMA_ALLTOALL, rank, n);
    h->plan.streams = fault == READS_BLOCK;
    hand_prog(h);
    for (int k = 1; k < n; k++) {
        int p = (rank + k) % n;
        copy(h, place(rank, fault == WRONG_PLACE && rank == 0 ? p - 1 : p, 0), at(DMA_BASE_SEND, rank, p), DMA_LEN_SEND,
             (uint64_t)p);
    }
    tell(h, DMA_FLAG_ENTRY, rank, 0, 1);
    copy(h, at(DMA_BASE_RECV, rank, rank), at(DMA_BASE_SEND, rank, rank), DMA_LEN_SEND, (uint64_t)rank);
    for (int k = 1; k < n; k++) {
        int p = (rank + k) % n;
        await(h, DMA_FLAG_ENTRY, p, 0, 1);
        copy(h, at(DMA_BASE_RECV, rank, p), place(p, rank, 0), DMA_LEN_RECV, (uint64_t)p);
    }
}

static dma_op_t *part(dma_op_t *op, dma_part_t part)
{
    op->len.part = (uint8_t)part;
    return op;
}

static void pair_heads_out(hand_t *h, int rank, int n)
{
    for (int k = 1; k < n; k++) {
        int p = (rank + k) % n;
        part(copy(h, place(rank, p, NUMBER), at(DMA_BASE_SEND, rank, p), DMA_LEN_SEND, (uint64_t)p), DMA_HEAD);
    }
}

static void pair_numbers(hand_t *h, int rank, int n, fault_t fault)
{
    for (int k = 1; k < n; k++) {
        int p = (rank + k) % n;
        dma_operand_t number = at(DMA_BASE_BYTES, fault == NUMBER_OF_OTHERS ? p : rank, p);
        dma_op_t *op = copy(h, place(rank, p, 0), number, DMA_LEN_CONST, NUMBER);
        if (fault == WRITES_NUMBER) {
            op->dst[0] = number;
        }
    }
}

static void pair_heads_in(hand_t *h, int rank, int n, fault_t fault)
{
    for (int k = 1; k < n; k++) {
        int p = (rank + k) % n;
        await(h, DMA_FLAG_ENTRY, p, 0, 1);
        if (fault != UNEQUAL_UNCHECKED) {
            dma_op_t *op = hand_op(h, DMA_OP_CHECK);
            op->src = fault == CHECKS_CHUNK ? at(DMA_BASE_PAIR, p, rank) : place(p, rank, 0);
            op->len = (dma_len_t){.kind = fault == CHECKS_SENT ? DMA_LEN_SEND : DMA_LEN_RECV, .len = (uint64_t)p};
        }
        part(copy(h, at(DMA_BASE_RECV, rank, p), place(p, fault == WRONG_PLACE ? p : rank, NUMBER), DMA_LEN_RECV,
                  (uint64_t)p),
             DMA_HEAD);
    }
}

static void pair_producer(hand_t *h, int rank, int p, fault_t fault)
{
    hand_prog(h);
    hand_loop(h, DMA_LEN_SEND, (uint64_t)p);
    last_prog(h)->loop_len.part = DMA_TAIL;
    if (fault != NO_CONSUMED_WAIT) {
        await(h, DMA_FLAG_PAIR_CONSUMED, p, rank, fault == SHALLOW ? 2 : -1)->flags = DMA_OP_CHUNKED;
    }
    if (fault == EARLY_SIGNAL) {
        tell(h, DMA_FLAG_PAIR_PRODUCED, rank, p, 1)->flags = DMA_OP_CHUNKED;
    }
    part(copy(h, at(DMA_BASE_PAIR, rank, p), at(DMA_BASE_SEND, rank, p), DMA_LEN_SEND, (uint64_t)p),
         fault == WHOLE_CHUNKS ? DMA_WHOLE : DMA_TAIL)
        ->flags = DMA_OP_CHUNKED;
    if (fault != EARLY_SIGNAL) {
        tell(h, DMA_FLAG_PAIR_PRODUCED, rank, p, 1)->flags = DMA_OP_CHUNKED;
    }
}

static void pair_consumer(hand_t *h, int rank, int n, int p, fault_t fault)
{
    int other = 3 - rank - p; /* of three */

    hand_prog(h);
    await(h, DMA_FLAG_ENTRY, p, 0, 1);
    hand_loop(h, DMA_LEN_RECV, (uint64_t)p);
    last_prog(h)->loop_len.part = DMA_TAIL;
    if (h->plan.in_place && fault != NO_OWN_WAIT) {
        await(h, DMA_FLAG_PAIR_PRODUCED, rank, p, 1)->flags = DMA_OP_CHUNKED;
    }
    for (int i = 0; i < (fault == COUNTED_TWICE ? 2 : fault == NO_PRODUCED_WAIT ? 0 : 1); i++) {
        await(h, DMA_FLAG_PAIR_PRODUCED, p, n == 3 && fault == FOREIGN_STREAM ? other : rank, 1)->flags =
            DMA_OP_CHUNKED;
    }
    part(copy(h, at(DMA_BASE_RECV, rank, p), at(DMA_BASE_PAIR, p, n == 3 && fault == FOREIGN_BUFFER ? other : rank),
              DMA_LEN_RECV, (uint64_t)p),
         DMA_TAIL)
        ->flags = fault == UNCHUNKED ? 0 : DMA_OP_CHUNKED;
    tell(h, DMA_FLAG_PAIR_CONSUMED, rank, p, 1)->flags = DMA_OP_CHUNKED;
}

static void pairs(hand_t *h, int rank, int n, fault_t fault, bool in_place)
{
    hand_begin(h, DMA_ALLTOALLV, rank, n);
    h->plan.in_place = in_place;
    h->plan.streams = fault != NOT_STREAMING;
    h->plan.head = fault == WRONG_HEAD && rank == 0 ? HAND_HEAD - 8 : HAND_HEAD;
    hand_prog(h);
    if (fault != LATE_NUMBER) {
        pair_numbers(h, rank, n, fault);
    }
    if (fault != LATE_HEAD) {
        pair_heads_out(h, rank, n);
    }
    tell(h, DMA_FLAG_ENTRY, rank, 0, 1);
    if (fault == LATE_NUMBER) {
        pair_numbers(h, rank, n, fault);
    }
    if (fault == LATE_HEAD) {
        pair_heads_out(h, rank, n);
    }
    if (!in_place) {
        copy(h, at(DMA_BASE_RECV, rank, rank), at(DMA_BASE_SEND, rank, rank), DMA_LEN_SEND, (uint64_t)rank);
    }
    pair_heads_in(h, rank, n, fault);
    if (fault == READS_BLOCK) {
        copy(h, at(DMA_BASE_RECV, rank, (rank + 1) % n), at(DMA_BASE_SEND, (rank + 1) % n, rank), DMA_LEN_CONST, 0);
    }
    for (int k = 1; k < n; k++) {
        pair_producer(h, rank, (rank + k) % n, fault);
        pair_consumer(h, rank, n, (rank + k) % n, fault);
    }
}

void hand_pairs(hand_t *h, int rank, int n, fault_t fault)
{
    pairs(h, rank, n, fault, false);
}

void hand_pairs_in_place(hand_t *h, int rank, int n, fault_t fault)
{
    pairs(h, rank, n, fault, true);
}
