/*
 * A two-dimensional FFT. The rows of a matrix are distributed over the ranks. Each rank transforms its rows. An all-to-all
 * transposes the matrix, so that the columns become rows. Each rank transforms these. Derived datatypes do the
 * transposition: the program packs nothing.
 *
 * The matrix is a sum of plane waves, so that its transform has one value for each.
 *
 *     mpicc -O2 fft2d.c -o fft2d -ldl -lm && mpirun -n 4 ./fft2d [--device]
 */
#include "example.h"

#include <complex.h>
#include <math.h>

enum { ROWS = 24 }; /* of each rank */

typedef double complex value_t;

static int n; /* rows and columns of the matrix */

static const struct {
    int x, y;
    double height;
} waves[] = {{1, 5, 1}, {7, 2, 0.5}, {0, 11, 3}};
enum { WAVES = sizeof(waves) / sizeof(*waves) };

/* By halves while the length is even, then by the definition. `stride` is the distance of the input's values. */
static void transform(value_t *out, const value_t *in, int length, int stride)
{
    int half = length / 2;

    if (length % 2) {
        for (int k = 0; k < length; k++) {
            out[k] = 0;
            for (int i = 0; i < length; i++) {
                out[k] += in[i * stride] * cexp(-2 * M_PI * I * k * i / length);
            }
        }
        return;
    }
    transform(out, in, half, 2 * stride);
    transform(out + half, in + stride, half, 2 * stride);
    for (int k = 0; k < half; k++) {
        value_t even = out[k], odd = out[k + half] * cexp(-2 * M_PI * I * k / length);

        out[k] = even + odd;
        out[k + half] = even - odd;
    }
}

static void transform_rows(value_t *matrix)
{
    value_t *row = malloc((size_t)n * sizeof(*row));

    for (int i = 0; i < ROWS; i++) {
        transform(row, matrix + i * n, n, 1);
        memcpy(matrix + i * n, row, (size_t)n * sizeof(*row));
    }
    free(row);
}

/* The extent of a block is that of its rows' values, so that block r begins where column r * ROWS does. */
static MPI_Datatype block_of(MPI_Datatype type)
{
    MPI_Datatype block;

    MPI_Type_create_resized(type, 0, ROWS * (MPI_Aint)sizeof(value_t), &block);
    MPI_Type_commit(&block);
    MPI_Type_free(&type);
    return block;
}

/* to[column][row] = from[row][column] over all ranks. A block is sent by rows. Each row is received as a column. */
static void transpose(value_t *to, const value_t *from)
{
    MPI_Datatype rows, column, next_column, columns, sent, received;

    MPI_Type_vector(ROWS, ROWS, n, MPI_C_DOUBLE_COMPLEX, &rows);
    sent = block_of(rows);
    MPI_Type_vector(ROWS, 1, n, MPI_C_DOUBLE_COMPLEX, &column);
    MPI_Type_create_resized(column, 0, sizeof(value_t), &next_column);
    MPI_Type_contiguous(ROWS, next_column, &columns);
    received = block_of(columns);
    MPI_Alltoall(from, 1, sent, to, 1, received, MPI_COMM_WORLD);
    MPI_Type_free(&column);
    MPI_Type_free(&next_column);
    MPI_Type_free(&sent);
    MPI_Type_free(&received);
}

static value_t wave_sum(int x, int y)
{
    value_t sum = 0;

    for (int w = 0; w < WAVES; w++) {
        sum += waves[w].height * cexp(2 * M_PI * I * (waves[w].x * x + waves[w].y * y) / n);
    }
    return sum;
}

static double expected(int x, int y)
{
    double value = 0;

    for (int w = 0; w < WAVES; w++) {
        value += waves[w].x == x && waves[w].y == y ? waves[w].height * n * n : 0;
    }
    return value;
}

int main(int argc, char **argv)
{
    value_t *matrix, *from, *to;
    long wrong = 0;
    size_t bytes;

    example_begin(argc, argv);
    n = ROWS * ranks;
    bytes = (size_t)ROWS * n * sizeof(value_t);
    matrix = malloc(bytes);
    from = example_alloc(bytes);
    to = example_alloc(bytes);
    for (int i = 0; i < ROWS * n; i++) {
        matrix[i] = wave_sum(rank * ROWS + i / n, i % n);
    }
    transform_rows(matrix);
    example_copy(from, matrix, bytes);
    transpose(to, from);
    example_copy(matrix, to, bytes);
    transform_rows(matrix);
    for (int i = 0; i < ROWS * n; i++) {
        wrong += cabs(matrix[i] - expected(i % n, rank * ROWS + i / n)) > 1e-9 * n * n;
    }
    free(matrix);
    example_free(from);
    example_free(to);
    return example_end("fft2d", (long)ROWS * n, wrong);
}
