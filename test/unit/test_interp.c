/* Tests of the plan interpreter itself: right plans pass, and each kind of wrong plan is found. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "libinterp.h"
#include "libinterp_hand.h"
#include "libunit.h"

#define MAX_RANKS 4

#define CALLS 4

/* Bytes from rank s to rank d in call c. In place, a rank of an all-to-all-v sends as much as it receives. */
static uint64_t bytes_of(dma_coll_t coll, uint64_t block, int c, int s, int d)
{
    switch (coll) {
    case DMA_ALLGATHERV:
        return block * (uint64_t)((s + c) % 3) / 2;
    case DMA_ALLTOALLV:
        return block * (uint64_t)((s + d + c) % 3) / 2;
    default:
        return block;
    }
}

static void run_once(hand_builder_t build, int n, uint64_t block, fault_t fault, unsigned flags, uint64_t seed,
                     interp_report_t *report)
{
    bool unequal = fault == UNEQUAL || fault == UNEQUAL_UNCHECKED;
    static hand_t hands[MAX_RANKS];
    const dma_plan_t *plans[MAX_RANKS];
    uint64_t bytes[CALLS][MAX_RANKS * MAX_RANKS], takes[CALLS][MAX_RANKS * MAX_RANKS];
    interp_call_t calls[CALLS];
    interp_job_t job = {.nranks = n,
                        .geom = {.ring_depth = 2,
                                 .slot_bytes = 256,
                                 .chunk_bytes = 16,
                                 .chunk_depth = 2,
                                 .pair_bytes = 32,
                                 .pair_depth = 2},
                        .calls = calls,
                        .ncalls = CALLS,
                        .outstanding = 1 + (int)(seed % 2),
                        .flags = flags,
                        .seed = seed};

    for (int r = 0; r < n; r++) {
        build(&hands[r], r, n, fault);
        plans[r] = &hands[r].plan;
    }
    for (int c = 0; c < CALLS; c++) {
        for (int i = 0; i < n * n; i++) {
            bytes[c][i] = bytes_of(plans[0]->coll, block, c, i / n, i % n);
            takes[c][i] = bytes_of(plans[0]->coll, block, c, i % n, i / n);
        }
        if (unequal) { /* rank 1 expects more from rank 0 than it gets; in place it also sends more */
            takes[c][n]++;
            bytes[c][n] += plans[1]->in_place;
        }
        calls[c] = (interp_call_t){.plans = plans, .chunk = 16, .bytes = bytes[c], .takes = unequal ? takes[c] : NULL};
    }
    interp_run(&job, report);
}

static void passes(hand_builder_t build, int n, uint64_t block)
{
    interp_report_t report;

    for (uint64_t i = 0; i < 60; i++) {
        run_once(build, n, block, RIGHT, i % 3 == 0 ? INTERP_STRONG : 0, 1000 * unit_seed() + i, &report);
        ck_assert_msg(report.error == INTERP_OK, "%s", report.text);
    }
}

/* The error is found with every schedule, as `expected` or `other`. */
static void finds(hand_builder_t build, int n, uint64_t block, fault_t fault, interp_error_t expected,
                  interp_error_t other)
{
    interp_report_t report;

    for (uint64_t i = 0; i < 40; i++) {
        run_once(build, n, block, fault, 0, 1000 * unit_seed() + i, &report);
        ck_assert_msg(report.error == expected || report.error == other, "fault %d: expected %s, got: %s", fault,
                      interp_error_name(expected), report.error ? report.text : "nothing");
    }
}

/* The error is visible in the bytes, or as a hang, with some schedule, without clocks. */
static void shows(hand_builder_t build, int n, uint64_t block, fault_t fault)
{
    interp_report_t report;
    int found = 0;

    for (uint64_t i = 0; i < 200; i++) {
        run_once(build, n, block, fault, INTERP_NO_CLOCKS, 1000 * unit_seed() + i, &report);
        found += report.error == INTERP_DATA || report.error == INTERP_DEADLOCK;
    }
    ck_assert_msg(found > 0, "fault %d never showed (seed %llu)", fault, (unsigned long long)unit_seed());
}

START_TEST(right_plans_pass)
{
    static const uint64_t sizes[] = {0, 1, 15, 16, 17, 100, 256};

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        for (int n = 1; n <= MAX_RANKS; n++) {
            passes(hand_pull, n, sizes[i]);
            passes(hand_slot, n, sizes[i]);
            passes(hand_pipe, n, sizes[i]);
            passes(hand_swap, n, sizes[i]);
            passes(hand_slot_v, n, sizes[i]);
            passes(hand_pipe_v, n, sizes[i]);
            passes(hand_places, n, sizes[i] / 4);
            passes(hand_pairs, n, sizes[i]);
            passes(hand_pairs_in_place, n, sizes[i]);
        }
        passes(hand_push2, 3, sizes[i]);
    }
}
END_TEST

START_TEST(missing_entry_wait)
{
    finds(hand_pull, 3, 100, NO_ENTRY_WAIT, INTERP_NOT_ENTERED, INTERP_NOT_ENTERED);
    finds(hand_swap, 3, 100, NO_ENTRY_WAIT, INTERP_NOT_ENTERED, INTERP_NOT_ENTERED);
}
END_TEST

START_TEST(missing_entry_signal)
{
    finds(hand_pull, 3, 100, NO_ENTRY_SIGNAL, INTERP_DEADLOCK, INTERP_DEADLOCK);
    finds(hand_pull, 1, 100, NO_ENTRY_SIGNAL, INTERP_PLAN, INTERP_PLAN);
}
END_TEST

START_TEST(missing_consumed_wait)
{
    finds(hand_pipe, 3, 100, NO_CONSUMED_WAIT, INTERP_CHUNK, INTERP_CHUNK);
    shows(hand_pipe, 3, 100, NO_CONSUMED_WAIT);
    finds(hand_pipe, 3, 32, NO_CONSUMED_WAIT, INTERP_CHUNK, INTERP_CHUNK); /* only across calls */
}
END_TEST

START_TEST(missing_produced_wait)
{
    finds(hand_pipe, 3, 100, NO_PRODUCED_WAIT, INTERP_CHUNK, INTERP_DATA);
    shows(hand_pipe, 3, 100, NO_PRODUCED_WAIT);
}
END_TEST

START_TEST(missing_landed_wait)
{
    finds(hand_pull, 3, 100, NO_LANDED_WAIT, INTERP_USER, INTERP_DATA);
    shows(hand_pull, 3, 100, NO_LANDED_WAIT);
    finds(hand_push2, 3, 100, NO_LANDED_WAIT, INTERP_USER, INTERP_DATA);
    shows(hand_push2, 3, 100, NO_LANDED_WAIT);
    finds(hand_swap, 3, 100, NO_LANDED_WAIT, INTERP_USER, INTERP_DATA);
    shows(hand_swap, 3, 100, NO_LANDED_WAIT);
}
END_TEST

START_TEST(signal_before_copy)
{
    finds(hand_slot, 3, 100, EARLY_SIGNAL, INTERP_RACE, INTERP_DATA);
    shows(hand_slot, 3, 100, EARLY_SIGNAL);
    finds(hand_pipe, 3, 100, EARLY_SIGNAL, INTERP_CHUNK, INTERP_DATA);
    shows(hand_pipe, 3, 100, EARLY_SIGNAL);
    finds(hand_pull, 3, 100, EARLY_SIGNAL, INTERP_USER, INTERP_DATA);
    shows(hand_pull, 3, 100, EARLY_SIGNAL);
}
END_TEST

START_TEST(wrong_operands)
{
    finds(hand_pull, 3, 100, WRONG_OFFSET, INTERP_BOUNDS, INTERP_BOUNDS);
    finds(hand_pull, 3, 100, LONG_COPY, INTERP_BOUNDS, INTERP_BOUNDS);
    finds(hand_pull, 3, 100, WRONG_SOURCE, INTERP_DATA, INTERP_DATA);
    finds(hand_push2, 3, 100, WRONG_SOURCE, INTERP_RACE, INTERP_USER);
    finds(hand_slot, 2, 257, RIGHT, INTERP_BOUNDS, INTERP_BOUNDS);
}
END_TEST

START_TEST(wrong_swaps)
{
    finds(hand_swap, 2, 100, WRONG_SOURCE, INTERP_DATA, INTERP_DATA);
    finds(hand_swap, 3, 100, TWICE, INTERP_USER, INTERP_DATA);
}
END_TEST

START_TEST(wrong_flags)
{
    finds(hand_pull, 3, 100, FOREIGN_FLAG, INTERP_OWNER, INTERP_OWNER);
    finds(hand_pull, 3, 100, LOW_FLAG, INTERP_BACKWARDS, INTERP_BACKWARDS);
    finds(hand_pull, 3, 100, TWICE, INTERP_BACKWARDS, INTERP_BACKWARDS);
}
END_TEST

START_TEST(deadlocks)
{
    interp_report_t report;

    finds(hand_pull, 3, 100, CIRCLE, INTERP_DEADLOCK, INTERP_DEADLOCK);
    finds(hand_pipe, 2, 100, SHALLOW, INTERP_DEADLOCK, INTERP_DEADLOCK);
    run_once(hand_pull, 2, 100, CIRCLE, 0, 1, &report);
    ck_assert_ptr_nonnull(strstr(report.text, "rank 1 queue 0 op 0 trip 0: WAIT ENTRY of rank 0 about 0 >= 1"));
}
END_TEST

START_TEST(malformed_plans)
{
    finds(hand_pipe, 3, 100, UNCHUNKED, INTERP_PLAN, INTERP_PLAN);
    finds(hand_pull, 3, 100, NOT_STREAMING, INTERP_PLAN, INTERP_PLAN);
}
END_TEST

/* ---- all-to-alls, heads and tails, streams of pairs ---- */

static void finds_in_pairs(uint64_t block, fault_t fault, interp_error_t expected, interp_error_t other)
{
    finds(hand_pairs, 3, block, fault, expected, other);
    finds(hand_pairs_in_place, 3, block, fault, expected, other);
}

START_TEST(pair_flags)
{
    finds_in_pairs(200, NO_CONSUMED_WAIT, INTERP_CHUNK, INTERP_CHUNK);
    shows(hand_pairs, 3, 200, NO_CONSUMED_WAIT);
    finds_in_pairs(32, NO_CONSUMED_WAIT, INTERP_CHUNK, INTERP_CHUNK); /* only across calls */
    finds_in_pairs(200, NO_PRODUCED_WAIT, INTERP_CHUNK, INTERP_CHUNK);
    shows(hand_pairs, 3, 200, NO_PRODUCED_WAIT);
    finds_in_pairs(200, EARLY_SIGNAL, INTERP_CHUNK, INTERP_RACE);
    shows(hand_pairs, 3, 200, EARLY_SIGNAL);
    finds_in_pairs(200, SHALLOW, INTERP_DEADLOCK, INTERP_DEADLOCK);
    finds_in_pairs(200, COUNTED_TWICE, INTERP_PLAN, INTERP_PLAN);
}
END_TEST

/* In place, the old content must have left the buffer before it is overwritten. */
START_TEST(pairs_in_place)
{
    finds(hand_pairs_in_place, 3, 200, NO_OWN_WAIT, INTERP_RACE, INTERP_RACE);
    shows(hand_pairs_in_place, 3, 200, NO_OWN_WAIT);
    finds(hand_pairs, 3, 200, NO_OWN_WAIT, INTERP_OK, INTERP_OK); /* only necessary in place */
    finds(hand_pairs_in_place, 3, 20, LATE_HEAD, INTERP_RACE, INTERP_DATA);
    shows(hand_pairs_in_place, 3, 20, LATE_HEAD);
}
END_TEST

START_TEST(heads_and_places)
{
    finds_in_pairs(20, LATE_HEAD, INTERP_RACE, INTERP_DATA);
    finds_in_pairs(20, LATE_NUMBER, INTERP_RACE, INTERP_SIZE);
    finds_in_pairs(20, WRONG_PLACE, INTERP_DATA, INTERP_DATA);
    finds_in_pairs(20, WRONG_HEAD, INTERP_DATA, INTERP_DEADLOCK);
    finds_in_pairs(200, WHOLE_CHUNKS, INTERP_PLAN, INTERP_PLAN);
    finds(hand_places, 3, 50, WRONG_PLACE, INTERP_DATA, INTERP_RACE);
    finds(hand_places, 4, 65, RIGHT, INTERP_BOUNDS, INTERP_RACE); /* larger than a place */
}
END_TEST

/* The user is told if the ranks have different sizes. Nobody else is. */
START_TEST(unequal_bytes)
{
    static const uint64_t sizes[] = {0, 1, HAND_HEAD, 55, 200};

    for (size_t i = 0; i < 5; i++) {
        finds_in_pairs(sizes[i], UNEQUAL, INTERP_SIZE, INTERP_SIZE);
        finds(hand_slot, 3, sizes[i], UNEQUAL, INTERP_SIZE, INTERP_SIZE);
        finds(hand_slot_v, 3, sizes[i], UNEQUAL, INTERP_SIZE, INTERP_SIZE);
        finds(hand_pipe_v, 2, sizes[i], UNEQUAL, INTERP_SIZE, INTERP_SIZE);
        finds(hand_places, 3, sizes[i] / 4, UNEQUAL, INTERP_SIZE, INTERP_SIZE);
        finds(hand_pairs, 3, sizes[i], UNEQUAL_UNCHECKED, INTERP_DATA, INTERP_DEADLOCK);
    }
}
END_TEST

START_TEST(malformed_pairs)
{
    static const fault_t faults[] = {NOT_STREAMING, UNCHUNKED,        FOREIGN_STREAM, FOREIGN_BUFFER, CHECKS_SENT,
                                     CHECKS_CHUNK,  NUMBER_OF_OTHERS, WRITES_NUMBER,  READS_BLOCK};

    for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
        finds_in_pairs(200, faults[i], INTERP_PLAN, INTERP_PLAN);
    }
}
END_TEST

START_TEST(plans_in_words)
{
    static hand_t h;
    char text[200];

    hand_pairs(&h, 0, 2, RIGHT);
    interp_print_op(&h.ops[0][0], text, sizeof(text));
    ck_assert_str_eq(text, "COPY slot[0:0]+64 <- bytes[0:1]+0, 8");
    interp_print_op(&h.ops[0][5], text, sizeof(text));
    ck_assert_str_eq(text, "CHECK slot[1:0]+0, recv block 1");
    interp_print_op(&h.ops[1][1], text, sizeof(text));
    ck_assert_str_eq(text, "COPY pair[0:1]+0 <- send[0:1]+0, tail of send block 1 chunked");
    interp_print_op(&h.ops[2][1], text, sizeof(text));
    ck_assert_str_eq(text, "WAIT PAIR_PRODUCED of rank 1 about 0 >= 1 chunked");
}
END_TEST

START_TEST(seeds_repeat)
{
    interp_report_t a, b;

    for (uint64_t seed = 1; seed < 20; seed++) {
        run_once(hand_pipe, 4, 200, RIGHT, 0, seed, &a);
        run_once(hand_pipe, 4, 200, RIGHT, 0, seed, &b);
        ck_assert_mem_eq(&a, &b, sizeof(a));
        ck_assert_uint_gt(a.moved, 0);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("interp");

    unit_test(suite, right_plans_pass, 20);
    unit_test(suite, missing_entry_wait, 20);
    unit_test(suite, missing_entry_signal, 20);
    unit_test(suite, missing_consumed_wait, 20);
    unit_test(suite, missing_produced_wait, 20);
    unit_test(suite, missing_landed_wait, 20);
    unit_test(suite, signal_before_copy, 20);
    unit_test(suite, wrong_operands, 20);
    unit_test(suite, wrong_swaps, 20);
    unit_test(suite, wrong_flags, 20);
    unit_test(suite, deadlocks, 20);
    unit_test(suite, malformed_plans, 20);
    unit_test(suite, pair_flags, 20);
    unit_test(suite, pairs_in_place, 20);
    unit_test(suite, heads_and_places, 20);
    unit_test(suite, unequal_bytes, 20);
    unit_test(suite, malformed_pairs, 20);
    unit_test(suite, plans_in_words, 20);
    unit_test(suite, seeds_repeat, 20);
    return unit_main(suite);
}
