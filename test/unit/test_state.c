/* What a process publishes about itself for coll_dma_state: the words, the rows, and when they are written. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/comm.h"
#include "libthreads.h"
#include "libunit.h"

/* ---- words ---- */

static const char *words_of(dma_wait_kind_t kind, int n, uint64_t call)
{
    static char words[DMA_STATE_WORDS];
    dma_state_wait_t wait = {.since = 2, .call = call, .coll = DMA_ALLTOALL, .phase = "entry"};

    for (int i = 0; i < n; i++) {
        dma_wait_add(&wait.wait, kind, i + 1);
        dma_wait_add(&wait.wait, kind, i + 1);
    }
    dma_state_words(&wait, 0, "X", 3.25, words);
    return words;
}

START_TEST(words_name_the_ranks)
{
    ck_assert_str_eq(words_of(DMA_WAIT_ENTRY, 1, 7),
                     "rank 0 has waited 1.2 s in all-to-all, call 7 (entry) on X for rank 1, which has not entered it");
    ck_assert_str_eq(words_of(DMA_WAIT_FLAG, 2, 7), "rank 0 has waited 1.2 s in all-to-all, call 7 (entry) on X for "
                                                    "ranks 1 and 2, which have entered it");
    ck_assert_str_eq(words_of(DMA_WAIT_MESSAGE, 3, 0),
                     "rank 0 has waited 1.2 s in the set-up (entry) on X for a message of ranks 1, 2 and 3");
    ck_assert_str_eq(words_of(DMA_WAIT_NONE, 0, 7), "rank 0 has waited 1.2 s in all-to-all, call 7 (entry) on X");
    ck_assert_ptr_nonnull(strstr(words_of(DMA_WAIT_RANK, DMA_WAIT_RANKS + 5, 7), " for ranks 1, 2, "));
    /* a rank that is not named is counted as often as it is added: twice here */
    ck_assert_ptr_nonnull(strstr(words_of(DMA_WAIT_RANK, DMA_WAIT_RANKS + 5, 7), ", 16 and 10 others"));
}
END_TEST

/* ---- rows ---- */

static void nap(long ms)
{
    struct timespec t = {.tv_nsec = ms * 1000000};

    nanosleep(&t, NULL);
}

static void gather(rank_t *r)
{
    uint8_t send[16] = {0}, recv[3 * 16];
    dma_side_t from = {.addr = send, .dense = true, .width = sizeof(int), .size = 1, .extent = 1, .ub = 1, .count = 16};
    dma_side_t to = from;
    dma_call_t call = {.coll = DMA_ALLGATHER, .send = from};

    to.addr = recv;
    call.recv = to;
    threads_prepare(r, r->comms[0]);
    must(r, dma_comm_run(r->comms[0], &call) == DMA_OK, "gathered");
}

/* Rank 2 reads the rows of the others while they wait for it. */
static void late_rank(rank_t *r)
{
    static dma_state_row_t *rows[3];
    dma_state_row_t *row;

    gather(r);
    gather(r);
    rows[r->rank] = row = r->comms[0]->row;
    must(r, row != &r->proc->state.nowhere && row->state == DMA_COMM_READY, "has a row");
    must(r, row->begun == 2 && row->completed == 2, "%llu, %llu", (unsigned long long)row->begun,
         (unsigned long long)row->completed);
    threads_barrier(r);
    must(r, row->identity && row->identity == rows[0]->identity, "identities");
    for (int i = 0; r->rank == 2 && i < 1000 && atomic_load(&rows[0]->version) == atomic_load(&row->version); i++) {
        nap(10);
    }
    if (r->rank == 2) {
        nap(50);
        must(r, rows[0]->begun == 3 && rows[0]->completed == 2, "begun");
        must(r, rows[0]->wait.call == 3 && rows[0]->wait.since > 0, "call %llu",
             (unsigned long long)rows[0]->wait.call);
        must(r, rows[0]->wait.coll == DMA_ALLGATHER && !strcmp(rows[0]->wait.phase, "entry"), "phase");
        must(r, rows[0]->wait.wait.kind == DMA_WAIT_ENTRY && rows[0]->wait.wait.ranks[rows[0]->wait.wait.n - 1] == 2,
             "for %d", rows[0]->wait.wait.ranks[0]);
    }
    gather(r);
    must(r, row->begun == 3 && row->completed == 3, "ended");
}

START_TEST(a_long_wait_is_shown)
{
    job_t job = threads_job(3, late_rank);

    threads_run(&job);
}
END_TEST

/* Short waits write nothing: the version is still that of the set-up. */
static void busy_rank(rank_t *r)
{
    uint32_t version;

    gather(r);
    version = atomic_load(&r->comms[0]->row->version);
    r->comms[0]->since = 100; /* a wait of half the time; the last published wait was long ago */
    r->comms[0]->shown = 0;
    must(r, !dma_state_is_due(r->comms[0], 100 + DMA_STATE_LONG / 2), "it is shown");
    must(r, atomic_load(&r->comms[0]->row->version) == version && version % 2 == 0, "version %u", version);
}

START_TEST(a_short_wait_is_not)
{
    job_t job = threads_job(2, busy_rank);

    threads_run(&job);
}
END_TEST

/* Rows are taken, released and taken again. If no row is free, a communicator works without one. */
START_TEST(rows_are_used_again)
{
    static dma_comm_t comms[DMA_STATE_ROWS + 2];
    dma_proc_config_t config = {.host = &threads_host, .job = "4711,1", .rank = 3};
    const dma_state_head_t *head;
    dma_state_row_t *row;
    dma_proc_t *proc;

    ck_assert_int_eq(dma_proc_create(&config, &proc), DMA_OK);
    for (int i = 0; i < DMA_STATE_ROWS + 2; i++) {
        comms[i] = (dma_comm_t){.proc = proc, .nranks = 1, .text = (char *)"x", .row = &proc->state.nowhere};
        dma_state_take(&comms[i]);
        comms[i].state = DMA_COMM_READY;
        dma_state_update(&comms[i]);
        ck_assert_int_eq(comms[i].row == &proc->state.nowhere, i >= DMA_STATE_ROWS);
    }
    head = (const dma_state_head_t *)(const void *)proc->state.base;
    ck_assert_uint_eq(head->magic, DMA_STATE_MAGIC);
    ck_assert_str_eq(head->job, "4711,1");
    ck_assert_int_eq(head->rank, 3);
    ck_assert_uint_eq(head->unshown, 2);
    row = comms[70].row;
    ck_assert_uint_eq(row->state, DMA_COMM_READY);
    dma_state_give_back(&comms[70]);
    ck_assert_uint_eq(row->state, DMA_COMM_NEW);
    dma_state_give_back(&comms[DMA_STATE_ROWS]);
    dma_state_take(&comms[DMA_STATE_ROWS]);
    ck_assert_ptr_eq(comms[DMA_STATE_ROWS].row, row);
    dma_proc_destroy(proc);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("state");

    unit_test(suite, words_name_the_ranks, 10);
    unit_test(suite, a_long_wait_is_shown, 20);
    unit_test(suite, a_short_wait_is_not, 10);
    unit_test(suite, rows_are_used_again, 10);
    return unit_main(suite);
}
