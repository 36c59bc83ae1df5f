/* What every unit test program needs: one seed for all random choices, and a main. */
#ifndef DMA_TEST_LIBUNIT_H
#define DMA_TEST_LIBUNIT_H

#include <check.h>
#include <stdint.h>

/* The seed of this run: the environment variable DMA_SEED, else a fixed one, so that a run can be repeated. */
uint64_t unit_seed(void);

/* A test with a limit in seconds, run for _i = first .. end - 1. CK_RUN_CASE=<its name> runs it alone. */
#define unit_test(suite, test, seconds)             unit_add(suite, test, #test, 0, 1, seconds)
#define unit_loop(suite, test, first, end, seconds) unit_add(suite, test, #test, first, end, seconds)
void unit_add(Suite *suite, const TTest *test, const char *name, int first, int end, double seconds);

/* The path of a temporary file that contains `text`, until the next call. */
const char *unit_file(const char *text);

/* Runs them; on failure the seed is printed. The exit status of the program. */
int unit_main(Suite *suite);

#endif
