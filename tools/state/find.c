/* Finds the processes of a job, by the tree of processes or by the name of the job. */
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tools/state/state.h"

typedef struct node {
    pid_t pid, parent;
} node_t;

typedef struct tree {
    node_t *nodes;
    size_t n;
} tree_t;

/* All processes of this machine that can be seen. */
static bool read_tree(tree_t *tree)
{
    DIR *folder = opendir("/proc");
    struct dirent *entry;

    *tree = (tree_t){0};
    while (folder && (entry = readdir(folder))) {
        char *end, state;
        node_t node = {.pid = (pid_t)strtol(entry->d_name, &end, 10)};

        if (*end || node.pid <= 0) {
            continue;
        }
        if (state_of_process(node.pid, &state, &node.parent)) {
            node_t *more = tree->n % 64 ? tree->nodes : realloc(tree->nodes, (tree->n + 64) * sizeof(*more));

            if (!more) {
                closedir(folder);
                return false;
            }
            tree->nodes = more;
            tree->nodes[tree->n++] = node;
        }
    }
    if (folder) {
        closedir(folder);
    }
    return folder != NULL;
}

static pid_t parent_of(const tree_t *tree, pid_t pid)
{
    for (size_t i = 0; i < tree->n; i++) {
        if (tree->nodes[i].pid == pid) {
            return tree->nodes[i].parent;
        }
    }
    return 0;
}

/* Is `pid` the process, or was it started by it, directly or through others? */
static bool descends(const tree_t *tree, pid_t pid, pid_t from)
{
    for (int depth = 0; pid > 0 && depth < 1000; depth++) {
        if (pid == from) {
            return true;
        }
        pid = parent_of(tree, pid);
    }
    return false;
}

static bool append(state_list_t *list, const state_process_t *process)
{
    state_process_t *more = realloc(list->processes, (list->n + 1) * sizeof(*more));

    if (!more) {
        return false;
    }
    list->processes = more;
    list->processes[list->n++] = *process;
    return true;
}

/* The number that the text is. 0: the text is the name of a job. */
static pid_t number_of(const char *what)
{
    char *end;
    long number = strtol(what, &end, 10);

    return *end || number <= 0 ? 0 : (pid_t)number;
}

static int compare(const void *a, const void *b)
{
    const state_process_t *p = a, *q = b;
    int order = strcmp(p->head.job, q->head.job);

    return order                          ? order
           : p->head.rank != q->head.rank ? (p->head.rank > q->head.rank) - (p->head.rank < q->head.rank)
                                          : (p->pid > q->pid) - (p->pid < q->pid);
}

/* A process that is asked for by its own number is always in the list, so that the reason can be printed if nothing else
 * is. */
static bool add_process(state_list_t *list, pid_t pid, pid_t asked, const char *job)
{
    state_process_t process;

    state_read(pid, &process);
    if (process.access == STATE_READ && (!job || !strcmp(process.head.job, job))) {
        return append(list, &process);
    }
    if (process.access == STATE_REFUSED && asked) {
        list->refused++;
        list->refused_owner = process.owner;
    }
    state_process_free(&process);
    return true;
}

bool state_find(const char *what, state_list_t *list)
{
    pid_t asked = what ? number_of(what) : 0;
    tree_t tree;
    bool done = read_tree(&tree);

    *list = (state_list_t){0};
    for (size_t i = 0; done && i < tree.n; i++) {
        if (!asked || descends(&tree, tree.nodes[i].pid, asked)) {
            done = add_process(list, tree.nodes[i].pid, asked, asked ? NULL : what);
        }
    }
    free(tree.nodes);
    if (list->n) {
        qsort(list->processes, list->n, sizeof(*list->processes), compare);
    }
    return done;
}

void state_list_free(state_list_t *list)
{
    for (size_t i = 0; i < list->n; i++) {
        state_process_free(&list->processes[i]);
    }
    free(list->processes);
    *list = (state_list_t){0};
}

/* ---- the ranks that are waited for ---- */

/* The rank of a communicator, among these processes. */
static const state_comm_t *find_rank(const state_list_t *list, const state_comm_t *like, int rank,
                                     const state_process_t **process)
{
    for (size_t i = 0; i < list->n; i++) {
        for (size_t k = 0; k < list->processes[i].ncomms; k++) {
            const state_comm_t *comm = &list->processes[i].comms[k];

            if (comm->row.identity && comm->row.identity == like->row.identity && comm->row.rank == rank) {
                *process = &list->processes[i];
                return comm;
            }
        }
    }
    *process = NULL;
    return NULL;
}

/* Did an earlier communicator in the list wait for the same rank? */
static bool is_repeated(const state_list_t *list, size_t process, size_t number, int rank)
{
    const state_comm_t *like = &list->processes[process].comms[number];

    for (size_t i = 0; i <= process; i++) {
        for (size_t k = 0; k < (i < process ? list->processes[i].ncomms : number); k++) {
            const state_comm_t *comm = &list->processes[i].comms[k];
            const dma_state_wait_t *wait = state_wait(comm);

            if (!wait || !like->row.identity || comm->row.identity != like->row.identity) {
                continue;
            }
            for (int r = 0; r < wait->wait.n && r < DMA_WAIT_RANKS; r++) {
                if (wait->wait.ranks[r] == rank) {
                    return true;
                }
            }
        }
    }
    return false;
}

void state_waited_for(const state_list_t *list, state_found_t found, void *arg)
{
    for (size_t i = 0; i < list->n; i++) {
        for (size_t k = 0; k < list->processes[i].ncomms; k++) {
            const state_comm_t *waiting = &list->processes[i].comms[k];
            const dma_state_wait_t *wait = state_wait(waiting);

            for (int r = 0; wait && r < wait->wait.n && r < DMA_WAIT_RANKS; r++) {
                const state_process_t *process;
                const state_comm_t *comm = find_rank(list, waiting, wait->wait.ranks[r], &process);

                if (!is_repeated(list, i, k, wait->wait.ranks[r])) {
                    found(arg, waiting, wait->wait.ranks[r], process, comm);
                }
            }
        }
    }
}
