/*
 * Random sweep over collectives: bytes computed from the definition, canaries around and between them, skew, the user's
 * own messages and several communicators at once. The other files are listed in sweep.h.
 *
 *   mpirun -n N sweep [-s SEED] [-n CASES] [-c CASE[:LAST]] [-o OPERATION] [-m BYTES] [-w SECONDS] [-t] [-v]
 *     -s  seed (default 1); -n number of cases (default 200), numbered from 0
 *     -c  replay one case or a range
 *     -o  only this operation; -m largest block in bytes (default 1 MiB)
 *     -w  seconds after which a case is called hung (default 60)
 *     -t  ask for MPI_THREAD_MULTIPLE
 *     -v  say how many cases covered each feature; with one case, also what it is
 *
 * A failure prints one line per rank with all that is needed to replay it. Rank 0 ends with "N passed, N failed"
 * (cases); the exit status is 1 if any failed.
 */
#include "sweep.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

options_t options = {.seed = 1, .first = 0, .last = 199, .max_bytes = 1 << 20, .watchdog = 60};
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

static bool parse(int argc, char **argv)
{
    for (int opt; (opt = getopt(argc, argv, "s:n:c:o:m:w:tv")) != -1;) {
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
        case 'm':
            options.max_bytes = atol(optarg);
            break;
        case 'w':
            options.watchdog = atoi(optarg);
            break;
        case 't':
            options.threads = true;
            break;
        case 'v':
            options.verbose = true;
            break;
        default:
            return false;
        }
    }
    return optind == argc && options.last >= options.first && options.max_bytes > 0 && options.watchdog > 0 &&
           (options.only == NULL || known(options.only));
}

int main(int argc, char **argv)
{
    if (!parse(argc, argv)) {
        fprintf(
            stderr,
            "usage: sweep [-s SEED] [-n CASES] [-c CASE[:LAST]] [-o OPERATION] [-m BYTES] [-w SECONDS] [-t] [-v]\n");
        return 2;
    }
    int level;
    MPI_Init_thread(&argc, &argv, options.threads ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &world_size);
    report_signals();
    report_case(-1, "before the first case");
    case_setup();

    long cases = options.last - options.first + 1, failed = 0;
    char *wrong = calloc((size_t)cases, 1); /* by case, so that one seen by several ranks counts once */
    for (long i = 0; i < cases; i++) {
        wrong[i] = !case_run(options.first + i);
    }
    report_case(-1, "after the last case");
    if (options.verbose) {
        cover_print();
    }
    case_teardown();
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
