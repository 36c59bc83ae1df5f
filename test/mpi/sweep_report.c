/* Failures, crashes and the watchdog: one line with everything that is needed to replay the case. */
#include "sweep.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Where a thread is. */
typedef struct {
    char text[300], calls[MOST_CALLS][300];
    long number;
    const char *volatile stage;
    volatile int call;
} place_t;
static place_t places[MOST_THREADS];
_Thread_local int thread_index;

/* "rank R WHAT; seed S case C, where, call K: what it is: calls and so on; replay: ..." */
static void describe(const place_t *p, char *line, size_t room, const char *what)
{
    char call[340] = "", threads[20] = "";
    if (p->call >= 0) {
        snprintf(call, sizeof(call), ", call %d: %s", p->call, p->calls[p->call]);
    }
    if (options.threads > 1) {
        snprintf(threads, sizeof(threads), "-t %d ", options.threads);
    }
    unsigned long long seed = options.seed;
    snprintf(line, room,
             "sweep: rank %d %s; seed %llu case %ld, %s%s: %.299s; replay: mpirun -n %d ... sweep %s-s %llu -c %ld\n",
             world_rank, what, seed, p->number, p->stage ? p->stage : "start", call, p->text, world_size, threads, seed,
             p->number);
}

static void say_where(const char *what)
{
    char line[1200];
    for (int i = 0; i < options.threads; i++) {
        describe(&places[i], line, sizeof(line), what);
        if (write(STDERR_FILENO, line, strlen(line)) < 0) {
            _exit(1);
        }
    }
}

static void on_alarm(int signal)
{
    (void)signal;
    char what[40];
    snprintf(what, sizeof(what), "hangs for %d s", options.watchdog);
    say_where(what);
    sleep(5); /* the alarms of other ranks are due: let them print as well */
    _exit(1);
}

/* At the second signal, the default action is taken. */
static void on_crash(int number)
{
    signal(number, SIG_DFL);
    say_where(number == SIGSEGV ? "crashes (SIGSEGV)" : number == SIGABRT ? "aborts" : "crashes (SIGBUS)");
}

void report_signals(void)
{
    signal(SIGALRM, on_alarm);
    signal(SIGSEGV, on_crash);
    signal(SIGBUS, on_crash);
    signal(SIGABRT, on_crash);
}

void report_case(long number, const char *text)
{
    place_t *p = &places[thread_index];
    p->number = number;
    snprintf(p->text, sizeof(p->text), "%s", text);
    alarm((unsigned)options.watchdog);
}

void report_call(int call, const char *text)
{
    place_t *p = &places[thread_index];
    snprintf(p->calls[call], sizeof(p->calls[call]), "%s", text);
    if (options.verbose && options.first == options.last) {
        printf("rank %d case %ld call %d: %s\n", world_rank, p->number, call, text);
        fflush(stdout);
    }
}

void report_stage(const char *stage, int call)
{
    places[thread_index].stage = stage;
    places[thread_index].call = call;
}

void report_failure(const char *what)
{
    enum { PATIENCE = 5 };
    static atomic_int failures;
    char line[1200], failed[400];
    snprintf(failed, sizeof(failed), "FAILED: %s", what);
    describe(&places[thread_index], line, sizeof(line), failed);
    fputs(line, stderr);
    fflush(stderr);
    if (++failures >= PATIENCE) {
        fprintf(stderr, "sweep: rank %d gives up after %d failures\n", world_rank, PATIENCE);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

void report_mpi(const char *where, int code)
{
    char text[MPI_MAX_ERROR_STRING], line[MPI_MAX_ERROR_STRING + 80];
    int length;
    if (code == MPI_SUCCESS) {
        return;
    }
    MPI_Error_string(code, text, &length);
    snprintf(line, sizeof(line), "%s returned %s", where, text);
    report_failure(line);
    MPI_Abort(MPI_COMM_WORLD, 1); /* the ranks do not agree any more on what is under way */
}
