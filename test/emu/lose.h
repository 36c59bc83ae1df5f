/*
 * Decides which signals of queues and engines are dropped, late, or sent twice. These are pure functions: the caller does it.
 *
 * A rule is HOW-WHAT:WHEN[:GPU]. Rules are separated by commas.
 *
 *     HOW    drop | late | twice | any
 *     WHAT   fence | trap | doorbell | read-pointer | any
 *     WHEN   N: only the N-th of this kind on this GPU in this process;  1/M: each with a probability of 1/M
 *     GPU    default: all GPUs
 */
#ifndef EMU_LOSE_H
#define EMU_LOSE_H

#include <stdbool.h>
#include <stdint.h>

enum { EMU_LOSE_RULES = 8, EMU_LOSE_GPUS = 64 };

typedef enum emu_lose_what {
    EMU_LOSE_FENCE,
    EMU_LOSE_TRAP,
    EMU_LOSE_DOORBELL,
    EMU_LOSE_READ_POINTER,
    EMU_LOSE_KINDS
} emu_lose_what_t;

typedef enum emu_lose_how { EMU_LOSE_NOT, EMU_LOSE_DROP, EMU_LOSE_LATE, EMU_LOSE_TWICE, EMU_LOSE_HOWS } emu_lose_how_t;

typedef struct emu_lose_rule {
    unsigned what; /* bit masks */
    unsigned how;
    int gpu;         /* -1: all */
    uint64_t nth;    /* 0: at random */
    uint64_t one_in; /* the probability is 1/one_in */
} emu_lose_rule_t;

typedef struct emu_lose_rules {
    unsigned n;
    emu_lose_rule_t rule[EMU_LOSE_RULES];
    uint64_t late_ns; /* the longest delay */
} emu_lose_rules_t;

/* Counters and random numbers. */
typedef struct emu_lose {
    uint64_t count[EMU_LOSE_KINDS][EMU_LOSE_GPUS];
    uint64_t random;
} emu_lose_t;

/* Reads a list of rules; NULL and "" are an empty list. False: the text is not a list of rules. */
bool emu_lose_read(const char *text, emu_lose_rules_t *rules);
/* Returns what happens to the next signal of this kind of a GPU. *late_ns: the delay of the signal, or of its second time. */
emu_lose_how_t emu_lose(const emu_lose_rules_t *rules, emu_lose_t *state, emu_lose_what_t what, int gpu,
                        uint64_t *late_ns);
const char *emu_lose_word(emu_lose_what_t what);   /* "fence" */
const char *emu_lose_how_word(emu_lose_how_t how); /* "drop" */

#endif
