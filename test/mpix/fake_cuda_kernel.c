/*
 * The fake CUDA: modules and kernels.
 *
 * A kernel of a test is a function of the host, which gets the first argument. The only module is that of eager starts. Its kernel is
 * run as the device's is, from the same lines, by the one thread of the stream: either all threads of the kernel send before the first
 * one receives, or each does both in its turn. A packet arrives in halves, in any order.
 */
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fake_cuda.h"

#define DMA_EAGER_FN    static inline
#define DMA_EAGER_POLLS 64

/* ---- what the kernel needs of its device ---- */

static _Thread_local const fake_stream_t *running;

static inline void *dma_eager_at(uint64_t address)
{
    return fake_host_address(address);
}

static inline void dma_eager_put(uint64_t address, const uint64_t *w)
{
    uint64_t *to = fake_host_address(address);
    unsigned first = fake_random(2);

    __atomic_store_n(&to[first], w[first], __ATOMIC_RELAXED);
    if (fake_random(256) == 0) {
        sched_yield();
    }
    __atomic_store_n(&to[!first], w[!first], __ATOMIC_RELAXED);
}

static inline void dma_eager_get(uint64_t address, uint64_t *w)
{
    uint64_t *from = fake_host_address(address);

    w[0] = __atomic_load_n(&from[0], __ATOMIC_RELAXED);
    w[1] = __atomic_load_n(&from[1], __ATOMIC_RELAXED);
}

static inline void dma_eager_store32(uint64_t address, uint32_t value)
{
    __atomic_store_n((uint32_t *)fake_host_address(address), value, __ATOMIC_RELAXED);
}

static inline void dma_eager_release32(uint64_t address, uint32_t value)
{
    __atomic_add_fetch(&fake_state.writes, 1, __ATOMIC_RELEASE);
    __atomic_store_n((uint32_t *)fake_host_address(address), value, __ATOMIC_RELEASE);
}

/* Of the stop word, when a packet has not come for a while. */
static inline uint32_t dma_eager_load32(uint64_t address)
{
    usleep(20);
    return fake_stops_waiting(running) || __atomic_load_n((uint32_t *)fake_host_address(address), __ATOMIC_RELAXED);
}

#include "gpu/eager_kernel.h"

/* ---- eager starts ---- */

typedef struct launched {
    dma_eager_args_t args;
    unsigned blocks, rows, threads;
} launched_t;

/* *missed: bit mask of the blocks of threads for which a packet has not come. */
static void run_threads(const dma_eager_args_t *args, const launched_t *l, uint32_t *missed)
{
    for (uint32_t row = 0; row < l->rows; row++) {
        for (uint32_t i = 0; i < l->blocks * l->threads; i++) {
            dma_eager_thread_t t = {.first = i, .step = l->blocks * l->threads, .row = row};

            if (!dma_eager_run(args, t)) {
                *missed |= UINT32_C(1) << (row * l->blocks + i / l->threads);
            }
        }
    }
}

/* In place, a thread that sends again sends what it has sent before: it has received nothing yet. */
static void run_eager(fake_work_t *work)
{
    launched_t *l = work->arg;
    dma_eager_args_t first = l->args;
    bool waits = l->args.steps & DMA_EAGER_RECV && !l->args.patience;
    uint32_t missed = 0;

    running = work->stream;
    fake_waiting(work->stream, waits);
    first.steps &= DMA_EAGER_SEND;
    if (fake_random(2)) {
        run_threads(&first, l, &missed);
        fake_dawdle();
    }
    run_threads(&l->args, l, &missed);
    for (uint32_t i = 0; l->args.steps & DMA_EAGER_END && i < l->blocks * l->rows; i++) {
        dma_eager_end(&l->args, i, !(missed >> i & 1));
    }
    fake_waiting(work->stream, -(int)waits);
    free(l);
}

static bool may_use(uint64_t addr, uint64_t bytes)
{
    return !bytes || fake_may_copy(addr, bytes);
}

/* Is all memory that the kernel would access alive? */
static bool is_valid(const launched_t *l)
{
    const dma_eager_args_t *a = &l->args;
    bool valid = !a->epoch || (fake_may_signal(a->ready) && fake_may_signal(a->stop) && fake_may_signal(a->missed) &&
                               fake_may_signal(a->ends));

    for (unsigned r = 0; r < l->rows && a->epoch && valid; r++) {
        const dma_eager_row_t *row = &a->rows[r];
        uint64_t bank = (a->epoch & 1) * a->bank_bytes;

        valid =
            may_use(row->src, row->src_bytes) && may_use(row->dst, row->dst_bytes) &&
            (!row->out || may_use(row->out + bank, DMA_EAGER_PACKET * (uint64_t)dma_eager_packets(row->src_bytes))) &&
            (!row->in || may_use(row->in + bank, DMA_EAGER_PACKET * (uint64_t)dma_eager_packets(row->dst_bytes)));
    }
    return valid;
}

static cuda_error_t launch_eager(fake_stream_t *stream, const void *args, unsigned blocks, unsigned rows,
                                 unsigned threads)
{
    launched_t *l = calloc(1, sizeof(*l));
    fake_work_t *work;

    if (!l) {
        return CUDA_OUT_OF_MEMORY;
    }
    *l = (launched_t){.args = *(const dma_eager_args_t *)args, .blocks = blocks, .rows = rows, .threads = threads};
    if (rows > DMA_EAGER_MOST_ROWS || rows * blocks > DMA_EAGER_BLOCKS || threads > DMA_EAGER_THREADS || threads % 32 ||
        !is_valid(l)) {
        free(l);
        return fake_complain(FAKE_INVALID, "cuLaunchKernel", "no such memory, or too many threads", threads);
    }
    work = fake_work_make(run_eager, 0);
    work->arg = l;
    return fake_submit(stream, work, "cuLaunchKernel");
}

/* ---- modules ---- */

struct CUmod_st {
    bool unloaded;
};

struct CUfunc_st {
    const struct CUmod_st *module;
};

static struct CUfunc_st eager;

/* With the driver lock: what is loaded for the first time takes until no stream waits. */
cuda_error_t cuModuleLoadData(struct CUmod_st **module, const void *image)
{
    cuda_error_t error;
    int device;

    if ((error = fake_enter(&device)) != CUDA_DONE) {
        return error;
    }
    if (fake_state.kernelless || strncmp(image, ".version ", 9)) {
        return FAKE_INVALID;
    }
    fake_lock_driver();
    fake_wait_for_waiting(device);
    fake_unlock_driver();
    *module = calloc(1, sizeof(**module));
    return *module ? CUDA_DONE : CUDA_OUT_OF_MEMORY;
}

cuda_error_t cuModuleUnload(struct CUmod_st *module)
{
    cuda_error_t error;
    int device;

    if ((error = fake_enter(&device)) != CUDA_DONE) {
        return error;
    }
    if (module->unloaded) {
        return fake_complain(FAKE_BAD_HANDLE, "cuModuleUnload", "it was unloaded before", 0);
    }
    module->unloaded = true;
    return CUDA_DONE;
}

cuda_error_t cuModuleGetFunction(struct CUfunc_st **function, struct CUmod_st *module, const char *name)
{
    cuda_error_t error;
    int device;

    if ((error = fake_enter(&device)) != CUDA_DONE) {
        return error;
    }
    if (module->unloaded || strcmp(name, "dma_eager")) {
        return FAKE_INVALID;
    }
    eager.module = module;
    *function = &eager;
    return CUDA_DONE;
}

/* ---- kernels ---- */

static void run_kernel(fake_work_t *work)
{
    work->function(work->arg);
}

/* With the driver lock: a kernel that is launched for the first time is loaded, which takes until no stream waits. */
static void load(const struct CUfunc_st *kernel, int device)
{
    enum { MOST = 64 };
    static const struct CUfunc_st *loaded[FAKE_DEVICES][MOST];
    int i = 0;

    while (i < MOST - 1 && loaded[device][i] && loaded[device][i] != kernel) {
        i++;
    }
    if (loaded[device][i] != kernel) {
        fake_wait_for_waiting(device);
        loaded[device][i] = kernel;
    }
}

cuda_error_t cuLaunchKernel(struct CUfunc_st *kernel, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                            unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared,
                            fake_stream_t *stream, void **arguments, void **extra)
{
    fake_work_t *work;
    cuda_error_t error;
    int device;

    if ((error = fake_enter(&device)) != CUDA_DONE) {
        return error;
    }
    if (!grid_x || !grid_y || !grid_z || !block_x || !block_y || !block_z || extra || !arguments || shared) {
        return FAKE_INVALID;
    }
    fake_lock_driver();
    load(kernel, device);
    fake_unlock_driver();
    if (kernel == &eager) {
        return launch_eager(stream, arguments[0], grid_x, grid_y, block_x);
    }
    work = fake_work_make(run_kernel, 0);
    work->function = (void (*)(void *))(void *)kernel;
    work->arg = *(void **)arguments[0];
    return fake_submit(stream, work, "cuLaunchKernel");
}
