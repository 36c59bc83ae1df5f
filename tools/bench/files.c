/* CSV, JSON and the plot: see bench.h. */
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "tools/bench/bench.h"

/* Closes the file, and reports any error since it was opened. */
static const char *closed(FILE *file, bool pipe)
{
    bool bad = ferror(file);
    int status = pipe ? pclose(file) : fclose(file);

    return bad || status ? (pipe ? "gnuplot has failed" : "it cannot be written") : NULL;
}

/* ---- CSV ---- */

/* The unusual properties of the run, in a word or two. */
static const char *note(const bench_t *b, const bench_operation_t *op)
{
    static char text[64];

    snprintf(text, sizeof(text), "%s%s%s", b->device ? "device " : "", b->element.bytes > 1 ? b->o.type : "",
             b->element.bytes > 1 ? " " : "");
    if (op->v && b->o.skew) {
        snprintf(text + strlen(text), sizeof(text) - strlen(text), "skew %d ", b->o.skew);
    }
    text[strlen(text) ? strlen(text) - 1 : 0] = '\0';
    return text;
}

const char *bench_csv_write(const bench_t *b)
{
    FILE *file = fopen(b->o.csv, "w");

    if (!file) {
        return strerror(errno);
    }
    fprintf(file, "pass,operation,ranks,place,note,bytes,mode,avg_us,min_us,max_us,overall_us,compute_us\n");
    for (int p = 0; p < b->passes; p++) {
        for (int i = 0; i < b->ncells * b->nsides; i++) {
            int cell = i / b->nsides, side = i % b->nsides;
            const bench_sample_t *s = bench_sample(b, p, cell, side);
            const bench_operation_t *op = b->cells[cell].op;

            if (bench_measured(b, cell, side)) {
                fprintf(file, "%d,%s,%d,%s,%s,%zu,%s,%.4f,%.4f,%.4f,%.4f,%.4f\n", p, op->name, b->size,
                        b->o.in_place ? "in" : "out", note(b, op), b->cells[cell].bytes, b->sides[side].name, s->pure,
                        s->min, s->max, s->overall, s->compute);
            }
        }
    }
    return closed(file, false);
}

/* ---- JSON ---- */

static void put_string(FILE *file, const char *name, const char *text, const char *after)
{
    fprintf(file, "\"%s\": \"", name);
    for (; *text; text++) {
        if ((unsigned char)*text < ' ') {
            fprintf(file, "\\u%04x", (unsigned)*text);
        } else {
            fprintf(file, "%s%c", strchr("\"\\", *text) ? "\\" : "", *text);
        }
    }
    fprintf(file, "\"%s", after);
}

static void put_spread(FILE *file, const char *name, bench_spread_t s)
{
    fprintf(file, ", \"%s\": {\"median\": %.6g, \"p5\": %.6g, \"p95\": %.6g}", name, s.median, s.p5, s.p95);
}

static void put_side(FILE *file, const bench_t *b, int cell, int side)
{
    fprintf(file, "        {");
    put_string(file, "name", b->sides[side].name, "");
    put_spread(file, "us", bench_spread(b, cell, side, BENCH_PURE));
    put_spread(file, "min_us", bench_spread(b, cell, side, BENCH_MIN));
    put_spread(file, "max_us", bench_spread(b, cell, side, BENCH_MAX));
    if (b->cells[cell].op->form == BENCH_NONBLOCKING && b->sides[side].kind == BENCH_MPI) {
        put_spread(file, "overall_us", bench_spread(b, cell, side, BENCH_OVERALL));
        put_spread(file, "overlap_percent", bench_spread(b, cell, side, BENCH_OVERLAP));
    }
    if (side) {
        put_spread(file, "ratio", bench_ratio(b, cell, side));
    }
    if (b->o.energy) {
        const bench_joules_t *j = &b->joules[cell * b->nsides + side];
        double bytes = bench_moved_bytes(b, cell);

        fprintf(file, ", \"joules\": %.6g, \"joules_least\": %.6g, \"joules_most\": %.6g", j->median, j->least,
                j->most);
        fprintf(file, ", \"nanojoules_per_byte\": %.6g", bytes > 0 ? j->median / bytes * 1e9 : 0);
    }
    if (b->o.validate) {
        fprintf(file, ", \"data_right\": %s", b->wrong[cell * b->nsides + side] ? "false" : "true");
    }
    fprintf(file, ", \"passes_us\": [");
    for (int p = 0; p < b->passes; p++) {
        fprintf(file, "%s%.6g", p ? ", " : "", bench_sample(b, p, cell, side)->pure);
    }
    fprintf(file, "]}");
}

static void put_cell(FILE *file, const bench_t *b, int cell)
{
    const char *before = "";

    fprintf(file, "    {");
    put_string(file, "operation", b->cells[cell].op->name, ", ");
    fprintf(file, "\"bytes\": %zu, \"sides\": [\n", b->cells[cell].bytes);
    for (int s = 0; s < b->nsides; s++) {
        if (bench_measured(b, cell, s)) {
            fputs(before, file);
            put_side(file, b, cell, s);
            before = ",\n";
        }
    }
    fprintf(file, "\n    ]}%s\n", cell + 1 < b->ncells ? "," : "");
}

const char *bench_json_write(const bench_t *b)
{
    FILE *file = fopen(b->o.json, "w");

    if (!file) {
        return strerror(errno);
    }
    fprintf(file, "{\n  ");
    put_string(file, "program", "coll_dma_bench " DMA_VERSION, ",\n  ");
    put_string(file, "command", b->o.command, ",\n  ");
    put_string(file, "date", b->when, ",\n  ");
    put_string(file, "host", b->host, ",\n  ");
    put_string(file, "mpi", b->library, ",\n  ");
    put_string(file, "memory", b->device ? "device" : "host", ",\n  ");
    put_string(file, "type", b->o.type, ",\n  ");
    fprintf(file, "\"ranks\": %d,\n  \"passes\": %d,\n  \"in_place\": %s,\n  \"skew_percent\": %d,\n", b->size,
            b->passes, b->o.in_place ? "true" : "false", b->o.skew);
    fprintf(file, "  \"iterations\": [%d, %d],\n  \"row\": %d,\n  \"validated\": %s,\n  \"cells\": [\n",
            b->o.iterations[0], b->o.iterations[1], b->o.row, b->o.validate ? "true" : "false");
    for (int c = 0; c < b->ncells; c++) {
        put_cell(file, b, c);
    }
    fprintf(file, "  ]\n}\n");
    return closed(file, false);
}

/* ---- the plot ---- */

const char *bench_plot_can(const char *path)
{
    const char *why;
    FILE *file;

    if (system("gnuplot --version >/dev/null 2>&1")) { /* NOLINT: the user's own */
        return "gnuplot is not installed";
    }
    file = fopen(path, "w");
    why = file ? closed(file, false) : strerror(errno);
    if (!why) {
        remove(path); /* with several operations their files have longer names */
    }
    return why;
}

static void put_data(FILE *gnuplot, const bench_t *b, const bench_operation_t *op, int side)
{
    fprintf(gnuplot, "$side%d << END\n", side);
    for (int c = 0; c < b->ncells; c++) {
        if (b->cells[c].op == op && bench_measured(b, c, side)) {
            bench_spread_t s = bench_spread(b, c, side, BENCH_PURE);

            fprintf(gnuplot, "%zu %g %g %g\n", b->cells[c].bytes, s.median, s.p5, s.p95);
        }
    }
    fprintf(gnuplot, "END\n");
}

/* The name of the file, with the operation in it if there are several. */
static void plot_name(const bench_t *b, const bench_operation_t *op, char *name, size_t room)
{
    size_t stem = strlen(b->o.plot) - 4;

    if (b->o.noperations == 1) {
        snprintf(name, room, "%s", b->o.plot);
    } else {
        snprintf(name, room, "%.*s-%s%s", (int)stem, b->o.plot, op->name, b->o.plot + stem);
    }
}

static const char *plot_one(const bench_t *b, const bench_operation_t *op)
{
    bool svg = !strcmp(b->o.plot + strlen(b->o.plot) - 4, ".svg");
    FILE *gnuplot = popen("gnuplot", "w"); /* NOLINT: the user's own */
    const char *before = "plot ";
    char name[4096];

    if (!gnuplot) {
        return strerror(errno);
    }
    plot_name(b, op, name, sizeof(name));
    fprintf(gnuplot, "set terminal %s\nset output '",
            svg ? "svg size 900,560 dynamic background 'white'" : "png size 900,560");
    for (const char *c = name; *c; c++) {
        fprintf(gnuplot, *c == '\'' ? "''" : "%c", *c);
    }
    fprintf(gnuplot, "'\nset title 'MPI %s, %d ranks, %s memory, %d passes' noenhanced\n", op->title, b->size,
            b->device ? "device" : "host", b->passes);
    fprintf(gnuplot,
            "set xlabel 'bytes of a block'\nset ylabel 'microseconds (median, 5 to 95 %%)'\n"
            "set logscale x 2\nset logscale y 10\nset format x '%%.0b%%B'\nset grid\nset key top left noenhanced\n");
    for (int s = 0; s < b->nsides; s++) {
        put_data(gnuplot, b, op, s);
    }
    for (int s = 0; s < b->nsides; s++) {
        if (bench_serves(b, op, s)) {
            fprintf(gnuplot, "%s$side%d using 1:2:3:4 with yerrorlines linewidth %d title '%s'", before, s, s ? 1 : 3,
                    b->sides[s].name);
            before = ", ";
        }
    }
    fprintf(gnuplot, "\n");
    return closed(gnuplot, true);
}

const char *bench_plot_write(const bench_t *b)
{
    for (int i = 0; i < b->o.noperations; i++) {
        const char *why = plot_one(b, b->o.operations[i]);

        if (why) {
            return why;
        }
    }
    return NULL;
}
