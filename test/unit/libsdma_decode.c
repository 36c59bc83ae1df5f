/* See libsdma_decode.h. */
#include "libsdma_decode.h"

#include <stdbool.h>
#include <string.h>

typedef struct field {
    uint8_t dword, low, width; /* width 64: this dword and the next one */
    uint8_t add;               /* of what is written to memory */
    uint16_t at;               /* the member of sdma_packet_t */
} field_t;

#define F(dword, low, width, add, member)                                                                              \
    {                                                                                                                  \
        dword, low, width, add, (uint16_t)offsetof(sdma_packet_t, member)                                              \
    }
#define ADDRESS(dword, member) F(dword, 0, 64, 0, member)
#define MAX_DWORDS             13
#define MAX_FIELDS             22

typedef struct shape {
    sdma_kind_t kind;
    const char *name;
    uint32_t header, header_mask; /* the bits of the header that identify the packet, and their values */
    uint8_t dwords;
    bool trailed; /* the packet is longer by as many dwords as `covered` says */
    uint8_t nfields;
    field_t fields[MAX_FIELDS];
} shape_t;

static const shape_t shapes[] = {
    {SDMA_NOP, "nop", 0x00, 0xffff, 1, true, 1, {F(0, 16, 14, 0, covered)}},
    {SDMA_COPY, "copy", 0x0001, 0x0800ffff, 7, false, 3, {F(1, 0, 30, 1, bytes), ADDRESS(3, src), ADDRESS(5, dst)}},
    {SDMA_BROADCAST,
     "broadcast",
     0x08000001,
     0x0800ffff,
     9,
     false,
     4,
     {F(1, 0, 30, 1, bytes), ADDRESS(3, src), ADDRESS(5, dst), ADDRESS(7, dst1)}},
    {SDMA_SWAP, "swap", 0x0901, 0xffff, 7, false, 3, {F(1, 0, 30, 1, bytes), ADDRESS(3, src), ADDRESS(5, dst)}},
    {SDMA_RECT,
     "rect",
     0x0401,
     0xffff,
     13,
     false,
     16,
     {F(0, 29, 3, 0, element), ADDRESS(1, src), F(3, 0, 14, 0, src_x), F(3, 16, 14, 0, src_y), F(4, 0, 11, 0, src_z),
      F(4, 13, 19, 1, src_pitch), F(5, 0, 28, 1, src_slice), ADDRESS(6, dst), F(8, 0, 14, 0, dst_x),
      F(8, 16, 14, 0, dst_y), F(9, 0, 11, 0, dst_z), F(9, 13, 19, 1, dst_pitch), F(10, 0, 28, 1, dst_slice),
      F(11, 0, 14, 1, width), F(11, 16, 14, 1, height), F(12, 0, 11, 1, depth)}},
    {SDMA_WRITE, "write", 0x0002, 0xffff, 4, true, 2, {ADDRESS(1, dst), F(3, 0, 20, 1, covered)}},
    {SDMA_FENCE, "fence", 0x0005, 0xffff, 4, false, 2, {ADDRESS(1, addr), F(3, 0, 32, 0, value)}},
    {SDMA_TRAP, "trap", 0x0006, 0xffff, 2, false, 1, {F(1, 0, 28, 0, value)}},
    {SDMA_POLL,
     "poll",
     0x80000008,
     0x8000ffff,
     6,
     false,
     6,
     {F(0, 28, 3, 0, test), ADDRESS(1, addr), F(3, 0, 32, 0, value), F(4, 0, 32, 0, mask), F(5, 0, 16, 0, interval),
      F(5, 16, 12, 0, retries)}},
    {SDMA_HDP_FLUSH, "hdp flush", 0x0008, 0x8000ffff, 6, false, 1, {ADDRESS(1, addr)}},
    {SDMA_COND,
     "conditional",
     0x0009,
     0xffff,
     5,
     false,
     3,
     {ADDRESS(1, addr), F(3, 0, 32, 0, value), F(4, 0, 14, 0, covered)}},
    {SDMA_ATOMIC,
     "atomic",
     0x000a,
     0xffff,
     8,
     false,
     6,
     {F(0, 16, 1, 0, loop), F(0, 25, 7, 0, operation), ADDRESS(1, addr), ADDRESS(3, value), ADDRESS(5, compare),
      F(7, 0, 13, 0, interval)}},
    {SDMA_FILL,
     "fill",
     0x8000000b,
     0xc000ffff,
     5,
     false,
     3,
     {ADDRESS(1, dst), F(3, 0, 32, 0, value), F(4, 0, 22, 1, bytes)}},
    {SDMA_TIMESTAMP, "timestamp", 0x020d, 0xffff, 3, false, 1, {ADDRESS(1, addr)}},
};

static uint64_t take(const uint32_t *p, const field_t *f, uint32_t *claimed)
{
    uint64_t mask = f->width == 64 ? 0xffffffff : ((UINT64_C(1) << f->width) - 1) << f->low;
    uint64_t value = (p[f->dword] & mask) >> f->low;

    claimed[f->dword] |= (uint32_t)mask;
    if (f->width == 64) {
        claimed[f->dword + 1] = 0xffffffff;
        value |= (uint64_t)p[f->dword + 1] << 32;
    }
    return value + f->add;
}

static bool nothing_else(const uint32_t *p, const shape_t *shape, const uint32_t *claimed)
{
    for (size_t i = 0; i < shape->dwords; i++) {
        if (p[i] & ~claimed[i]) {
            return false;
        }
    }
    return true;
}

size_t sdma_decode(const uint32_t *p, size_t left, sdma_packet_t *packet, const char **why)
{
    const shape_t *shape = NULL;
    uint32_t claimed[MAX_DWORDS] = {0};

    *packet = (sdma_packet_t){0};
    for (size_t i = 0; left && i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        if ((p[0] & shapes[i].header_mask) == shapes[i].header) {
            shape = &shapes[i];
        }
    }
    if (!shape || shape->dwords > left) {
        *why = shape ? "cut off" : "no packet begins like this";
        return 0;
    }
    claimed[0] = shape->header_mask;
    for (size_t i = 0; i < shape->nfields; i++) {
        uint64_t value = take(p, &shape->fields[i], claimed);
        memcpy((char *)packet + shape->fields[i].at, &value, sizeof(value));
    }
    if (!nothing_else(p, shape, claimed)) {
        *why = "a bit is set that means nothing";
        return 0;
    }
    packet->kind = shape->kind;
    packet->name = shape->name;
    packet->data = p + shape->dwords;
    packet->dwords = shape->dwords + (shape->trailed ? packet->covered : 0);
    if (packet->dwords > left) {
        *why = "cut off";
        return 0;
    }
    return packet->dwords;
}
