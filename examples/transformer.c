/*
 * Feed-forward layers of a transformer, tensor-parallel with sequence parallelism. Between layers each rank has the
 * activations of its own tokens. A layer
 *
 *     gathers the activations of all tokens (all-gather);
 *     multiplies them by its columns of the first weight matrix, applies the ReLU, and multiplies by its rows of the second;
 *     and adds up the partial results of all ranks for its own tokens (an all-to-all and a sum, so that engines move them).
 *
 * The processor does the multiplications here. All numbers are small integers, so that the result is exact. It is compared
 * with the result of one rank.
 *
 *     mpicc -O2 transformer.c -o transformer -ldl && mpirun -n 4 ./transformer [--device]
 */
#include "example.h"

enum { TOKENS = 16, WIDTH = 48, HIDDEN = 32, LAYERS = 3 }; /* TOKENS and HIDDEN of each rank */

static int weight(int matrix, int layer, int row, int column)
{
    return (row * 7 + column * 13 + matrix * 5 + layer * 3) % 11 % 3 - 1;
}

/* out += relu(x W1) W2, for `tokens` tokens and the hidden values [first, last). */
static void feed_forward(float *out, const float *x, int tokens, int layer, int first, int last)
{
    for (int t = 0; t < tokens; t++) {
        for (int h = first; h < last; h++) {
            float sum = 0;

            for (int i = 0; i < WIDTH; i++) {
                sum += x[t * WIDTH + i] * (float)weight(1, layer, i, h);
            }
            for (int i = 0; i < WIDTH && sum > 0; i++) {
                out[t * WIDTH + i] += sum * (float)weight(2, layer, h, i);
            }
        }
    }
}

/* Replaces a layer norm: back to small integers. */
static void normalize(float *x, int values)
{
    for (int i = 0; i < values; i++) {
        x[i] = (float)((int)x[i] % 5);
    }
}

static void first_activations(float *x, int owner)
{
    for (int i = 0; i < TOKENS * WIDTH; i++) {
        x[i] = (float)((owner * TOKENS * WIDTH + i) * 31 % 7 - 3);
    }
}

/* The buffers that MPI uses. */
typedef struct buffers {
    float *own;     /* the activations of the own tokens */
    float *all;     /* of all tokens */
    float *partial; /* this rank's part of the results of all tokens */
    float *parts;   /* the parts of all ranks of the results of the own tokens */
} buffers_t;

/* `x`: the activations of the own tokens. `work`: room for twice those of all tokens. */
static void layer_of_all(float *x, float *work, const buffers_t *b, int layer)
{
    const int block = TOKENS * WIDTH;
    const size_t bytes = (size_t)ranks * block * sizeof(float);
    float *partial = work + ranks * block;

    example_copy(b->own, x, block * sizeof(float));
    MPI_Allgather(b->own, block, MPI_FLOAT, b->all, block, MPI_FLOAT, MPI_COMM_WORLD);
    example_copy(work, b->all, bytes);
    memset(partial, 0, bytes);
    feed_forward(partial, work, ranks * TOKENS, layer, rank * HIDDEN, (rank + 1) * HIDDEN);
    example_copy(b->partial, partial, bytes);
    MPI_Alltoall(b->partial, block, MPI_FLOAT, b->parts, block, MPI_FLOAT, MPI_COMM_WORLD);
    example_copy(work, b->parts, bytes);
    memset(x, 0, block * sizeof(float));
    for (int i = 0; i < ranks * block; i++) {
        x[i % block] += work[i];
    }
    normalize(x, block);
}

/* The same for the own tokens only, with all weights. */
static void layer_of_one(float *x, int layer)
{
    static float out[TOKENS * WIDTH];

    memset(out, 0, sizeof(out));
    feed_forward(out, x, TOKENS, layer, 0, ranks * HIDDEN);
    memcpy(x, out, sizeof(out));
    normalize(x, TOKENS * WIDTH);
}

int main(int argc, char **argv)
{
    static float x[TOKENS * WIDTH], alone[TOKENS * WIDTH];
    long wrong = 0;
    buffers_t b;
    float *work;
    size_t bytes;

    example_begin(argc, argv);
    bytes = (size_t)ranks * sizeof(x);
    b = (buffers_t){example_alloc(sizeof(x)), example_alloc(bytes), example_alloc(bytes), example_alloc(bytes)};
    work = malloc(2 * bytes);
    first_activations(x, rank);
    first_activations(alone, rank);
    for (int layer = 0; layer < LAYERS; layer++) {
        layer_of_all(x, work, &b, layer);
        layer_of_one(alone, layer);
    }
    for (int i = 0; i < TOKENS * WIDTH; i++) {
        wrong += x[i] != alone[i];
    }
    free(work);
    example_free(b.own);
    example_free(b.all);
    example_free(b.partial);
    example_free(b.parts);
    return example_end("transformer", TOKENS * WIDTH, wrong);
}
