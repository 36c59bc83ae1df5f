/*
 * A tensor-parallel layer, in three ways. The activations of all ranks are gathered, and multiplied by this rank's columns
 * of the weights.
 *
 *     blocking      the all-gather, then the product
 *     queue         the product of the own block beside the all-gather, then the others', in the order of a stream
 *     partitioned   the product of the own block, then of each partition of the others as soon as it has arrived
 *
 * With --device and CUDA, cuBLAS makes the products if it is there; otherwise the processor does (example_product.h). The
 * numbers are small integers, so results are exact. The functions MPIX_* are those of libmpix_dma (docs/user/queues.md).
 *
 *     mpicc -O2 layer.c -o layer -lmpix_dma -ldl && mpirun -n 4 ./layer [--device]
 */
#define EXAMPLE_THREADS MPI_THREAD_MULTIPLE
#include "example.h"
#include "example_product.h"

#ifndef SIZES /* rows, length of a row and columns of a rank; larger ones are for measurements */
#define SIZES ROWS = 32, WIDTH = 64, COLUMNS = 48, PARTS = 4
#endif
enum { SIZES, TURNS = 10, WAYS = 3, BLOCK = ROWS * WIDTH, CHECKED = 20000 };

static float *own, *all, *weights, *result, *host;
static float **const buffers[] = {&own, &all, &weights, &result};
static MPI_Request gather, parted;
static MPIX_Queue queue;

static float activation(long row, int i)
{
    return (float)((row * 31 + i * 7) % 7 - 3);
}

static float weight(int i, long column)
{
    return (float)((i * 5 + column * 13) % 3 - 1);
}

static void multiply_rows(const float *rows, int first, int count)
{
    multiply(result + (size_t)first * COLUMNS, rows, weights, count, WIDTH, COLUMNS);
}

static void blocking(void)
{
    MPI_Allgather(own, BLOCK, MPI_FLOAT, all, BLOCK, MPI_FLOAT, MPI_COMM_WORLD);
    multiply_rows(all, 0, ranks * ROWS);
}

static void in_queue(void)
{
    fail_if(MPIX_Enqueue_start(queue, &gather), "start");
    multiply_rows(own, rank * ROWS, ROWS);
    fail_if(MPIX_Enqueue_waitall(queue), "waitall");
    fail_if(!blas && MPIX_Queue_wait(queue), "the all-gather has failed");
    multiply_rows(all, 0, rank * ROWS);
    multiply_rows(all + (size_t)(rank + 1) * BLOCK, (rank + 1) * ROWS, (ranks - 1 - rank) * ROWS);
    fail_if(MPIX_Queue_wait(queue), "the all-gather has failed");
}

static void partitioned(void)
{
    fail_if(MPI_Start(&parted), "start");
    for (int p = 0; p < PARTS; p++) {
        fail_if(MPIX_Pready(p, parted), "ready");
    }
    multiply_rows(own, rank * ROWS, ROWS);
    for (int i = PARTS; i < ranks * PARTS; i++) {
        int number = (rank * PARTS + i) % (ranks * PARTS), rows = ROWS / PARTS;
        for (int arrived = 0; !arrived;) {
            fail_if(MPIX_Parrived(parted, number, &arrived), "a partition has failed");
        }
        multiply_rows(all + (size_t)number * rows * WIDTH, number * rows, rows);
    }
    fail_if(MPIX_Wait(&parted, MPI_STATUS_IGNORE), "wait");
}

/* At most CHECKED values, spread over the result. */
static long wrong_values(long *checked)
{
    long values = (long)ranks * ROWS * COLUMNS, step = values / CHECKED + 1, wrong = 0;

    example_copy(host, result, (size_t)values * sizeof(float));
    for (long at = 0; at < values; at += step, ++*checked) {
        float sum = 0;
        for (int i = 0; i < WIDTH; i++) {
            sum += activation(at / COLUMNS, i) * weight(i, rank * COLUMNS + at % COLUMNS);
        }
        wrong += host[at] != sum;
    }
    return wrong;
}

static void prepare(void)
{
    for (int i = 0; i < BLOCK; i++) {
        host[i] = activation((long)rank * ROWS + i / WIDTH, i % WIDTH);
    }
    example_copy(own, host, BLOCK * sizeof(float));
    for (int i = 0; i < WIDTH * COLUMNS; i++) {
        host[i] = weight(i / COLUMNS, (long)rank * COLUMNS + i % COLUMNS);
    }
    example_copy(weights, host, (size_t)WIDTH * COLUMNS * sizeof(float));
}

/* Removes what earlier turns have made. */
static void forget(void)
{
    memset(host, 0xFF, (size_t)ranks * ROWS * (WIDTH + COLUMNS) * sizeof(float));
    example_copy(all, host, (size_t)ranks * BLOCK * sizeof(float));
    example_copy(result, host, (size_t)ranks * ROWS * COLUMNS * sizeof(float));
}

int main(int argc, char **argv)
{
    static void (*const ways[])(void) = {blocking, in_queue, partitioned};
    static const char *const names[] = {"blocking", "queue", "partitioned"};
    long wrong = 0, checked = 0;

    example_begin(argc, argv);
    host = malloc(((size_t)ranks * ROWS + WIDTH) * (WIDTH + COLUMNS) * sizeof(float));
    for (int i = 0; i < 4; i++) {
        const size_t lengths[] = {BLOCK, (size_t)ranks * BLOCK, (size_t)WIDTH * COLUMNS,
                                  (size_t)ranks * ROWS * COLUMNS};
        *buffers[i] = example_alloc(lengths[i] * sizeof(float));
    }
    prepare();
    fail_if(MPIX_Queue_init(&queue, open_stream(), &stream), "queue");
    MPI_Allgather_init(own, BLOCK, MPI_FLOAT, all, BLOCK, MPI_FLOAT, MPI_COMM_WORLD, MPI_INFO_NULL, &gather);
    fail_if(MPIX_Pallgather_init(own, PARTS, BLOCK / PARTS, MPI_FLOAT, all, PARTS, BLOCK / PARTS, MPI_FLOAT,
                                 MPI_COMM_WORLD, MPI_INFO_NULL, &parted),
            "init");
    for (int i = 0; i < WAYS; i++) {
        double seconds = time_of(ways[i], forget, TURNS);
        wrong += wrong_values(&checked);
        if (rank == 0) {
            printf("%-12s %10.1f us\n", names[i], seconds * 1e6);
        }
    }
    fail_if(MPIX_Queue_free(&queue) || MPIX_Request_free(&parted) || MPI_Request_free(&gather), "free");
    for (int i = 0; i < 4; i++) {
        example_free(*buffers[i]);
    }
    free(host);
    return example_end("layer", checked, wrong);
}
