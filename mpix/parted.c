/* The life of partitioned requests, and what the agent does for all of them; see parted.h. */
#include "parted.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "agent.h"

enum { LAST_TAG = MPIX_PARTED_TAGS };

static struct {
    int count; /* of requests, with the lock */
    unsigned long last_number;
    bool turning; /* with the lock: an agent is at work */
    MPI_Comm self;
    int freed_key; /* an attribute of types: MPI deletes it when a handle is gone */
} state = {.self = MPI_COMM_NULL, .freed_key = MPI_KEYVAL_INVALID};

static int tag_of(unsigned long number)
{
    return (int)(number % MPIX_PARTED_TAGS);
}

/* With the lock. */
static mpix_parted_t *find_tag(int tag)
{
    mpix_parted_t *parted = mpix_parted_all.first;

    while (parted && tag_of(parted->number) != tag) {
        parted = parted->next;
    }
    return parted;
}

/* ---- all requests ---- */

static bool take_starts(void)
{
    bool moved = false;

    for (;;) {
        MPI_Message message;
        MPI_Status status;
        mpix_parted_t *parted;
        int found = 0;

        if (MPI_Improbe(0, MPI_ANY_TAG, state.self, &found, &message, &status) != MPI_SUCCESS || !found) {
            return moved;
        }
        mpix_parted_lock_all();
        parted = find_tag(status.MPI_TAG);
        mpix_parted_unlock();
        if (parted) {
            mpix_parted_begin_round(parted, message);
        } else {
            (void)MPI_Mrecv(NULL, 0, MPI_BYTE, &message, MPI_STATUS_IGNORE);
        }
        moved = true;
    }
}

/* With the lock. */
static void let_go(void)
{
    mpix_parted_t **at = &mpix_parted_all.first, *parted;

    while ((parted = *at)) {
        if (parted->leaving && !parted->active) {
            *at = parted->next;
            state.count--;
            parted->gone = true;
            pthread_cond_broadcast(&mpix_parted_all.changed);
        } else {
            at = &parted->next;
        }
    }
}

/* The walk holds no lock. Other threads may insert requests before the first; only the agent, this function, removes any. */
static bool turn(bool is_thread)
{
    mpix_parted_t *first;
    bool moved;

    mpix_parted_lock_all();
    if (state.turning || !mpix_parted_all.first) {
        mpix_parted_unlock();
        return false;
    }
    state.turning = true;
    mpix_parted_unlock();
    moved = take_starts();
    mpix_parted_lock_all();
    first = mpix_parted_all.first;
    mpix_parted_unlock();
    for (mpix_parted_t *parted = first; parted; parted = parted->next) {
        moved |= mpix_parted_advance(parted, is_thread);
    }
    mpix_parted_lock_all();
    let_go();
    state.turning = false;
    mpix_parted_unlock();
    return moved;
}

static mpix_need_t need(void)
{
    mpix_need_t most = MPIX_NEEDS_NOTHING;

    mpix_parted_lock_all();
    for (const mpix_parted_t *parted = mpix_parted_all.first; parted && most < MPIX_NEEDS_TURNS;
         parted = parted->next) {
        mpix_need_t its =
            parted->active || parted->give_up || parted->leaving || __atomic_load_n(&parted->expected, __ATOMIC_SEQ_CST)
                ? MPIX_NEEDS_TURNS
            : parted->silent ? MPIX_NEEDS_LOOKS
                             : MPIX_NEEDS_NOTICE;

        most = its > most ? its : most;
    }
    mpix_parted_unlock();
    return most;
}

/* ---- making and destroying requests ---- */

/* With the lock. */
static void unmap(mpix_parted_t *parted)
{
    if (parted->handle != MPI_REQUEST_NULL && mpix_parted_of(parted->handle) == parted) {
        (void)mpix_parted_map(parted->handle, NULL);
    }
}

/* With the lock. The caller must retire the request, and nobody else may: it is found no more. NULL is left alone. */
static mpix_parted_t *claim(mpix_parted_t *parted)
{
    if (parted) {
        parted->leaving = true;
        unmap(parted);
    }
    return parted;
}

/* Called when MPI deletes the attribute of a handle's type, in any thread that calls MPI: in MPI_Request_free, or in the
 * progress that completes the last round. The number, unlike a pointer, is safe if the request was destroyed before. */
static int note_freed(MPI_Datatype type, int key, void *number, void *unused)
{
    (void)type;
    (void)key;
    (void)unused;
    mpix_parted_lock_all();
    for (mpix_parted_t *parted = mpix_parted_all.first; parted; parted = parted->next) {
        if (parted->number == (uintptr_t)number) {
            parted->freed = true;
            unmap(parted);
        }
    }
    mpix_parted_unlock();
    return MPI_SUCCESS;
}

/* Claims the next request that the program has freed. */
static mpix_parted_t *claim_freed(void)
{
    mpix_parted_t *parted;

    mpix_parted_lock_all();
    for (parted = mpix_parted_all.first;
         parted && (!parted->freed || parted->leaving || parted->handle == MPI_REQUEST_NULL);) {
        parted = parted->next;
    }
    claim(parted);
    mpix_parted_unlock();
    return parted;
}

mpix_parted_t *mpix_parted_claim(MPI_Request handle)
{
    mpix_parted_t *parted;

    mpix_parted_lock_all();
    parted = claim(mpix_parted_of(handle));
    mpix_parted_unlock();
    return parted;
}

void mpix_parted_retire(mpix_parted_t *parted)
{
    if (!parted) {
        return;
    }
    mpix_agent_notify();
    mpix_parted_lock_all();
    while (!parted->gone) {
        if (mpix_agent_has_thread()) {
            pthread_cond_wait(&mpix_parted_all.changed, &mpix_parted_all.lock);
        } else {
            mpix_parted_unlock();
            if (!turn(false)) {
                sched_yield();
            }
            mpix_parted_lock_all();
        }
    }
    mpix_parted_unlock();
    mpix_parted_destroy(parted);
}

/* Adds the request, with a number whose tag no other has. False: there is no tag left. */
static bool insert(mpix_parted_t *parted)
{
    bool room;

    parted->handle = MPI_REQUEST_NULL; /* so that only take_starts and note_freed can find it */
    mpix_parted_lock_all();
    room = state.count < MPIX_PARTED_TAGS;
    if (room) {
        do {
            parted->number = ++state.last_number;
        } while (find_tag(tag_of(parted->number)));
        parted->next = mpix_parted_all.first;
        mpix_parted_all.first = parted;
        state.count++;
    }
    mpix_parted_unlock();
    return room;
}

/* Makes the handle of a request that is in the list, with a type of its own; see parted.h. */
static int make_handle(mpix_parted_t *parted, MPI_Request *handle)
{
    static char nothing;
    MPI_Datatype type = MPI_DATATYPE_NULL;
    int code = MPI_Type_contiguous(0, MPI_BYTE, &type);

    code = code == MPI_SUCCESS ? MPI_Type_commit(&type) : code;
    code = code == MPI_SUCCESS ? MPI_Type_set_attr(type, state.freed_key, (void *)(uintptr_t)parted->number) : code;
    code =
        code == MPI_SUCCESS ? MPI_Ssend_init(&nothing, 1, type, 0, tag_of(parted->number), state.self, handle) : code;
    if (type != MPI_DATATYPE_NULL) {
        MPI_Type_free(&type);
    }
    mpix_parted_lock_all();
    parted->freed = false; /* MPI has deleted the attribute before the handle is gone */
    mpix_parted_unlock();
    return code;
}

/* From now on the request is found by its handle. */
static bool name(mpix_parted_t *parted, MPI_Request handle)
{
    bool mapped;

    mpix_parted_lock_all();
    mapped = mpix_parted_map(handle, parted);
    parted->handle = mapped ? handle : MPI_REQUEST_NULL;
    mpix_parted_unlock();
    return mapped;
}

int mpix_parted_add(mpix_parted_t *parted)
{
    MPI_Request handle = MPI_REQUEST_NULL;
    int code;

    if (!insert(parted)) {
        mpix_parted_destroy(parted);
        return MPI_ERR_NO_MEM;
    }
    code = make_handle(parted, &handle);
    if (code == MPI_SUCCESS) {
        /* MPI has given a known handle to a new request, so the program has freed the former request. */
        mpix_parted_retire(mpix_parted_claim(handle));
        code = name(parted, handle) ? MPI_SUCCESS : MPI_ERR_NO_MEM;
    }
    if (code == MPI_SUCCESS) {
        if (parted->silent) {
            mpix_agent_notify();
        }
        return MPI_SUCCESS;
    }
    if (handle != MPI_REQUEST_NULL) {
        MPI_Request_free(&handle);
    }
    mpix_parted_lock_all();
    claim(parted);
    mpix_parted_unlock();
    mpix_parted_retire(parted);
    return code;
}

void mpix_parted_destroy(mpix_parted_t *parted)
{
    for (int i = 0; i < MPIX_MOST_UNITS; i++) {
        if (parted->requests[i] != MPI_REQUEST_NULL) {
            MPI_Request_free(&parted->requests[i]);
        }
    }
    for (int i = 0; i < 2; i++) {
        if (parted->atoms[i] != MPI_DATATYPE_NULL) {
            MPI_Type_free(&parted->atoms[i]);
        }
    }
    free(parted->counts[0]);
    free(parted->parts);
    free(parted->engines);
    mpix_memory_give_back(parted->memory);
    free(parted);
}

/* The agent may not have seen starts that nobody has announced. Messages keep their order, so it has when this one has come. */
static void take_all_starts(void)
{
    MPI_Request last;
    int flag = 0;

    if (MPI_Issend(NULL, 0, MPI_BYTE, 0, LAST_TAG, state.self, &last) != MPI_SUCCESS) {
        return;
    }
    while (!flag) {
        (void)take_starts();
        if (MPI_Test(&last, &flag, MPI_STATUS_IGNORE) != MPI_SUCCESS) {
            return;
        }
    }
}

/* Retires all requests. Rounds under way complete first: after stop() they wait for no partition. */
static void end(void)
{
    if (mpix_parted_all.first) {
        take_all_starts();
    }
    while (mpix_parted_all.first) {
        mpix_parted_lock_all();
        claim(mpix_parted_all.first);
        mpix_parted_unlock();
        mpix_parted_retire(mpix_parted_all.first);
    }
    if (state.freed_key != MPI_KEYVAL_INVALID) {
        MPI_Type_free_keyval(&state.freed_key);
    }
    if (state.self != MPI_COMM_NULL) {
        MPI_Comm_free(&state.self);
    }
}

int mpix_parted_begin(void)
{
    static mpix_work_t work = {.turn = turn, .need = need, .stop = mpix_parted_give_up_all, .end = end};
    static pthread_mutex_t once = PTHREAD_MUTEX_INITIALIZER;
    int code = mpix_agent_begin(&work);
    mpix_parted_t *parted;

    pthread_mutex_lock(&once);
    if (code == MPI_SUCCESS && state.self == MPI_COMM_NULL) {
        code = MPI_Comm_dup(MPI_COMM_SELF, &state.self);
    }
    if (code == MPI_SUCCESS && state.freed_key == MPI_KEYVAL_INVALID) {
        code = MPI_Type_create_keyval(MPI_TYPE_NULL_COPY_FN, note_freed, &state.freed_key, NULL);
    }
    pthread_mutex_unlock(&once);
    while ((parted = claim_freed())) {
        mpix_parted_retire(parted);
    }
    return code;
}
