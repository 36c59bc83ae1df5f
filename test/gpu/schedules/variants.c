/* The variants of a work, and whether what they compute is right: see schedules.h. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/gpu/schedules/schedules.h"

/* Of a result that has more than FULL bytes, PIECE bytes of every STEP are compared. */
enum { FULL = 64 << 20, PIECE = 64 << 10, STEP = 512 << 10 };

static struct {
    char *values, *piece;
    size_t n;
    double mean;
    double tolerance;
    long compared, wrong;
} expected;

size_t sched_at(const sched_variant_t *v, int rank, int slice)
{
    return (size_t)(v->side->kind == SCHED_PARTED ? rank * v->slices + slice : slice * sched.ranks + rank);
}

/* Returns how many it has added: 0 if the side cannot do it. */
static int add(const sched_work_t *work, const sched_side_t *side, sched_way_t way, int slices, sched_variant_t *v)
{
    int calls = side->kind == SCHED_PARTED ? 1 : slices, can = 1;

    memset(v, 0, sizeof(*v));
    v->side = side;
    v->way = way;
    v->slices = slices;
    work->calls(v);
    for (int c = 0; c < calls && can; c++) {
        can = (!work->has_first || side->prepare(side, &v->first[c], slices)) &&
              (!work->has_second || side->prepare(side, &v->second[c], slices));
    }
    return can;
}

int sched_variants_make(const sched_work_t *work, const sched_side_t *sides, int nsides, sched_variant_t *variants)
{
    int n = 0;

    for (const sched_side_t *side = sides; side < sides + nsides; side++) {
        if (side->kind == SCHED_PARTED && !work->partitions) {
            continue;
        }
        if (side->kind != SCHED_PARTED) {
            n += add(work, side, SCHED_WHOLE, 1, &variants[n]);
        }
        for (int slices = side->kind == SCHED_PARTED ? 2 : 1; slices <= 4; slices *= 2) {
            if (work->divides(slices)) {
                n += add(work, side, SCHED_BESIDE, slices, &variants[n]);
            }
        }
    }
    return n;
}

void sched_variants_free(sched_variant_t *variants, int n)
{
    for (sched_variant_t *v = variants; v < variants + n; v++) {
        for (int c = 0; c < SCHED_SLICES; c++) {
            sched_free(&v->first[c]);
            sched_free(&v->second[c]);
        }
    }
}

/* ---- results ---- */

void sched_expect_room(size_t n)
{
    free(expected.values);
    free(expected.piece);
    expected.n = n;
    expected.mean = 0;
    expected.values = malloc(n * sched.bytes);
    expected.piece = malloc(FULL);
    gpu_must(!expected.values || !expected.piece, "no memory");
}

void sched_expect(size_t at, const char *from, size_t n)
{
    gpu_copy(expected.values + at * sched.bytes, from, n * sched.bytes, sched.compute);
    sched_synchronize();
}

/* Of some of the values. */
static void find_mean(void)
{
    size_t step = expected.n / 100000 + 1, values = 0;

    for (size_t i = 0; i < expected.n; i += step, values++) {
        expected.mean += fabs(sched_value(expected.values + i * sched.bytes));
    }
    expected.mean /= (double)values;
}

static void compare_piece(size_t at, const char *from, size_t n)
{
    const char *values = expected.values + at * sched.bytes;
    double most = expected.tolerance * expected.mean;

    gpu_copy(expected.piece, from, n * sched.bytes, sched.compute);
    sched_synchronize();
    expected.compared += (long)n;
    if (!memcmp(expected.piece, values, n * sched.bytes)) {
        return;
    }
    for (size_t i = 0; i < n; i++) {
        /* written so that what is not a number is wrong */
        expected.wrong +=
            !(fabs(sched_value(expected.piece + i * sched.bytes) - sched_value(values + i * sched.bytes)) <= most);
    }
}

void sched_compare(size_t at, const char *from, size_t n)
{
    size_t piece = PIECE / sched.bytes, step = STEP / sched.bytes;

    if (expected.n * sched.bytes <= FULL) {
        compare_piece(at, from, n);
        return;
    }
    for (size_t i = 0; i < n; i += step) {
        compare_piece(at + i, from + i * sched.bytes, n - i < piece ? n - i : piece);
    }
    if (n > piece) {
        compare_piece(at + n - piece, from + (n - piece) * sched.bytes, piece);
    }
}

void sched_check(const sched_work_t *work, sched_variant_t *v)
{
    long sums[2];

    if (expected.mean == 0) {
        work->fill(v);
        work->reference(v->side);
        find_mean();
    }
    work->fill(v);
    MPI_Barrier(MPI_COMM_WORLD);
    sched_turn(work, v);
    expected.tolerance = work->tolerance;
    expected.compared = expected.wrong = 0;
    work->result(v);
    sums[0] = expected.compared;
    sums[1] = expected.wrong;
    MPI_Allreduce(MPI_IN_PLACE, sums, 2, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    if (sums[1] || !sums[0]) {
        v->wrong = true;
        if (!sched.rank) {
            printf("# %s, %d slices, way %d: %ld of %ld values are WRONG\n", v->side->name, v->slices, (int)v->way,
                   sums[1], sums[0]);
        }
    }
    MPI_Barrier(MPI_COMM_WORLD);
}
