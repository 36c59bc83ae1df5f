/*
 * Random sweep over collectives: bytes computed from the definition, canaries around and between them, skew, the user's
 * own messages and several communicators at once. The other files are listed in sweep.h.
 *
 *   mpirun -n N sweep [-s SEED] [-n CASES] [-c CASE[:LAST]] [-o OPERATION] [-f FORMS] [-l FORMS] [-m BYTES]
 *                     [-d PERCENT] [-D MEMORY] [-P] [-w SECONDS] [-t THREADS] [-v]
 *     -s  seed (default 1); -n number of cases (default 200), numbered from 0
 *     -c  replay one case or a range
 *     -o  only this operation; -f only these forms, some of b (blocking), n (non-blocking), p (persistent)
 *     -l  lenient: stock Open MPI 4.1 serves these forms, so leave out what it gets wrong: element sizes that differ
 *         between ranks in all-gatherv (b), all-to-all in place (n), anything in place and types that are freed early
 *         (p), requests that outlive their communicator (n, p)
 *     -m  largest block in bytes (default 1 MiB)
 *     -d  so many percent of the buffers, of each rank, in device memory of its GPU; single calls then have blocks of up
 *         to -m bytes, log-uniform
 *     -w  seconds after which a case is called hung (default 60)
 *     -t  share the cases among so many threads, each with communicators of its own
 *     -D  device memory: "device" everywhere, on some "ranks" and host memory on others, or "any" kind for each buffer
 *     -P  with -D, on the emulated node or the fake CUDA: fail if engines did not serve what is theirs to serve
 *     -v  say what the cases covered; with one case, also what it is
 *
 * A failure prints one line per rank with all that is needed to replay it. Rank 0 ends with "N passed, N failed"
 * (cases); the exit status is 1 if any failed.
 */
#include "sweep.h"

#include <getopt.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../tools/bench/device.h"

options_t options = {
    .seed = 1, .last = 199, .max_bytes = 1 << 20, .watchdog = 60, .threads = 1, .forms = {true, true, true}};
int world_rank, world_size;

static bool known(const char *name)
{
    for (int i = 0; i < nops; i++) {
        if (strcmp(ops[i].name, name) == 0) {
            return true;
        }
    }
    fprintf(stderr, "sweep: no operation \"%s\"\n", name);
    return false;
}

static bool parse_forms(const char *text, bool forms[FORM_KINDS])
{
    bool any = false;
    for (int i = 0; i < FORM_KINDS; i++) {
        forms[i] = strchr(text, form_names[i][0]) != NULL;
        any |= forms[i];
    }
    return any;
}

static bool parse_memory(const char *text)
{
    for (int i = 0; i < MEMORY_MODES; i++) {
        if (strcmp(memory_mode_names[i], text) == 0) {
            options.memory = (memory_mode_t)i;
            return true;
        }
    }
    return false;
}

static bool parse(int argc, char **argv)
{
    for (int opt; (opt = getopt(argc, argv, "s:n:c:o:f:l:m:d:D:Pw:t:v")) != -1;) {
        switch (opt) {
        case 's':
            options.seed = strtoull(optarg, NULL, 0);
            break;
        case 'n':
            options.last = options.first + atol(optarg) - 1;
            break;
        case 'c':
            if (sscanf(optarg, "%ld:%ld", &options.first, &options.last) == 1) {
                options.last = options.first;
            }
            break;
        case 'o':
            options.only = optarg;
            break;
        case 'f':
            if (!parse_forms(optarg, options.forms)) {
                return false;
            }
            break;
        case 'l':
            if (!parse_forms(optarg, options.stock)) {
                return false;
            }
            break;
        case 'm':
            options.max_bytes = atol(optarg);
            break;
        case 'd':
            options.device = atoi(optarg);
            break;
        case 'w':
            options.watchdog = atoi(optarg);
            break;
        case 't':
            options.threads = atoi(optarg);
            break;
        case 'D':
            if (!parse_memory(optarg)) {
                return false;
            }
            break;
        case 'P':
            options.proof = true;
            break;
        case 'v':
            options.verbose = true;
            break;
        default:
            return false;
        }
    }
    return optind == argc && options.last >= options.first && options.max_bytes > 0 && options.watchdog > 0 &&
           options.threads > 0 && options.threads <= MOST_THREADS && (options.only == NULL || known(options.only));
}

static char *wrong; /* by case, so that one seen by several ranks counts once */

typedef struct {
    pthread_t thread;
    int index;
    MPI_Comm base;
} worker_t;

static void *work(void *arg)
{
    const worker_t *worker = arg;
    thread_index = worker->index;
    base_comm = worker->base;
    report_case(-1, "before the first case");
    memory_begin();
    case_setup();
    for (long number = options.first; number <= options.last; number++) {
        if (number % options.threads == worker->index) {
            wrong[number - options.first] = !case_run(number);
        }
    }
    report_case(-1, "after the last case");
    case_teardown();
    return NULL;
}

static void run_workers(void)
{
    worker_t workers[MOST_THREADS];
    for (int i = 0; i < options.threads; i++) {
        workers[i] = (worker_t){.index = i, .base = MPI_COMM_WORLD};
        if (i > 0) {
            MPI_Comm_dup(MPI_COMM_WORLD, &workers[i].base);
        }
    }
    for (int i = 1; i < options.threads; i++) {
        pthread_create(&workers[i].thread, NULL, work, &workers[i]);
    }
    work(&workers[0]);
    for (int i = 1; i < options.threads; i++) {
        pthread_join(workers[i].thread, NULL);
        MPI_Comm_free(&workers[i].base);
    }
}

int main(int argc, char **argv)
{
    if (!parse(argc, argv)) {
        fprintf(stderr,
                "usage: sweep [-s SEED] [-n CASES] [-c CASE[:LAST]] [-o OPERATION] [-f FORMS] [-l FORMS] [-m BYTES] "
                "[-d PERCENT] [-D MEMORY] [-P] [-w SECONDS] [-t THREADS] [-v]\n");
        return 2;
    }
    int level;
    MPI_Init_thread(&argc, &argv, options.threads > 1 ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &world_size);
    if (options.threads > 1 && level < MPI_THREAD_MULTIPLE) {
        fprintf(stderr, "sweep: this MPI does not have MPI_THREAD_MULTIPLE\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    const char *missing = options.device > 0 ? device_open(NULL, world_rank) : NULL;
    if (missing != NULL) {
        fprintf(stderr, "sweep: %s\n", missing);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    report_signals();
    if (!memory_open()) {
        MPI_Abort(MPI_COMM_WORLD, 2);
    }

    long cases = options.last - options.first + 1, failed = 0;
    wrong = calloc((size_t)cases, 1);
    proof_begin();
    run_workers();
    proof_end(wrong);
    memory_print();
    if (options.verbose) {
        cover_print();
    }
    MPI_Allreduce(MPI_IN_PLACE, wrong, (int)cases, MPI_BYTE, MPI_BOR, MPI_COMM_WORLD);
    for (long i = 0; i < cases; i++) {
        failed += wrong[i];
    }
    free(wrong);
    if (world_rank == 0) {
        printf("%ld passed, %ld failed\n", cases - failed, failed);
        fflush(stdout);
    }
    MPI_Finalize();
    return failed != 0;
}
