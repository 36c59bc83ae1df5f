/* Which provider of queues is used: providers made for the test, and the kernel driver's in a world of plain memory
 * (libkfd_fake.h). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/sdma/queues/queue.h"
#include "libkfd_fake.h"
#include "libunit.h"

static const fake_options_t usual;

static const char *refusal = "it never does";

static dma_status_t never(const dma_provider_gpu_t *gpu, dma_provider_t **provider, char *why)
{
    (void)gpu;
    (void)provider;
    strcpy(why, refusal);
    return DMA_UNSUPPORTED;
}

static const dma_provider_ops_t bad = {.name = "bad", .open = never};

/* A provider of plain memory, whose queues cannot name engines and are never executed. */
static struct {
    dma_provider_t base;
    int opened, memory, queues;
    uint64_t read, write, doorbell;
} plain;

static const dma_provider_ops_t plain_ops;

static dma_status_t plain_open(const dma_provider_gpu_t *gpu, dma_provider_t **provider, char *why)
{
    (void)gpu;
    (void)why;
    plain.base = (dma_provider_t){.ops = &plain_ops};
    plain.opened++;
    *provider = &plain.base;
    return DMA_OK;
}

static void plain_close(dma_provider_t *provider)
{
    (void)provider;
    plain.opened--;
}

static void *plain_alloc(dma_provider_t *provider, uint64_t bytes, uint64_t *device_addr)
{
    void *memory = aligned_alloc(4096, bytes);

    (void)provider;
    memset(memory, 0, bytes);
    *device_addr = (uintptr_t)memory;
    plain.memory++;
    return memory;
}

static void plain_free(dma_provider_t *provider, void *memory, uint64_t bytes)
{
    (void)provider;
    (void)bytes;
    free(memory);
    plain.memory--;
}

static dma_status_t plain_create(dma_provider_t *provider, dma_map_kind_t kind, uint32_t engine, uint64_t bytes,
                                 dma_provider_queue_t *queue, const char **reason)
{
    (void)engine;
    (void)reason;
    ck_assert_int_ne(kind, DMA_MAP_ENGINE);
    *queue = (dma_provider_queue_t){
        .ring_bytes = bytes, .read_ptr = &plain.read, .write_ptr = &plain.write, .doorbell = &plain.doorbell};
    queue->ring = plain_alloc(provider, bytes, &queue->handle);
    plain.queues++;
    return DMA_OK;
}

static void plain_destroy(dma_provider_t *provider, const dma_provider_queue_t *queue)
{
    plain_free(provider, queue->ring, queue->ring_bytes);
    plain.queues--;
}

static const dma_provider_ops_t plain_ops = {
    .name = "plain",
    .open = plain_open,
    .close = plain_close,
    .alloc = plain_alloc,
    .free = plain_free,
    .create = plain_create,
    .destroy = plain_destroy,
};

static const dma_map_pick_t host = {.kind = DMA_MAP_HOST};

/* The name of the provider whose queues are used, or why there is none. */
static const char *found(const dma_provider_ops_t *const *list, const char *wanted, const dma_provider_gpu_t *gpu)
{
    static char why[DMA_PROVIDER_WHY_BYTES];
    const dma_provider_ops_t *ops;
    dma_queues_t q;

    if (dma_queues_open(&q, list, wanted, gpu, &host, why) != DMA_OK) {
        return why;
    }
    ops = q.provider->ops;
    dma_queues_close(&q);
    ck_assert_int_eq(plain.opened, 0);
    return ops->name;
}

static dma_provider_gpu_t by_number(void)
{
    dma_provider_gpu_t gpu = fake_gpu;

    gpu.by_number = true;
    return gpu;
}

/* The first that works, or the one that is named; and why not. */
START_TEST(choice)
{
    const dma_provider_ops_t *list[] = {&bad, fake_providers[0], NULL};
    static const char *const any[] = {NULL, "", "auto", "kfd"};
    const dma_provider_gpu_t numbered = by_number();

    fake_begin(&usual);
    for (int i = 0; i < 4; i++) {
        ck_assert_str_eq(found(list, any[i], &fake_gpu), "kfd");
    }
    ck_assert_str_eq(found(list, "bad", &fake_gpu), "bad: it never does");
    ck_assert_str_eq(found(list, "nosuch", &fake_gpu), "there is no queue provider of this name: \"nosuch\"");
    ck_assert_str_eq(found(list, "auto", &numbered), "kfd");
    setenv("HSA_ENABLE_SDMA", "0", 1);
    ck_assert_str_eq(found(list, "auto", &fake_gpu), "HSA_ENABLE_SDMA=0 in the environment");
    setenv("HSA_ENABLE_SDMA", "1", 1);
    ck_assert_str_eq(found(list, "auto", &fake_gpu), "kfd");
    unsetenv("HSA_ENABLE_SDMA");
    fake_end();
    fake_begin(&(fake_options_t){.minor = 16});
    ck_assert_str_eq(found(list, "auto", &numbered),
                     "bad: it never does; kfd: it cannot name engines, and some are not there");
    fake_end();
    fake_begin(&(fake_options_t){.rocr_down = true});
    ck_assert_str_eq(found(list, "auto", &fake_gpu), "bad: it never does; kfd: ROCr does not run");
    fake_end();
    /* In a process without ROCm none has what it needs, and none of it is loaded for that. */
    ck_assert_str_eq(found(dma_providers, "auto", &fake_gpu), "rocr: ROCr is not loaded; kfd: ROCr is not loaded");
}
END_TEST

/* The list decides, also between one that can name engines and one that cannot; and where engines must be named, who can. */
START_TEST(in_the_order_of_the_list)
{
    const dma_provider_ops_t *first[] = {&bad, &plain_ops, fake_providers[0], NULL};
    const dma_provider_ops_t *last[] = {&bad, fake_providers[0], &plain_ops, NULL};
    const dma_provider_gpu_t numbered = by_number();

    fake_begin(&usual);
    ck_assert_str_eq(found(first, "auto", &fake_gpu), "plain");
    ck_assert_str_eq(found(first, "auto", &numbered), "kfd");
    ck_assert_str_eq(found(first, "kfd", &fake_gpu), "kfd");
    ck_assert_str_eq(found(last, "auto", &fake_gpu), "kfd");
    ck_assert_str_eq(found(last, "plain", &fake_gpu), "plain");
    fake_end();
    fake_begin(&(fake_options_t){.no_rocr = true});
    ck_assert_str_eq(found(last, "auto", &fake_gpu), "plain");
    fake_end();
}
END_TEST

/* Where the preferred provider opens and its first queue is refused, the next one is used, and the reason is kept. */
START_TEST(first_queue_refused)
{
    static const struct {
        fake_options_t options;
        const char *reason;
    } cases[] = {
        {{.no_ring_memory = true}, "kfd: the kernel does not accept memory for a ring"},
        {{.no_ring_map = true}, "kfd: the kernel does not map memory for a ring"},
        {{.extra = 4096}, "kfd: the kernel does not accept the engine or the memory"},
        {{.no_doorbells = true}, "kfd: the doorbells cannot be mapped"},
    };
    const dma_provider_ops_t *list[] = {fake_providers[0], &plain_ops, NULL};
    const dma_provider_gpu_t numbered = by_number();
    char why[DMA_PROVIDER_WHY_BYTES];
    dma_queues_t q;

    fake_begin(&cases[_i].options);
    ck_assert_int_eq(dma_queues_open(&q, list, "auto", &fake_gpu, &host, why), DMA_OK);
    ck_assert_str_eq(q.provider->ops->name, "plain");
    ck_assert_str_eq(q.passed_over, cases[_i].reason);
    ck_assert_ptr_null(q.refusal);
    ck_assert_int_eq(plain.queues, 1);
    dma_queues_close(&q);
    ck_assert_int_eq(plain.queues + plain.memory + plain.opened, 0);
    /* None is left: where engines must be named, or by name. */
    ck_assert_int_eq(dma_queues_open(&q, list, "auto", &numbered, &host, why), DMA_UNSUPPORTED);
    ck_assert_msg(strstr(why, "plain: it cannot name engines") && strstr(why, cases[_i].reason), "%s", why);
    ck_assert_int_eq(dma_queues_open(&q, list, "kfd", &fake_gpu, &host, why), DMA_UNSUPPORTED);
    ck_assert_str_eq(why, cases[_i].reason);
    ck_assert_int_eq(plain.opened, 0);
    fake_end();
}
END_TEST

/* Nothing is said of a provider that was not asked. */
START_TEST(first_queue_made)
{
    const dma_provider_ops_t *list[] = {&bad, fake_providers[0], &plain_ops, NULL};
    char why[DMA_PROVIDER_WHY_BYTES];
    dma_queues_t q;

    fake_begin(&usual);
    ck_assert_int_eq(dma_queues_open(&q, list, "auto", &fake_gpu, &host, why), DMA_OK);
    ck_assert_str_eq(q.provider->ops->name, "kfd");
    ck_assert_str_eq(q.passed_over, "");
    ck_assert_uint_eq(fake_counts.queues, 1);
    ck_assert_ptr_nonnull(dma_queue_get(&q, &host, 1)); /* the one there is */
    ck_assert_uint_eq(fake_counts.queues, 1);
    dma_queues_close(&q);
    fake_end();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("providers of queues");

    unit_test(suite, choice, 4);
    unit_test(suite, in_the_order_of_the_list, 4);
    unit_loop(suite, first_queue_refused, 0, 4, 4);
    unit_test(suite, first_queue_made, 4);
    return unit_main(suite);
}
