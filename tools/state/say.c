/* Prints the state of a job as text. */
#include <string.h>

#include "dma/comm.h"
#include "tools/state/state.h"

static void say_calls(const state_comm_t *comm)
{
    printf("%llu calls begun, %llu completed", (unsigned long long)comm->begun, (unsigned long long)comm->completed);
}

static void say_comm(const state_comm_t *comm, double now)
{
    const dma_state_row_t *row = &comm->row;
    const dma_state_wait_t *wait = state_wait(comm);
    char words[DMA_STATE_WORDS];

    printf("  %s%s, %d ranks", row->name, row->inner ? ", its ranks on this node" : "", row->nranks);
    if (comm->torn) {
        printf(" (being written; what follows may not fit together)");
    }
    printf(": ");
    if (wait) {
        dma_state_words(wait, row->rank, row->name, now, words);
        printf("%s\n", words);
        return;
    }
    printf("rank %d, ", row->rank);
    switch (row->state) {
    case DMA_COMM_SETUP:
        printf("in the set-up, no long wait seen\n");
        return;
    case DMA_COMM_POISONED:
        printf("failed: %s\n", row->reason);
        return;
    case DMA_COMM_ASIDE:
        printf("not served: %s; ", row->reason);
        break;
    case DMA_COMM_FIRST:
        printf("not set up so far: %s; ", row->reason);
        break;
    default:
        break;
    }
    say_calls(comm);
    printf(comm->begun > comm->completed ? ", no long wait seen\n" : "\n");
}

static void say_process(const state_process_t *process, double now)
{
    printf("process %d, rank %d, %s\n", (int)process->pid, process->head.rank, state_kernel_word(process));
    for (size_t i = 0; i < process->ncomms; i++) {
        say_comm(&process->comms[i], now);
    }
    if (process->head.unshown) {
        printf("  and %u communicators for which there was no room\n", (unsigned)process->head.unshown);
    }
}

static void say_waited_for(void *arg, const state_comm_t *waiting, int rank, const state_process_t *process,
                           const state_comm_t *comm)
{
    bool *first = arg;

    if (*first) {
        printf("waited for\n");
    }
    *first = false;
    printf("  %s%s: rank %d is ", waiting->row.name, waiting->row.inner ? ", its ranks on this node" : "", rank);
    if (!process) {
        printf("not known to the processes here\n");
        return;
    }
    printf("process %d, %s, ", (int)process->pid, state_kernel_word(process));
    say_calls(comm);
    printf("\n");
}

void state_say(const state_list_t *list, double now)
{
    const char *job = NULL;
    bool first = true;

    for (size_t i = 0; i < list->n; i++) {
        const state_process_t *process = &list->processes[i];

        if (!job || strcmp(job, process->head.job) != 0) {
            job = process->head.job;
            printf("job %s\n", job);
        }
        say_process(process, now);
    }
    state_waited_for(list, say_waited_for, &first);
}
