/*
 * The key-value cache of a language model moves from the ranks that process prompts (prefill) to those that generate answers
 * (decode). The first half of the ranks does prefill. Each of its requests has a few pages of cache in every layer, and is
 * given to one of the other ranks. The pages of a layer begin to move as soon as the layer is computed, beside the
 * computation of the next layer.
 *
 * One non-blocking all-to-all-v for each layer moves the pages. Prefill ranks receive nothing, and decode ranks send
 * nothing.
 *
 *     mpicc -O2 kv_cache.c -o kv_cache -ldl && mpirun -n 4 ./kv_cache [--device]
 */
#include "example.h"

enum { PAGE = 1024, LAYERS = 4, REQUESTS = 6, MOST_PAGES = 3 }; /* values of a page; requests of each reader */

static int readers, writers;

static int pages_of(int reader, int request)
{
    return 1 + (reader + request) % MOST_PAGES;
}

static int writer_of(int reader, int request)
{
    return ranks > 1 ? readers + (reader + request * 5 / 2) % writers : 0;
}

static float value(int reader, int request, int page, int layer, int i)
{
    return (float)(((reader * REQUESTS + request) * MOST_PAGES + page) * LAYERS + layer) + (float)i / PAGE;
}

/* What this rank does with one page of the cache. Returns how many of its values are wrong. */
typedef int visit_t(float *at, int reader, int request, int page, int layer);

static int compute(float *at, int reader, int request, int page, int layer)
{
    for (int i = 0; i < PAGE; i++) {
        at[i] = value(reader, request, page, layer, i);
    }
    return 0;
}

static int check(float *at, int reader, int request, int page, int layer)
{
    int wrong = 0;

    for (int i = 0; i < PAGE; i++) {
        wrong += at[i] != value(reader, request, page, layer, i);
    }
    return wrong;
}

/* Visits the pages that go from one rank to another. They are contiguous on both sides. Without `at` they are only
 * counted. */
static int visit_pages(float *at, int reader, int writer, int layer, visit_t *visit, long *wrong)
{
    int pages = 0;

    for (int q = 0; q < REQUESTS; q++) {
        for (int p = 0; writer_of(reader, q) == writer && p < pages_of(reader, q); p++, pages++) {
            if (at) {
                *wrong += visit(at + pages * PAGE, reader, q, p, layer);
            }
        }
    }
    return pages;
}

/* What goes to each rank, and what comes from each, in pages. */
typedef struct side {
    int *counts, *offsets, pages;
} side_t;

static side_t side_of(int sends)
{
    side_t side = {calloc((size_t)ranks, sizeof(int)), calloc((size_t)ranks, sizeof(int)), 0};

    for (int r = 0; r < ranks; r++) {
        int reader = sends ? rank : r, writer = sends ? r : rank;

        side.offsets[r] = side.pages;
        side.counts[r] = reader < readers ? visit_pages(NULL, reader, writer, 0, NULL, NULL) : 0;
        side.pages += side.counts[r];
    }
    return side;
}

/* Visits all pages of one side and layer. */
static long visit_side(float *pages, const side_t *side, int sends, int layer, visit_t *visit)
{
    long wrong = 0;

    for (int r = 0; r < ranks; r++) {
        if (side->counts[r]) {
            visit_pages(pages + side->offsets[r] * PAGE, sends ? rank : r, sends ? r : rank, layer, visit, &wrong);
        }
    }
    return wrong;
}

int main(int argc, char **argv)
{
    MPI_Request requests[LAYERS];
    float *sent[LAYERS], *received[LAYERS], *work;
    MPI_Datatype page;
    side_t to, from;
    long wrong = 0;

    example_begin(argc, argv);
    readers = (ranks + 1) / 2;
    writers = ranks - readers;
    to = side_of(1);
    from = side_of(0);
    work = malloc((size_t)(to.pages + from.pages + 1) * PAGE * sizeof(float));
    MPI_Type_contiguous(PAGE, MPI_FLOAT, &page);
    MPI_Type_commit(&page);
    for (int l = 0; l < LAYERS; l++) {
        sent[l] = example_alloc((size_t)to.pages * PAGE * sizeof(float));
        received[l] = example_alloc((size_t)from.pages * PAGE * sizeof(float));
        visit_side(work, &to, 1, l, compute);
        example_copy(sent[l], work, (size_t)to.pages * PAGE * sizeof(float));
        MPI_Ialltoallv(sent[l], to.counts, to.offsets, page, received[l], from.counts, from.offsets, page,
                       MPI_COMM_WORLD, &requests[l]);
    }
    MPI_Waitall(LAYERS, requests, MPI_STATUSES_IGNORE);
    for (int l = 0; l < LAYERS; l++) {
        example_copy(work, received[l], (size_t)from.pages * PAGE * sizeof(float));
        wrong += visit_side(work, &from, 0, l, check);
        example_free(sent[l]);
        example_free(received[l]);
    }
    MPI_Type_free(&page);
    free(work);
    return example_end("kv_cache", (long)from.pages * PAGE * LAYERS, wrong);
}
