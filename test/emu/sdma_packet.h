/*
 * Decodes SDMA packets. Pure functions from dwords to a description or a broken rule. Addresses are not checked.
 *
 * Written from the packet layouts only, as a check of the component's encoder that is independent of it.
 */
#ifndef EMU_SDMA_PACKET_H
#define EMU_SDMA_PACKET_H

#include "sdma.h"

/* Header dwords of the longest packet, without the payload of WRITE and NOP. */
#define EMU_SDMA_MAX_DWORDS 13

typedef enum emu_sdma_func {
    EMU_SDMA_ALWAYS,
    EMU_SDMA_LESS,
    EMU_SDMA_LESS_EQUAL,
    EMU_SDMA_EQUAL,
    EMU_SDMA_NOT_EQUAL,
    EMU_SDMA_GREATER_EQUAL,
    EMU_SDMA_GREATER,
    EMU_SDMA_FUNCS
} emu_sdma_func_t;

typedef enum emu_sdma_atomic { EMU_SDMA_ADD, EMU_SDMA_SUB, EMU_SDMA_EXCHANGE, EMU_SDMA_COMPARE } emu_sdma_atomic_t;

/* The bytes of one side: `slices` times `rows` rows of `row_bytes`. A linear side is one row. */
typedef struct emu_sdma_shape {
    uint64_t va;
    uint64_t pitch, slice_pitch; /* bytes from row to row, and from slice to slice */
} emu_sdma_shape_t;

typedef struct emu_sdma_packet {
    emu_sdma_packet_kind_t kind;
    uint32_t dwords;              /* of the whole packet */
    uint64_t row_bytes;           /* data packets */
    uint64_t rows, slices;        /* 1 except in rectangles */
    emu_sdma_shape_t src, dst[2]; /* a swap exchanges src and dst[0]; others write dst, or read src */
    uint32_t pattern;             /* FILL: repeated to 32 bits */
    uint32_t data;                /* FENCE: data. TRAP: context. COND_EXE: reference */
    uint32_t count;               /* COND_EXE: dwords */
    uint32_t mask, reference;     /* POLL */
    emu_sdma_func_t func;         /* POLL */
    uint32_t interval, retries;   /* POLL, ATOMIC: interval */
    emu_sdma_atomic_t atomic;     /* ATOMIC */
    unsigned width;               /* ATOMIC: bytes */
    bool loop;                    /* ATOMIC */
    uint64_t operand, comparand;  /* ATOMIC */
} emu_sdma_packet_t;

#define EMU_SDMA_FOREVER 0xfffu /* retries */

typedef struct emu_sdma_problem {
    emu_sdma_rule_t rule;
    char text[96];
} emu_sdma_problem_t;

/* Returns the length in dwords of the packet at `dw`, of which `have` can be read; more than `have` if the packet is longer. 0:
 * there is no such packet, and *problem is set. */
uint32_t emu_sdma_packet_length(emu_sdma_gen_t gen, const uint32_t *dw, uint64_t have, emu_sdma_problem_t *problem);

/* Decodes a packet, of which everything except the payload can be read. False: it breaks a rule, and *problem is set. *packet
 * is complete also in this case if the rule may be lax. */
bool emu_sdma_packet_decode(emu_sdma_gen_t gen, const uint32_t *dw, emu_sdma_packet_t *packet,
                            emu_sdma_problem_t *problem);

#endif
