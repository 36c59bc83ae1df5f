/* What every unit test program needs: one seed for all random choices, and a main. */
#ifndef DMA_TEST_LIBUNIT_H
#define DMA_TEST_LIBUNIT_H

#include <check.h>
#include <stdint.h>

/* The seed of this run: the environment variable DMA_SEED, else a fixed one, so that a run can be repeated. */
uint64_t unit_seed(void);

/* Runs the test case; on failure the seed is printed. The exit status of the program. */
int unit_main(const char *name, TCase *tc);

#endif
