/*
 * coll_dma_state: which ranks of a job wait for which.
 *
 *     find.c     the processes that are asked for, from /proc of all processes
 *     read.c     the rows of a process (core/state.h), and what the kernel says about it
 *     say.c      as text
 *     json.c     for programs; state.schema.json describes it
 *     state.c    options
 */
#ifndef TOOLS_STATE_H
#define TOOLS_STATE_H

#include <stdio.h>
#include <sys/types.h>

#include "core/state.h"

typedef struct state_comm {
    dma_state_row_t row;
    uint64_t begun, completed;
    bool torn; /* the process has stopped, or ended, while it wrote this row: its parts may not match */
} state_comm_t;

typedef enum state_access {
    STATE_READ,    /* its rows are here */
    STATE_NONE,    /* it does not use coll/dma, or has not yet */
    STATE_REFUSED, /* it belongs to another user */
    STATE_GONE,    /* there is no such process, or it has ended */
} state_access_t;

typedef struct state_process {
    pid_t pid, parent;
    char kernel; /* its state in /proc/PID/stat, such as 'T': stopped */
    uid_t owner;
    state_access_t access;
    dma_state_head_t head;
    state_comm_t *comms; /* `ncomms` of them */
    size_t ncomms;
} state_process_t;

typedef struct state_list {
    state_process_t *processes; /* by job and rank */
    size_t n;
    size_t refused; /* more processes of the job that may not be read; `refused_owner`: their owner */
    uid_t refused_owner;
} state_list_t;

/* find.c. `what`: a process, one that has started others (mpirun, a daemon of it, a shell), or the name of a job; NULL:
 * all. */
bool state_find(const char *what, state_list_t *list);
void state_list_free(state_list_t *list);

/* read.c */
/* Fields 3 and 4 of /proc/PID/stat; false: there is no such process. */
bool state_of_process(pid_t pid, char *state, pid_t *parent);
void state_read(pid_t pid, state_process_t *process);
void state_process_free(state_process_t *process);
/* "stopped", "sleeping" ... */
const char *state_kernel_word(const state_process_t *process);
/* The wait that a row shows. NULL: none, or one that has ended. */
const dma_state_wait_t *state_wait(const state_comm_t *comm);

/* say.c and json.c */
void state_say(const state_list_t *list, double now);
void state_say_json(const state_list_t *list, double now);

/* The ranks that are waited for: calls `found` for every rank of a communicator that ranks here wait for. `process` and
 * `comm`: that rank; NULL: it is not among these processes. */
typedef void (*state_found_t)(void *arg, const state_comm_t *waiting, int rank, const state_process_t *process,
                              const state_comm_t *comm);
void state_waited_for(const state_list_t *list, state_found_t found, void *arg);

#endif
