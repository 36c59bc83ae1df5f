/*
 * A GPU engine that is made of threads, for tests of the layers above engine/gpu.h. It behaves worse than any real
 * engine.
 *
 * Each unit has a worker. Between two flags of a program, the worker draws at random what the contract leaves open:
 * which program goes next, which of its copies, and how many bytes of it. Armed programs wait for the trigger as packets
 * do: without its lowest bit. The line of a program is written last, with release.
 *
 * The engine is strict. These mistakes abort the program with a line that names them: a second run while the first is
 * under way, unless both are armed, a unit that is closed while it is in use, a line that is written twice, two armed
 * runs that have not started, a run that is not bound. A test asks for failures beforehand, by function and device.
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
    unsigned late_us; /* the most microseconds that the worker waits before a piece */
    bool again;       /* start submits programs one by one */
} engine_options_t;

/* Call them before the ranks begin, and after all have ended. The second checks that nothing is left open, bound or
 * under way. */
void engine_begin(const engine_options_t *options);
void engine_end(void);

/* The next `times` calls on that device fail. */
void engine_refuse(engine_function_t function, int device, unsigned times);
/* From now on `check` finds the device broken, and its programs do not move. */
void engine_break(int device);
/* While a device is held, none of its programs moves. */
void engine_hold(int device, bool hold);
/* How often a function was called on all devices, and how often it succeeded. */
unsigned engine_calls(engine_function_t function); /* starts of armed runs do not count */
unsigned engine_armed(void);                       /* runs that have been armed */
unsigned engine_given_up(void);                    /* those of them that were given up */
unsigned engine_swaps(void);                       /* exchanges done */
unsigned engine_pairs(void);                       /* copies with two destinations done */
unsigned engine_repeats(void);                     /* runs that the caller has declared equal to the last */

/* What a run has in common with the last one if the caller declares them equal. */
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
