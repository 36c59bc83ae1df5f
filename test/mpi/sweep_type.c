/*
 * Datatypes of the sweep, each with a type map of our own. An element is a row of units at chosen displacements. A unit is
 * one basic type, or several in a row with holes between them. In the second case its own layout is random as well, so that
 * the two sides of a message differ in it.
 */
#include "sweep.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

const char *const type_kind_names[TYPE_KINDS] = {"basic", "contiguous", "vector",   "struct", "indexed",
                                                 "wide",  "column",     "negative", "pages"};

const unit_t units[UNIT_KINDS] = {
    {"char", 1, {1, 0, 0}, 1},        {"int", 1, {4, 0, 0}, 4},
    {"double", 1, {8, 0, 0}, 8},      {"double+int+char", 3, {8, 4, 1}, 13},
    {"char+double", 2, {1, 8, 0}, 9},
};

enum { MOST_UNITS = 512, MOST_RANDOM = 16 };

/* A unit as it lies in memory on one side of one call. */
typedef struct {
    MPI_Datatype type;
    bool owned;
    int parts;
    long at[UNIT_PARTS];
    int size[UNIT_PARTS];
    long extent;
} laid_unit_t;

static MPI_Datatype basic(int size)
{
    return size == 1 ? MPI_CHAR : size == 4 ? MPI_INT : MPI_DOUBLE;
}

static void lay_unit(laid_unit_t *u, const unit_t *unit, rng_t *rng)
{
    *u = (laid_unit_t){.parts = unit->parts};
    for (int i = 0; i < unit->parts; i++) {
        u->size[i] = unit->size[i];
    }
    if (unit->parts == 1) {
        u->type = basic(unit->size[0]);
        u->extent = unit->size[0];
        return;
    }
    /* The parts lie in a rotated order: the signature counts, not the addresses. */
    int first = (int)rng_below(rng, unit->parts), lengths[UNIT_PARTS];
    MPI_Aint at[UNIT_PARTS];
    MPI_Datatype types[UNIT_PARTS], packed;
    long end = rng_chance(rng, 30) ? 8 : 0;
    for (int i = 0; i < unit->parts; i++) {
        int part = (first + i) % unit->parts, size = unit->size[part];
        end = (end + size - 1) / size * size + (rng_chance(rng, 30) ? size : 0);
        u->at[part] = end;
        at[part] = end;
        lengths[part] = 1;
        types[part] = basic(size);
        end += size;
    }
    u->extent = (end + 7) / 8 * 8;
    MPI_Type_create_struct(unit->parts, lengths, at, types, &packed);
    MPI_Type_create_resized(packed, 0, u->extent, &u->type);
    MPI_Type_free(&packed);
    u->owned = true;
}

/* Blocks of units in the order of the signature; displacements in bytes. */
typedef struct {
    int n;
    int length[MOST_UNITS];
    MPI_Aint at[MOST_UNITS];
} rows_t;

static void cut_rows(rows_t *rows, long count, long longest, rng_t *rng)
{
    rows->n = 0;
    while (count > 0) {
        long length = 1 + rng_below(rng, longest);
        length = length > count ? count : length;
        rows->length[rows->n++] = (int)length;
        count -= length;
    }
}

/* Places rows in a random order of addresses, with gaps of `grain`. Returns where the last one ends. */
static long place_rows(rows_t *rows, long unit_extent, long grain, bool shuffle, rng_t *rng)
{
    int order[MOST_UNITS];
    for (int i = 0; i < rows->n; i++) {
        int j = shuffle ? (int)rng_below(rng, i + 1) : i;
        order[i] = order[j];
        order[j] = i;
    }
    long end = 0;
    for (int i = 0; i < rows->n; i++) {
        end += grain * rng_below(rng, 4);
        rows->at[order[i]] = end;
        end += rows->length[order[i]] * unit_extent;
    }
    return end;
}

static void span_rows(type_t *t, const rows_t *rows, long unit_extent)
{
    long low = rows->n ? rows->at[0] : 0, high = low;
    for (int i = 0; i < rows->n; i++) {
        long end = rows->at[i] + rows->length[i] * unit_extent;
        low = rows->at[i] < low ? rows->at[i] : low;
        high = end > high ? end : high;
    }
    t->lb = low;
    t->extent = high - low;
}

static void resize(type_t *t, long lb, long extent)
{
    MPI_Datatype old = t->type;
    MPI_Type_create_resized(old, lb, extent, &t->type);
    MPI_Type_free(&old);
    t->lb = lb;
    t->extent = extent;
}

static void make_vector(type_t *t, rows_t *rows, const laid_unit_t *u, rng_t *rng)
{
    long length = 1 + rng_below(rng, 4);
    while (t->units % length) {
        length--;
    }
    long stride = length + 1 + rng_below(rng, 3);
    rows->n = (int)(t->units / length);
    for (int i = 0; i < rows->n; i++) {
        rows->length[i] = (int)length;
        rows->at[i] = i * stride * u->extent;
    }
    MPI_Type_vector(rows->n, (int)length, (int)stride, u->type, &t->type);
    span_rows(t, rows, u->extent);
}

static void make_struct(type_t *t, rows_t *rows, const laid_unit_t *u, rng_t *rng)
{
    MPI_Datatype types[MOST_UNITS];
    cut_rows(rows, t->units, 3, rng);
    long grain = u->extent % 8 == 0 ? 8 : u->extent;
    long end = place_rows(rows, u->extent, grain, rng_chance(rng, 30), rng);
    for (int i = 0; i < rows->n; i++) {
        types[i] = u->type;
    }
    MPI_Type_create_struct(rows->n, rows->length, rows->at, types, &t->type);
    resize(t, 0, end + grain * rng_below(rng, 3)); /* the implementation chooses the padding of a plain struct */
}

static void make_indexed(type_t *t, rows_t *rows, const laid_unit_t *u, rng_t *rng)
{
    int at[MOST_UNITS];
    cut_rows(rows, t->units, 5, rng);
    place_rows(rows, u->extent, u->extent, rng_chance(rng, 50), rng);
    for (int i = 0; i < rows->n; i++) {
        at[i] = (int)(rows->at[i] / u->extent);
    }
    MPI_Type_indexed(rows->n, rows->length, at, u->type, &t->type);
    span_rows(t, rows, u->extent);
}

static void make_negative(type_t *t, rows_t *rows, const laid_unit_t *u, rng_t *rng)
{
    cut_rows(rows, t->units, 4, rng);
    long end = place_rows(rows, u->extent, u->extent, rng_chance(rng, 50), rng);
    long shift = (1 + rng_below(rng, 6)) * u->extent;
    for (int i = 0; i < rows->n; i++) {
        rows->at[i] -= shift;
    }
    MPI_Type_create_hindexed(rows->n, rows->length, rows->at, u->type, &t->type);
    long pad = u->extent * rng_below(rng, 3);
    resize(t, -shift - pad, end + pad + u->extent * rng_below(rng, 3));
}

/* Long rows, like pages of a cache: the runtime of a GPU copies them one by one. */
static void make_pages(type_t *t, rows_t *rows, const laid_unit_t *u, rng_t *rng)
{
    int at[MOST_UNITS];
    cut_rows(rows, t->units, MOST_UNITS, rng);
    place_rows(rows, u->extent, u->extent, rng_chance(rng, 50), rng);
    for (int i = 0; i < rows->n; i++) {
        at[i] = (int)(rows->at[i] / u->extent);
    }
    MPI_Type_indexed(rows->n, rows->length, at, u->type, &t->type);
    span_rows(t, rows, u->extent);
}

static void one_row(type_t *t, rows_t *rows)
{
    rows->n = 1;
    rows->length[0] = (int)t->units;
    rows->at[0] = 0;
}

/* A column of a matrix whose rows contain all elements of all blocks and gaps: element e of the buffer is column e. */
static void make_column(type_t *t, rows_t *rows, const laid_unit_t *u, long columns, rng_t *rng)
{
    long stride = (columns + rng_below(rng, 3)) * u->extent;
    rows->n = (int)t->units;
    for (int i = 0; i < rows->n; i++) {
        rows->length[i] = 1;
        rows->at[i] = i * stride;
    }
    MPI_Type_create_hvector(rows->n, 1, stride, u->type, &t->type);
    resize(t, 0, u->extent);
}

static void add_piece(type_t *t, long at, long bytes)
{
    if (t->npieces > 0 && t->pieces[t->npieces - 1].at + t->pieces[t->npieces - 1].bytes == at) {
        t->pieces[t->npieces - 1].bytes += bytes;
    } else {
        t->pieces[t->npieces++] = (piece_t){at, bytes};
    }
    t->low = at < t->low ? at : t->low;
    t->high = at + bytes > t->high ? at + bytes : t->high;
}

static void map_pieces(type_t *t, const rows_t *rows, const laid_unit_t *u)
{
    t->pieces = malloc((size_t)(t->units * u->parts) * sizeof(*t->pieces));
    t->low = LONG_MAX;
    t->high = LONG_MIN;
    for (int row = 0; row < rows->n; row++) {
        for (int i = 0; i < rows->length[row]; i++) {
            for (int part = 0; part < u->parts; part++) {
                add_piece(t, rows->at[row] + i * u->extent + u->at[part], u->size[part]);
            }
        }
    }
}

/* MPI must have the same bounds as our map. Otherwise the sweep itself is wrong. */
static void prove(const type_t *t)
{
    MPI_Aint lb, extent;
    MPI_Type_get_extent(t->type, &lb, &extent);
    if (lb != t->lb || extent != t->extent) {
        fprintf(stderr, "sweep: %s type has lb %ld extent %ld, expected %ld %ld\n", type_kind_names[t->kind], (long)lb,
                (long)extent, t->lb, t->extent);
        MPI_Abort(MPI_COMM_WORLD, 3);
    }
}

static long choose_units(long total, rng_t *rng)
{
    if (total == 0) {
        return 1 + rng_below(rng, 8);
    }
    if (total <= MOST_UNITS && rng_chance(rng, 25)) {
        return total;
    }
    long k = 1 + rng_below(rng, MOST_RANDOM);
    while (total % k) {
        k--;
    }
    return k;
}

static long most_units(long total)
{
    long k = total < MOST_UNITS ? total : MOST_UNITS;
    while (k > 1 && total % k) {
        k--;
    }
    return k > 0 ? k : 1;
}

void type_make(type_t *t, type_kind_t kind, int unit, long total, long slots, int gaps, bool single, rng_t *rng)
{
    rows_t rows;
    laid_unit_t u;
    if (kind == TYPE_BASIC && units[unit].parts > 1) {
        kind = TYPE_CONTIGUOUS;
    }
    lay_unit(&u, &units[unit], rng);
    *t = (type_t){.kind = kind, .owned = true, .units = kind == TYPE_BASIC || single ? 1 : choose_units(total, rng)};
    if (kind == TYPE_PAGES && !single) {
        t->units = most_units(total);
    }
    switch (kind) {
    case TYPE_PAGES:
        make_pages(t, &rows, &u, rng);
        break;
    case TYPE_VECTOR:
        make_vector(t, &rows, &u, rng);
        break;
    case TYPE_STRUCT:
        make_struct(t, &rows, &u, rng);
        break;
    case TYPE_INDEXED:
        make_indexed(t, &rows, &u, rng);
        break;
    case TYPE_NEGATIVE:
        make_negative(t, &rows, &u, rng);
        break;
    case TYPE_COLUMN:
        make_column(t, &rows, &u, slots / t->units + gaps + 1, rng);
        break;
    default:
        one_row(t, &rows);
        t->extent = t->units * u.extent;
        if (kind == TYPE_BASIC) {
            t->type = u.type;
            t->owned = false;
        } else {
            MPI_Type_contiguous((int)t->units, u.type, &t->type);
        }
        if (kind == TYPE_WIDE) {
            resize(t, 0, t->extent + u.extent * (1 + rng_below(rng, 5)));
        }
        break;
    }
    if (t->owned) {
        MPI_Type_commit(&t->type);
    }
    map_pieces(t, &rows, &u);
    prove(t);
    if (u.owned) {
        MPI_Type_free(&u.type);
    }
}

void type_release(type_t *t)
{
    if (t->owned) {
        MPI_Type_free(&t->type);
    }
    t->owned = false;
}

void type_free(type_t *t)
{
    type_release(t);
    free(t->pieces);
    t->pieces = NULL;
}
