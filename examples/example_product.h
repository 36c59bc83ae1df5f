/*
 * A matrix product for examples that measure, and the time of an action. cuBLAS makes the product in a stream if CUDA and
 * libcublas are there; otherwise the processor does. Include it after example.h.
 */
#ifndef EXAMPLE_PRODUCT_H
#define EXAMPLE_PRODUCT_H

#include <mpix_dma.h>

/* `stream`: a stream that copies in the null stream do not wait for. NULL without --device. `blas`: the handle of cuBLAS,
 * or NULL. */
static void *stream, *blas;
static int (*wait_stream)(void *);
static int (*product)(void *, int, int, int, int, int, const float *, const float *, int, const float *, int,
                      const float *, float *, int);

enum { TF32 = 3 }; /* of cublasMath_t */

/* With --device. Returns the type of a queue of the stream. */
static int open_stream(void)
{
    void *program = dlopen(NULL, RTLD_NOW), *library = NULL;
    static const char *const names[] = {"libcublas.so.13", "libcublas.so.12", "libcublas.so.11", "libcublas.so"};
    int (*create)(void **, unsigned) = NULL;

    if (!device.alloc) {
        return MPIX_QUEUE_THREAD;
    }
    *(void **)&create = call_of(program, device.copy_hip ? "hipStreamCreateWithFlags" : "cuStreamCreate");
    *(void **)&wait_stream = call_of(program, device.copy_hip ? "hipStreamSynchronize" : "cuStreamSynchronize");
    fail_if(create(&stream, 1), "no stream that copies do not wait for");
    for (int i = 0; i < 4 && !library && device.copy_cuda; i++) {
        library = dlopen(names[i], RTLD_NOW);
    }
    if (library) {
        fail_if(((int (*)(void **))call_of(library, "cublasCreate_v2"))(&blas), "cublasCreate");
        fail_if(((int (*)(void *, void *))call_of(library, "cublasSetStream_v2"))(blas, stream), "cublasSetStream");
        /* Tensor cores: 10 bits of the factors count, which is enough for small integers. */
        fail_if(((int (*)(void *, int))call_of(library, "cublasSetMathMode"))(blas, TF32), "cublasSetMathMode");
        *(void **)&product = call_of(library, "cublasSgemm_v2");
    }
    return device.copy_hip ? MPIX_QUEUE_HIP : MPIX_QUEUE_CUDA;
}

/*
 * y = x w, with `rows` rows of x of `width` numbers each, and `columns` columns of w. With --device everything is on the
 * device, stored by rows. With cuBLAS the product is only put into the stream.
 */
static void multiply(float *y, const float *x, const float *w, int rows, int width, int columns)
{
    const float one = 1, zero = 0;
    size_t nx = (size_t)rows * (size_t)width, nw = (size_t)width * (size_t)columns, ny = (size_t)rows * (size_t)columns;
    float *a, *b, *c;

    if (blas) {
        /* BLAS stores matrices by columns, so it sees all three transposed. */
        fail_if(rows && product(blas, 0, 0, columns, rows, width, &one, w, columns, x, width, &zero, y, columns),
                "product");
        return;
    }
    a = malloc((nx + nw + ny) * sizeof(float));
    fail_if(!a, "no memory");
    b = a + nx;
    c = b + nw;
    example_copy(a, x, nx * sizeof(float));
    example_copy(b, w, nw * sizeof(float));
    memset(c, 0, ny * sizeof(float));
    for (int r = 0; r < rows; r++) {
        for (int i = 0; i < width; i++) {
            for (int k = 0; k < columns; k++) {
                c[(size_t)r * columns + k] += a[(size_t)r * width + i] * b[(size_t)i * columns + k];
            }
        }
    }
    example_copy(y, c, ny * sizeof(float));
    free(a);
}

/* Waits until the products are made. */
static void finish_products(void)
{
    fail_if(blas && wait_stream(stream), "the stream has failed");
}

/* Seconds of the slowest rank, the best of the turns. `before` is called before the first and the last turn, and is not
 * timed. */
static double time_of(void (*way)(void), void (*before)(void), int turns)
{
    double best = 1e9, time;

    for (int turn = 0; turn < turns; turn++) {
        if (turn == 0 || turn == turns - 1) {
            before();
        }
        MPI_Barrier(MPI_COMM_WORLD);
        time = MPI_Wtime();
        way();
        finish_products();
        time = MPI_Wtime() - time;
        MPI_Allreduce(MPI_IN_PLACE, &time, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
        best = time < best ? time : best;
    }
    return best;
}

#endif
