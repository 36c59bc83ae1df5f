/*
 * An engine of GPUs that is made of threads, for tests of what is above engine/gpu.h, and that is worse than any real one.
 *
 * Every unit has a worker. It does what programs between two flags leave open at random: which program comes next, which
 * copy of it, how many bytes of that. Armed programs wait for the trigger as packets would: without its lowest bit. A program's
 * line is written last, with release.
 *
 * It is strict: a second run while the first is under way, unless both are armed, a unit closed while it is in use, a line that
 * is written twice, two armed runs that have not started, a run that is not bound: the program aborts with a line that says so. What a test wants to go wrong it
 * asks for beforehand, by function and device.
 */
#ifndef DMA_TEST_LIBENGINE_H
#define DMA_TEST_LIBENGINE_H

#include "engine/gpu.h"

#define ENGINE_DEVICES 8
#define ENGINE_PEERS   16

typedef enum engine_function {
    ENGINE_OPEN,
    ENGINE_BIND,
    ENGINE_START, /* fails with DMA_ERR_ENGINE */
    ENGINE_ARM,
    ENGINE_FUNCTIONS
} engine_function_t;

typedef struct engine_options {
    uint64_t seed;
    uint32_t features; /* of all units */
    uint32_t max_ways;
    unsigned late_us; /* at most so long before a piece */
    bool again;       /* start takes programs one by one */
} engine_options_t;

/* Before the ranks begin; and after all have ended: nothing is left open, bound or under way. */
void engine_begin(const engine_options_t *options);
void engine_end(void);

/* The next `times` calls on that device fail. */
void engine_refuse(engine_function_t function, int device, unsigned times);
/* From now on `check` finds the device broken, and its programs stand still. */
void engine_break(int device);
/* No program of the device moves while it is held. */
void engine_hold(int device, bool hold);
/* How often a function has been called on all devices, or has succeeded. */
unsigned engine_calls(engine_function_t function); /* starts of armed runs do not count */
unsigned engine_armed(void);                       /* runs that have been armed */
unsigned engine_given_up(void);                    /* of them */
unsigned engine_swaps(void);                       /* exchanges done */
unsigned engine_pairs(void);                       /* copies to two places done */
unsigned engine_repeats(void);                     /* runs that were said to be like the last */

/* What a run that is said to be like another has in common with it. */
typedef struct engine_likeness {
    const dma_plan_t *plan;
    const char *send, *recv;
    uint64_t bytes, targets[ENGINE_PEERS];
} engine_likeness_t;

static inline engine_likeness_t engine_likeness(const dma_run_t *run, int nranks)
{
    engine_likeness_t l = {.plan = run->plan, .send = run->send.addr, .recv = run->recv.addr, .bytes = run->send.bytes};

    for (int r = 0; r < nranks && r < ENGINE_PEERS; r++) {
        l.targets[r] = run->targets[r].addr;
    }
    return l;
}

/* The list for dma_proc_config_t.engines: this engine alone. */
extern const dma_gpu_engine_t *const engine_list[];

#endif
