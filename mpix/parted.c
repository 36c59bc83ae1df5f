/* The list of partitioned requests; see parted.h. */
#include "parted.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "mapped.h"
#include "queue.h"

enum { MOST_TAGS = 32767, LAST_TAG = MOST_TAGS }; /* MPI_TAG_UB is not smaller */

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    mpix_parted_t *first;
    int count;
    bool turning; /* an agent is at work */
    bool ending;  /* MPI_Finalize has begun */
    MPI_Comm self;
    int freed_key; /* an attribute of types: MPI deletes it when a handle is gone */
    unsigned long last_number;
    unsigned char tags[MOST_TAGS]; /* in use */
} all = {.lock = PTHREAD_MUTEX_INITIALIZER,
         .changed = PTHREAD_COND_INITIALIZER,
         .self = MPI_COMM_NULL,
         .freed_key = MPI_KEYVAL_INVALID};

mpix_parted_t *mpix_parted_lock(MPI_Request handle)
{
    mpix_parted_t *parted;

    pthread_mutex_lock(&all.lock);
    parted = mpix_parted_of(handle);
    if (!parted) {
        pthread_mutex_unlock(&all.lock);
    }
    return parted;
}

mpix_parted_t *mpix_parted_lock_words(const uint32_t *ready, unsigned *bank)
{
    pthread_mutex_lock(&all.lock);
    for (mpix_parted_t *parted = all.first; parted; parted = parted->next) {
        for (*bank = 0; *bank < 2; (*bank)++) {
            if (ready == mpix_parted_ready(parted, *bank)) {
                return parted;
            }
        }
    }
    pthread_mutex_unlock(&all.lock);
    return NULL;
}

void mpix_parted_lock_all(void)
{
    pthread_mutex_lock(&all.lock);
}

void mpix_parted_unlock(void)
{
    pthread_mutex_unlock(&all.lock);
}

void mpix_parted_expect(mpix_parted_t *parted)
{
    if (!__atomic_load_n(&parted->expected, __ATOMIC_RELAXED)) {
        __atomic_store_n(&parted->expected, true, __ATOMIC_SEQ_CST);
        mpix_agent_notify();
    }
}

void mpix_parted_settle(mpix_parted_t *parted)
{
    while (parted->finishing) {
        pthread_cond_wait(&all.changed, &all.lock);
    }
}

bool mpix_parted_gives_up(const mpix_parted_t *parted)
{
    return parted->give_up || all.ending;
}

void mpix_parted_set_finished(mpix_parted_t *parted)
{
    pthread_mutex_lock(&all.lock);
    parted->finishing = false;
    pthread_cond_broadcast(&all.changed);
    pthread_mutex_unlock(&all.lock);
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

        if (MPI_Improbe(0, MPI_ANY_TAG, all.self, &found, &message, &status) != MPI_SUCCESS || !found) {
            return moved;
        }
        pthread_mutex_lock(&all.lock);
        for (parted = all.first; parted && parted->tag != status.MPI_TAG;) {
            parted = parted->next;
        }
        pthread_mutex_unlock(&all.lock);
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
    mpix_parted_t **at = &all.first, *parted;

    while ((parted = *at)) {
        if (parted->leaving && !parted->active) {
            *at = parted->next;
            all.tags[parted->tag] = 0;
            all.count--;
            parted->gone = true;
            pthread_cond_broadcast(&all.changed);
        } else {
            at = &parted->next;
        }
    }
}

/* The walk holds no lock. Other threads may insert requests before the first; only the agent, this function, removes any. */
bool mpix_parted_turn(bool is_thread)
{
    mpix_parted_t *first;
    bool moved;

    pthread_mutex_lock(&all.lock);
    if (all.turning || !all.first) {
        pthread_mutex_unlock(&all.lock);
        return false;
    }
    all.turning = true;
    pthread_mutex_unlock(&all.lock);
    moved = take_starts();
    pthread_mutex_lock(&all.lock);
    first = all.first;
    pthread_mutex_unlock(&all.lock);
    for (mpix_parted_t *parted = first; parted; parted = parted->next) {
        moved |= mpix_parted_advance(parted, is_thread);
    }
    pthread_mutex_lock(&all.lock);
    let_go();
    all.turning = false;
    pthread_mutex_unlock(&all.lock);
    return moved;
}

mpix_need_t mpix_parted_need(void)
{
    mpix_need_t need = MPIX_NEEDS_NOTHING;

    pthread_mutex_lock(&all.lock);
    for (const mpix_parted_t *parted = all.first; parted && need < MPIX_NEEDS_TURNS; parted = parted->next) {
        mpix_need_t its =
            parted->active || parted->give_up || parted->leaving || __atomic_load_n(&parted->expected, __ATOMIC_SEQ_CST)
                ? MPIX_NEEDS_TURNS
            : parted->silent ? MPIX_NEEDS_LOOKS
                             : MPIX_NEEDS_NOTICE;

        need = its > need ? its : need;
    }
    pthread_mutex_unlock(&all.lock);
    return need;
}

void mpix_parted_give_up(MPI_Request handle)
{
    mpix_parted_t *parted = mpix_parted_lock(handle);

    if (parted) {
        parted->give_up |= parted->active;
        mpix_parted_unlock();
    }
}

void mpix_parted_give_up_all(void)
{
    pthread_mutex_lock(&all.lock);
    all.ending = true;
    pthread_mutex_unlock(&all.lock);
}

int mpix_parted_take_error(MPI_Request handle)
{
    mpix_parted_t *parted = mpix_parted_lock(handle);
    int error = MPI_SUCCESS;

    if (parted) {
        error = parted->error;
        parted->error = MPI_SUCCESS;
        mpix_parted_unlock();
    }
    return error;
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
    pthread_mutex_lock(&all.lock);
    for (mpix_parted_t *parted = all.first; parted; parted = parted->next) {
        if (parted->number == (uintptr_t)number) {
            parted->freed = true;
            unmap(parted);
        }
    }
    pthread_mutex_unlock(&all.lock);
    return MPI_SUCCESS;
}

/* Claims the next request that the program has freed. */
static mpix_parted_t *claim_freed(void)
{
    mpix_parted_t *parted;

    pthread_mutex_lock(&all.lock);
    for (parted = all.first; parted && (!parted->freed || parted->leaving || parted->handle == MPI_REQUEST_NULL);) {
        parted = parted->next;
    }
    claim(parted);
    pthread_mutex_unlock(&all.lock);
    return parted;
}

mpix_parted_t *mpix_parted_claim(MPI_Request handle)
{
    mpix_parted_t *parted;

    pthread_mutex_lock(&all.lock);
    parted = claim(mpix_parted_of(handle));
    pthread_mutex_unlock(&all.lock);
    return parted;
}

int mpix_parted_begin(void)
{
    static pthread_mutex_t once = PTHREAD_MUTEX_INITIALIZER;
    int code = mpix_agent_begin();
    mpix_parted_t *parted;

    pthread_mutex_lock(&once);
    if (code == MPI_SUCCESS && all.self == MPI_COMM_NULL) {
        code = MPI_Comm_dup(MPI_COMM_SELF, &all.self);
    }
    if (code == MPI_SUCCESS && all.freed_key == MPI_KEYVAL_INVALID) {
        code = MPI_Type_create_keyval(MPI_TYPE_NULL_COPY_FN, note_freed, &all.freed_key, NULL);
    }
    pthread_mutex_unlock(&once);
    while ((parted = claim_freed())) {
        mpix_parted_retire(parted);
    }
    return code;
}

/* Waits until the agent has taken the request, which the caller has claimed, out of the list. */
static void leave_list(mpix_parted_t *parted)
{
    mpix_agent_notify();
    pthread_mutex_lock(&all.lock);
    while (!parted->gone) {
        if (mpix_agent_has_thread()) {
            pthread_cond_wait(&all.changed, &all.lock);
        } else {
            pthread_mutex_unlock(&all.lock);
            if (!mpix_parted_turn(false)) {
                sched_yield();
            }
            pthread_mutex_lock(&all.lock);
        }
    }
    pthread_mutex_unlock(&all.lock);
}

void mpix_parted_retire(mpix_parted_t *parted)
{
    if (parted) {
        leave_list(parted);
        mpix_parted_destroy(parted);
    }
}

static int take_tag(void)
{
    int tag = 0;

    pthread_mutex_lock(&all.lock);
    while (tag < MOST_TAGS && all.tags[tag]) {
        tag++;
    }
    if (tag < MOST_TAGS) {
        all.tags[tag] = 1;
    }
    pthread_mutex_unlock(&all.lock);
    return tag;
}

/* Makes the handle of a request that is in the list, with a type of its own; see parted.h. */
static int make_handle(mpix_parted_t *parted, MPI_Request *handle)
{
    static char nothing;
    MPI_Datatype type = MPI_DATATYPE_NULL;
    int code = MPI_Type_contiguous(0, MPI_BYTE, &type);

    code = code == MPI_SUCCESS ? MPI_Type_commit(&type) : code;
    code = code == MPI_SUCCESS ? MPI_Type_set_attr(type, all.freed_key, (void *)(uintptr_t)parted->number) : code;
    code = code == MPI_SUCCESS ? MPI_Ssend_init(&nothing, 1, type, 0, parted->tag, all.self, handle) : code;
    if (type != MPI_DATATYPE_NULL) {
        MPI_Type_free(&type);
    }
    pthread_mutex_lock(&all.lock);
    parted->freed = false; /* MPI has deleted the attribute before the handle is gone */
    pthread_mutex_unlock(&all.lock);
    return code;
}

/* From now on the request is found by its handle. */
static bool name(mpix_parted_t *parted, MPI_Request handle)
{
    bool mapped;

    pthread_mutex_lock(&all.lock);
    mapped = mpix_parted_map(handle, parted);
    parted->handle = mapped ? handle : MPI_REQUEST_NULL;
    pthread_mutex_unlock(&all.lock);
    return mapped;
}

int mpix_parted_add(mpix_parted_t *parted)
{
    MPI_Request handle = MPI_REQUEST_NULL;
    int code;

    parted->tag = take_tag();
    if (parted->tag == MOST_TAGS) {
        return MPI_ERR_NO_MEM;
    }
    parted->handle = MPI_REQUEST_NULL; /* so that only take_starts and note_freed can find it */
    pthread_mutex_lock(&all.lock);
    parted->number = ++all.last_number;
    parted->next = all.first;
    all.first = parted;
    all.count++;
    pthread_mutex_unlock(&all.lock);
    code = make_handle(parted, &handle);
    if (code == MPI_SUCCESS) {
        /* MPI has given a known handle to a new request, so the program has freed the former request. */
        mpix_parted_retire(mpix_parted_claim(handle));
        code = name(parted, handle) ? MPI_SUCCESS : MPI_ERR_NO_MEM;
    }
    if (code != MPI_SUCCESS) {
        if (handle != MPI_REQUEST_NULL) {
            MPI_Request_free(&handle);
        }
        pthread_mutex_lock(&all.lock);
        claim(parted);
        pthread_mutex_unlock(&all.lock);
        leave_list(parted);
        return code;
    }
    if (parted->silent) {
        mpix_agent_notify();
    }
    return MPI_SUCCESS;
}

void mpix_parted_destroy(mpix_parted_t *parted)
{
    for (int i = 0; parted->requests && i < parted->nunits; i++) {
        if (parted->requests[i] != MPI_REQUEST_NULL) {
            MPI_Request_free(&parted->requests[i]);
        }
    }
    for (int i = 0; i < 2; i++) {
        if (parted->atoms[i] != MPI_DATATYPE_NULL) {
            MPI_Type_free(&parted->atoms[i]);
        }
        free(parted->counts[i]);
    }
    free(parted->engines);
    mpix_mapped_free(parted->words);
    free(parted->places);
    free(parted->waits);
    free(parted->failed);
    free(parted->units);
    free(parted->requests);
    free(parted->indices);
    free(parted->statuses);
    free(parted);
}

/* The agent may not have seen starts that nobody has announced. Messages keep their order, so it has when this one has come. */
static void take_all_starts(void)
{
    MPI_Request last;
    int flag = 0;

    if (MPI_Issend(NULL, 0, MPI_BYTE, 0, LAST_TAG, all.self, &last) != MPI_SUCCESS) {
        return;
    }
    while (!flag) {
        (void)take_starts();
        if (MPI_Test(&last, &flag, MPI_STATUS_IGNORE) != MPI_SUCCESS) {
            return;
        }
    }
}

/* Retires all requests. Rounds under way complete first: after mpix_parted_give_up_all they wait for no partition. */
void mpix_parted_end(void)
{
    if (all.first) {
        take_all_starts();
    }
    while (all.first) {
        pthread_mutex_lock(&all.lock);
        claim(all.first);
        pthread_mutex_unlock(&all.lock);
        mpix_parted_retire(all.first);
    }
    if (all.freed_key != MPI_KEYVAL_INVALID) {
        MPI_Type_free_keyval(&all.freed_key);
    }
    if (all.self != MPI_COMM_NULL) {
        MPI_Comm_free(&all.self);
    }
}
