/* Plans as text, and what can be said about one plan by looking at it: see libinterp.h. */
#include "libinterp.h"

#include <inttypes.h>
#include <stdarg.h>

static const char *const code_names[] = {"COPY", "COPY2", "SWAP", "WAIT", "SIGNAL", "CHECK", "STAMP", "SEND", "RECV"};
static const char *const flag_names[] = {"ENTRY", "PRODUCED", "CONSUMED", "PAIR_PRODUCED", "PAIR_CONSUMED", "DONE", "LANDED"};
static const char *const base_names[] = {"send", "recv", "line", "slot", "chunk", "pair", "bytes", "temp"};

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
                                        "chunk", "user", "deadlock", "data",        "canary", "net", "size"};

    return names[error];
}

static int print_operand(char *text, size_t size, const dma_operand_t *o)
{
    return snprintf(text, size, "%s[%d:%d]+%" PRIu64, interp_base_name(o->base), o->rank, o->block, o->offset);
}

static int print_len(char *text, size_t size, const dma_len_t *len)
{
    static const char *const kinds[] = {"", "send block ", "recv block "};

    static const char *const parts[] = {"", "head of ", "tail of "};

    return snprintf(text, size, "%s%s%" PRIu64, len->part < 3 ? parts[len->part] : "?",
                    len->kind < 3 ? kinds[len->kind] : "?", len->len);
}

void interp_print_op(const dma_op_t *op, char *text, size_t size)
{
    char dst[2][64], src[64], len[40], flag[64];
    const char *chunked = op->flags & DMA_OP_CHUNKED ? " chunked" : "";
    const char *code = op->code < DMA_OP_COUNT ? code_names[op->code] : "?";

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
        snprintf(text, size, "CHECK %s, %s", src, len);
        break;
    case DMA_OP_STAMP:
        snprintf(text, size, "STAMP %s", dst[0]);
        break;
    case DMA_OP_SEND:
        snprintf(text, size, "SEND %s, %s%s to rank %d, then %s", src, len, chunked, op->flag.rank, flag);
        break;
    case DMA_OP_RECV:
        snprintf(text, size, "RECV %s, %s%s from rank %d, then %s", dst[0], len, chunked, op->flag.rank, flag);
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

static bool check_len(const dma_plan_t *plan, const dma_len_t *len)
{
    bool gathers = plan->coll == DMA_ALLGATHER || plan->coll == DMA_ALLGATHERV;
    uint64_t blocks = (uint64_t)plan->nranks;

    if (len->kind == DMA_LEN_SEND && gathers) {
        blocks = 1;
    }
    return len->kind == DMA_LEN_CONST || (len->kind <= DMA_LEN_RECV && len->len < blocks);
}

static bool check_operand(const dma_plan_t *plan, const dma_operand_t *o, bool chunked, const dma_geom_t *geom,
                          char *text, size_t size)
{
    bool user = o->base == DMA_BASE_SEND || o->base == DMA_BASE_RECV;

    if (o->base >= DMA_BASE_COUNT || o->rank < 0 || o->rank >= plan->nranks || o->block < 0) {
        return bad(text, size, "no such operand: base %u rank %d block %d", o->base, o->rank, o->block);
    }
    if (o->base == DMA_BASE_TEMP && o->rank != plan->rank) {
        return bad(text, size, "scratch memory of rank %d", o->rank);
    }
    if (o->base == DMA_BASE_CHUNK && (o->block || !chunked || !geom->chunk_depth)) {
        return bad(text, size, "a chunk buffer that is not the trip's own");
    }
    if (!plan->streams && (o->base == DMA_BASE_CHUNK || (user && o->rank != plan->rank))) {
        return bad(text, size, "uses chunk buffers or a peer's memory but does not say that it streams");
    }
    return true;
}

static bool check_op(const dma_plan_t *plan, const dma_op_t *op, bool in_loop, const dma_geom_t *geom, char *text,
                     size_t size)
{
    bool copy = op->code <= DMA_OP_SWAP, flag = !copy && op->code != DMA_OP_STAMP;
    bool chunked = op->flags & DMA_OP_CHUNKED;

    if (op->code >= DMA_OP_COUNT || (op->flags & ~DMA_OP_CHUNKED)) {
        return bad(text, size, "unknown operation");
    }
    if (chunked && !in_loop) {
        return bad(text, size, "chunked outside of the loop");
    }
    if (flag && (op->flag.kind >= DMA_FLAG_COUNT || op->flag.rank < 0 || op->flag.rank >= plan->nranks)) {
        return bad(text, size, "no such flag");
    }
    if (flag && (op->flag.kind == DMA_FLAG_CONSUMED || op->flag.kind == DMA_FLAG_LANDED) &&
        (op->flag.peer < 0 || op->flag.peer >= plan->nranks)) {
        return bad(text, size, "a flag about rank %d", op->flag.peer);
    }
    if ((copy || op->code >= DMA_OP_SEND) && !check_len(plan, &op->len)) {
        return bad(text, size, "no such length");
    }
    if ((copy || op->code == DMA_OP_STAMP || op->code == DMA_OP_RECV) &&
        !check_operand(plan, &op->dst[0], chunked, geom, text, size)) {
        return false;
    }
    if (op->code == DMA_OP_COPY2 && !check_operand(plan, &op->dst[1], chunked, geom, text, size)) {
        return false;
    }
    return (!copy && op->code != DMA_OP_SEND) || check_operand(plan, &op->src, chunked, geom, text, size);
}

bool interp_check_plan(const dma_plan_t *plan, const dma_geom_t *geom, char *text, size_t size)
{
    char what[120], op[200];

    if (plan->nranks < 1 || plan->rank < 0 || plan->rank >= plan->nranks || plan->coll >= DMA_COLL_COUNT ||
        plan->nprogs == 0) {
        return bad(text, size, "a plan of rank %d of %d with %u programs", plan->rank, plan->nranks, plan->nprogs);
    }
    for (uint32_t p = 0; p < plan->nprogs; p++) {
        const dma_prog_t *prog = &plan->progs[p];
        bool loop = prog->loop_first < prog->nops;
        if (prog->loop_first > prog->nops ||
            (loop && (prog->loop_last < prog->loop_first || prog->loop_last >= prog->nops)) ||
            (loop && !check_len(plan, &prog->loop_len))) {
            return bad(text, size, "queue %u: loop %u..%u of %u operations", p, prog->loop_first, prog->loop_last,
                       prog->nops);
        }
        for (uint32_t i = 0; i < prog->nops; i++) {
            bool in_loop = loop && i >= prog->loop_first && i <= prog->loop_last;
            if (!check_op(plan, &prog->ops[i], in_loop, geom, what, sizeof(what))) {
                interp_print_op(&prog->ops[i], op, sizeof(op));
                return bad(text, size, "queue %u op %u (%s): %s", p, i, op, what);
            }
        }
    }
    return true;
}
