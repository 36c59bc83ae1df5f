/* See libunit.h. */
#include "libunit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

uint64_t unit_seed(void)
{
    const char *text = getenv("DMA_SEED");

    return text && *text ? strtoull(text, NULL, 0) : 20260801;
}

void unit_add(Suite *suite, const TTest *test, const char *name, int first, int end, double seconds)
{
    TCase *tc = tcase_create(name);

    tcase_set_timeout(tc, seconds);
    tcase_add_loop_test(tc, test, first, end);
    suite_add_tcase(suite, tc);
}

/* A machine of emulated parts in one process opens more files than the usual limit of a user, 1024. */
static void raise_files(void)
{
    struct rlimit files;

    if (!getrlimit(RLIMIT_NOFILE, &files)) {
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
}

static int run(Suite *suite, enum fork_status forks)
{
    SRunner *runner = srunner_create(suite);
    int failed;

    raise_files();
    srunner_set_fork_status(runner, forks);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    if (failed) {
        printf("repeat with DMA_SEED=%llu\n", (unsigned long long)unit_seed());
    }
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

int unit_main(Suite *suite)
{
    return run(suite, CK_FORK_GETENV);
}

int unit_main_isolated(Suite *suite)
{
    return run(suite, CK_FORK);
}

const char *unit_file(const char *text)
{
    static char path[64];
    static int fd = -1;

    if (fd >= 0) {
        close(fd);
    }
    fd = memfd_create("unit", MFD_CLOEXEC);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    return path;
}
