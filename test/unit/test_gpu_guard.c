/* The guard that detects resets of devices, with markers that the test destroys. test_gpu_reset.c tests it with CUDA. */
#include "gpu/reset.h"
#include "libunit.h"

static bool broken[DMA_GPU_MAX_DEVICES], no_marker, no_id, silent;
static unsigned made, looked_at, freed;

static dma_status_t make_marker(uint64_t *addr)
{
    *addr = ++made;
    return no_marker ? DMA_ERR_NOMEM : DMA_OK;
}

static void get_id(int device, uint64_t addr, uint64_t *id)
{
    looked_at++;
    if (broken[device]) {
        *id = 0;
    } else if (!silent) {
        *id = no_id ? 0 : addr;
    }
}

static void free_marker(uint64_t addr)
{
    (void)addr;
    freed++;
}

static const dma_gpu_marker_ops_t ops = {.make = make_marker, .get_id = get_id, .free = free_marker};

START_TEST(a_reset_device_is_lost)
{
    dma_gpu_guard_t guard = DMA_GPU_GUARD(&ops);

    made = freed = 0;
    for (int i = 0; i < 2; i++) {
        dma_gpu_guard_watch(&guard, 0);
        dma_gpu_guard_watch(&guard, 63);
    }
    ck_assert_uint_eq(made, 2);
    silent = true; /* a runtime that does not tell */
    dma_gpu_guard_detect(&guard);
    ck_assert(!dma_gpu_guard_is_lost(&guard, 63));
    silent = false;
    broken[63] = true;
    dma_gpu_guard_detect(&guard);
    ck_assert(!dma_gpu_guard_is_lost(&guard, 0) && dma_gpu_guard_is_lost(&guard, 63));
    ck_assert_int_eq(dma_gpu_guard_check(&guard, 0), DMA_OK);
    ck_assert_int_eq(dma_gpu_guard_check(&guard, 63), DMA_ERR_ENGINE);
    ck_assert_str_eq(dma_gpu_error(), "device 63 has been reset");
    broken[63] = false;
    dma_gpu_guard_watch(&guard, 63);
    dma_gpu_guard_detect(&guard);
    ck_assert(dma_gpu_guard_is_lost(&guard, 63)); /* for good */
    ck_assert_uint_eq(made, 2);
    ck_assert_int_eq(dma_gpu_guard_check(&guard, 64), DMA_UNSUPPORTED);
    ck_assert_int_eq(dma_gpu_guard_check(&guard, -1), DMA_UNSUPPORTED);
    ck_assert(!dma_gpu_guard_is_lost(&guard, 64) && !dma_gpu_guard_is_lost(&guard, -1));
    ck_assert_uint_eq(freed, 0); /* by now the memory belongs to the application */
}
END_TEST

/* Without a marker only the runtime can tell. Loop variable: why there is no marker. */
START_TEST(without_a_marker)
{
    dma_gpu_guard_t guard = DMA_GPU_GUARD(&ops);

    made = freed = 0;
    no_marker = _i == 0;
    no_id = _i == 1;
    dma_gpu_guard_watch(&guard, 0);
    dma_gpu_guard_watch(&guard, 0);
    ck_assert_uint_eq(made, 1);
    ck_assert_uint_eq(freed, _i); /* without an id it is no marker */
    looked_at = 0;
    dma_gpu_guard_detect(&guard);
    ck_assert_uint_eq(looked_at, 0);
    ck_assert(!dma_gpu_guard_is_lost(&guard, 0));
    ck_assert_int_eq(dma_gpu_guard_lose(&guard, 0), DMA_ERR_ENGINE);
    ck_assert(dma_gpu_guard_is_lost(&guard, 0) && !dma_gpu_guard_is_lost(&guard, 1));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("gpu_guard");

    unit_test(suite, a_reset_device_is_lost, 10);
    unit_loop(suite, without_a_marker, 0, 2, 10);
    return unit_main(suite);
}
