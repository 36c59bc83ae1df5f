/*
 * schedules KIND [OPTION...] WORK:ARGUMENTS...: see schedules.h. One MPI program, a GPU for each rank. KIND: cuda, hip. Works:
 *
 *   gather:N                              exchange:N
 *   transformer:TOKENSxWIDTHxHIDDEN       moe:ROWSxWIDTHxHIDDENxEXPERTS (rows and experts of each rank)
 *
 *   -t TYPE     bf16 (default) or tf32
 *   -n LIBRARY  NCCL
 *   -r TURNS    of each variant, 25 if not given, at most 101
 *   -l SECONDS  for the turns of a work, 8 if not given: fewer turns, if they take longer
 *   -w SECONDS  a turn that takes longer does not end, and the job ends; 20 if not given
 *   -c FILE     rows are appended to it: work, size, type, ranks, slices, variant, turns, median, 5th and 95th percentile (us)
 *
 * Variants take turns. A turn is the time of the slowest rank, from a barrier until the host knows that all is done. The
 * table's ratio is to `mpi`, one after the other; 0.85 is a goal of the project.
 *
 * Exit status: 0; 1 wrong data; 2 wrong arguments; 3 a call has failed; 4 a turn does not end.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "test/gpu/schedules/schedules.h"

enum { ARGUMENTS = 4, WORKS = 32, WARM_UP = 3, LEAST_TURNS = 5, SIDES = 8 };
/* A variant whose turns take so many times as long as those of the first one, and this part of SECONDS, is not measured. */
enum { SLOW = 20, PART = 40 };

typedef struct item {
    const sched_work_t *work;
    long arguments[ARGUMENTS];
    const char *text;
} item_t;

static struct {
    const char *type, *nccl, *csv;
    int turns, patience;
    double seconds;
    item_t items[WORKS];
    int nitems;
    bool wrong;
} o = {.type = "bf16", .turns = 25, .patience = 20, .seconds = 8};

static void usage(const char *why)
{
    fprintf(stderr, "schedules: %s\n", why);
    MPI_Abort(MPI_COMM_WORLD, 2);
}

static bool parse_item(const char *text, item_t *item)
{
    static const sched_work_t *const works[] = {&sched_gather, &sched_exchange, &sched_transformer, &sched_moe};
    size_t name = strcspn(text, ":");
    const char *at = text + name;

    for (size_t i = 0; i < sizeof(works) / sizeof(works[0]); i++) {
        if (strlen(works[i]->name) == name && !strncmp(works[i]->name, text, name)) {
            item->work = works[i];
        }
    }
    for (int i = 0; i < ARGUMENTS && *at; i++) {
        char *end;

        item->arguments[i] = strtol(at + 1, &end, 10);
        at = end;
    }
    item->text = text + name + (text[name] == ':');
    return item->work && !*at && item->work->size(item->arguments);
}

static void parse(int argc, char **argv)
{
    for (int c; (c = getopt(argc, argv, "t:n:r:l:w:c:")) != -1;) {
        switch (c) {
        case 't':
            o.type = optarg;
            break;
        case 'n':
            o.nccl = optarg;
            break;
        case 'r':
            o.turns = atoi(optarg);
            break;
        case 'l':
            o.seconds = atof(optarg);
            break;
        case 'w':
            o.patience = atoi(optarg);
            break;
        case 'c':
            o.csv = optarg;
            break;
        default:
            usage("no such option");
        }
    }
    if ((strcmp(o.type, "bf16") && strcmp(o.type, "tf32")) || o.turns < 1 || o.turns > SCHED_TURNS || o.patience < 1 ||
        optind == argc || argc - optind > WORKS) {
        usage("TYPE, TURNS, or the number of works");
    }
    for (int i = optind; i < argc; i++) {
        if (!parse_item(argv[i], &o.items[o.nitems++])) {
            usage(argv[i]);
        }
    }
}

/* ---- turns ---- */

static char turning[128]; /* the line of a turn that does not end */

/* One write: the lines of several ranks must not mix. */
static void give_up(int number)
{
    ssize_t written = write(2, turning, strlen(turning));

    (void)number, (void)written;
    _exit(4);
}

/* NULL: what comes before the turns. */
static void watch(const sched_work_t *work, const sched_variant_t *v)
{
    snprintf(turning, sizeof(turning), "schedules: a turn does not end: %s, %s, %d slices, way %d\n", work->name,
             v ? v->side->name : "set-up", v ? v->slices : 0, v ? (int)v->way : 0);
    alarm((unsigned)o.patience);
}

static double timed_turn(const sched_work_t *work, sched_variant_t *v)
{
    double time;

    watch(work, v);
    MPI_Barrier(MPI_COMM_WORLD);
    time = MPI_Wtime();
    sched_turn(work, v);
    time = MPI_Wtime() - time;
    if (v->side->settle) {
        v->side->settle();
    }
    MPI_Allreduce(MPI_IN_PLACE, &time, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return time * 1e6;
}

static void warm_up(const sched_work_t *work, sched_variant_t *variants, int n)
{
    for (sched_variant_t *v = variants; v < variants + n; v++) {
        double us = 1e9;

        watch(work, v);
        sched_check(work, v);
        for (int i = 0; i < WARM_UP; i++) {
            double turn = timed_turn(work, v);

            us = turn < us ? turn : us;
        }
        v->us[0] = us;
        v->slow = us > o.patience * 1e6 / PART && us > SLOW * variants[0].us[0];
        if (v->slow) {
            if (!sched.rank) {
                printf("# %s, %d slices, is left out: a turn takes %.0f us\n", v->side->name, v->slices, us);
            }
        } else {
            watch(work, v);
            sched_check(work, v);
        }
    }
}

/* Returns how many turns each variant has had. */
static int take_turns(const sched_work_t *work, sched_variant_t *variants, int n)
{
    double end = MPI_Wtime() + o.seconds;
    int turn = 0;

    for (int more = 1; more; turn++) {
        for (sched_variant_t *v = variants; v < variants + n; v++) {
            if (!v->slow) {
                v->us[turn] = timed_turn(work, v);
            }
        }
        more = turn + 1 < o.turns && (turn + 1 < LEAST_TURNS || MPI_Wtime() < end);
        MPI_Bcast(&more, 1, MPI_INT, 0, MPI_COMM_WORLD);
    }
    return turn;
}

/* ---- output ---- */

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double percentile(const sched_variant_t *v, int turns, int percent)
{
    return v->us[(turns - 1) * percent / 100];
}

static void print_row(FILE *csv, const item_t *item, const sched_variant_t *v, int turns, double base)
{
    static const char *const ways[] = {"one after the other", "side by side"};
    double median = percentile(v, turns, 50), low = percentile(v, turns, 5), high = percentile(v, turns, 95);
    char name[64];

    snprintf(name, sizeof(name), "%s %s", v->side->name, v->way == SCHED_WHOLE ? "after" : "beside");
    printf("%-11s %-20s %6d %10.1f %10.1f %10.1f %6.2f%s\n", v->side->name, ways[v->way], v->slices, median, low, high,
           median / base, v->wrong ? "  WRONG" : "");
    if (csv) {
        fprintf(csv, "%s,%s,%s,%d,%d,%s,%d,%.1f,%.1f,%.1f\n", item->work->name, item->text, o.type, sched.ranks,
                v->slices, name, turns, median, low, high);
    }
}

/* The best variant of each side. */
static void print_best(const sched_variant_t *variants, int n, int turns)
{
    for (int i = 0, best = 0; i < n; i++) {
        if (!variants[i].slow &&
            (variants[best].slow || percentile(&variants[i], turns, 50) <= percentile(&variants[best], turns, 50))) {
            best = i;
        }
        if (i + 1 == n || variants[i + 1].side != variants[i].side) {
            printf("best of %-10s %8.1f us, %.2f of the first row: %s, %d slices\n", variants[i].side->name,
                   percentile(&variants[best], turns, 50),
                   percentile(&variants[best], turns, 50) / percentile(&variants[0], turns, 50),
                   variants[best].way == SCHED_WHOLE ? "one after the other" : "side by side", variants[best].slices);
            best = i + 1 < n ? i + 1 : i;
        }
    }
}

static void print_table(const item_t *item, sched_variant_t *variants, int n, int turns)
{
    FILE *csv = o.csv ? fopen(o.csv, "a") : NULL;

    printf("\n%s, %s = %s, %s, %d ranks, %d turns, products by %s\n", item->work->name, item->work->arguments,
           item->text, o.type, sched.ranks, turns, sched.blas ? "cuBLAS" : "the processor");
    printf("%-11s %-20s %6s %10s %10s %10s %6s\n", "side", "way", "slices", "median us", "p5", "p95", "ratio");
    for (sched_variant_t *v = variants; v < variants + n; v++) {
        qsort(v->us, (size_t)turns, sizeof(double), by_value);
    }
    for (sched_variant_t *v = variants; v < variants + n; v++) {
        if (!v->slow) {
            print_row(csv, item, v, turns, percentile(&variants[0], turns, 50));
        }
    }
    print_best(variants, n, turns);
    fflush(stdout);
    if (csv) {
        fclose(csv);
    }
}

static void measure(const item_t *item, const sched_side_t *sides, int nsides)
{
    static sched_variant_t variants[SCHED_VARIANTS];
    int n, turns;

    item->work->size(item->arguments);
    watch(item->work, NULL);
    item->work->open();
    n = sched_variants_make(item->work, sides, nsides, variants);
    warm_up(item->work, variants, n);
    turns = take_turns(item->work, variants, n);
    alarm(0);
    for (int i = 0; i < n; i++) {
        o.wrong |= variants[i].wrong;
    }
    if (!sched.rank) {
        print_table(item, variants, n, turns);
    }
    sched_variants_free(variants, n);
    item->work->close();
}

int main(int argc, char **argv)
{
    size_t send_room = 1, recv_room = 1;
    sched_side_t sides[SIDES];
    char *send, *recv;
    int nsides, given;

    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &given);
    MPI_Comm_rank(MPI_COMM_WORLD, &sched.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &sched.ranks);
    if (sched.ranks < 2 || sched.ranks > SCHED_RANKS) {
        usage("2 to 8 ranks");
    }
    if (argc < 2) {
        usage("which GPUs?");
    }
    parse(argc - 1, argv + 1);
    signal(SIGALRM, give_up);
    gpu_open(argv[1], sched.rank);
    sched_arithmetic_open(o.type);
    for (int i = 0; i < o.nitems; i++) {
        size_t s, r;

        o.items[i].work->size(o.items[i].arguments);
        o.items[i].work->rooms(&s, &r);
        send_room = s > send_room ? s : send_room;
        recv_room = r > recv_room ? r : recv_room;
    }
    send = sched_alloc(send_room);
    recv = sched_alloc(recv_room);
    nsides = sched_open_mpi(sides, send, recv);
    if (o.nccl) {
        nsides += sched_open_nccl(sides + nsides, o.nccl, send, recv, send_room * sched.bytes, recv_room * sched.bytes);
    }
    for (int i = 0; i < o.nitems; i++) {
        measure(&o.items[i], sides, nsides);
    }
    if (!sched.rank) {
        printf("\ndata %s\n", o.wrong ? "WRONG" : "right");
    }
    MPI_Finalize();
    return o.wrong;
}
