/* See libunit.h. */
#include "libunit.h"

#include <stdio.h>
#include <stdlib.h>

uint64_t unit_seed(void)
{
    const char *text = getenv("DMA_SEED");

    return text && *text ? strtoull(text, NULL, 0) : 20260801;
}

int unit_main(const char *name, TCase *tc)
{
    Suite *suite = suite_create(name);
    SRunner *runner = srunner_create(suite);
    int failed;

    suite_add_tcase(suite, tc);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    if (failed) {
        printf("%s: repeat with DMA_SEED=%llu\n", name, (unsigned long long)unit_seed());
    }
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
