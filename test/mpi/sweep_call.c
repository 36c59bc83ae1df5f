/*
 * One call: how much each rank sends to each other, and, for this rank, the types, the buffers and the bytes that they must
 * contain before and after the call. All of it follows from the definition of the collective.
 */
#include "sweep.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const counts_kind_names[COUNTS_KINDS] = {"even", "uneven", "some zero", "all but one zero"};
const char *const blocks_kind_names[BLOCKS_KINDS] = {"in a row", "apart", "from a negative displacement"};

enum { MOST_TIMES = 4, MOST_GAP = 3 };

/* Units from one rank to another, or to all. In place, i sends as much to j as j sends to i. */
static long units_between(const call_t *call, int source, int target)
{
    int size = call->comm->size;
    bool each = call->op->to_each;
    if (each && call->in_place && source > target) {
        int swap = source;
        source = target;
        target = swap;
    }
    uint64_t dice = mix(mix(call->name, (uint64_t)source), each ? (uint64_t)target : 0);
    switch (call->counts) {
    case COUNTS_UNEVEN:
        return call->total * (long)(1 + dice % MOST_TIMES);
    case COUNTS_ZEROS:
        return dice % 2 ? 0 : call->total * (long)(1 + (dice >> 8) % MOST_TIMES);
    case COUNTS_SINGLE: {
        int only = (int)(call->name % (uint64_t)size), to = each ? (int)((call->name >> 8) % (uint64_t)size) : target;
        bool swap = each && call->in_place && only > to;
        return source == (swap ? to : only) && target == (swap ? only : to) ? call->total : 0;
    }
    default:
        return call->total;
    }
}

long call_largest(const call_t *call)
{
    return call->total * (call->counts == COUNTS_UNEVEN || call->counts == COUNTS_ZEROS ? MOST_TIMES : 1);
}

static uint64_t key_of(const call_t *call, int source, int target)
{
    const int *world = call->comm->world;
    return mix(mix(call->name, (uint64_t)world[source]), call->op->to_each ? 1 + (uint64_t)world[target] : 0);
}

static type_kind_t choose_kind(rng_t *rng, const call_t *call, long bytes)
{
    if (memory_plain_types(call)) {
        return (type_kind_t)rng_below(rng, 2);
    }
    /* A big message in small pieces would only measure the datatype engine. */
    bool plain = bytes > 65536 ? bytes > 1 << 20 || !rng_chance(rng, 20) : rng_chance(rng, 25);
    return plain ? (type_kind_t)rng_below(rng, 2) : (type_kind_t)(2 + rng_below(rng, TYPE_KINDS - 2));
}

/* Bytes that the elements of a block touch, in multiples of 8; *low: where they begin, from the first element on. */
static long footprint(const block_t *block, long *low)
{
    const type_t *t = block->type;
    *low = (t->low - 7) / 8 * 8;
    return ((block->elements - 1) * t->extent + t->high - *low + 7) / 8 * 8;
}

/* Where the blocks of a v-variant lie: one after the other, or in any order with gaps, and perhaps beginning before the
 * base. Blocks of one type have places in elements, so that those of columns interleave; others in bytes. */
static void spread(const op_t *op, side_t *side, block_t *blocks, int n, rng_t *rng)
{
    int *order = malloc((size_t)n * sizeof(*order));
    long dice = rng_below(rng, 100), at = 0, low = 0, grain = side->more ? 8 : 1;
    side->blocks = dice < 40 ? BLOCKS_TIGHT : dice < 70 ? BLOCKS_APART : BLOCKS_NEGATIVE;
    for (int i = 0; i < n; i++) {
        int j = side->blocks == BLOCKS_TIGHT ? i : (int)rng_below(rng, i + 1);
        order[i] = order[j];
        order[j] = i;
    }
    for (int i = 0; i < n; i++) {
        block_t *block = &blocks[order[i]];
        long length = !side->more ? block->elements : block->elements ? footprint(block, &low) : 0;
        at += side->blocks == BLOCKS_TIGHT ? 0 : grain * rng_below(rng, MOST_GAP + 1);
        block->at = at - low;
        at += length;
    }
    long shift = side->blocks == BLOCKS_NEGATIVE ? grain * (1 + rng_below(rng, at / grain + 1)) : 0;
    side->counts = malloc((size_t)n * sizeof(*side->counts));
    side->displs = malloc((size_t)n * sizeof(*side->displs));
    side->types = malloc((size_t)n * sizeof(*side->types));
    for (int i = 0; i < n; i++) {
        long displ = blocks[i].at - shift;
        blocks[i].at = side->more ? displ : displ * blocks[i].type->extent;
        side->counts[i] = (int)blocks[i].elements;
        side->displs[i] = (int)(op->typed ? blocks[i].at : displ);
        side->types[i] = blocks[i].type->type;
        if (blocks[i].elements == 0 && rng_chance(rng, 30)) {
            side->displs[i] = (int)rng_below(rng, 1 << 20); /* nothing is checked there */
        }
    }
    free(order);
}

/* The types of a side. Blocks have units for elements, before. */
static void choose_types(const call_t *call, side_t *side, block_t *blocks, int n, bool single, rng_t *rng)
{
    long slots = 0;
    for (int i = 0; i < n; i++) {
        slots += blocks[i].elements;
    }
    side->more = call->op->typed && n > 1 && rng_chance(rng, 75) ? calloc((size_t)n, sizeof(*side->more)) : NULL;
    for (int i = 0; i < n; i++) {
        type_t *type = i > 0 && side->more ? &side->more[i - 1] : &side->type;
        if (i == 0 || side->more) {
            type_make(type, choose_kind(rng, call, slots / n * units[call->unit].bytes), call->unit, call->total,
                      side->more ? blocks[i].elements : slots, n * MOST_GAP, single, rng);
        }
        blocks[i].type = type;
        blocks[i].elements /= type->units;
        blocks[i].at = i * blocks[i].elements * type->extent;
    }
}

static void prepare_side(call_t *call, bool sending, rng_t *rng)
{
    const comm_t *comm = call->comm;
    const op_t *op = call->op;
    side_t *side = sending ? &call->send : &call->recv;
    int n = sending && !op->to_each ? 1 : comm->size;
    bool vector = op->vector && (op->to_each || !sending);
    block_t *blocks = calloc((size_t)n, sizeof(*blocks));
    for (int i = 0; i < n; i++) {
        int source = sending ? comm->rank : i, target = sending ? i : comm->rank;
        blocks[i].elements = units_between(call, source, target); /* units, for now */
        blocks[i].after = key_of(call, source, target);
        blocks[i].before = op->to_each ? key_of(call, comm->rank, i) : blocks[i].after;
    }
    /* Stock Open MPI 4.1 chooses its all-gather-v by the size of an element, which may differ between ranks, and then
     * hangs. */
    bool single = op->vector && !op->to_each && call->form == FORM_BLOCKING && options.stock[FORM_BLOCKING];
    choose_types(call, side, blocks, n, single, rng);
    side->count = (int)blocks[0].elements;
    if (vector) {
        spread(op, side, blocks, n, rng);
    }
    /* Communicators of one rank are left to stock Open MPI, which copies with the processor. */
    bool device = options.device > 0 && comm->size > 1 && rng_chance(rng, options.device);
    buffer_make(&side->buffer, n, blocks, units[call->unit].bytes == 1 ? 1 : 8, memory_choose(call, sending), device,
                rng);
    side->buffer.filled = sending ? ALL_BLOCKS : !call->in_place ? NO_BLOCKS : op->to_each ? ALL_BLOCKS : comm->rank;
    buffer_fill(&side->buffer, 0);
}

void call_prepare(call_t *call, rng_t *rng)
{
    prepare_side(call, false, rng);
    if (!call->in_place) {
        prepare_side(call, true, rng);
        call->scribble = rng_chance(rng, 50);
    }
    call->odd_ignored = rng_chance(rng, 50);
    /* Communicators of one rank are left to stock Open MPI. */
    bool stock = options.stock[FORM_PERSISTENT] || call->comm->size == 1;
    call->keep_types = rng_chance(rng, 30) || (stock && call->form == FORM_PERSISTENT);
    call->check_late = rng_chance(rng, 40);
}

void call_describe(const call_t *call, char *text, size_t room)
{
    const comm_t *comm = call->comm;
    char from[80] = "in place", form[40], to[40] = "";
    if (!comm->member) {
        snprintf(text, room, "not a member of the %s communicator", comm_kind_names[comm->kind]);
        return;
    }
    if (!call->in_place) {
        snprintf(from, sizeof(from), "from %s(%ld)", type_kind_names[call->send.type.kind], call->send.type.units);
    }
    if (options.memory != MEMORY_MODE_HOST) {
        size_t used = strlen(from);
        if (!call->in_place) {
            snprintf(from + used, sizeof(from) - used, " %s", memory_names[call->send.buffer.kind]);
        }
        snprintf(to, sizeof(to), " %s", memory_names[call->recv.buffer.kind]);
    }
    snprintf(form, sizeof(form), call->form == FORM_PERSISTENT ? "%s, %d starts" : "%s", form_names[call->form],
             call->rounds);
    snprintf(text, room, "%s (%s) on %s%s, rank %d of %d, %ld x %s (%s) %s to %s(%ld)%s", call->op->name, form,
             comm->fresh ? "fresh " : "", comm_kind_names[comm->kind], comm->rank, comm->size, call->total,
             units[call->unit].name, counts_kind_names[call->counts], from, type_kind_names[call->recv.type.kind],
             call->recv.type.units, to);
}

static void release_types(side_t *side)
{
    type_release(&side->type);
    for (int i = 1; side->more && i < side->buffer.nblocks; i++) {
        type_release(&side->more[i - 1]);
    }
}

void call_release_types(call_t *call)
{
    release_types(&call->recv);
    if (!call->in_place) {
        release_types(&call->send);
    }
}

bool call_check(const call_t *call)
{
    char found[200], line[260];
    bool right = true;
    int round = call->done > 0 ? call->done - 1 : 0;
    if (!buffer_check(&call->recv.buffer, call->done > 0, round, found, sizeof(found))) {
        snprintf(line, sizeof(line), "receive buffer: %s", found);
        report_failure(line);
        right = false;
    }
    if (!call->in_place && !(call->scribble && call->done > 0) &&
        !buffer_check(&call->send.buffer, false, round, found, sizeof(found))) {
        snprintf(line, sizeof(line), "send buffer was written: %s", found);
        report_failure(line);
        right = false;
    }
    return right;
}

static void free_side(side_t *side)
{
    for (int i = 1; side->more && i < side->buffer.nblocks; i++) {
        type_free(&side->more[i - 1]);
    }
    buffer_free(&side->buffer);
    type_free(&side->type);
    free(side->more);
    free(side->types);
    free(side->counts);
    free(side->displs);
}

void call_free(call_t *call)
{
    free_side(&call->recv);
    if (!call->in_place) {
        free_side(&call->send);
    }
}
