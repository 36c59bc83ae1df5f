/*
 * All cells and sides, pass by pass: see bench.h. Sides take turns at each cell, in an order that changes from pass to pass,
 * so that changes on the machine affect all of them. Tables are printed while the last pass runs.
 */
#include <string.h>
#include <unistd.h>

#include "tools/bench/bench.h"

enum { BAR = 30 };

/* ---- the progress bar ---- */

/*
 * mpirun reads our stderr through a pipe, so the stderr of mpirun itself decides. The bar goes there directly, because
 * mpirun may keep back what does not end a line, or put it among the results. NULL: there is no terminal.
 */
static FILE *terminal(void)
{
    char path[64], target[64];
    ssize_t length;

    if (isatty(STDERR_FILENO)) {
        return stderr;
    }
    snprintf(path, sizeof(path), "/proc/%d/fd/2", (int)getppid());
    length = readlink(path, target, sizeof(target) - 1);
    target[length > 0 ? length : 0] = '\0';
    return !strncmp(target, "/dev/pts/", 9) || !strncmp(target, "/dev/tty", 8) ? fopen(target, "w") : NULL;
}

typedef struct progress {
    FILE *to;       /* NULL: nothing is shown */
    bool bar;       /* on a terminal; otherwise lines */
    long done, all; /* cells of passes */
    double seconds; /* time at which the run ends, if the passes are not over before; or 0 */
    double begun, shown;
} progress_t;

static void progress_open(progress_t *p, const bench_t *b)
{
    *p = (progress_t){.all = (long)b->planned * b->ncells, .seconds = b->o.seconds, .begun = bench_now()};
    if (b->rank || b->o.quiet) {
        return;
    }
    p->to = terminal();
    p->bar = p->to;
    if (!p->to && b->o.progress) {
        p->to = stderr;
    }
}

/* Short runs do without. */
static bool is_due(const progress_t *p, double now)
{
    return p->to && now - p->begun > 1.9e6 && now - p->shown > (p->bar ? 0.3e6 : 1.9e6);
}

static void show(progress_t *p)
{
    double now = bench_now(), seconds = (now - p->begun) * 1e-6, share = (double)p->done / (double)p->all;
    int full;

    if (!is_due(p, now)) {
        return;
    }
    p->shown = now;
    share = p->seconds > 0 && seconds / p->seconds > share ? seconds / p->seconds : share;
    share = share > 1 ? 1 : share;
    full = (int)(BAR * share);
    fprintf(p->to, "%s[%.*s%*s] %3.0f %%, %.0f s, %.0f s to go %s", p->bar ? "\r" : "", full,
            "##############################", BAR - full, "", 100 * share, seconds, seconds / share - seconds,
            p->bar ? "" : "\n");
    fflush(p->to);
}

/* Makes room for a line of the table. */
static void hide(progress_t *p)
{
    if (p->to && p->bar && p->shown > 0) {
        fprintf(p->to, "\r%*s\r", BAR + 40, "");
        fflush(p->to);
    }
}

static void progress_close(progress_t *p)
{
    hide(p);
    if (p->to && p->to != stderr) {
        fclose(p->to);
    }
}

/* ---- passes ---- */

/* The side whose turn it is. From pass to pass another side begins, and the direction changes. */
static int turn_of(const bench_t *b, int pass, int i)
{
    int n = b->nsides, at = (i + pass) % n;

    return pass / n % 2 ? n - 1 - at : at;
}

static void cell_pass(bench_t *b, int cell, int pass, bool check)
{
    for (int i = 0; i < b->nsides; i++) {
        int side = turn_of(b, pass, i);
        bool right;

        if (bench_measured(b, cell, side)) {
            *bench_sample(b, pass, cell, side) =
                bench_measure(b, &b->cells[cell], &b->sides[side], check ? (unsigned)pass + 1 : 0, &right);
            b->wrong[cell * b->nsides + side] |= !right;
        }
    }
}

/* Rank 0 decides whether there is time for one more pass after the next. */
static bool is_last(const bench_t *b, int pass, double begun)
{
    double now = bench_now();
    int last = pass + 1 == b->planned;

    if (b->o.seconds > 0 && pass > 0) {
        last |= (now - begun) / pass * (pass + 2) > b->o.seconds * 1e6;
    }
    MPI_Bcast(&last, 1, MPI_INT, 0, MPI_COMM_WORLD);
    return last;
}

void bench_passes(bench_t *b)
{
    progress_t progress;
    bool last = false;

    progress_open(&progress, b);
    for (int pass = 0; !last; pass++) {
        last = is_last(b, pass, progress.begun);
        b->passes = pass + 1;
        for (int cell = 0; cell < b->ncells; cell++) {
            cell_pass(b, cell, pass, b->o.validate && (pass == 0 || last));
            progress.done++;
            if (last) {
                hide(&progress);
                bench_table_row(b, cell);
            }
            show(&progress);
        }
    }
    progress_close(&progress);
}
