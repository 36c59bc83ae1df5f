/* Names, reports and statistics as text. Tests rely on these lines, so they must not change. */
#include "sdma_internal.h"

#include <inttypes.h>
#include <stdarg.h>

static const struct {
    const char *name, *text;
} rules[EMU_SDMA_RULES] = {
    [EMU_SDMA_RING_SHAPE] = {"ring-shape", "a ring is a power of two of at least 4 KiB, 256-byte aligned, mapped"},
    [EMU_SDMA_RING_OVERRUN] = {"ring-overrun", "the write pointer is less than a ring ahead of the read pointer"},
    [EMU_SDMA_WPTR_BACKWARD] = {"wptr-backward", "the write pointer never moves back"},
    [EMU_SDMA_WPTR_ALIGN] = {"wptr-align", "the write pointer counts bytes of whole dwords"},
    [EMU_SDMA_DOORBELL] = {"doorbell", "the doorbell is rung with the write pointer, after it is stored"},
    [EMU_SDMA_STRADDLE] = {"straddle", "no packet runs over the end of the ring"},
    [EMU_SDMA_TRUNCATED] = {"truncated", "the write pointer is behind a whole packet"},
    [EMU_SDMA_OPCODE] = {"opcode", "there is no such packet"},
    [EMU_SDMA_GENERATION] = {"generation", "this generation has no such packet"},
    [EMU_SDMA_RESERVED] = {"reserved", "reserved bits are 0 and fields have a meaning"},
    [EMU_SDMA_ZERO_COUNT] = {"zero-count", "a packet moves or skips something"},
    [EMU_SDMA_TOO_LARGE] = {"too-large", "a count keeps to its limit"},
    [EMU_SDMA_FILL_LARGE] = {"fill-large", "one FILL is of less than 4 MiB, as AMD's runtime has it"},
    [EMU_SDMA_ALIGN_ADDRESS] = {"align-address", "addresses of words are aligned"},
    [EMU_SDMA_ALIGN_BCAST] = {"align-bcast", "the destinations of a broadcast are equal modulo 32"},
    [EMU_SDMA_ALIGN_SWAP] = {"align-swap", "addresses and length of a swap are multiples of 64"},
    [EMU_SDMA_ALIGN_RECT] = {"align-rect", "bases and pitches of a rectangle are dword aligned"},
    [EMU_SDMA_RECT_SHAPE] = {"rect-shape", "elements have 1 to 16 bytes, rows and slices written do not overlap"},
    [EMU_SDMA_UNMAPPED] = {"unmapped", "memory is mapped for the GPU that uses it"},
    [EMU_SDMA_READ_ONLY] = {"read-only", "memory that is written is writable"},
    [EMU_SDMA_PEER] = {"peer", "host-facing engines do not move memory of other GPUs"},
    [EMU_SDMA_OVERLAP] = {"overlap", "source and destinations of a copy do not overlap"},
    [EMU_SDMA_SWAP_OVERLAP] = {"swap-overlap", "the sides of a swap do not overlap"},
    [EMU_SDMA_SWAP_TWICE] = {"swap-twice", "no pair is swapped twice at once"},
    [EMU_SDMA_RACE] = {"race", "what one operation writes no other uses without order"},
    [EMU_SDMA_COND_CROSS] = {"cond-cross", "what COND_EXE skips are whole packets before write pointer and ring end"},
    [EMU_SDMA_COND_VALUE] = {"cond-value", "the word of COND_EXE is 0 or the reference, which is not 0"},
    [EMU_SDMA_POLL_REGISTER] = {"poll-register", "of the registers only the HDP flush is polled"},
    [EMU_SDMA_POLL_RETRIES] = {"poll-retries", "a POLL does not run out of retries"},
    [EMU_SDMA_POLL_SIGN] = {"poll-sign", "a POLL for order does not depend on the sign"},
    [EMU_SDMA_DESTROY_BUSY] = {"destroy-busy", "a queue is destroyed when all it was given has ended"},
    [EMU_SDMA_INJECTED] = {"injected", "a fault that was asked for"},
};

static const char *const packets[EMU_SDMA_PACKET_KINDS] = {
    [EMU_SDMA_NOP] = "nop",       [EMU_SDMA_COPY] = "copy",           [EMU_SDMA_BROADCAST] = "broadcast",
    [EMU_SDMA_SWAP] = "swap",     [EMU_SDMA_RECT] = "rect",           [EMU_SDMA_WRITE] = "write",
    [EMU_SDMA_FENCE] = "fence",   [EMU_SDMA_TRAP] = "trap",           [EMU_SDMA_POLL] = "poll",
    [EMU_SDMA_ATOMIC] = "atomic", [EMU_SDMA_HDP_FLUSH] = "hdp-flush", [EMU_SDMA_COND_EXE] = "cond-exe",
    [EMU_SDMA_FILL] = "fill",     [EMU_SDMA_TIMESTAMP] = "timestamp",
};

const char *emu_sdma_rule_name(emu_sdma_rule_t rule)
{
    return rules[rule].name;
}

const char *emu_sdma_rule_text(emu_sdma_rule_t rule)
{
    return rules[rule].text;
}

const char *emu_sdma_packet_name(emu_sdma_packet_kind_t kind)
{
    return packets[kind];
}

void emu_sdma_complain(const emu_sdma_queue_t *q, uint64_t at, emu_sdma_rule_t rule, const char *format, ...)
{
    const emu_sdma_env_t *env = &emu_sdma_node_of(q)->env;
    char detail[160], text[400];
    va_list args;

    va_start(args, format);
    vsnprintf(detail, sizeof(detail), format, args);
    va_end(args);
    snprintf(text, sizeof(text), "sdma gpu %d engine %d queue %d at byte %" PRIu64 ": %s: %s; rule: %s", q->engine->gpu,
             q->engine->id, q->ring.id, at, rules[rule].name, detail, rules[rule].text);
    env->report(env->ctx, rule, text);
}

void emu_sdma_queue_print(const emu_sdma_queue_t *q, FILE *to)
{
    const emu_sdma_stats_t *s = &q->stats;
    char who[80];

    snprintf(who, sizeof(who), "sdma gpu %d engine %d queue %d", q->engine->gpu, q->engine->id, q->ring.id);
    for (unsigned i = 0; i < EMU_SDMA_PACKET_KINDS; i++) {
        if (s->packets[i]) {
            fprintf(to, "%s packet %s %" PRIu64 "\n", who, packets[i], s->packets[i]);
        }
    }
    for (int owner = EMU_SDMA_HOST; owner < EMU_SDMA_GPUS; owner++) {
        const emu_sdma_moved_t *moved = &s->moved[owner + 1];
        char name[16] = "host";

        if (owner != EMU_SDMA_HOST) {
            snprintf(name, sizeof(name), "gpu%d", owner);
        }
        if (moved->packets) {
            fprintf(to, "%s moved %s bytes %" PRIu64 " packets %" PRIu64 "\n", who, name, moved->bytes, moved->packets);
        }
    }
    fprintf(to,
            "%s doorbells %" PRIu64 " fences %" PRIu64 " polls %" PRIu64 " skipped %" PRIu64 " blocked_us %" PRIu64
            "\n",
            who, s->doorbells, s->fences, s->polls, s->skipped, s->blocked_ns / 1000);
}

void emu_sdma_node_print(const emu_sdma_node_t *node, FILE *to)
{
    for (const emu_sdma_queue_t *q = node->queues; q; q = q->next) {
        emu_sdma_queue_print(q, to);
    }
}
