/* Matrices in device memory; see schedules.h. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "test/gpu/schedules/schedules.h"

/* PERIOD is a prime, so that no two rows are equal. */
enum { PERIOD = 1000003, FLOAT = 0, BF16 = 14, COMPUTE_FLOAT = 68, COMPUTE_TF32 = 77, DEFAULT_ALGORITHM = -1 };
enum { FULL_REDUCTION = 16, NON_BLOCKING = 1 };

sched_globals_t sched;

static struct {
    int (*create)(void **blas);
    int (*set_stream)(void *blas, void *stream);
    int (*set_mode)(void *blas, int mode);
    int (*product)(void *blas, int, int, int m, int n, int k, const void *alpha, const void *a, int type_a, int lda,
                   const void *b, int type_b, int ldb, const void *beta, void *c, int type_c, int ldc, int compute,
                   int algorithm);
    int (*products)(void *blas, int, int, int m, int n, int k, const void *alpha, const void *a, int type_a, int lda,
                    long long stride_a, const void *b, int type_b, int ldb, long long stride_b, const void *beta,
                    void *c, int type_c, int ldc, long long stride_c, int batches, int compute, int algorithm);
    int (*add)(void *blas, int n, const void *alpha, int type_alpha, const void *x, int type_x, int step_x, void *y,
               int type_y, int step_y, int type);
    void *handle;
} blas;

static char *pattern; /* 2 * PERIOD values in device memory */

static void *call_of(void *library, const char *name)
{
    void *call = dlsym(library, name);

    gpu_must(!call, name);
    return call;
}

static void open_blas(void)
{
    static const char *const names[] = {"libcublas.so.13", "libcublas.so.12", "libcublas.so.11", "libcublas.so"};
    void *library = NULL;

    for (int i = 0; i < 4 && !library && gpu.cuda_copy && !gpu.fake_refuse; i++) {
        library = dlopen(names[i], RTLD_NOW);
    }
    sched.blas = library != NULL;
    if (!library) {
        return;
    }
    *(void **)&blas.create = call_of(library, "cublasCreate_v2");
    *(void **)&blas.set_stream = call_of(library, "cublasSetStream_v2");
    *(void **)&blas.set_mode = call_of(library, "cublasSetMathMode");
    *(void **)&blas.product = call_of(library, "cublasGemmEx");
    *(void **)&blas.products = call_of(library, "cublasGemmStridedBatchedEx");
    *(void **)&blas.add = call_of(library, "cublasAxpyEx");
    gpu_must(blas.create(&blas.handle), "cublasCreate");
    gpu_must(blas.set_stream(blas.handle, sched.compute), "cublasSetStream");
    gpu_must(blas.set_mode(blas.handle, FULL_REDUCTION), "cublasSetMathMode");
}

/* The stream of collectives has the highest priority: kernels of NCCL need not wait until a product has ended. */
static void *stream_of_collectives(void)
{
    int (*range)(int *least, int *greatest), (*create)(void **stream, unsigned flags, int priority);
    int least, greatest;
    void *stream;

    *(void **)&range = dlsym(RTLD_DEFAULT, "cuCtxGetStreamPriorityRange");
    *(void **)&create = dlsym(RTLD_DEFAULT, "cuStreamCreateWithPriority");
    if (gpu.cuda_copy && range && create && !range(&least, &greatest)) {
        gpu_must(create(&stream, NON_BLOCKING, greatest), "stream");
    } else {
        gpu_must(gpu.stream_create(&stream, NON_BLOCKING), "stream");
    }
    return stream;
}

/* ---- values ---- */

double sched_value(const char *value)
{
    uint32_t bits = 0;
    float number;

    if (sched.bytes == sizeof(float)) {
        memcpy(&number, value, sizeof(number));
        return number;
    }
    memcpy((char *)&bits + 2, value, 2); /* the first half of a float */
    memcpy(&number, &bits, sizeof(number));
    return number;
}

static void set_value(char *to, float number)
{
    uint32_t bits;

    if (sched.bytes == sizeof(float)) {
        memcpy(to, &number, sizeof(number));
        return;
    }
    memcpy(&bits, &number, sizeof(bits));
    bits += 0x7FFF + (bits >> 16 & 1); /* to the nearest, of two as near to the even one */
    memcpy(to, (char *)&bits + 2, 2);
}

char *sched_alloc(size_t values)
{
    void *memory;

    gpu_must(gpu.alloc(&memory, values * sched.bytes), "no device memory");
    return memory;
}

void sched_release(char *memory)
{
    gpu_must(gpu.release(memory), "free");
}

void sched_synchronize(void)
{
    gpu_must(gpu.synchronize(sched.compute), "the stream has failed");
}

void sched_fill(char *to, size_t n, int seed)
{
    for (size_t at = 0, i = 0; at < n; at += PERIOD, i++) {
        size_t shift = ((size_t)seed * 7919 + i * 104729) % PERIOD, count = n - at < PERIOD ? n - at : PERIOD;

        gpu_copy(to + at * sched.bytes, pattern + shift * sched.bytes, count * sched.bytes, sched.compute);
    }
    sched_synchronize();
}

void sched_arithmetic_open(const char *type)
{
    uint64_t seed = 88172645463325252u;
    char *host;

    sched.bytes = strcmp(type, "bf16") ? sizeof(float) : 2;
    gpu_must(gpu.stream_create(&sched.compute, NON_BLOCKING), "stream");
    sched.comm = stream_of_collectives();
    open_blas();
    host = malloc(2 * PERIOD * sched.bytes);
    gpu_must(!host, "no memory");
    for (size_t i = 0; i < PERIOD; i++) {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        set_value(host + i * sched.bytes, (float)(int)(seed >> 20 & 0xFF) - 128 + !(seed >> 20 & 0xFF));
    }
    memcpy(host + PERIOD * sched.bytes, host, PERIOD * sched.bytes);
    pattern = sched_alloc(2 * (size_t)PERIOD);
    gpu_copy(pattern, host, 2 * PERIOD * sched.bytes, sched.compute);
    sched_synchronize();
    free(host);
}

/* ---- by the processor ---- */

typedef struct job {
    char *host; /* x, w, y */
    size_t nx, nw, ny;
    long rows, width, columns; /* width 0: y += x */
} job_t;

static void compute_on_host(void *arg)
{
    const job_t *j = arg;
    char *x = j->host, *w = x + j->nx * sched.bytes, *y = w + j->nw * sched.bytes;

    for (size_t i = 0; i < j->ny; i++) {
        double sum = j->width ? 0 : sched_value(x + i * sched.bytes) + sched_value(y + i * sched.bytes);
        long row = (long)i / j->columns, column = (long)i % j->columns;

        for (long k = 0; k < j->width; k++) {
            sum += sched_value(x + (size_t)(row * j->width + k) * sched.bytes) *
                   sched_value(w + (size_t)(k * j->columns + column) * sched.bytes);
        }
        set_value(y + i * sched.bytes, (float)sum);
    }
}

static void forget(void *arg)
{
    free(((job_t *)arg)->host);
    free(arg);
}

/* The stream carries out everything, so that a missing event is noticed. */
static void on_host(char *y, const char *x, const char *w, job_t job)
{
    job_t *j = malloc(sizeof(*j));

    gpu_must(!j, "no memory");
    *j = job;
    j->host = malloc((j->nx + j->nw + j->ny) * sched.bytes);
    gpu_must(!j->host, "no memory");
    gpu_copy(j->host, x, j->nx * sched.bytes, sched.compute);
    if (w) {
        gpu_copy(j->host + j->nx * sched.bytes, w, j->nw * sched.bytes, sched.compute);
    } else {
        gpu_copy(j->host + j->nx * sched.bytes, y, j->ny * sched.bytes, sched.compute);
    }
    gpu_must(gpu.host_function(sched.compute, compute_on_host, j), "host function");
    gpu_copy(y, j->host + (j->nx + j->nw) * sched.bytes, j->ny * sched.bytes, sched.compute);
    gpu_must(gpu.host_function(sched.compute, forget, j), "host function");
}

/* ---- both ---- */

void sched_multiply(char *y, const char *x, const char *w, long rows, long width, long columns,
                    const sched_batch_t *batches)
{
    static const float one = 1, zero = 0;
    int type = sched.bytes == 2 ? BF16 : FLOAT, compute = sched.bytes == 2 ? COMPUTE_FLOAT : COMPUTE_TF32;
    int m = (int)columns, n = (int)rows, k = (int)width;

    if (!rows) {
        return;
    }
    /* BLAS stores matrices by columns, so it sees all three transposed. */
    if (sched.blas && !batches) {
        gpu_must(blas.product(blas.handle, 0, 0, m, n, k, &one, w, type, m, x, type, k, &zero, y, type, m, compute,
                              DEFAULT_ALGORITHM),
                 "cublasGemmEx");
    } else if (sched.blas) {
        gpu_must(blas.products(blas.handle, 0, 0, m, n, k, &one, w, type, m, 0, x, type, k,
                               (long long)batches->x_stride, &zero, y, type, m, (long long)batches->y_stride,
                               batches->n, compute, DEFAULT_ALGORITHM),
                 "cublasGemmStridedBatchedEx");
    } else {
        for (int i = 0; i < (batches ? batches->n : 1); i++) {
            on_host(y + (batches ? (size_t)i * batches->y_stride : 0) * sched.bytes,
                    x + (batches ? (size_t)i * batches->x_stride : 0) * sched.bytes, w,
                    (job_t){NULL, (size_t)(rows * width), (size_t)(width * columns), (size_t)(rows * columns), rows,
                            width, columns});
        }
    }
}

void sched_add(char *y, const char *x, size_t n)
{
    static const float one = 1;
    int type = sched.bytes == 2 ? BF16 : FLOAT;

    if (sched.blas) {
        gpu_must(blas.add(blas.handle, (int)n, &one, FLOAT, x, type, 1, y, type, 1, FLOAT), "cublasAxpyEx");
    } else {
        on_host(y, x, NULL, (job_t){NULL, n, 0, n, 1, 0, (long)n});
    }
}
