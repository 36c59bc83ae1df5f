/* Failures, the watchdog, and counts of what the cases covered. */
#include "sweep.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char case_text[200], call_texts[MOST_CALLS][200];
static long case_number;
static volatile const char *stage_name = "start";
static volatile int stage_call = -1;

/* "rank R WHAT; seed S case C, where, call K: what it is: calls and so on; replay: ..." */
static void describe(char *line, size_t room, const char *what)
{
    char call[260] = "";
    if (stage_call >= 0) {
        snprintf(call, sizeof(call), ", call %d: %s", stage_call, call_texts[stage_call]);
    }
    unsigned long long seed = options.seed;
    snprintf(
        line, room, "sweep: rank %d %s; seed %llu case %ld, %s%s: %s; replay: mpirun -n %d ... sweep -s %llu -c %ld\n",
        world_rank, what, seed, case_number, (const char *)stage_name, call, case_text, world_size, seed, case_number);
}

static void say_where(const char *what)
{
    char line[1024];
    describe(line, sizeof(line), what);
    if (write(STDERR_FILENO, line, strlen(line)) < 0) {
        _exit(1);
    }
}

static void on_alarm(int signal)
{
    (void)signal;
    char what[40];
    snprintf(what, sizeof(what), "hangs for %d s", options.watchdog);
    say_where(what);
    sleep(1); /* the other ranks' alarms are due: let them print as well */
    _exit(1);
}

/* The second time it strikes, the default does what it does. */
static void on_crash(int number)
{
    signal(number, SIG_DFL);
    say_where(number == SIGSEGV ? "crashes (SIGSEGV)" : "crashes (SIGBUS)");
}

void report_signals(void)
{
    signal(SIGALRM, on_alarm);
    signal(SIGSEGV, on_crash);
    signal(SIGBUS, on_crash);
}

void report_case(long number, const char *text)
{
    case_number = number;
    snprintf(case_text, sizeof(case_text), "%s", text);
    alarm((unsigned)options.watchdog);
}

void report_call(int call, const char *text)
{
    snprintf(call_texts[call], sizeof(call_texts[call]), "%s", text);
    if (options.verbose && options.first == options.last) {
        printf("rank %d case %ld call %d: %s\n", world_rank, case_number, call, text);
        fflush(stdout);
    }
}

void report_stage(const char *stage, int call)
{
    stage_name = stage;
    stage_call = call;
}

void report_failure(const char *what)
{
    enum { PATIENCE = 5 };
    static int failures;
    char line[1024], failed[400];
    snprintf(failed, sizeof(failed), "FAILED: %s", what);
    describe(line, sizeof(line), failed);
    fputs(line, stderr);
    fflush(stderr);
    if (++failures >= PATIENCE) {
        fprintf(stderr, "sweep: rank %d gives up after %d failures\n", world_rank, failures);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

void report_mpi_error(const char *where, int code)
{
    char text[MPI_MAX_ERROR_STRING], line[MPI_MAX_ERROR_STRING + 80];
    int length;
    MPI_Error_string(code, text, &length);
    snprintf(line, sizeof(line), "%s returned %s", where, text);
    report_failure(line);
    MPI_Abort(MPI_COMM_WORLD, 1); /* the ranks no longer agree on what is under way */
}

/* ---- coverage ---- */
enum { MOST_FEATURES = 128 };
typedef struct {
    char name[56];
    long cases, seen_in; /* number of cases; the last of them */
} feature_t;
static feature_t features[MOST_FEATURES];
static int nfeatures;
static long epoch = 1;

void cover_next_case(void)
{
    epoch++;
}

void cover(const char *group, const char *name)
{
    char full[sizeof(features[0].name)];
    snprintf(full, sizeof(full), "%s %s", group, name);
    int i = 0;
    while (i < nfeatures && strcmp(features[i].name, full) != 0) {
        i++;
    }
    if (i == MOST_FEATURES) {
        return;
    }
    if (i == nfeatures) {
        features[nfeatures++] = (feature_t){0};
        memcpy(features[i].name, full, sizeof(full));
    }
    if (features[i].seen_in != epoch) {
        features[i].seen_in = epoch;
        features[i].cases++;
    }
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const feature_t *)a)->name, ((const feature_t *)b)->name);
}

/* Ranks see different features (types are theirs alone): merges the tables on rank 0, by the largest count of a rank. */
void cover_print(void)
{
    if (world_rank != 0) {
        MPI_Send(features, (int)sizeof(features), MPI_BYTE, 0, 31998, MPI_COMM_WORLD);
        return;
    }
    feature_t *theirs = malloc(sizeof(features));
    for (int rank = 1; rank < world_size; rank++) {
        MPI_Recv(theirs, (int)sizeof(features), MPI_BYTE, rank, 31998, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        for (int k = 0; k < MOST_FEATURES && theirs[k].name[0] != '\0'; k++) {
            int i = 0;
            while (i < nfeatures && strcmp(features[i].name, theirs[k].name) != 0) {
                i++;
            }
            if (i == MOST_FEATURES) {
                continue;
            }
            if (i == nfeatures) {
                features[nfeatures++] = theirs[k];
            } else if (theirs[k].cases > features[i].cases) {
                features[i].cases = theirs[k].cases;
            }
        }
    }
    free(theirs);
    qsort(features, (size_t)nfeatures, sizeof(features[0]), by_name);
    for (int i = 0; i < nfeatures; i++) {
        printf("covers %-40s %ld\n", features[i].name, features[i].cases);
    }
}
