/* The guard that counts resets of devices, with markers that the test destroys. test_gpu_reset.c tests it with CUDA. */
#include "gpu/reset.h"
#include "libunit.h"

static bool broken[DMA_GPU_MAX_DEVICES], no_marker;
static unsigned made, looked_at, freed;

static bool make_marker(int device, dma_gpu_marker_t *marker)
{
    broken[device] = false;
    *marker = (dma_gpu_marker_t){.addr = ++made, .id = 1};
    return !no_marker;
}

static bool is_intact(int device, const dma_gpu_marker_t *marker)
{
    (void)marker;
    looked_at++;
    return !broken[device];
}

static void free_marker(int device, const dma_gpu_marker_t *marker)
{
    (void)device;
    (void)marker;
    freed++;
}

static const dma_gpu_marker_ops_t ops = {.make = make_marker, .is_intact = is_intact, .free = free_marker};
static dma_gpu_guard_t guard = DMA_GPU_GUARD(&ops);

START_TEST(counts_resets_by_device)
{
    dma_gpu_origin_t a, b;

    a = dma_gpu_guard_watch(&guard, 0);
    b = dma_gpu_guard_watch(&guard, 63);
    ck_assert_uint_eq(made, 2);
    dma_gpu_guard_watch(&guard, 0);
    ck_assert_uint_eq(made, 2);
    broken[63] = true;
    dma_gpu_guard_detect(&guard);
    dma_gpu_guard_detect(&guard);
    ck_assert_uint_eq(dma_gpu_guard_resets(&guard, 63), 1);
    ck_assert(!dma_gpu_guard_has_lost(&guard, a));
    ck_assert(dma_gpu_guard_has_lost(&guard, b));
    b = dma_gpu_guard_watch(&guard, 63);
    ck_assert(!dma_gpu_guard_has_lost(&guard, b));
    broken[63] = true;
    ck_assert_uint_eq(dma_gpu_guard_watch(&guard, 63).resets, 2); /* also noticed when an object is made */
    dma_gpu_guard_lose(&guard, 0);
    ck_assert(dma_gpu_guard_has_lost(&guard, a));
    ck_assert_int_eq(dma_gpu_guard_error(a), DMA_ERR_ENGINE);
    ck_assert_str_eq(dma_gpu_error(), "device 0 has been reset");
    ck_assert_uint_eq(dma_gpu_guard_watch(&guard, 64).resets, 0); /* none of the objects with state */
    ck_assert_uint_eq(dma_gpu_guard_watch(&guard, -1).resets, 0);
    dma_gpu_guard_unwatch(&guard, 0);
    ck_assert_uint_eq(freed, 0);
    dma_gpu_guard_unwatch(&guard, 63);
    ck_assert_uint_eq(freed, 1);
    dma_gpu_guard_unwatch(&guard, 63);
    ck_assert_uint_eq(freed, 1);
    b = dma_gpu_guard_watch(&guard, 63);
    broken[63] = true;
    dma_gpu_guard_unwatch(&guard, 63);
    ck_assert_uint_eq(freed, 1); /* by now the memory belongs to the application */
    ck_assert(dma_gpu_guard_has_lost(&guard, b));
}
END_TEST

START_TEST(without_a_marker)
{
    dma_gpu_origin_t a;

    no_marker = true;
    a = dma_gpu_guard_watch(&guard, 0);
    looked_at = 0;
    dma_gpu_guard_detect(&guard);
    ck_assert_uint_eq(looked_at, 0);
    ck_assert(!dma_gpu_guard_has_lost(&guard, a));
}
END_TEST

/* After a reset, memory is allocated at an address that the owner of lost memory still has to release. */
START_TEST(memory_at_the_address_of_lost_memory)
{
    no_marker = false;
    ck_assert_int_eq(dma_gpu_guard_add(&guard, 0, 4096), DMA_OK);
    ck_assert(dma_gpu_guard_holds(&guard, 4096));
    broken[0] = true;
    ck_assert(!dma_gpu_guard_holds(&guard, 4096));
    ck_assert_int_eq(dma_gpu_guard_add(&guard, 0, 4096), DMA_OK);
    ck_assert(!dma_gpu_guard_holds(&guard, 4096));
    ck_assert(!dma_gpu_guard_take(&guard, 4096)); /* whoever released it, it is the lost one */
    ck_assert(dma_gpu_guard_holds(&guard, 4096));
    ck_assert(dma_gpu_guard_take(&guard, 4096));
    ck_assert(!dma_gpu_guard_take(&guard, 4096)); /* unknown */
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("gpu_guard");

    unit_test(suite, counts_resets_by_device, 10);
    unit_test(suite, without_a_marker, 10);
    unit_test(suite, memory_at_the_address_of_lost_memory, 10);
    return unit_main(suite);
}
