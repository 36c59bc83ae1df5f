/*
 * Runs a case. All ranks agree on the order of its calls. Every case is free of deadlocks, because one of these is true:
 *
 *  - Requests may be waited for between the calls. Then every rank makes the calls in that order, and starts persistent requests at once.
 *    So a rank that waits at some place waits only for what all others do before that place.
 *  - No rank waits before everything is under way. Then each rank may move non-blocking calls past those of other communicators, and
 *    starts persistent requests when it wants.
 *
 * At the end each rank completes its requests in its own order and manner. Requests that are started again go in rounds: no
 * rank blocks in a round before it has started the whole round. A rank that only tests need not care.
 */
#include "sweep.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

enum { STREAM_RUN = 300 };

typedef enum {
    BY_WAIT,
    BY_WAITALL,
    BY_WAITANY,
    BY_WAITSOME,
    BY_TEST,
    BY_TESTALL,
    BY_TESTANY,
    BY_TESTSOME,
    BY_TEST_AND_START, /* again, without waiting for the others of the round */
    COMPLETIONS
} completion_t;

/* Active requests, in a random order. */
typedef struct {
    int n;
    int calls[MOST_CALLS];
    MPI_Request requests[MOST_CALLS];
} set_t;

static bool active(const call_t *call)
{
    return call->started > call->done;
}

static void shuffle(int *items, int n, rng_t *rng)
{
    for (int i = n - 1; i > 0; i--) {
        int j = (int)rng_below(rng, i + 1), swap = items[i];
        items[i] = items[j];
        items[j] = swap;
    }
}

/* A round of a call has ended. */
static bool completed(case_t *c, int index, MPI_Request request)
{
    call_t *call = &c->calls[index];
    call->request = request;
    call->done++;
    bool gone = request == MPI_REQUEST_NULL, right = true;
    if (gone == (call->form == FORM_PERSISTENT)) {
        report_failure(gone ? "a persistent request is gone" : "a completed request is still there");
        right = false;
    }
    if (!call->in_place && call->scribble) {
        buffer_scribble(&call->send.buffer);
    }
    if (call->done < call->rounds || !call->check_late) {
        report_stage("checking", index);
        right &= call_check(call);
    }
    return right;
}

/* Makes everything ready for MPI_Start. */
static void refill(call_t *call)
{
    if (call->started > 0) {
        buffer_fill(&call->recv.buffer, call->started);
        if (!call->in_place) {
            buffer_fill(&call->send.buffer, call->started);
        }
    }
    call->started++;
}

static void start(case_t *c, int index)
{
    call_t *call = &c->calls[index];
    refill(call);
    report_stage("in MPI_Start", index);
    report_mpi("MPI_Start", MPI_Start(&call->request));
}

/* Starts the requests that have had this number of starts, in any order, one by one or together. */
static void start_round(case_t *c, int round, rng_t *rng)
{
    int calls[MOST_CALLS], n = 0;
    MPI_Request requests[MOST_CALLS];
    for (int i = 0; i < c->ncalls; i++) {
        const call_t *call = &c->calls[i];
        if (call->comm->member && call->form == FORM_PERSISTENT && call->started == round && round < call->rounds) {
            calls[n++] = i;
        }
    }
    shuffle(calls, n, rng);
    if (n < 2 || rng_chance(rng, 50)) {
        for (int k = 0; k < n; k++) {
            start(c, calls[k]);
        }
        return;
    }
    for (int k = 0; k < n; k++) {
        refill(&c->calls[calls[k]]);
        requests[k] = c->calls[calls[k]].request;
    }
    report_stage("in MPI_Startall", calls[0]);
    report_mpi("MPI_Startall", MPI_Startall(n, requests));
}

static void collect(const case_t *c, set_t *set, rng_t *rng)
{
    set->n = 0;
    for (int i = 0; i < c->ncalls; i++) {
        if (c->calls[i].comm->member && active(&c->calls[i])) {
            set->calls[set->n++] = i;
        }
    }
    shuffle(set->calls, set->n, rng);
    for (int k = 0; k < set->n; k++) {
        set->requests[k] = c->calls[set->calls[k]].request;
    }
}

/* One poll of one request. It may complete the request. */
static bool look(case_t *c, int index, rng_t *rng)
{
    call_t *call = &c->calls[index];
    int flag = 0;
    if (rng_chance(rng, 20)) {
        report_mpi("MPI_Request_get_status", MPI_Request_get_status(call->request, &flag, MPI_STATUS_IGNORE));
        return true;
    }
    MPI_Request request = call->request;
    report_mpi("MPI_Test", MPI_Test(&request, &flag, MPI_STATUS_IGNORE));
    return flag ? completed(c, index, request) : true;
}

static bool wait_for_set(case_t *c, set_t *set, bool all)
{
    bool right = true;
    report_stage(all ? "in MPI_Waitall" : "in MPI_Wait", set->calls[0]);
    if (all) {
        report_mpi("MPI_Waitall", MPI_Waitall(set->n, set->requests, MPI_STATUSES_IGNORE));
    }
    for (int k = 0; k < set->n; k++) {
        if (!all) {
            report_stage("in MPI_Wait", set->calls[k]);
            report_mpi("MPI_Wait", MPI_Wait(&set->requests[k], MPI_STATUS_IGNORE));
        }
        right &= completed(c, set->calls[k], set->requests[k]);
    }
    return right;
}

static bool take_any(case_t *c, set_t *set, bool test)
{
    bool right = true;
    for (int left = set->n; left > 0;) {
        int at, flag = 1;
        report_stage(test ? "in MPI_Testany" : "in MPI_Waitany", set->calls[0]);
        if (test) {
            report_mpi("MPI_Testany", MPI_Testany(set->n, set->requests, &at, &flag, MPI_STATUS_IGNORE));
        } else {
            report_mpi("MPI_Waitany", MPI_Waitany(set->n, set->requests, &at, MPI_STATUS_IGNORE));
        }
        if (flag && at == MPI_UNDEFINED) {
            report_failure("MPI_Waitany or MPI_Testany sees no active request");
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
        if (flag) {
            right &= completed(c, set->calls[at], set->requests[at]);
            left--;
        } else {
            sched_yield();
        }
    }
    return right;
}

static bool take_some(case_t *c, set_t *set, bool test)
{
    bool right = true;
    for (int left = set->n; left > 0;) {
        int n, at[MOST_CALLS];
        report_stage(test ? "in MPI_Testsome" : "in MPI_Waitsome", set->calls[0]);
        if (test) {
            report_mpi("MPI_Testsome", MPI_Testsome(set->n, set->requests, &n, at, MPI_STATUSES_IGNORE));
        } else {
            report_mpi("MPI_Waitsome", MPI_Waitsome(set->n, set->requests, &n, at, MPI_STATUSES_IGNORE));
        }
        if (n == MPI_UNDEFINED) {
            report_failure("MPI_Waitsome or MPI_Testsome sees no active request");
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
        for (int k = 0; k < n; k++) {
            right &= completed(c, set->calls[at[k]], set->requests[at[k]]);
        }
        left -= n;
        if (n == 0) {
            sched_yield();
        }
    }
    return right;
}

static bool test_all(case_t *c, set_t *set)
{
    bool right = true;
    for (int flag = 0; !flag;) {
        report_stage("in MPI_Testall", set->calls[0]);
        report_mpi("MPI_Testall", MPI_Testall(set->n, set->requests, &flag, MPI_STATUSES_IGNORE));
        if (!flag) {
            sched_yield();
        }
    }
    for (int k = 0; k < set->n; k++) {
        right &= completed(c, set->calls[k], set->requests[k]);
    }
    return right;
}

static bool test_each(case_t *c, set_t *set, bool start_again, rng_t *rng)
{
    bool right = true;
    for (int left = set->n; left > 0;) {
        left = 0;
        for (int k = 0; k < set->n; k++) {
            call_t *call = &c->calls[set->calls[k]];
            if (active(call)) {
                report_stage("in MPI_Test", set->calls[k]);
                right &= look(c, set->calls[k], rng);
            }
            if (!active(call) && start_again && call->started < call->rounds) {
                start(c, set->calls[k]);
            }
            left += active(call);
        }
        if (left > 0) {
            sched_yield();
        }
    }
    return right;
}

static bool complete(case_t *c, completion_t how, rng_t *rng)
{
    set_t set;
    for (int i = 0; how == BY_TEST_AND_START && i < c->ncalls; i++) {
        const call_t *call = &c->calls[i];
        if (call->comm->member && !active(call) && call->started < call->rounds) {
            start(c, i);
        }
    }
    collect(c, &set, rng);
    if (set.n == 0) {
        return true;
    }
    cover(COVER_COMPLETION, how);
    switch (how) {
    case BY_WAIT:
    case BY_WAITALL:
        return wait_for_set(c, &set, how == BY_WAITALL);
    case BY_WAITANY:
    case BY_TESTANY:
        return take_any(c, &set, how == BY_TESTANY);
    case BY_WAITSOME:
    case BY_TESTSOME:
        return take_some(c, &set, how == BY_TESTSOME);
    case BY_TESTALL:
        return test_all(c, &set);
    default:
        return test_each(c, &set, how == BY_TEST_AND_START, rng);
    }
}

static void be_late(const case_t *c, int index, rng_t *rng)
{
    if (c->skew == SKEW_SOME && (c->ncalls < 3 || rng_chance(rng, 25))) {
        skew_some(rng);
    } else if (c->skew == SKEW_LATE && index == 0 && rng_below(rng, world_size) == 0) {
        skew_late(rng);
    }
}

/* The call itself. Persistent calls are started at once only if all ranks do so. */
static bool post(case_t *c, int index)
{
    call_t *call = &c->calls[index];
    report_stage("in the call", index);
    report_mpi(call->op->name, call->op->start(call, &call->request));
    if (!call->keep_types) {
        call_release_types(call); /* legal at once, even while a request is active */
    }
    if (call->form == FORM_PERSISTENT) {
        if (c->waits_between && call->rounds > 0) {
            start(c, index);
        }
        return true;
    }
    call->started = 1;
    return call->form != FORM_BLOCKING || completed(c, index, MPI_REQUEST_NULL);
}

/* What a rank does between its calls. */
static bool between(case_t *c, rng_t *rng)
{
    set_t set;
    collect(c, &set, rng);
    if (set.n > 0 && rng_chance(rng, 30)) {
        report_stage("in MPI_Test between the calls", set.calls[0]);
        return look(c, set.calls[0], rng);
    }
    if (set.n > 0 && c->waits_between && rng_chance(rng, 30)) {
        set.n = 1;
        return wait_for_set(c, &set, false);
    }
    if (!c->waits_between && rng_chance(rng, 30)) {
        int i = (int)rng_below(rng, c->ncalls);
        call_t *call = &c->calls[i];
        if (call->request != MPI_REQUEST_NULL && call->form == FORM_PERSISTENT && call->started == 0 &&
            call->rounds > 0) {
            start(c, i);
        }
    }
    return true;
}

/* Calls of one communicator, and those that may wait, keep their order. */
static void choose_order(const case_t *c, int *order, rng_t *rng)
{
    for (int i = 0; i < c->ncalls; i++) {
        order[i] = i;
    }
    for (int turn = 0; !c->waits_between && c->ncalls > 1 && turn < 2 * c->ncalls; turn++) {
        int k = (int)rng_below(rng, c->ncalls - 1);
        const call_t *a = &c->calls[order[k]], *b = &c->calls[order[k + 1]];
        if (a->comm != b->comm && (a->form == FORM_NONBLOCKING || b->form == FORM_NONBLOCKING)) {
            int swap = order[k];
            order[k] = order[k + 1];
            order[k + 1] = swap;
        }
    }
}

/* Counts the case as one with operations in flight, if it is one on this rank. */
static void cover_flight(const case_t *c)
{
    int n = 0, comms = 0;
    bool forms[FORM_KINDS] = {false};
    const comm_t *seen = NULL;
    for (int i = 0; i < c->ncalls; i++) {
        const call_t *call = &c->calls[i];
        if (call->comm->member && call->form != FORM_BLOCKING && call->rounds > 0) {
            n++;
            forms[call->form] = true;
            comms += call->comm != seen && comms < 2;
            seen = comms == 1 ? call->comm : seen;
        }
    }
    if (n >= 2 && comms >= 2) {
        cover(COVER_FLIGHT, forms[FORM_NONBLOCKING] && forms[FORM_PERSISTENT]);
    }
}

static bool finish_calls(case_t *c)
{
    bool right = true;
    for (int i = 0; i < c->ncalls; i++) {
        call_t *call = &c->calls[i];
        if (!call->comm->member) {
            continue;
        }
        report_stage("checking in the end", i);
        if (call->check_late || call->done == 0) {
            right &= call_check(call);
        }
        if (call->request != MPI_REQUEST_NULL) {
            report_stage("in MPI_Request_free", i);
            report_mpi("MPI_Request_free", MPI_Request_free(&call->request));
        }
        call_free(call);
    }
    return right;
}

bool case_execute(case_t *c, traffic_t *traffic)
{
    rng_t rng = rng_make((uint64_t)c->number, STREAM_RUN, (uint64_t)world_rank);
    completion_t how = (completion_t)rng_below(&rng, COMPLETIONS);
    int order[MOST_CALLS], most = 1;
    bool right = true;
    choose_order(c, order, &rng);
    for (int k = 0; k < c->ncalls; k++) {
        if (c->calls[order[k]].comm->member) {
            be_late(c, k, &rng);
            right &= post(c, order[k]);
            right &= between(c, &rng);
        }
        most = c->calls[k].rounds > most ? c->calls[k].rounds : most;
    }
    cover_flight(c);
    start_round(c, 0, &rng);
    report_stage("in the user's messages between", -1);
    traffic_between(traffic);
    if (c->free_early) {
        report_stage("freeing a communicator in use", -1);
        comm_release(&c->fresh);
    }
    be_late(c, 0, &rng);
    for (int round = 0; round < most; round++) {
        if (round > 0) {
            start_round(c, round, &rng);
        }
        right &= complete(c, how, &rng);
    }
    right &= finish_calls(c);
    return right;
}
