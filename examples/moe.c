/*
 * A layer with a mixture of experts. Each rank has some experts and some tokens. A router chooses an expert for each token.
 * Tokens go to the ranks of their experts and come back:
 *
 *     the ranks tell each other how many tokens they send (all-to-all of numbers);
 *     tokens are sorted by rank and sent (all-to-all-v);
 *     experts process them, and the results come back in the same way (all-to-all-v with the counts exchanged).
 *
 * The router prefers the first experts, so the blocks have very different sizes, and some are empty.
 *
 *     mpicc -O2 moe.c -o moe -ldl && mpirun -n 4 ./moe [--device]
 */
#include "example.h"

enum { TOKENS = 200, WIDTH = 64, EXPERTS = 2 }; /* of each rank; values of a token */

static float value(int owner, int token, int i)
{
    return (float)((owner * TOKENS + token) * 3 + i);
}

static int expert_of(int owner, int token)
{
    unsigned hash = (unsigned)(owner * TOKENS + token) * 2654435761u >> 16, experts = (unsigned)(ranks * EXPERTS);

    return (int)(hash % experts * (hash / 7 % experts) / experts);
}

/* The first value of a travelling token is the number of its expert. */
static void work_of_expert(float *token)
{
    for (int i = 1; i <= WIDTH; i++) {
        token[i] *= token[0] + 2;
    }
}

/* offsets[r]: the sum of the counts before r; returns the sum of all. */
static int offsets_of(int *offsets, const int *counts)
{
    int sum = 0;

    for (int r = 0; r < ranks; r++) {
        offsets[r] = sum;
        sum += counts[r];
    }
    return sum;
}

/* The tokens in the order of their ranks. place[t] says where token t went. */
static void sort_tokens(float *sorted, int *place, int *counts, int *offsets)
{
    memset(counts, 0, (size_t)ranks * sizeof(int));
    for (int t = 0; t < TOKENS; t++) {
        counts[expert_of(rank, t) / EXPERTS]++;
    }
    offsets_of(offsets, counts);
    for (int r = 0, next = 0; r < ranks; r++) {
        for (int t = 0; t < TOKENS; t++) {
            if (expert_of(rank, t) / EXPERTS == r) {
                float *token = sorted + next * (WIDTH + 1);

                token[0] = (float)expert_of(rank, t);
                for (int i = 0; i < WIDTH; i++) {
                    token[i + 1] = value(rank, t, i);
                }
                place[t] = next++;
            }
        }
    }
}

static long count_wrong(const float *sorted, const int *place)
{
    long wrong = 0;

    for (int t = 0; t < TOKENS; t++) {
        for (int i = 0; i < WIDTH; i++) {
            wrong += sorted[place[t] * (WIDTH + 1) + i + 1] != value(rank, t, i) * (float)(expert_of(rank, t) + 2);
        }
    }
    return wrong;
}

int main(int argc, char **argv)
{
    static float sorted[TOKENS * (WIDTH + 1)];
    float *own, *theirs, *work;
    int place[TOKENS], *to, *from, *to_at, *from_at, received;
    MPI_Datatype token;
    size_t bytes;
    long wrong;

    example_begin(argc, argv);
    to = malloc(4 * (size_t)ranks * sizeof(int));
    from = to + ranks, to_at = to + 2 * ranks, from_at = to + 3 * ranks;
    MPI_Type_contiguous(WIDTH + 1, MPI_FLOAT, &token);
    MPI_Type_commit(&token);
    sort_tokens(sorted, place, to, to_at);
    MPI_Alltoall(to, 1, MPI_INT, from, 1, MPI_INT, MPI_COMM_WORLD);
    received = offsets_of(from_at, from);
    bytes = (size_t)received * (WIDTH + 1) * sizeof(float);
    own = example_alloc(sizeof(sorted));
    theirs = example_alloc(bytes);
    work = malloc(bytes + 1);

    example_copy(own, sorted, sizeof(sorted));
    MPI_Alltoallv(own, to, to_at, token, theirs, from, from_at, token, MPI_COMM_WORLD);
    example_copy(work, theirs, bytes);
    for (int t = 0; t < received; t++) {
        work_of_expert(work + t * (WIDTH + 1));
    }
    example_copy(theirs, work, bytes);
    MPI_Alltoallv(theirs, from, from_at, token, own, to, to_at, token, MPI_COMM_WORLD);
    example_copy(sorted, own, sizeof(sorted));
    wrong = count_wrong(sorted, place);

    MPI_Type_free(&token);
    free(work);
    free(to);
    example_free(own);
    example_free(theirs);
    return example_end("moe", (long)TOKENS * WIDTH, wrong);
}
