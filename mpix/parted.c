/* Rounds of partitioned requests, and the list of requests; see parted.h. */
#include "parted.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "mapped.h"
#include "queue.h"

enum { MOST_TAGS = 32768 }; /* MPI_TAG_UB is not smaller */

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

static void store(uint32_t *word, uint32_t value)
{
    __atomic_store_n(word, value, __ATOMIC_RELEASE);
}

static uint32_t load(const uint32_t *word)
{
    return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

/* With the lock. */
static mpix_parted_t *find(MPI_Request handle)
{
    mpix_parted_t *parted = all.first;

    while (parted && (parted->handle != handle || parted->leaving || parted->freed)) {
        parted = parted->next;
    }
    return parted;
}

mpix_parted_t *mpix_parted_lock(MPI_Request handle)
{
    mpix_parted_t *parted;

    pthread_mutex_lock(&all.lock);
    parted = find(handle);
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

void mpix_parted_unlock(void)
{
    pthread_mutex_unlock(&all.lock);
}

void mpix_parted_settle(mpix_parted_t *parted)
{
    while (parted->finishing) {
        pthread_cond_wait(&all.changed, &all.lock);
    }
}

static void keep_error(mpix_parted_t *parted, int code)
{
    int class = MPI_ERR_OTHER;

    MPI_Error_class(code, &class);
    pthread_mutex_lock(&all.lock);
    parted->error = parted->error == MPI_SUCCESS ? class : parted->error;
    pthread_mutex_unlock(&all.lock);
}

/* ---- a round ---- */

/* Counts the units that carry data of each partition. */
static void count_waits(mpix_parted_t *parted)
{
    memset(parted->waits, 0, (size_t)parted->rparts * sizeof(*parted->waits));
    memset(parted->failed, 0, (size_t)parted->rparts * sizeof(*parted->failed));
    for (int i = 0; i < parted->nunits; i++) {
        for (int p = parted->units[i].recvs; p < parted->units[i].recvs_end; p++) {
            parted->waits[p]++;
        }
    }
}

static void begin_round(mpix_parted_t *parted, MPI_Message message)
{
    parted->message = message;
    parted->left = parted->nunits;
    for (int i = 0; i < parted->nunits; i++) {
        parted->units[i].ready = parted->units[i].sends;
        parted->units[i].started = false;
    }
    count_waits(parted);
    pthread_mutex_lock(&all.lock);
    parted->active = true;
    pthread_mutex_unlock(&all.lock);
}

/* Stores the words that engines have not written, because they have failed or a word was lost. */
static void complete_words(const mpix_parted_t *parted, bool failed)
{
    uint32_t *arrived = mpix_parted_arrived(parted, parted->round);

    for (int i = 0; i < parted->ranks * parted->rparts; i++) {
        uint32_t was = 0;

        (void)__atomic_compare_exchange_n(&arrived[i], &was, failed ? MPIX_PARRIVED_FAILED : 1, false, __ATOMIC_RELEASE,
                                          __ATOMIC_RELAXED);
    }
}

/* The data are in the buffer before the words are stored. */
static void complete_unit(mpix_parted_t *parted, int index, bool failed)
{
    uint32_t *arrived = mpix_parted_arrived(parted, parted->round);
    const mpix_unit_t *unit = &parted->units[index];

    parted->left--;
    if (parted->engines) {
        complete_words(parted, failed);
        return;
    }
    for (int p = unit->recvs; p < unit->recvs_end; p++) {
        parted->failed[p] |= failed;
        if (--parted->waits[p] > 0) {
            continue;
        }
        for (int source = 0; source < parted->ranks; source++) {
            store(&arrived[(size_t)source * (size_t)parted->rparts + (size_t)p],
                  parted->failed[p] ? MPIX_PARRIVED_FAILED : 1);
        }
    }
}

static bool is_ready(const mpix_parted_t *parted, mpix_unit_t *unit, bool give_up)
{
    const uint32_t *ready = mpix_parted_ready(parted, parted->round);

    while (unit->ready < unit->sends_end && load(&ready[unit->ready]) != 0) {
        unit->ready++;
    }
    return give_up || unit->ready == unit->sends_end;
}

/* Makes all partitions ready for engines, which poll the words. */
static void make_all_ready(const mpix_parted_t *parted)
{
    uint32_t *ready = mpix_parted_ready(parted, parted->round);

    for (int p = 0; p < parted->sparts; p++) {
        store(&ready[p], DMA_PARTS_READY);
    }
}

static bool start_units(mpix_parted_t *parted)
{
    bool moved = false, give_up;

    pthread_mutex_lock(&all.lock);
    give_up = parted->give_up || all.ending;
    pthread_mutex_unlock(&all.lock);
    if (give_up && parted->engines) {
        make_all_ready(parted);
    }
    for (int i = 0; i < parted->nunits; i++) {
        mpix_unit_t *unit = &parted->units[i];
        int code;

        if (unit->started || !(parted->engines || is_ready(parted, unit, give_up))) {
            continue;
        }
        unit->started = moved = true;
        code = MPI_Start(&parted->requests[i]);
        if (code != MPI_SUCCESS) {
            keep_error(parted, code);
            complete_unit(parted, i, true);
        }
    }
    return moved;
}

/* MPI_Testsome ignores requests that are not active. */
static bool test_units(mpix_parted_t *parted)
{
    int count = 0, code = MPI_Testsome(parted->nunits, parted->requests, &count, parted->indices, parted->statuses);

    if (code != MPI_SUCCESS && code != MPI_ERR_IN_STATUS) {
        keep_error(parted, code);
        return false;
    }
    for (int i = 0; i < count && count != MPI_UNDEFINED; i++) {
        int error = code == MPI_ERR_IN_STATUS ? parted->statuses[i].MPI_ERROR : MPI_SUCCESS;

        if (error == MPI_ERR_PENDING) {
            continue;
        }
        if (error != MPI_SUCCESS) {
            keep_error(parted, error);
        }
        complete_unit(parted, parted->indices[i], error != MPI_SUCCESS);
    }
    return count > 0 && count != MPI_UNDEFINED;
}

static void clear_bank(const mpix_parted_t *parted, unsigned round)
{
    uint32_t *ready = mpix_parted_ready(parted, round), *arrived;
    const dma_parts_t *engines = parted->engines;

    for (size_t i = 0; i < parted->bank_words; i++) {
        store(&ready[i], 0);
    }
    arrived = engines ? engines->arrived + (round & 1) * engines->arrived_distance : NULL;
    for (size_t i = 0; engines && i < engines->arrived_distance; i++) {
        store(&arrived[i], 0);
    }
}

static void end_round(mpix_parted_t *parted)
{
    int code;

    clear_bank(parted, parted->round + 1);
    pthread_mutex_lock(&all.lock);
    parted->round++;
    parted->active = parted->give_up = false;
    parted->finishing = true;
    pthread_mutex_unlock(&all.lock);
    code = MPI_Mrecv(NULL, 0, MPI_BYTE, &parted->message, MPI_STATUS_IGNORE);
    if (code != MPI_SUCCESS) {
        keep_error(parted, code);
    }
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
            begin_round(parted, message);
        } else {
            (void)MPI_Mrecv(NULL, 0, MPI_BYTE, &message, MPI_STATUS_IGNORE);
        }
        moved = true;
    }
}

static bool advance(mpix_parted_t *parted, bool is_thread)
{
    bool moved;

    if (!parted->active) {
        return false;
    }
    if (is_thread) {
        mpix_stream_enter(&parted->device);
    }
    moved = start_units(parted);
    mpix_parted_copy_words(parted);
    moved |= test_units(parted);
    if (parted->left == 0) {
        end_round(parted);
    }
    return moved;
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
        moved |= advance(parted, is_thread);
    }
    pthread_mutex_lock(&all.lock);
    let_go();
    all.turning = false;
    pthread_mutex_unlock(&all.lock);
    return moved;
}

bool mpix_parted_any(void)
{
    bool any;

    pthread_mutex_lock(&all.lock);
    any = all.count > 0;
    pthread_mutex_unlock(&all.lock);
    return any;
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
        }
    }
    pthread_mutex_unlock(&all.lock);
    return MPI_SUCCESS;
}

/* Returns the next request that the program has freed. The caller must retire it. */
static mpix_parted_t *take_freed(void)
{
    mpix_parted_t *parted;

    pthread_mutex_lock(&all.lock);
    for (parted = all.first; parted && (!parted->freed || parted->leaving || parted->handle == MPI_REQUEST_NULL);) {
        parted = parted->next;
    }
    if (parted) {
        parted->leaving = true;
    }
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
    while ((parted = take_freed())) {
        mpix_parted_retire(parted);
    }
    return code;
}

/* Waits until the agent has taken the request out of the list. */
static void leave_list(mpix_parted_t *parted)
{
    pthread_mutex_lock(&all.lock);
    parted->leaving = true;
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
    leave_list(parted);
    mpix_parted_destroy(parted);
}

/* MPI has given a known handle to a new request, so the program has freed the former request. */
static void retire_former(MPI_Request handle)
{
    mpix_parted_t *former = mpix_parted_lock(handle);

    if (former) {
        mpix_parted_unlock();
        mpix_parted_retire(former);
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
    mpix_agent_wake();
    code = make_handle(parted, &handle);
    if (code != MPI_SUCCESS) {
        leave_list(parted);
        return code;
    }
    retire_former(handle);
    pthread_mutex_lock(&all.lock);
    parted->handle = handle;
    pthread_mutex_unlock(&all.lock);
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

/* Retires all requests. Rounds under way complete first: after mpix_parted_give_up_all they wait for no partition. */
void mpix_parted_end(void)
{
    while (all.first) {
        mpix_parted_retire(all.first);
    }
    if (all.freed_key != MPI_KEYVAL_INVALID) {
        MPI_Type_free_keyval(&all.freed_key);
    }
    if (all.self != MPI_COMM_NULL) {
        MPI_Comm_free(&all.self);
    }
}
