/* Plans as text, and the checks of a plan that need no scheduler: see libinterp.h. */
#include "libinterp.h"

#include <inttypes.h>
#include <stdarg.h>

#define WAYS (DMA_OP_DIRECT | DMA_OP_FALLBACK)

static const char *const code_names[] = {"COPY", "COPY2", "SWAP", "WAIT", "SIGNAL", "CHECK"};
static const char *const flag_names[] = {"ENTRY",         "PRODUCED", "CONSUMED", "PAIR_PRODUCED",
                                         "PAIR_CONSUMED", "LANDED",   "QUEUE"};
static const char *const base_names[] = {"send", "recv", "line", "slot", "chunk", "pair", "bytes", "reach"};

_Static_assert(sizeof(code_names) / sizeof(char *) == DMA_OP_COUNT, "a name per code");
_Static_assert(sizeof(flag_names) / sizeof(char *) == DMA_FLAG_COUNT, "a name per flag");
_Static_assert(sizeof(base_names) / sizeof(char *) == DMA_BASE_COUNT, "a name per base");

const char *interp_base_name(unsigned base)
{
    return base < DMA_BASE_COUNT ? base_names[base] : "?";
}

const char *interp_error_name(interp_error_t error)
{
    static const char *const names[] = {"ok",    "plan", "bounds",   "not entered", "owner",  "backwards", "race",
                                        "chunk", "user", "deadlock", "data",        "canary", "size"};

    return names[error];
}

static int print_operand(char *text, size_t size, const dma_operand_t *o)
{
    return snprintf(text, size, "%s[%d:%d]+%" PRIu64, interp_base_name(o->base), o->rank, o->block, o->offset);
}

static int print_len(char *text, size_t size, const dma_len_t *len)
{
    static const char *const kinds[] = {"", "send block ", "recv block "};

    static const char *const parts[] = {"", "head of ", "tail of ", "lower half of ", "upper half of "};

    return snprintf(text, size, "%s%s%" PRIu64, len->part < 5 ? parts[len->part] : "?",
                    len->kind < 3 ? kinds[len->kind] : "?", len->len);
}

void interp_print_op(const dma_op_t *op, char *text, size_t size)
{
    char dst[2][64], src[64], len[48], flag[64], chunked[40];
    const char *code = op->code < DMA_OP_COUNT ? code_names[op->code] : "?";

    snprintf(chunked, sizeof(chunked), "%s%s%s%s", op->flags & DMA_OP_CHUNKED ? " chunked" : "",
             op->flags & DMA_OP_LAST ? " last" : "", op->flags & DMA_OP_DIRECT ? " direct" : "",
             op->flags & DMA_OP_FALLBACK ? " staged" : "");
    print_operand(dst[0], sizeof(dst[0]), &op->dst[0]);
    print_operand(dst[1], sizeof(dst[1]), &op->dst[1]);
    print_operand(src, sizeof(src), &op->src);
    print_len(len, sizeof(len), &op->len);
    snprintf(flag, sizeof(flag), "%s of rank %d about %d",
             op->flag.kind < DMA_FLAG_COUNT ? flag_names[op->flag.kind] : "?", op->flag.rank, op->flag.peer);
    switch (op->code) {
    case DMA_OP_WAIT:
        snprintf(text, size, "WAIT %s >= %d%s", flag, op->value, chunked);
        break;
    case DMA_OP_SIGNAL:
        snprintf(text, size, "SIGNAL %s := %d%s", flag, op->value, chunked);
        break;
    case DMA_OP_COPY2:
        snprintf(text, size, "COPY2 %s, %s <- %s, %s%s", dst[0], dst[1], src, len, chunked);
        break;
    case DMA_OP_CHECK:
        snprintf(text, size, "CHECK %s, %s%s", src, len, chunked);
        break;
    default:
        snprintf(text, size, "%s %s %s %s, %s%s", code, dst[0], op->code == DMA_OP_SWAP ? "<->" : "<-", src, len,
                 chunked);
    }
}

void interp_print_plan(FILE *out, const dma_plan_t *plan)
{
    char text[200];

    fprintf(out, "plan of rank %d of %d, variant %u%s%s, head %" PRIu64 "\n", plan->rank, plan->nranks, plan->variant,
            plan->in_place ? ", in place" : "", plan->streams ? ", streams" : "", plan->head);
    for (uint32_t p = 0; p < plan->nprogs; p++) {
        const dma_prog_t *prog = &plan->progs[p];
        for (uint32_t i = 0; i < prog->nops; i++) {
            interp_print_op(&prog->ops[i], text, sizeof(text));
            fprintf(out, "  %u.%u%s %s\n", p, i, i >= prog->loop_first && i <= prog->loop_last ? " |" : "", text);
        }
    }
}

static bool bad(char *text, size_t size, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

static bool bad(char *text, size_t size, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, size, fmt, args);
    va_end(args);
    return false;
}

/* What a plan is checked against. */
typedef struct subject {
    const dma_plan_t *plan;
    const dma_prog_t *prog;
    const dma_geom_t *geom;
    uint64_t send_blocks;
    char *text;
    size_t size;
} subject_t;

static bool check_len(const subject_t *s, const dma_len_t *len)
{
    uint64_t blocks = len->kind == DMA_LEN_SEND ? s->send_blocks : (uint64_t)s->plan->nranks;

    if (len->kind == DMA_LEN_CONST) {
        return len->part == DMA_WHOLE;
    }
    return len->kind <= DMA_LEN_RECV && len->part <= DMA_UPPER && len->len < blocks;
}

/* Buffers of a stream are those of the trip, and only their owner writes them. Only the two ranks of a pair use its
 * buffers. */
static bool check_stream(const subject_t *s, const dma_op_t *op, const dma_operand_t *o, bool write)
{
    int rank = s->plan->rank;
    bool pair = o->base == DMA_BASE_PAIR;

    if (!(op->flags & DMA_OP_CHUNKED) || !(pair ? s->geom->pair_depth : s->geom->chunk_depth) || (!pair && o->block)) {
        return bad(s->text, s->size, "a buffer of a stream that is not the trip's own");
    }
    if (pair && (o->block >= s->plan->nranks || o->block == o->rank || (o->rank != rank && o->block != rank))) {
        return bad(s->text, s->size, "a buffer of rank %d for rank %d", o->rank, o->block);
    }
    return (!write || o->rank == rank) || bad(s->text, s->size, "writes into a stream of rank %d", o->rank);
}

/* Refuses places that plan.h does not define, or that an engine could choose differently. None of our plans has any. */
static bool check_place(const subject_t *s, const dma_op_t *op, const dma_operand_t *o)
{
    bool line = o->base == DMA_BASE_LINE || o->base == DMA_BASE_SLOT;

    if (line && ((op->flags & DMA_OP_CHUNKED) || op->len.part >= DMA_TAIL)) {
        return bad(s->text, s->size, "a line or slot for more than a whole block or its head");
    }
    if (o->base == DMA_BASE_BYTES && (op->code != DMA_OP_COPY || op->flags || op->len.kind != DMA_LEN_CONST ||
                                      (op->len.len != sizeof(uint64_t) && op->len.len != 2 * sizeof(uint64_t)) ||
                                      o->rank != s->plan->rank || (uint64_t)o->block >= s->send_blocks)) {
        return bad(s->text, s->size, "a number of bytes is 8 bytes, of the own blocks");
    }
    if ((o->base == DMA_BASE_REMOTE || (o->base == DMA_BASE_SEND && op->flags & DMA_OP_DIRECT)) &&
        (op->code != DMA_OP_COPY || op->flags != (DMA_OP_CHUNKED | DMA_OP_DIRECT) || op->len.kind != DMA_LEN_RECV ||
         o->rank == s->plan->rank || o->block != (dma_coll_gathers(s->plan->coll) ? 0 : s->plan->rank) ||
         (o->base == DMA_BASE_REMOTE) != (dma_coll_sizes(s->plan->coll) == DMA_SIZES_OWN))) {
        return bad(s->text, s->size, "a peer's block is read directly, in a loop, by whom it is for");
    }
    return true;
}

static bool check_operand(const subject_t *s, const dma_op_t *op, const dma_operand_t *o, bool write)
{
    const dma_plan_t *plan = s->plan;
    bool user = o->base == DMA_BASE_SEND || o->base == DMA_BASE_RECV;
    bool stream = o->base == DMA_BASE_CHUNK || o->base == DMA_BASE_PAIR;

    if (o->base >= DMA_BASE_COUNT || o->rank < 0 || o->rank >= plan->nranks || o->block < 0 ||
        (write && (o->base == DMA_BASE_BYTES || o->base == DMA_BASE_REMOTE))) {
        return bad(s->text, s->size, "no such operand: base %u rank %d block %d", o->base, o->rank, o->block);
    }
    if (user && o->rank != plan->rank && dma_coll_sizes(plan->coll) == DMA_SIZES_OWN && !plan->gpu) {
        return bad(s->text, s->size, "nobody knows where the blocks of rank %d are", o->rank);
    }
    if (!plan->streams && (stream || o->base == DMA_BASE_REMOTE || (user && o->rank != plan->rank))) {
        return bad(s->text, s->size, "uses a stream or a peer's memory but does not say so");
    }
    return check_place(s, op, o) && (!stream || check_stream(s, op, o, write));
}

static bool check_flag(const subject_t *s, const dma_flag_ref_t *f)
{
    const dma_plan_t *plan = s->plan;
    bool pair = f->kind == DMA_FLAG_PAIR_PRODUCED || f->kind == DMA_FLAG_PAIR_CONSUMED;
    bool stream = pair || f->kind == DMA_FLAG_PRODUCED || f->kind == DMA_FLAG_CONSUMED;
    bool about = pair || f->kind == DMA_FLAG_CONSUMED || f->kind == DMA_FLAG_LANDED || f->kind == DMA_FLAG_QUEUE;

    if (f->kind >= DMA_FLAG_COUNT || f->rank < 0 || f->rank >= plan->nranks) {
        return bad(s->text, s->size, "no such flag");
    }
    if (about && (f->peer < 0 || f->peer >= plan->nranks)) {
        return bad(s->text, s->size, "a flag about rank %d", f->peer);
    }
    if (pair && (f->rank == f->peer || (f->rank != plan->rank && f->peer != plan->rank))) {
        return bad(s->text, s->size, "the stream between ranks %d and %d", f->rank, f->peer);
    }
    return !stream || plan->streams || bad(s->text, s->size, "uses a stream but does not say so");
}

/* Compares the word that a rank has put into its line, its slot or our scratch memory with the size of a whole block
 * of ours. */
static bool check_check(const subject_t *s, const dma_op_t *op)
{
    bool place = op->src.base == DMA_BASE_LINE || op->src.base == DMA_BASE_SLOT;

    if ((op->flags & ~DMA_OP_DIRECT) || !place || op->len.kind != DMA_LEN_RECV || op->len.part != DMA_WHOLE) {
        return bad(s->text, s->size, "compares something else with something else");
    }
    return true;
}

/* What an engine queue may contain: copies that push, between waits for entries and the signal at its end. */
static bool check_queue(const dma_plan_t *plan, uint32_t p, char *text, size_t size)
{
    const dma_prog_t *prog = &plan->progs[p];

    if ((p == 0) != (prog->link == DMA_ON_HOST) || prog->link >= plan->nranks || prog->link < DMA_ON_HOST) {
        return bad(text, size, "queue %u: on the link of rank %d", p, prog->link);
    }
    for (uint32_t i = 0; p && i < prog->nops; i++) {
        const dma_op_t *op = &prog->ops[i];
        bool last = i + 1 == prog->nops, wait = op->code == DMA_OP_WAIT && op->flag.kind == DMA_FLAG_ENTRY;
        bool done = op->code == DMA_OP_SIGNAL && op->flag.kind == DMA_FLAG_QUEUE && op->value == 1;

        if (last ? !done || op->flag.peer != (int)p - 1 : !wait && op->code > DMA_OP_SWAP) {
            return bad(text, size, "queue %u op %u: not for an engine", p, i);
        }
    }
    return prog->nops || p == 0 || bad(text, size, "queue %u is empty", p);
}

/* A loop with two paths: each operation belongs to one of them, and the ranks synchronise once, after the direct path. */
static bool check_ways(const subject_t *s)
{
    const dma_prog_t *prog = s->prog;
    uint32_t marked = 0, met = 0;

    for (uint32_t i = prog->loop_first; i < prog->nops && i <= prog->loop_last; i++) {
        const dma_op_t *op = &prog->ops[i];
        const dma_flag_ref_t *f = &op->flag;
        bool flag = op->code == DMA_OP_WAIT || op->code == DMA_OP_SIGNAL;

        marked += (op->flags & WAYS) == DMA_OP_DIRECT || (op->flags & WAYS) == DMA_OP_FALLBACK;
        if (flag && op->flags & DMA_OP_DIRECT) {
            bool ours = f->rank == s->plan->rank && op->code == DMA_OP_SIGNAL;
            bool theirs = f->peer == s->plan->rank && op->code == DMA_OP_WAIT;

            if (f->kind != DMA_FLAG_LANDED || op->flags != (DMA_OP_DIRECT | DMA_OP_LAST) || (!ours && !theirs)) {
                return bad(s->text, s->size, "a way that ends with something else than one LANDED");
            }
            met++;
        }
    }
    if (!marked && s->plan->fallback_max_bytes) {
        return bad(s->text, s->size, "a loop without a second way");
    }
    if (s->plan->fallback_max_bytes && s->plan->fallback_max_bytes > s->geom->pair_bytes / s->geom->pair_depth) {
        return bad(s->text, s->size, "a second way of more than one buffer");
    }
    if (marked && (marked != prog->loop_last - prog->loop_first + 1 || met != 1 || !s->geom->pair_depth)) {
        return bad(s->text, s->size, "a loop of half a way");
    }
    return true;
}

static bool is_entry_wait(const dma_op_t *op)
{
    return op->code == DMA_OP_WAIT && op->flag.kind == DMA_FLAG_ENTRY;
}

/* Does a program that always runs wait for this entry? */
static bool waited_for(const dma_plan_t *plan, int rank)
{
    for (uint32_t p = 0; p < plan->nprogs; p++) {
        const dma_prog_t *prog = &plan->progs[p];

        for (uint32_t i = 0; !prog->loop_only && i < prog->nops && i < prog->loop_first; i++) {
            if (is_entry_wait(&prog->ops[i]) && prog->ops[i].value == 1 && prog->ops[i].flag.rank == rank) {
                return true;
            }
        }
    }
    return false;
}

/* A program that exists only for its loop must leave nothing undone if the loop has no trips. */
static bool check_loop_alone(const subject_t *s)
{
    const dma_prog_t *prog = s->prog;

    if (prog->loop_first >= prog->nops) {
        return bad(s->text, s->size, "for its loop alone, without one");
    }
    for (uint32_t i = 0; i < prog->nops; i++) {
        const dma_op_t *op = &prog->ops[i];
        bool in_loop = i >= prog->loop_first && i <= prog->loop_last;

        if (!in_loop && !(is_entry_wait(op) && (op->value == 0 || waited_for(s->plan, op->flag.rank)))) {
            return bad(s->text, s->size, "for its loop alone, with operation %u outside of it", i);
        }
    }
    return true;
}

static bool check_op(const subject_t *s, const dma_op_t *op, bool in_loop)
{
    bool copy = op->code <= DMA_OP_SWAP;
    bool flag = op->code == DMA_OP_WAIT || op->code == DMA_OP_SIGNAL, check = op->code == DMA_OP_CHECK;
    const dma_len_t *loop = &s->prog->loop_len;

    if (op->code >= DMA_OP_COUNT || (op->flags & ~(DMA_OP_CHUNKED | DMA_OP_LAST | WAYS))) {
        return bad(s->text, s->size, "unknown operation");
    }
    if (op->flags && !in_loop) {
        return bad(s->text, s->size, "chunked, or of some trips, outside of the loop");
    }
    if (flag && !check_flag(s, &op->flag)) {
        return false;
    }
    if ((copy || check) && !check_len(s, &op->len)) {
        return bad(s->text, s->size, "no such length");
    }
    if (copy && (op->flags & DMA_OP_CHUNKED) &&
        (op->len.kind != loop->kind || op->len.part != loop->part || op->len.len != loop->len)) {
        return bad(s->text, s->size, "chunks of another length than the loop's");
    }
    if (check && !check_check(s, op)) {
        return false;
    }
    if (copy && !check_operand(s, op, &op->dst[0], true)) {
        return false;
    }
    if (op->code == DMA_OP_COPY2 && !check_operand(s, op, &op->dst[1], true)) {
        return false;
    }
    return (!copy && !check) || check_operand(s, op, &op->src, op->code == DMA_OP_SWAP);
}

bool interp_check_plan(const dma_plan_t *plan, const dma_geom_t *geom, char *text, size_t size)
{
    char what[120], op[200];
    bool gathers = dma_coll_gathers(plan->coll);

    if (plan->nranks < 1 || plan->rank < 0 || plan->rank >= plan->nranks || plan->coll >= DMA_COLL_COUNT ||
        plan->nprogs == 0) {
        return bad(text, size, "a plan of rank %d of %d with %u programs", plan->rank, plan->nranks, plan->nprogs);
    }
    for (uint32_t p = 0; p < plan->nprogs; p++) {
        const dma_prog_t *prog = &plan->progs[p];
        subject_t s = {plan, prog, geom, gathers ? 1 : (uint64_t)plan->nranks, what, sizeof(what)};
        bool loop = prog->loop_first < prog->nops;
        if (plan->gpu && !check_queue(plan, p, text, size)) {
            return false;
        }
        if (prog->loop_first > prog->nops ||
            (loop && (prog->loop_last < prog->loop_first || prog->loop_last >= prog->nops)) ||
            (loop && !check_len(&s, &prog->loop_len))) {
            return bad(text, size, "queue %u: loop %u..%u of %u operations", p, prog->loop_first, prog->loop_last,
                       prog->nops);
        }
        if ((loop && !check_ways(&s)) || (prog->loop_only && !check_loop_alone(&s))) {
            return bad(text, size, "queue %u: %s", p, what);
        }
        for (uint32_t i = 0; i < prog->nops; i++) {
            bool in_loop = loop && i >= prog->loop_first && i <= prog->loop_last;
            if (!check_op(&s, &prog->ops[i], in_loop)) {
                interp_print_op(&prog->ops[i], op, sizeof(op));
                return bad(text, size, "queue %u op %u (%s): %s", p, i, op, what);
            }
        }
    }
    return true;
}
