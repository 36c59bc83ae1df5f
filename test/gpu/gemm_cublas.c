/*
 * Matrix products for coll_dma_bench --load: 8192 x 8192 x 8192, bf16 with fp32 accumulation, by cuBLAS on a stream of its
 * own. At most three are queued. Built where CUDA is:
 *
 *     nvcc -O2 -shared -Xcompiler -fPIC gemm_cublas.c -o libgemm.so -lcublas
 */
#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "../../tools/bench/load.h"
#include "matrix.h"

enum { AHEAD = 3 };

static struct {
    pthread_t thread;
    int device;
    _Atomic int ready; /* 1: yes, -1: it has failed */
    _Atomic bool on, idle, quit;
    _Atomic long done;
    const char *why;
    cublasHandle_t handle;
    cudaStream_t stream;
    cudaEvent_t events[AHEAD];
    void *a, *b, *c, *workspace;
} gemm;

static bool fill(void *to, uint64_t seed)
{
    uint16_t *host = random_matrix(seed);
    bool right = host && cudaMemcpy(to, host, (size_t)SIDE * SIDE * 2, cudaMemcpyHostToDevice) == cudaSuccess;

    free(host);
    return right;
}

static const char *set_up(void)
{
    size_t bytes = (size_t)SIDE * SIDE * 2;

    if (cudaSetDevice(gemm.device) != cudaSuccess ||
        cudaStreamCreateWithFlags(&gemm.stream, cudaStreamNonBlocking) != cudaSuccess ||
        cudaMalloc(&gemm.a, bytes) != cudaSuccess || cudaMalloc(&gemm.b, bytes) != cudaSuccess ||
        cudaMalloc(&gemm.c, bytes) != cudaSuccess || cudaMalloc(&gemm.workspace, 64u << 20) != cudaSuccess) {
        return "the GPU has no memory for matrices";
    }
    for (int i = 0; i < AHEAD; i++) {
        if (cudaEventCreateWithFlags(&gemm.events[i], cudaEventDisableTiming) != cudaSuccess) {
            return "events";
        }
    }
    if (cublasCreate(&gemm.handle) != CUBLAS_STATUS_SUCCESS ||
        cublasSetStream(gemm.handle, gemm.stream) != CUBLAS_STATUS_SUCCESS ||
        cublasSetWorkspace(gemm.handle, gemm.workspace, 64u << 20) != CUBLAS_STATUS_SUCCESS) {
        return "cuBLAS";
    }
    return fill(gemm.a, SEED_A) && fill(gemm.b, SEED_B) ? NULL : "filling matrices";
}

static bool multiply(void)
{
    float one = 1, zero = 0;

    return cublasGemmEx(gemm.handle, CUBLAS_OP_N, CUBLAS_OP_T, SIDE, SIDE, SIDE, &one, gemm.a, CUDA_R_16BF, SIDE,
                        gemm.b, CUDA_R_16BF, SIDE, &zero, gemm.c, CUDA_R_16BF, SIDE, CUBLAS_COMPUTE_32F,
                        CUBLAS_GEMM_DEFAULT) == CUBLAS_STATUS_SUCCESS;
}

static void *work(void *arg)
{
    long begun = 0;

    (void)arg;
    gemm.why = set_up();
    for (int i = 0; i < AHEAD && !gemm.why; i++) {
        gemm.why = multiply() ? NULL : "cublasGemmEx";
    }
    (void)cudaStreamSynchronize(gemm.stream);
    gemm.idle = true;
    gemm.ready = gemm.why ? -1 : 1;
    while (!gemm.quit && gemm.ready > 0) {
        if (!gemm.on) {
            if (!gemm.idle) {
                (void)cudaStreamSynchronize(gemm.stream);
                gemm.idle = true;
            }
            usleep(20);
            continue;
        }
        gemm.idle = false;
        if (!multiply()) {
            gemm.ready = -1;
        }
        (void)cudaEventRecord(gemm.events[begun % AHEAD], gemm.stream);
        if (++begun >= AHEAD) {
            (void)cudaEventSynchronize(gemm.events[begun % AHEAD]);
            gemm.done++;
        }
    }
    (void)cudaStreamSynchronize(gemm.stream);
    gemm.idle = true; /* nobody may wait for a thread that has failed */
    return NULL;
}

static const char *open_it(int device)
{
    gemm.device = device;
    if (pthread_create(&gemm.thread, NULL, work, NULL)) {
        return "no thread";
    }
    while (!gemm.ready) {
        usleep(100);
    }
    return gemm.ready > 0 ? NULL : gemm.why;
}

static void run(bool on)
{
    gemm.on = on;
    if (on) {
        gemm.idle = false;
    }
    while (!on && !gemm.idle) {
        usleep(20);
    }
}

static long done(void)
{
    return gemm.done;
}

static void close_it(void)
{
    gemm.on = false;
    gemm.quit = true;
    (void)pthread_join(gemm.thread, NULL);
}

const load_t *load_get(void)
{
    static const load_t table = {.open = open_it, .run = run, .done = done, .close = close_it};

    return &table;
}
