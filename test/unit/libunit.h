/* What every unit test program needs: one seed for all random choices, and a main. */
#ifndef DMA_TEST_LIBUNIT_H
#define DMA_TEST_LIBUNIT_H

#include <check.h>
#include <stdint.h>

/* Check writes a message to a file for each assertion that holds, so that it can say near which one a test crashed.
 * In loops this took most of the time. An assertion that is repeated writes no more messages. */
static inline void unit_mark(const char *file, int line)
{
    static _Thread_local int seen[16];

    if (seen[line % 16] != line) {
        seen[line % 16] = line;
        _mark_point(file, line);
    }
}
#define _mark_point(file, line) unit_mark(file, line)

/* A sanitizer makes a test several times slower. A test with many cases of one kind may run one case out of this number. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define UNIT_SHARE 3
#else
#define UNIT_SHARE 1
#endif

/* The seed of this run: the environment variable DMA_SEED, or a fixed one, so that a run can be repeated. */
uint64_t unit_seed(void);

/* A test with a limit in seconds, run for _i = first .. end - 1. CK_RUN_CASE=<its name> runs it alone. */
#define unit_test(suite, test, seconds)             unit_add(suite, test, #test, 0, 1, seconds)
#define unit_loop(suite, test, first, end, seconds) unit_add(suite, test, #test, first, end, seconds)
void unit_add(Suite *suite, const TTest *test, const char *name, int first, int end, double seconds);

/* The path of a temporary file that contains `text`, until the next call. */
const char *unit_file(const char *text);

/* Runs the tests. If one fails, the seed is printed. Returns the exit status of the program. */
int unit_main(Suite *suite);
/* The same with a process for each case, whatever CK_FORK says: what is tested keeps state until its process ends. */
int unit_main_isolated(Suite *suite);

#endif
