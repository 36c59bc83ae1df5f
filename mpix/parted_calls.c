/* The functions of mpix_dma.h for partitioned requests, except those that make them; see parted.h. */
#include <sched.h>

#include "agent.h"
#include "parted.h"

/* Without a lock: threads make many partitions ready at the same time. */
int MPIX_Pready(int part, MPI_Request request)
{
    mpix_parted_t *parted = mpix_parted_of(request);
    unsigned round;

    if (!parted) {
        return MPI_ERR_REQUEST;
    }
    if (part < 0 || part >= parted->sparts) {
        return MPI_ERR_ARG;
    }
    round = __atomic_load_n(&parted->round, __ATOMIC_ACQUIRE);
    __atomic_store_n(&mpix_parted_ready(parted, round)[part], 1, __ATOMIC_RELEASE);
    if (!__atomic_load_n(&parted->expected, __ATOMIC_RELAXED)) {
        __atomic_store_n(&parted->expected, true, __ATOMIC_SEQ_CST);
        mpix_agent_notify();
    }
    return MPI_SUCCESS;
}

/* With the lock. *known: the round is under way, so its words have the answer. */
static int look(mpix_parted_t *parted, int part, int *flag, bool *known)
{
    uint32_t word;

    if (part < 0 || part >= parted->ranks * parted->rparts) {
        return MPI_ERR_ARG;
    }
    while (parted->finishing) { /* until the handle of a complete round is complete, too */
        pthread_cond_wait(&mpix_parted_all.changed, &mpix_parted_all.lock);
    }
    if (parted->active) {
        mpix_parted_copy_words(parted);
    }
    word = __atomic_load_n(&mpix_parted_arrived(parted, parted->round)[part], __ATOMIC_ACQUIRE);
    *known = parted->active;
    *flag = word != 0;
    if (word != MPIX_PARRIVED_FAILED) {
        return MPI_SUCCESS;
    }
    return parted->error == MPI_SUCCESS ? MPI_ERR_OTHER : parted->error;
}

/* The words have the answer only if the agent has seen the start of the round. Otherwise the state of the request has it: all
 * partitions of an inactive request have arrived, none of one that was just started. */
int MPIX_Parrived(MPI_Request request, int part, int *flag)
{
    mpix_parted_t *parted;
    bool known = true;
    int code;

    if (!flag) {
        return MPI_ERR_ARG;
    }
    *flag = 0;
    (void)mpix_agent_turn();
    parted = mpix_parted_lock(request);
    if (!parted) {
        return MPI_ERR_REQUEST;
    }
    code = look(parted, part, flag, &known);
    mpix_parted_unlock();
    if (!known) {
        code = MPI_Request_get_status(request, flag, MPI_STATUS_IGNORE);
    }
    if (code == MPI_SUCCESS && !*flag) {
        sched_yield(); /* programs call this in a loop: the agent needs the lock, and peers may need the core */
    }
    return code;
}

int MPIX_Test(MPI_Request *request, int *flag, MPI_Status *status)
{
    MPI_Request handle;
    int code;

    if (!request || !flag) {
        return MPI_ERR_ARG;
    }
    handle = *request;
    (void)mpix_agent_turn();
    code = MPI_Test(request, flag, status);
    return code == MPI_SUCCESS && *flag ? mpix_parted_take_error(handle) : code;
}

int MPIX_Wait(MPI_Request *request, MPI_Status *status)
{
    MPI_Request handle;
    int code = MPI_SUCCESS, flag = 0;

    if (!request) {
        return MPI_ERR_ARG;
    }
    if (mpix_agent_has_thread()) {
        handle = *request;
        code = MPI_Wait(request, status);
        return code == MPI_SUCCESS ? mpix_parted_take_error(handle) : code;
    }
    while (!flag && code == MPI_SUCCESS) {
        code = MPIX_Test(request, &flag, status);
        if (!flag) {
            sched_yield();
        }
    }
    return code;
}

int MPIX_Request_free(MPI_Request *request)
{
    mpix_parted_t *parted;
    int error, code;

    if (!request || *request == MPI_REQUEST_NULL) {
        return MPI_ERR_REQUEST;
    }
    parted = mpix_parted_lock(*request);
    if (!parted) {
        return MPI_Request_free(request);
    }
    parted->give_up = true;
    mpix_parted_unlock();
    mpix_agent_notify();
    error = MPIX_Wait(request, MPI_STATUS_IGNORE);
    mpix_parted_retire(mpix_parted_claim(*request));
    code = MPI_Request_free(request);
    return error != MPI_SUCCESS ? error : code;
}

static void point(MPIX_Prequest *p, const mpix_parted_t *parted, unsigned round)
{
    *p = (MPIX_Prequest){.ready = mpix_parted_ready(parted, round),
                         .arrived = mpix_parted_arrived(parted, round),
                         .ready_value = 1,
                         .arrived_value = 1,
                         .nready = parted->sparts,
                         .narrived = parted->ranks * parted->rparts};
}

int MPIX_Prequest_create(MPI_Request request, MPIX_Prequest *p)
{
    mpix_parted_t *parted;
    int code;

    if (!p) {
        return MPI_ERR_ARG;
    }
    *p = (MPIX_Prequest){0};
    parted = mpix_parted_lock(request);
    if (!parted) {
        return MPI_ERR_REQUEST;
    }
    point(p, parted, parted->round);
    code = parted->mapped ? MPI_SUCCESS : MPI_ERR_UNSUPPORTED_OPERATION;
    parted->silent = true;
    mpix_parted_unlock();
    mpix_agent_notify();
    return code;
}

int MPIX_Prequest_next(MPIX_Prequest *p)
{
    mpix_parted_t *parted;
    unsigned bank = 0;

    mpix_parted_lock_all();
    for (parted = p && p->ready ? mpix_parted_all.first : NULL; parted; parted = parted->next) {
        for (bank = 0; bank < 2 && p->ready != mpix_parted_ready(parted, bank);) {
            bank++;
        }
        if (bank < 2) {
            point(p, parted, bank + 1);
            break;
        }
    }
    mpix_parted_unlock();
    return parted ? MPI_SUCCESS : MPI_ERR_ARG;
}

int MPIX_Prequest_free(MPIX_Prequest *p)
{
    if (!p) {
        return MPI_ERR_ARG;
    }
    *p = (MPIX_Prequest){0};
    return MPI_SUCCESS;
}
