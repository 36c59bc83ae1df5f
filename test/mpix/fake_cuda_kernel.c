/* The fake CUDA: kernels. A kernel of a test is a function of the host, which gets the first argument. */
#include "fake_cuda.h"

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
    work = fake_work_make(run_kernel, 0);
    work->function = (void (*)(void *))(void *)kernel;
    work->arg = *(void **)arguments[0];
    return fake_submit(stream, work, "cuLaunchKernel");
}
