/* A round of a partitioned request, which the agent carries out; see parted.h. */
#include <string.h>

#include "parted.h"

static void store(uint32_t *word, uint32_t value)
{
    __atomic_store_n(word, value, __ATOMIC_RELEASE);
}

static uint32_t load(const uint32_t *word)
{
    return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

static void keep_error(mpix_parted_t *parted, int code)
{
    int class = MPI_ERR_OTHER;

    MPI_Error_class(code, &class);
    mpix_parted_lock_all();
    parted->error = parted->error == MPI_SUCCESS ? class : parted->error;
    mpix_parted_unlock();
}

/* Counts the units that carry data of each partition. */
static void count_waits(mpix_parted_t *parted)
{
    memset(parted->parts, 0, (size_t)parted->rparts * sizeof(*parted->parts));
    for (int i = 0; i < parted->nunits; i++) {
        for (int p = parted->units[i].recvs; p < parted->units[i].recvs_end; p++) {
            parted->parts[p].waits++;
        }
    }
}

void mpix_parted_begin_round(mpix_parted_t *parted, MPI_Message message)
{
    parted->message = message;
    parted->left = parted->nunits;
    for (int i = 0; i < parted->nunits; i++) {
        parted->units[i].ready = parted->units[i].sends;
        parted->units[i].started = false;
    }
    count_waits(parted);
    mpix_parted_lock_all();
    parted->active = true;
    mpix_parted_unlock();
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
        mpix_part_t *part = &parted->parts[p];

        part->failed |= failed;
        if (--part->waits > 0) {
            continue;
        }
        for (int source = 0; source < parted->ranks; source++) {
            store(&arrived[(size_t)source * (size_t)parted->rparts + (size_t)p],
                  part->failed ? MPIX_PARRIVED_FAILED : 1);
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

    mpix_parted_lock_all();
    give_up = parted->give_up || mpix_parted_all.ending;
    mpix_parted_unlock();
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
    mpix_parted_lock_all();
    __atomic_store_n(&parted->expected, false, __ATOMIC_RELAXED); /* before MPI_Wait returns */
    __atomic_store_n(&parted->round, parted->round + 1, __ATOMIC_RELEASE);
    parted->active = parted->give_up = false;
    parted->finishing = true;
    mpix_parted_unlock();
    code = MPI_Mrecv(NULL, 0, MPI_BYTE, &parted->message, MPI_STATUS_IGNORE);
    if (code != MPI_SUCCESS) {
        keep_error(parted, code);
    }
    mpix_parted_lock_all();
    parted->finishing = false; /* the handle is complete, too */
    pthread_cond_broadcast(&mpix_parted_all.changed);
    mpix_parted_unlock();
}

bool mpix_parted_advance(mpix_parted_t *parted, bool is_thread)
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
