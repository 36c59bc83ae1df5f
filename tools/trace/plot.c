/* The table of phases as a stacked bar chart, like the figure of the paper: shares of a call's time, a bar for each row. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/trace/trace.h"

#define MOST_BARS 200

static void put_size(FILE *to, uint64_t bytes)
{
    if (bytes >= 1u << 20 && bytes % (1u << 20) == 0) {
        fprintf(to, "%lluM", (unsigned long long)(bytes >> 20));
    } else if (bytes >= 1024 && bytes % 1024 == 0) {
        fprintf(to, "%lluK", (unsigned long long)(bytes >> 10));
    } else {
        fprintf(to, "%llu", (unsigned long long)bytes);
    }
}

static void put_bars(FILE *to, const trace_table_t *table)
{
    fprintf(to, "$phases << END\n");
    for (size_t i = 0; i < table->n && i < MOST_BARS; i++) {
        const trace_row_t *r = &table->rows[i];
        double scale = r->time > 0 ? 100 / r->time : 0;

        fprintf(to, "\"%s, %s, %d ranks, ", trace_coll_name(r->coll), r->variant, r->nranks);
        put_size(to, r->bytes);
        fprintf(to, "\" %.2f %.2f %.2f %.2f %.2f %.2f\n", scale * r->phases.control, scale * r->phases.schedule,
                scale * r->phases.copy, scale * (r->phases.synchronise - r->phases.meeting), scale * r->phases.meeting,
                r->time);
    }
    fprintf(to, "END\n");
}

/* The text of the program for gnuplot. The path has no quotes, because the caller has checked it. */
static void put_program(FILE *to, const trace_table_t *table, const char *path)
{
    size_t bars = table->n < MOST_BARS ? table->n : MOST_BARS;

    put_bars(to, table);
    fprintf(
        to,
        "set terminal svg size %zu,640 background 'white' font 'sans,12'\n"
        "set output '%s'\n"
        "set style data histograms\nset style histogram rowstacked\nset style fill solid 0.9 border -1\n"
        "set boxwidth 0.7\nset yrange [0:108]\nset ylabel 'share of the time of a call (%%)'\n"
        "set xtics rotate by -40 noenhanced\nset key above\nset rmargin 12\n"
        "set label 1 '' at graph 0,1\n"
        "plot $phases using 2:xtic(1) title 'control' lc rgb '#4477aa', '' using 3 title 'schedule' lc rgb '#ccbb44', "
        "'' using 4 title 'copy' lc rgb '#228833', '' using 5 title 'synchronise' lc rgb '#ee6677', "
        "'' using 6 title 'synchronise: meeting' lc rgb '#dddddd', "
        "'' using 0:(103):(sprintf('%%.1f us', column(7))) with labels font ',9' notitle\n",
        200 + 70 * bars, path);
}

bool trace_write_plot(const trace_table_t *table, const char *path)
{
    FILE *to;

    if (strchr(path, '\'') || strchr(path, '\n') || !table->n) {
        fprintf(stderr, "coll_dma_trace: %s: %s\n", path, table->n ? "not a name for a plot" : "no call has ended");
        return false;
    }
    if (system("command -v gnuplot >/dev/null 2>&1")) {
        fprintf(stderr, "coll_dma_trace: no plot, because gnuplot is not installed\n");
        return false;
    }
    if (!(to = popen("gnuplot", "w"))) {
        fprintf(stderr, "coll_dma_trace: gnuplot: %s\n", strerror(errno));
        return false;
    }
    put_program(to, table, path);
    if (pclose(to)) {
        fprintf(stderr, "coll_dma_trace: gnuplot has failed\n");
        return false;
    }
    return true;
}
