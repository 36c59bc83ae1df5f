/*
 * All cells and sides, pass by pass: see bench.h. Sides take their turns at each cell, in an order that changes from pass to
 * pass, so that what changes on the machine changes for all. Tables are printed while the last pass runs.
 */
#include <string.h>
#include <unistd.h>

#include "tools/bench/bench.h"

enum { BAR = 30 };

/* ---- the progress bar ---- */

/* mpirun reads our stderr through a pipe: what counts is where its own one leads. */
static bool at_terminal(void)
{
    char path[64], target[64];
    ssize_t length;

    if (isatty(STDERR_FILENO)) {
        return true;
    }
    snprintf(path, sizeof(path), "/proc/%d/fd/2", (int)getppid());
    length = readlink(path, target, sizeof(target) - 1);
    target[length > 0 ? length : 0] = '\0';
    return !strncmp(target, "/dev/pts/", 9) || !strncmp(target, "/dev/tty", 8);
}

typedef struct progress {
    bool on;
    long done, all; /* cells of passes */
    double seconds; /* in which the run ends, if they are not over before; or 0 */
    double begun, shown;
} progress_t;

static void show(progress_t *p, bool last)
{
    double now = bench_now(), seconds = (now - p->begun) * 1e-6, share = (double)p->done / (double)p->all;
    int full;

    /* Short runs do without. */
    if (!p->on || seconds < 2 || (now - p->shown < 0.3e6 && !last)) {
        return;
    }
    p->shown = now;
    share = p->seconds > 0 && seconds / p->seconds > share ? seconds / p->seconds : share;
    share = share > 1 ? 1 : share;
    full = (int)(BAR * share);
    if (last) {
        fprintf(stderr, "\r%*s\r", BAR + 40, "");
    } else {
        fprintf(stderr, "\r[%.*s%*s] %3.0f %%, %.0f s, %.0f s to go ", full, "##############################",
                BAR - full, "", 100 * share, seconds, seconds / share - seconds);
    }
    fflush(stderr);
}

/* ---- passes ---- */

/* The side whose turn it is: from pass to pass another begins, and the direction changes. */
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

/* Rank 0 says whether there is time for one more after the next pass. */
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
    progress_t progress = {.begun = bench_now(), .all = (long)b->planned * b->ncells, .seconds = b->o.seconds};
    bool last = false;

    progress.on = b->rank == 0 && !b->o.quiet && (b->o.progress || at_terminal());
    for (int pass = 0; !last; pass++) {
        last = is_last(b, pass, progress.begun);
        b->passes = pass + 1;
        for (int cell = 0; cell < b->ncells; cell++) {
            cell_pass(b, cell, pass, b->o.validate && (pass == 0 || last));
            progress.done++;
            if (last) {
                show(&progress, true);
                bench_table_row(b, cell);
            }
            show(&progress, false);
        }
    }
    show(&progress, true);
}
