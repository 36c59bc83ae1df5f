/* The memory of relays: how much is kept, and what makes room for more. */
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "cluster/relay.h"
#include "device/device.h"
#include "libgpu_fake.h"
#include "libthreads.h"
#include "libunit.h"

#define PIECE 32768

/* Memory that is free again makes room, and none is kept beyond the bounds. */
START_TEST(free_relays_make_room)
{
    enum { SMALL = 16384, LARGE = 262144, SCRATCH = 1 << 20 };
    fake_gpu_options_t options = {.devices = 1, .seed = unit_seed()};
    const dma_gpu_runtime_t *rt = fake_gpu_start(&options);
    dma_proc_t proc = {.params.timeout = 10};
    dma_relay_t *small, *same, *large;
    bool on_device;
    char *scratch;

    dma_budget_init(&proc.budget, &threads_counters, SCRATCH, 2 * DMA_RELAY_BYTES + DMA_RELAY_PAD);
    pthread_mutex_init(&proc.device_lock, NULL);
    ck_assert_int_eq(dma_relay_acquire(&proc, rt, 0, SMALL, &small), DMA_OK);
    ck_assert_int_eq(dma_relay_acquire(&proc, rt, 0, LARGE, &large), DMA_ERR_NOMEM);
    dma_relay_release(&proc, small);
    ck_assert_int_eq(dma_relay_acquire(&proc, rt, 0, SMALL - 100, &same), DMA_OK);
    ck_assert_ptr_eq(same, small);
    dma_relay_release(&proc, same);
    ck_assert_int_eq(dma_relay_acquire(&proc, rt, 0, LARGE, &large), DMA_OK);
    ck_assert_int_eq(dma_relay_scratch(large, SCRATCH / 2, &scratch, &on_device), DMA_OK);
    dma_relay_release(&proc, large);
    ck_assert_uint_gt(atomic_load(&proc.budget.held[DMA_BUDGET_DEVICE]), 0); /* kept for the next call */
    ck_assert_int_eq(dma_relay_acquire(&proc, rt, 0, LARGE, &same), DMA_OK);
    ck_assert_ptr_eq(same, large);
    ck_assert_int_eq(dma_relay_scratch(large, 4 * SCRATCH, &scratch, &on_device), DMA_OK);
    dma_relay_release(&proc, large);
    ck_assert_uint_eq(atomic_load(&proc.budget.held[DMA_BUDGET_DEVICE]), 0);
    dma_relays_destroy(&proc);
    ck_assert_uint_eq(atomic_load(&proc.budget.held[DMA_BUDGET_PINNED]), 0);
    fake_gpu_stop();
}
END_TEST

/* The device writes it, whenever it likes. */
__attribute__((no_sanitize_thread)) static char peek(const volatile char *at)
{
    return *at;
}

/* The process gives up a relay while its engine has not begun a copy. When the copy runs later, its destination
 * still exists. */
__attribute__((weak)) void __lsan_disable(void);
START_TEST(late_at_the_end)
{
    fake_gpu_options_t options = {.devices = 1, .seed = unit_seed()};
    const dma_gpu_runtime_t *rt = fake_gpu_start(&options);
    dma_proc_t proc = {.params.timeout = 0.1};
    volatile char *slot;
    dma_relay_t *relay;
    char *device = fake_gpu_alloc(DMA_GPU_DEVICE_PLAIN, 0, PIECE);

    if (__lsan_disable) {
        __lsan_disable(); /* what the runtime allocates for the relay is left */
    }
    memset(device, 7, PIECE);
    dma_budget_init(&proc.budget, &threads_counters, UINT64_MAX, UINT64_MAX);
    pthread_mutex_init(&proc.device_lock, NULL);
    ck_assert_int_eq(dma_relay_acquire(&proc, rt, 0, PIECE, &relay), DMA_OK);
    slot = dma_relay_slot(relay, DMA_RELAY_OUT, 0);
    slot[PIECE - 1] = 0;
    fake_gpu_hold(0, true);
    ck_assert_int_eq(dma_relay_fill(relay, 0, device, PIECE), DMA_OK);
    dma_relay_release(&proc, relay);
    dma_relays_destroy(&proc);
    fake_gpu_hold(0, false);
    for (int i = 0; i < 10000 && peek(slot + PIECE - 1) != 7; i++) {
        usleep(1000);
    }
    ck_assert_int_eq(peek(slot + PIECE - 1), 7);
    /* the fake machine is not stopped: it would report the stream as a misuse */
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("relay_memory");

    unit_test(suite, free_relays_make_room, 30);
    unit_test(suite, late_at_the_end, 30);
    return unit_main(suite);
}
