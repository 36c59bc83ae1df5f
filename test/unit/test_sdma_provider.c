/* Which provider of queues is used: providers made for the test, and the kernel driver's in a world of plain memory
 * (libkfd_fake.h). */
#include <stdlib.h>
#include <string.h>

#include "engine/sdma/provider.h"
#include "libkfd_fake.h"
#include "libunit.h"

static const fake_options_t usual;

static dma_status_t never(const dma_provider_gpu_t *gpu, dma_provider_t **provider, char *why)
{
    (void)gpu;
    (void)provider;
    strcpy(why, "it never does");
    return DMA_UNSUPPORTED;
}

/* The first that works, or the one that is named; and why not. */
START_TEST(choice)
{
    static const dma_provider_ops_t bad = {.name = "bad", .open = never};
    const dma_provider_ops_t *list[] = {&bad, fake_providers[0], NULL};
    static const char *const any[] = {NULL, "", "auto", "kfd"};
    dma_provider_gpu_t by_number = fake_gpu;
    char why[DMA_PROVIDER_WHY_BYTES];
    dma_provider_t *p;

    by_number.by_number = true;
    fake_begin(&usual);
    for (int i = 0; i < 4; i++) {
        ck_assert_int_eq(dma_provider_open(list, any[i], &fake_gpu, &p, why), DMA_OK);
        ck_assert_str_eq(p->ops->name, "kfd");
        p->ops->close(p);
    }
    ck_assert_int_eq(dma_provider_open(list, "bad", &fake_gpu, &p, why), DMA_UNSUPPORTED);
    ck_assert_str_eq(why, "bad: it never does");
    ck_assert_int_eq(dma_provider_open(list, "nosuch", &fake_gpu, &p, why), DMA_UNSUPPORTED);
    ck_assert_str_eq(why, "there is no queue provider \"nosuch\"");
    ck_assert_int_eq(dma_provider_open(list, "auto", &by_number, &p, why), DMA_OK);
    p->ops->close(p);
    setenv("HSA_ENABLE_SDMA", "0", 1);
    ck_assert_int_eq(dma_provider_open(list, "auto", &fake_gpu, &p, why), DMA_UNSUPPORTED);
    ck_assert_str_eq(why, "HSA_ENABLE_SDMA=0 in the environment");
    setenv("HSA_ENABLE_SDMA", "1", 1);
    ck_assert_int_eq(dma_provider_open(list, "auto", &fake_gpu, &p, why), DMA_OK);
    p->ops->close(p);
    unsetenv("HSA_ENABLE_SDMA");
    fake_end();
    fake_begin(&(fake_options_t){.minor = 16});
    ck_assert_int_eq(dma_provider_open(list, "auto", &by_number, &p, why), DMA_UNSUPPORTED);
    ck_assert_str_eq(why, "bad: it never does; kfd: it cannot name engines, and some are not there");
    fake_end();
    fake_begin(&(fake_options_t){.rocr_down = true});
    ck_assert_int_eq(dma_provider_open(list, "auto", &fake_gpu, &p, why), DMA_UNSUPPORTED);
    ck_assert_str_eq(why, "bad: it never does; kfd: ROCr does not run");
    fake_end();
    /* In a process without ROCm neither has what it needs, and none of it is loaded for that. */
    ck_assert_int_eq(dma_provider_open(dma_providers, "auto", &fake_gpu, &p, why), DMA_UNSUPPORTED);
    ck_assert_str_eq(why, "thunk: ROCr has no libhsakmt of its own in this process; kfd: ROCr is not loaded");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("providers of queues");

    unit_test(suite, choice, 4);
    return unit_main(suite);
}
