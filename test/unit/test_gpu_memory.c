/* Kinds of memory: the name of each, whether it may be exported, the reason if not, and what a query costs. */
#include <stdlib.h>
#include <string.h>

#include "libgpu_fake.h"
#include "libunit.h"

#define BYTES 10000

static dma_gpu_runtime_t *rt;

static void begin(void)
{
    rt = fake_gpu_start(&(fake_gpu_options_t){.devices = 2, .seed = unit_seed()});
}

static dma_gpu_memory_t classify(const void *addr, uint64_t bytes)
{
    dma_gpu_memory_t memory;

    dma_gpu_classify(rt, (uintptr_t)addr, bytes, &memory);
    /* There is a reason exactly where the answer is no. */
    ck_assert_int_eq(memory.exportable, memory.reason == DMA_REASON_NONE);
    return memory;
}

/* The rows of docs/dev/memory-kinds.md. */
static const struct {
    dma_gpu_kind_t kind;
    bool exportable, on_device;
    dma_reason_t reason;
} rows[] = {
    {DMA_GPU_HOST_PINNED, false, false, DMA_REASON_memory_kind},
    {DMA_GPU_HOST_REGISTERED, false, false, DMA_REASON_memory_kind},
    {DMA_GPU_DEVICE_PLAIN, true, true, DMA_REASON_NONE},
    {DMA_GPU_DEVICE_FINE, false, true, DMA_REASON_memory_kind},
    {DMA_GPU_DEVICE_POOL, false, true, DMA_REASON_memory_kind},
    {DMA_GPU_DEVICE_VMM, false, true, DMA_REASON_memory_vmm},
    {DMA_GPU_MANAGED, false, false, DMA_REASON_memory_kind},
    {DMA_GPU_DEVICE_IMPORTED, false, true, DMA_REASON_memory_kind},
    {DMA_GPU_UNKNOWN, false, true, DMA_REASON_memory_kind},
};
#define ROWS (int)(sizeof(rows) / sizeof(rows[0]))

START_TEST(every_kind)
{
    dma_gpu_memory_t m;
    char *ptr;

    begin();
    ptr = fake_gpu_alloc(rows[_i].kind, 1, BYTES);
    m = classify(ptr + 77, 100);
    ck_assert_int_eq(m.kind, rows[_i].kind);
    ck_assert_int_eq(m.exportable, rows[_i].exportable);
    ck_assert_int_eq(dma_gpu_kind_on_device(m.kind), rows[_i].on_device);
    ck_assert_int_eq(m.reason, rows[_i].reason);
    ck_assert_int_eq(m.device, 1);
    ck_assert_uint_eq(m.base, (uintptr_t)ptr);
    ck_assert_uint_eq(m.size, BYTES);
    ck_assert_uint_eq(fake_gpu_calls("query"), 1);
    ck_assert_uint_eq(fake_gpu_calls("ipc_export"), 0);
}
END_TEST

START_TEST(all_kinds_have_a_row)
{
    ck_assert_int_eq(ROWS, DMA_GPU_UNKNOWN); /* a row for every kind except plain host memory */
}
END_TEST

START_TEST(host_memory)
{
    char *ptr = calloc(1, BYTES);
    dma_gpu_memory_t m;

    m = classify(ptr, BYTES); /* no runtime */
    ck_assert_int_eq(m.kind, DMA_GPU_HOST);
    ck_assert_int_eq(m.device, -1);
    begin();
    m = classify(ptr, BYTES);
    ck_assert_int_eq(m.kind, DMA_GPU_HOST);
    ck_assert_int_eq(m.kind, DMA_GPU_HOST);
    ck_assert(!m.exportable && !dma_gpu_kind_on_device(m.kind));
    ck_assert_uint_eq(m.device_addr, (uintptr_t)ptr);
    free(ptr);
}
END_TEST

START_TEST(a_range_must_end_inside_its_allocation)
{
    uint64_t seed = unit_seed();
    char *ptr;

    begin();
    ptr = fake_gpu_alloc(DMA_GPU_DEVICE_PLAIN, 0, BYTES);
    ck_assert(classify(ptr, BYTES).exportable);
    ck_assert(!classify(ptr, BYTES + 1).exportable);
    ck_assert(classify(ptr + BYTES - 1, 1).exportable);
    ck_assert(!classify(ptr + BYTES - 1, 2).exportable);
    ck_assert(!classify(ptr + 1, UINT64_MAX).exportable);
    ck_assert(!classify(ptr + 1, UINT64_MAX - (uintptr_t)ptr).exportable);
    ck_assert(classify(ptr + 5, 0).exportable);
    ck_assert_int_eq(classify(ptr, BYTES + 1).reason, DMA_REASON_memory_kind);
    for (int i = 0; i < 10000; i++) {
        uint64_t at, bytes;

        seed = seed * 6364136223846793005u + 1442695040888963407u;
        at = (seed >> 33) % BYTES;
        bytes = (seed >> 17) % (2 * BYTES);
        ck_assert_int_eq(classify(ptr + at, bytes).exportable, at + bytes <= BYTES);
    }
    fake_gpu_free(ptr);
}
END_TEST

static dma_status_t vague_query(uint64_t addr, dma_gpu_memory_t *memory)
{
    *memory = (dma_gpu_memory_t){.kind = DMA_GPU_DEVICE_PLAIN, .device_addr = addr};
    return DMA_OK;
}

static dma_status_t knowing_query(uint64_t addr, dma_gpu_memory_t *memory)
{
    *memory = (dma_gpu_memory_t){.kind = DMA_GPU_UNKNOWN, .device_addr = addr, .reason = DMA_REASON_memory_kind};
    return DMA_OK;
}

START_TEST(a_runtime_that_knows_less_or_more)
{
    begin();
    rt->query = vague_query;
    ck_assert(!classify((void *)4096, 10).exportable);
    ck_assert_int_eq(classify((void *)4096, 10).reason, DMA_REASON_memory_kind);
    rt->query = knowing_query;
    ck_assert_int_eq(classify((void *)4096, 10).reason, DMA_REASON_memory_kind);
}
END_TEST

START_TEST(an_address_given_again_has_another_id)
{
    dma_gpu_memory_t before, after;
    char *ptr;

    begin();
    ptr = fake_gpu_alloc(DMA_GPU_DEVICE_PLAIN, 0, BYTES);
    before = classify(ptr, 1);
    fake_gpu_free_for_next(ptr);
    ck_assert_int_eq(classify(ptr, 1).kind, DMA_GPU_HOST);
    ck_assert_ptr_eq(fake_gpu_alloc(DMA_GPU_DEVICE_PLAIN, 0, BYTES), ptr);
    after = classify(ptr, 1);
    ck_assert_uint_ne(before.buffer_id, after.buffer_id);
}
END_TEST

START_TEST(after_shut_down_all_is_host)
{
    dma_gpu_handle_t handle;
    dma_gpu_scope_t scope;
    char *ptr;

    begin();
    ptr = fake_gpu_alloc(DMA_GPU_DEVICE_PLAIN, 0, BYTES);
    rt->enter(0, &scope);
    fake_gpu_shut_down();
    ck_assert_int_eq(classify(ptr, 1).kind, DMA_GPU_HOST);
    ck_assert_int_lt(rt->ipc_export((uintptr_t)ptr, &handle), 0);
}
END_TEST

START_TEST(a_failing_query_is_host)
{
    char *ptr;

    begin();
    ptr = fake_gpu_alloc(DMA_GPU_DEVICE_PLAIN, 0, BYTES);
    fake_gpu_fail("query", 0, DMA_ERR_ENGINE);
    ck_assert_int_eq(classify(ptr, 1).kind, DMA_GPU_HOST);
    ck_assert_int_eq(classify(ptr, 1).kind, DMA_GPU_DEVICE_PLAIN);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("gpu_memory");

    unit_loop(suite, every_kind, 0, ROWS, 10);
    unit_test(suite, all_kinds_have_a_row, 10);
    unit_test(suite, host_memory, 10);
    unit_test(suite, a_range_must_end_inside_its_allocation, 10);
    unit_test(suite, a_runtime_that_knows_less_or_more, 10);
    unit_test(suite, an_address_given_again_has_another_id, 10);
    unit_test(suite, after_shut_down_all_is_host, 10);
    unit_test(suite, a_failing_query_is_host, 10);
    return unit_main(suite);
}
