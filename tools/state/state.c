/* coll_dma_state: which ranks wait for which in a running or stuck job. See the manual page coll_dma_state.1. */
#include <getopt.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>

#include "dma/clock.h"
#include "tools/state/state.h"

/* Exit statuses. */
enum { FOUND, NOT_FOUND, WRONG_USE };

static const char help[] =
    "usage: coll_dma_state [--json] [PID | JOB]\n"
    "Says which rank of a running or stuck job waits for which other one, in which call, without a signal and without\n"
    "help of the job. Only the user of the job may ask.\n"
    "\n"
    "  PID        a process of the job; or mpirun, one of its daemons or a shell: all that it has started on this "
    "host\n"
    "  JOB        the name of the job, as in Open MPI's messages [[JOB],RANK]: 41234,1\n"
    "             without either: all jobs on this host that this user may ask\n"
    "  --json     for programs\n"
    "  --help, --version\n"
    "\n"
    "Exit status: 0 the state was printed, 1 there is none, 2 wrong use.\n";

/* Why there is nothing to print. */
static void explain(const char *what, const state_list_t *list)
{
    char *end;
    pid_t pid = what ? (pid_t)strtol(what, &end, 10) : 0;
    state_process_t process;
    const struct passwd *owner;

    if (list->refused) {
        owner = getpwuid(list->refused_owner);
        fprintf(stderr, "coll_dma_state: %s belongs to user %s; only that user may ask for its state\n", what,
                owner ? owner->pw_name : "unknown");
        return;
    }
    if (!what || *end || pid <= 0) {
        fprintf(stderr, "coll_dma_state: no process here uses coll/dma%s%s\n", what ? " in the job " : "",
                what ? what : "");
        return;
    }
    state_read(pid, &process);
    if (process.access == STATE_GONE) {
        fprintf(stderr, "coll_dma_state: process %d is gone\n", (int)pid);
    } else {
        fprintf(stderr,
                "coll_dma_state: neither process %d nor one that it has started has called a collective that coll/dma "
                "serves\n",
                (int)pid);
    }
    state_process_free(&process);
}

static int print_state(const char *what, bool json)
{
    state_list_t list;
    int status = FOUND;

    if (!state_find(what, &list)) {
        fprintf(stderr, "coll_dma_state: /proc cannot be read\n");
        status = NOT_FOUND;
    } else if (!list.n) {
        explain(what, &list);
        status = NOT_FOUND;
    } else if (json) {
        state_say_json(&list, dma_now());
    } else {
        state_say(&list, dma_now());
    }
    state_list_free(&list);
    return status;
}

int main(int argc, char **argv)
{
    enum { HELP = 1, VERSION, JSON };
    static const struct option options[] = {{"help", no_argument, NULL, HELP},
                                            {"version", no_argument, NULL, VERSION},
                                            {"json", no_argument, NULL, JSON},
                                            {0}};
    bool json = false;
    int option;

    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        switch (option) {
        case HELP:
            fputs(help, stdout);
            return FOUND;
        case VERSION:
            printf("coll_dma_state %s\n", DMA_VERSION);
            return FOUND;
        case JSON:
            json = true;
            break;
        default:
            return WRONG_USE;
        }
    }
    if (argc - optind > 1) {
        fprintf(stderr, "coll_dma_state: one process or job at a time\n");
        return WRONG_USE;
    }
    return print_state(argv[optind], json);
}
