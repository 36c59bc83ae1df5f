/* See liblease.h. */
#include "liblease.h"

#include <unistd.h>

#include "libgpu_fake.h"
#include "libunit.h"

dma_counters_t lease_counters = DMA_COUNTERS_INIT;
dma_gpu_runtime_t *lease_rt;
dma_proc_t lease_proc;
dma_comm_t lease_comms[LEASE_COMMS];
dma_arena_t *lease_arena;

void lease_begin(uint64_t device_bytes, uint64_t pinned_bytes)
{
    const char *what;

    lease_rt = fake_gpu_start(&(fake_gpu_options_t){.devices = LEASE_DEVICES, .seed = unit_seed()});
    lease_proc = (dma_proc_t){.params.timeout = 0.02};
    lease_counters = (dma_counters_t)DMA_COUNTERS_INIT;
    dma_budget_init(&lease_proc.budget, &lease_counters, device_bytes, pinned_bytes);
    pthread_mutex_init(&lease_proc.lock, NULL);
    pthread_mutex_init(&lease_proc.device_lock, NULL);
    ck_assert_int_eq(dma_arena_create(DMA_ARENA_MEMFD, 64 * MIB, NULL, &lease_arena, &what), DMA_OK);
    for (int i = 0; i < LEASE_COMMS; i++) {
        lease_comms[i] = (dma_comm_t){.proc = &lease_proc};
    }
}

void lease_end(void)
{
    dma_leases_destroy(&lease_proc);
    dma_arena_destroy(lease_arena);
    fake_gpu_stop();
}

static dma_status_t try_take(dma_lease_kind_t kind, int device, uint64_t bytes, dma_lease_t **lease)
{
    return dma_lease_take(&lease_proc,
                          &(dma_lease_want_t){.kind = kind,
                                              .rt = lease_rt,
                                              .device = device,
                                              .arena = kind == DMA_LEASE_SHARED ? lease_arena : NULL,
                                              .comm = &lease_comms[0],
                                              .bytes = bytes,
                                              .least = bytes,
                                              .streams = 1},
                          lease);
}

dma_lease_t *lease_take(dma_lease_kind_t kind, int device, uint64_t bytes)
{
    dma_lease_t *lease;
    dma_status_t status = try_take(kind, device, bytes, &lease);

    ck_assert_msg(status == DMA_OK, "%lu bytes: %s", bytes, dma_status_name(status));
    return lease;
}

dma_status_t lease_refused(dma_lease_kind_t kind, int device, uint64_t bytes)
{
    dma_lease_t *lease;
    dma_status_t status = try_take(kind, device, bytes, &lease);

    ck_assert_int_ne(status, DMA_OK);
    return status;
}

void lease_trim(int device)
{
    pthread_mutex_lock(&lease_proc.device_lock);
    dma_lease_trim(&lease_proc, lease_rt, device);
    pthread_mutex_unlock(&lease_proc.device_lock);
}

uint64_t lease_counted(dma_budget_kind_t kind)
{
    return lease_proc.budget.limit[kind] - dma_budget_left(&lease_proc.budget, kind);
}

void lease_wait(const dma_lease_t *l)
{
    dma_gpu_scope_t scope;

    ck_assert_int_eq(lease_rt->enter(l->device, &scope), DMA_OK);
    while (lease_rt->stream_query(l->stream[0]) == DMA_AGAIN) {
        usleep(100);
    }
    lease_rt->leave(&scope);
}
