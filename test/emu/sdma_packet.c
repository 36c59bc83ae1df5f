/*
 * The decoder. A table has all packets, with their length, their generations, and the bits of each dword that may be set. The
 * function of each kind checks the other rules. Rules that may be lax (sdma.h) are checked last, so that a packet that breaks
 * one of them is completely decoded.
 */
#include "sdma_packet.h"

#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

#define ALL      0xffffffffu
#define OPCODE   0x0000ffffu
#define OP(o, s) ((o) | (s) << 8)
#define GEN(g)   (1u << EMU_SDMA_##g)
#define ANY      (GEN(GFX900) | GEN(GFX90A) | GEN(GFX942) | GEN(GFX950))

#define BROADCAST_BIT 0x08000000u
#define HDP_BIT       0x04000000u
#define MEMORY_BIT    0x80000000u

/* The sizes of the largest transfers, if they are not a power of two. */
#define SWAP_MOST 0x3fffffe0u
#define FILL_MOST 0x3fffe0u

typedef struct layout {
    uint32_t opcode;       /* bits 15:0 of the first dword */
    uint32_t select, when; /* further bits of it, which distinguish packets with one opcode */
    emu_sdma_packet_kind_t kind;
    unsigned gens;
    uint32_t dwords;
    uint32_t may[EMU_SDMA_MAX_DWORDS]; /* the bits that may be set */
} layout_t;

static const layout_t layouts[] = {
    {OP(0, 0), 0, 0, EMU_SDMA_NOP, ANY, 1, {OPCODE | 0x3fff0000}},
    {OP(1, 0), BROADCAST_BIT, 0, EMU_SDMA_COPY, ANY, 7, {OPCODE, ALL, 0, ALL, ALL, ALL, ALL}},
    {OP(1, 0),
     BROADCAST_BIT,
     BROADCAST_BIT,
     EMU_SDMA_BROADCAST,
     GEN(GFX90A) | GEN(GFX942) | GEN(GFX950),
     9,
     {OPCODE | BROADCAST_BIT, ALL, 0, ALL, ALL, ALL, ALL, ALL, ALL}},
    {OP(1, 4),
     0,
     0,
     EMU_SDMA_RECT,
     ANY,
     13,
     {OPCODE | 0xe0000000, ALL, ALL, 0x3fff3fff, 0xffffe7ff, 0x0fffffff, ALL, ALL, 0x3fff3fff, 0xffffe7ff, 0x0fffffff,
      0x3fff3fff, 0x7ff}},
    {OP(1, 9), 0, 0, EMU_SDMA_SWAP, GEN(GFX942) | GEN(GFX950), 7, {OPCODE, ALL, 0, ALL, ALL, ALL, ALL}},
    {OP(2, 0), 0, 0, EMU_SDMA_WRITE, ANY, 4, {OPCODE, ALL, ALL, 0xfffff}},
    {OP(5, 0), 0, 0, EMU_SDMA_FENCE, ANY, 4, {OPCODE, ALL, ALL, ALL}},
    {OP(6, 0), 0, 0, EMU_SDMA_TRAP, ANY, 2, {OPCODE, 0x0fffffff}},
    {OP(8, 0), MEMORY_BIT, MEMORY_BIT, EMU_SDMA_POLL, ANY, 6, {OPCODE | 0xf0000000, ALL, ALL, ALL, ALL, 0x0fffffff}},
    {OP(8, 0), MEMORY_BIT, 0, EMU_SDMA_HDP_FLUSH, ANY, 6, {OPCODE | 0x74000000, ALL, ALL, ALL, ALL, 0x0fffffff}},
    {OP(9, 0), 0, 0, EMU_SDMA_COND_EXE, ANY, 5, {OPCODE, ALL, ALL, ALL, 0x3fff}},
    {OP(10, 0), 0, 0, EMU_SDMA_ATOMIC, ANY, 8, {OPCODE | 0xfe010000, ALL, ALL, ALL, ALL, ALL, ALL, 0x1fff}},
    {OP(11, 0), 0, 0, EMU_SDMA_FILL, ANY, 5, {OPCODE | 0xc0000000, ALL, ALL, ALL, ALL}},
    {OP(13, 2), 0, 0, EMU_SDMA_TIMESTAMP, ANY, 3, {OPCODE, ALL, ALL}},
    /* Packets of later GPU families: cache control, 64-bit fence and poll, multicast. */
    {.opcode = OP(17, 0)},
    {.opcode = OP(5, 2)},
    {.opcode = OP(8, 5)},
    {.opcode = OP(1, 10)},
};

static bool broken(emu_sdma_problem_t *problem, emu_sdma_rule_t rule, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static bool broken(emu_sdma_problem_t *problem, emu_sdma_rule_t rule, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    problem->rule = rule;
    vsnprintf(problem->text, sizeof(problem->text), format, args);
    va_end(args);
    return false;
}

static const layout_t *layout_find(emu_sdma_gen_t gen, uint32_t first, emu_sdma_problem_t *problem)
{
    for (unsigned i = 0; i < sizeof(layouts) / sizeof(*layouts); i++) {
        const layout_t *layout = &layouts[i];

        if (layout->opcode == (first & OPCODE) && (first & layout->select) == layout->when) {
            if (layout->gens & 1u << gen) {
                return layout;
            }
            broken(problem, EMU_SDMA_GENERATION, "opcode %u.%u of another generation (%#010x)", first & 0xff,
                   first >> 8 & 0xff, first);
            return NULL;
        }
    }
    broken(problem, EMU_SDMA_OPCODE, "opcode %u.%u (%#010x)", first & 0xff, first >> 8 & 0xff, first);
    return NULL;
}

uint32_t emu_sdma_packet_length(emu_sdma_gen_t gen, const uint32_t *dw, uint64_t have, emu_sdma_problem_t *problem)
{
    const layout_t *layout = layout_find(gen, dw[0], problem);

    if (!layout) {
        return 0;
    }
    switch (layout->kind) {
    case EMU_SDMA_NOP:
        return 1 + (dw[0] >> 16 & 0x3fff);
    case EMU_SDMA_WRITE:
        return layout->dwords + 1 + (have > 3 ? dw[3] & 0xfffff : 0);
    default:
        return layout->dwords;
    }
}

static uint64_t address(const uint32_t *dw)
{
    return dw[0] | (uint64_t)dw[1] << 32;
}

static bool aligned(emu_sdma_problem_t *problem, uint64_t va, unsigned to)
{
    return va % to == 0 || broken(problem, EMU_SDMA_ALIGN_ADDRESS, "address %#" PRIx64 " is no multiple of %u", va, to);
}

static bool reserved(emu_sdma_problem_t *problem, unsigned index, uint32_t bits)
{
    return broken(problem, EMU_SDMA_RESERVED, "dword %u has %#x set", index, bits);
}

static uint32_t count_field(emu_sdma_gen_t gen)
{
    return gen == EMU_SDMA_GFX900 ? 0x3fffff : 0x3fffffff;
}

/* The count is the number of bytes - 1, in a field of 22 or 30 bits. */
static bool copy_bytes(emu_sdma_gen_t gen, uint32_t count, uint64_t most, emu_sdma_packet_t *p,
                       emu_sdma_problem_t *problem)
{
    p->row_bytes = (uint64_t)count + 1;
    if (count == UINT32_MAX) {
        return broken(problem, EMU_SDMA_ZERO_COUNT, "count of 0 bytes");
    }
    return (count <= count_field(gen) && p->row_bytes <= most) ||
           broken(problem, EMU_SDMA_TOO_LARGE, "%" PRIu64 " bytes", p->row_bytes);
}

static bool decode_copy(emu_sdma_gen_t gen, const uint32_t *dw, emu_sdma_packet_t *p, emu_sdma_problem_t *problem)
{
    p->src.va = address(dw + 3);
    p->dst[0].va = address(dw + 5);
    if (!copy_bytes(gen, dw[1], UINT64_MAX, p, problem)) {
        return false;
    }
    if (p->kind == EMU_SDMA_BROADCAST) {
        p->dst[1].va = address(dw + 7);
        if ((p->dst[0].va ^ p->dst[1].va) & 31) {
            return broken(problem, EMU_SDMA_ALIGN_BCAST, "destinations %#" PRIx64 " and %#" PRIx64, p->dst[0].va,
                          p->dst[1].va);
        }
    }
    return true;
}

static bool decode_swap(emu_sdma_gen_t gen, const uint32_t *dw, emu_sdma_packet_t *p, emu_sdma_problem_t *problem)
{
    p->src.va = address(dw + 3);
    p->dst[0].va = address(dw + 5);
    if (!copy_bytes(gen, dw[1], SWAP_MOST, p, problem)) {
        return false;
    }
    return (p->src.va | p->dst[0].va | p->row_bytes) % 64 == 0 ||
           broken(problem, EMU_SDMA_ALIGN_SWAP, "%#" PRIx64 " and %#" PRIx64 ", %" PRIu64 " bytes", p->src.va,
                  p->dst[0].va, p->row_bytes);
}

/* Decodes one side of a rectangle: base, offsets in elements, pitches - 1 in elements. */
static bool rect_side(const uint32_t *dw, unsigned log2, emu_sdma_shape_t *side, emu_sdma_problem_t *problem)
{
    uint64_t base = address(dw), x = dw[2] & 0x3fff, y = dw[2] >> 16, z = dw[3] & 0x7ff;

    side->pitch = ((uint64_t)(dw[3] >> 13) + 1) << log2;
    side->slice_pitch = ((uint64_t)dw[4] + 1) << log2;
    side->va = base + (x << log2) + y * side->pitch + z * side->slice_pitch;
    return (base | side->pitch | side->slice_pitch) % 4 == 0 ||
           broken(problem, EMU_SDMA_ALIGN_RECT, "base %#" PRIx64 ", pitch %" PRIu64 ", slice %" PRIu64, base,
                  side->pitch, side->slice_pitch);
}

static bool decode_rect(const uint32_t *dw, emu_sdma_packet_t *p, emu_sdma_problem_t *problem)
{
    unsigned log2 = dw[0] >> 29;
    const emu_sdma_shape_t *dst = &p->dst[0];

    if (log2 > 4) {
        return broken(problem, EMU_SDMA_RECT_SHAPE, "element size %u", log2);
    }
    p->row_bytes = ((uint64_t)(dw[11] & 0x3fff) + 1) << log2;
    p->rows = (dw[11] >> 16) + 1;
    p->slices = dw[12] + 1;
    if (!rect_side(dw + 1, log2, &p->src, problem) || !rect_side(dw + 6, log2, &p->dst[0], problem)) {
        return false;
    }
    if ((p->rows > 1 && dst->pitch < p->row_bytes) ||
        (p->slices > 1 && dst->slice_pitch < (p->rows - 1) * dst->pitch + p->row_bytes)) {
        return broken(problem, EMU_SDMA_RECT_SHAPE, "rows of %" PRIu64 " at pitch %" PRIu64 ", slices at %" PRIu64,
                      p->row_bytes, dst->pitch, dst->slice_pitch);
    }
    return true;
}

static bool decode_write(const uint32_t *dw, emu_sdma_packet_t *p, emu_sdma_problem_t *problem)
{
    p->dst[0].va = address(dw + 1);
    p->row_bytes = 4 * ((uint64_t)dw[3] + 1);
    p->dwords += dw[3] + 1;
    return aligned(problem, p->dst[0].va, 4);
}

static bool decode_fill(emu_sdma_gen_t gen, const uint32_t *dw, emu_sdma_packet_t *p, emu_sdma_problem_t *problem)
{
    unsigned log2 = dw[0] >> 30;
    uint32_t low = (1u << log2) - 1;

    if (log2 > 2) {
        return reserved(problem, 0, 0xc0000000);
    }
    if ((dw[4] | low) == UINT32_MAX) {
        return broken(problem, EMU_SDMA_ZERO_COUNT, "count of 0 bytes");
    }
    /* Some encoders write bytes - 1, others bytes - element: the engine counts whole elements. */
    if ((dw[4] & low) != 0 && (dw[4] & low) != low) {
        return reserved(problem, 4, dw[4] & low);
    }
    p->dst[0].va = address(dw + 1);
    p->row_bytes = (uint64_t)(dw[4] | low) + 1;
    p->pattern = log2 == 2 ? dw[3] : log2 == 1 ? (dw[3] & 0xffff) * 0x10001u : (dw[3] & 0xff) * 0x1010101u;
    if (dw[4] > count_field(gen)) {
        return broken(problem, EMU_SDMA_TOO_LARGE, "%" PRIu64 " bytes", p->row_bytes);
    }
    return aligned(problem, p->dst[0].va, low + 1) &&
           (p->row_bytes <= FILL_MOST || broken(problem, EMU_SDMA_FILL_LARGE, "%" PRIu64 " bytes", p->row_bytes));
}

static bool decode_poll(const uint32_t *dw, emu_sdma_packet_t *p, emu_sdma_problem_t *problem)
{
    p->func = dw[0] >> 28 & 7;
    p->src.va = address(dw + 1);
    p->reference = dw[3];
    p->mask = dw[4];
    p->interval = dw[5] & 0xffff;
    p->retries = dw[5] >> 16;
    if (p->func >= EMU_SDMA_FUNCS) {
        return reserved(problem, 0, 0x70000000);
    }
    return aligned(problem, p->src.va, 4);
}

/* An HDP flush is requested by its bit, or by a register form with the same meaning. Other registers are not allowed in user
 * queues. */
static bool decode_hdp(const uint32_t *dw, emu_sdma_problem_t *problem)
{
    static const uint32_t form[6] = {8, 0, 0x80000000, 0, 0, 0};

    return dw[0] & HDP_BIT || memcmp(dw, form, sizeof(form)) == 0 ||
           broken(problem, EMU_SDMA_POLL_REGISTER, "register %#x", dw[1]);
}

static bool decode_cond(const uint32_t *dw, emu_sdma_packet_t *p, emu_sdma_problem_t *problem)
{
    p->src.va = address(dw + 1);
    p->data = dw[3];
    p->count = dw[4];
    if (p->count == 0) {
        return broken(problem, EMU_SDMA_ZERO_COUNT, "nothing to skip");
    }
    return aligned(problem, p->src.va, 4);
}

static bool decode_atomic(const uint32_t *dw, emu_sdma_packet_t *p, emu_sdma_problem_t *problem)
{
    static const struct {
        unsigned code;
        emu_sdma_atomic_t atomic;
        unsigned width;
    } codes[] = {
        {7, EMU_SDMA_EXCHANGE, 4},  {8, EMU_SDMA_COMPARE, 4},  {15, EMU_SDMA_ADD, 4}, {16, EMU_SDMA_SUB, 4},
        {39, EMU_SDMA_EXCHANGE, 8}, {40, EMU_SDMA_COMPARE, 8}, {47, EMU_SDMA_ADD, 8}, {48, EMU_SDMA_SUB, 8},
    };
    unsigned code = dw[0] >> 25;

    p->dst[0].va = address(dw + 1);
    p->operand = address(dw + 3);
    p->comparand = address(dw + 5);
    p->interval = dw[7];
    p->loop = dw[0] & 0x10000;
    for (unsigned i = 0; i < sizeof(codes) / sizeof(*codes); i++) {
        if (codes[i].code == code) {
            p->atomic = codes[i].atomic;
            p->width = codes[i].width;
        }
    }
    if (!p->width) {
        return broken(problem, EMU_SDMA_RESERVED, "atomic operation %u", code);
    }
    if (p->loop && p->atomic != EMU_SDMA_COMPARE) {
        return reserved(problem, 0, 0x10000);
    }
    return aligned(problem, p->dst[0].va, p->width);
}

static bool decode_kind(emu_sdma_gen_t gen, const uint32_t *dw, emu_sdma_packet_t *p, emu_sdma_problem_t *problem)
{
    switch (p->kind) {
    case EMU_SDMA_NOP:
        p->dwords = 1 + (dw[0] >> 16);
        return true;
    case EMU_SDMA_COPY:
    case EMU_SDMA_BROADCAST:
        return decode_copy(gen, dw, p, problem);
    case EMU_SDMA_SWAP:
        return decode_swap(gen, dw, p, problem);
    case EMU_SDMA_RECT:
        return decode_rect(dw, p, problem);
    case EMU_SDMA_WRITE:
        return decode_write(dw, p, problem);
    case EMU_SDMA_FENCE:
        p->dst[0].va = address(dw + 1);
        p->data = dw[3];
        return aligned(problem, p->dst[0].va, 4);
    case EMU_SDMA_TRAP:
        p->data = dw[1];
        return true;
    case EMU_SDMA_POLL:
        return decode_poll(dw, p, problem);
    case EMU_SDMA_HDP_FLUSH:
        return decode_hdp(dw, problem);
    case EMU_SDMA_COND_EXE:
        return decode_cond(dw, p, problem);
    case EMU_SDMA_ATOMIC:
        return decode_atomic(dw, p, problem);
    case EMU_SDMA_FILL:
        return decode_fill(gen, dw, p, problem);
    case EMU_SDMA_TIMESTAMP:
        p->dst[0].va = address(dw + 1);
        return aligned(problem, p->dst[0].va, 32);
    case EMU_SDMA_PACKET_KINDS:
        break;
    }
    return false;
}

bool emu_sdma_packet_decode(emu_sdma_gen_t gen, const uint32_t *dw, emu_sdma_packet_t *packet,
                            emu_sdma_problem_t *problem)
{
    const layout_t *layout = layout_find(gen, dw[0], problem);

    if (!layout) {
        return false;
    }
    for (uint32_t i = 0; i < layout->dwords; i++) {
        if (dw[i] & ~layout->may[i]) {
            return reserved(problem, i, dw[i] & ~layout->may[i]);
        }
    }
    memset(packet, 0, sizeof(*packet));
    packet->kind = layout->kind;
    packet->dwords = layout->dwords;
    packet->rows = packet->slices = 1;
    return decode_kind(gen, dw, packet, problem);
}
