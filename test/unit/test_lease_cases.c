/* What calls get of a bound, and what is left when the runtime fails, is late or is gone (device/lease.h). */
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cluster/relay.h"
#include "libgpu_fake.h"
#include "liblease.h"
#include "libunit.h"

/* ---- sizes ---- */

/* How much a call gets out of a bound of which another call has `taken` bytes. */
static const struct {
    dma_lease_kind_t kind;
    uint64_t bound, taken, wants, least, room, gets;
} sizes[] = {
    {DMA_LEASE_DEVICE, 512 * KIB, 0, 100 * KIB, 1, 0, 150 * KIB},         /* half as large again */
    {DMA_LEASE_DEVICE, 512 * KIB, 150 * KIB, 200 * KIB, 1, 0, 200 * KIB}, /* most of what is left */
    {DMA_LEASE_DEVICE, 512 * KIB, 330 * KIB, 182 * KIB, 1, 0, 182 * KIB}, /* all that is left */
    {DMA_LEASE_DEVICE, 512 * KIB, 512 * KIB, 10, 1, 0, 0},
    {DMA_LEASE_DEVICE, 512 * KIB, 330 * KIB, 400 * KIB, 1, 0, 91 * KIB}, /* half of what is left */
    {DMA_LEASE_DEVICE, 512 * KIB, 330 * KIB, 400 * KIB, 150 * KIB, 0, 150 * KIB},
    {DMA_LEASE_DEVICE, 512 * KIB, 421 * KIB, 400 * KIB, 150 * KIB, 0, 0},
    {DMA_LEASE_DEVICE, 19 * MIB / 2, 0, 3 * MIB + 1, 1, 0, 6 * MIB}, /* whole pages of the device */
    {DMA_LEASE_DEVICE, 19 * MIB / 2, 6 * MIB, 3 * MIB + 1, 1, 0, 3 * MIB + 1},
    {DMA_LEASE_DEVICE, 64 * MIB, 0, 8 * MIB, 1, 7 * MIB, 6 * MIB}, /* what the device has room for */
    {DMA_LEASE_DEVICE, 64 * MIB, 0, 8 * MIB, 7 * MIB, 6 * MIB, 0},
    {DMA_LEASE_PINNED, 512 * KIB, 0, 100 * KIB, 100 * KIB, 0, 148 * KIB},
    {DMA_LEASE_PINNED, 512 * KIB, 0, 0, 0, 0, 4 * KIB},
    {DMA_LEASE_PINNED, 600 * KIB, 0, 8 * MIB, 256 * KIB, 0, 512 * KIB}, /* halves until it fits */
    {DMA_LEASE_PINNED, 600 * KIB, 400 * KIB, 8 * MIB, 256 * KIB, 0, 0},
    {DMA_LEASE_PINNED, 512 * KIB, 296 * KIB, 300 * KIB, 300 * KIB, 0, 0},
    {DMA_LEASE_PINNED, 512 * KIB, 0, UINT64_MAX, UINT64_MAX, 0, 0},
    {DMA_LEASE_SHARED, 1600 * KIB, 0, 8 * MIB, 64 * KIB, 0, 1024 * KIB},
    {DMA_LEASE_SHARED, 1600 * KIB, 1024 * KIB, 8 * MIB, 64 * KIB, 0, 512 * KIB},
    {DMA_LEASE_SHARED, 1600 * KIB, 1536 * KIB, 8 * MIB, 256 * KIB, 0, 0},
    {DMA_LEASE_SHARED, 64 * MIB, 56 * MIB, 8 * MIB, 64 * KIB, 0, 4 * MIB}, /* the arena is full */
};

START_TEST(what_calls_get)
{
    dma_lease_want_t want = {.kind = sizes[_i].kind,
                             .rt = lease_rt,
                             .bytes = sizes[_i].wants,
                             .least = sizes[_i].least,
                             .streams = 2,
                             .events = 2},
                     other;
    dma_lease_t *l, *taken = NULL;

    lease_begin(sizes[_i].bound, sizes[_i].bound);
    want.rt = lease_rt;
    want.arena = want.kind == DMA_LEASE_SHARED ? lease_arena : NULL;
    other = want;
    if (sizes[_i].taken) {
        other.bytes = other.least = sizes[_i].taken;
        other.exact = true;
        ck_assert_int_eq(dma_lease_take(&lease_proc, &other, &taken), DMA_OK);
    }
    if (sizes[_i].room) {
        fake_gpu_room(0, sizes[_i].room);
    }
    if (sizes[_i].gets) {
        ck_assert_int_eq(dma_lease_take(&lease_proc, &want, &l), DMA_OK);
        ck_assert_uint_eq(l->bytes, sizes[_i].gets);
        dma_lease_give_back(&lease_proc, l);
    } else {
        ck_assert_int_eq(dma_lease_take(&lease_proc, &want, &l), DMA_ERR_NOMEM);
    }
    if (taken) {
        dma_lease_give_back(&lease_proc, taken);
    }
    lease_end();
}
END_TEST

/* What a call cannot do without exceeds the bound, and is counted. */
START_TEST(beyond_the_bound)
{
    dma_lease_want_t want = {.kind = DMA_LEASE_DEVICE, .bytes = MIB, .least = MIB, .must = true};
    dma_lease_t *l;

    lease_begin(100 * KIB, 0);
    want.rt = lease_rt;
    ck_assert_int_eq(dma_lease_take(&lease_proc, &want, &l), DMA_OK);
    ck_assert_uint_eq(lease_counters.at[DMA_COUNT_scratch_held], l->bytes);
    dma_lease_give_back(&lease_proc, l);
    ck_assert_msg(lease_counters.at[DMA_COUNT_scratch_held] == 0, "memory beyond the bound stays");
    lease_end();
}
END_TEST

/* Idle memory in an arena of a communicator's own goes with it, and so does memory that no device uses. What is late stays
 * mapped. */
START_TEST(an_arena_ends)
{
    dma_lease_want_t host = {.kind = DMA_LEASE_SHARED, .device = -1, .bytes = 8 * KIB, .least = 8 * KIB};
    dma_lease_t *idle, *late, *other;

    lease_begin(0, MIB);
    idle = lease_take(DMA_LEASE_SHARED, 0, 8 * KIB);
    late = lease_take(DMA_LEASE_SHARED, 0, 8 * KIB);
    host.arena = lease_arena;
    ck_assert_int_eq(dma_lease_take(&lease_proc, &host, &other), DMA_OK);
    fake_gpu_fail_often("stream_query", 0, 1, DMA_ERR_ENGINE);
    late->copies = true;
    ck_assert(!dma_lease_give_back(&lease_proc, late));
    ck_assert(dma_lease_give_back(&lease_proc, idle) && dma_lease_give_back(&lease_proc, other));
    lease_comms[0].file_arena = lease_arena;
    if (_i) { /* of another communicator, which leaves only what has no device */
        dma_lease_leave(&lease_comms[1], false);
        ck_assert_uint_eq(lease_counted(DMA_BUDGET_PINNED), idle->bytes + late->bytes);
    }
    dma_lease_leave(&lease_comms[0], false);
    ck_assert_uint_eq(lease_counted(DMA_BUDGET_PINNED), late->bytes);
    memset(late->memory, 1, 8 * KIB);
    lease_end();
}
END_TEST

/* A call between nodes gives its scratch back, for any other call. If it has failed, engines of its node may still write there. */
START_TEST(scratch_of_a_relay)
{
    dma_relay_t relay;
    dma_lease_t *next;
    char *scratch;
    bool on_device;

    lease_begin(8 * MIB, 64 * MIB);
    ck_assert_int_eq(dma_relay_acquire(&relay, &lease_proc, lease_rt, 0, 4096), DMA_OK);
    ck_assert_int_eq(dma_relay_scratch(&relay, DMA_RELAY_PAD, &scratch, &on_device), DMA_OK);
    ck_assert(!on_device && fake_gpu_given(0) == 0);
    ck_assert_int_eq(dma_relay_scratch(&relay, MIB, &scratch, &on_device), DMA_OK);
    ck_assert(on_device && fake_gpu_given(0) >= MIB);
    dma_relay_release(&relay, _i ? &lease_comms[0] : NULL);
    next = lease_take(DMA_LEASE_DEVICE, 0, MIB);
    ck_assert((next->addr == (uint64_t)(uintptr_t)scratch) == !_i);
    dma_lease_give_back(&lease_proc, next);
    dma_lease_leave(&lease_comms[0], false);
    lease_trim(0);
    ck_assert_uint_eq(fake_gpu_given(0), 0);
    lease_end();
}
END_TEST

/* Memory that small relays have had makes room for a large one. */
START_TEST(relays_make_room)
{
    dma_relay_t small, same, large;

    lease_begin(0, 2 * DMA_RELAY_BYTES + DMA_RELAY_PAD);
    ck_assert_int_eq(dma_relay_acquire(&small, &lease_proc, lease_rt, 0, 16 * KIB), DMA_OK);
    ck_assert_int_eq(dma_relay_acquire(&large, &lease_proc, lease_rt, 0, 256 * KIB), DMA_ERR_NOMEM);
    dma_relay_release(&small, NULL);
    ck_assert_int_eq(dma_relay_acquire(&same, &lease_proc, lease_rt, 0, 16 * KIB - 100), DMA_OK);
    ck_assert_ptr_eq(same.pinned, small.pinned);
    dma_relay_release(&same, NULL);
    ck_assert_int_eq(dma_relay_acquire(&large, &lease_proc, lease_rt, 0, 256 * KIB), DMA_OK);
    dma_relay_release(&large, NULL);
    lease_end();
}
END_TEST

/* ---- what fails ---- */

/* Is a range of whole pages mapped? */
static bool is_mapped(void *at, uint64_t bytes)
{
    unsigned char resident[512 * KIB / 4096];

    return mincore(at, bytes, resident) == 0;
}

/* A stream waits, so the runtime does not end registrations: idle memory stays as it is. */
START_TEST(while_a_stream_waits)
{
    dma_lease_t *one, *other;

    lease_begin(0, 512 * KIB);
    one = lease_take(DMA_LEASE_PINNED, 0, 400 * KIB);
    dma_lease_give_back(&lease_proc, one);
    fake_gpu_fail_often("host_unregister", 0, 10, DMA_AGAIN);
    ck_assert_int_eq(lease_refused(DMA_LEASE_PINNED, 1, 400 * KIB), DMA_ERR_NOMEM);
    lease_trim(0);
    ck_assert(is_mapped(one->memory, 400 * KIB));
    ck_assert_uint_eq(lease_counted(DMA_BUDGET_PINNED), 400 * KIB);
    ck_assert_ptr_eq(lease_take(DMA_LEASE_PINNED, 0, 400 * KIB), one);
    dma_lease_give_back(&lease_proc, one);
    fake_gpu_fail_often("host_unregister", 0, 0, DMA_OK);
    other = lease_take(DMA_LEASE_PINNED, 1, 400 * KIB);
    ck_assert_uint_eq(fake_gpu_pinned(), 400 * KIB);
    dma_lease_give_back(&lease_proc, other);
    lease_end();
}
END_TEST

/* Of the last one that was mapped with this size. */
static void *mapped;
static unsigned unmapped;

void *__real_mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset);
int __real_munmap(void *at, size_t bytes);
void *__wrap_mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset);
int __wrap_munmap(void *at, size_t bytes);

void *__wrap_mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset)
{
    at = __real_mmap(at, bytes, protection, flags, fd, offset);
    if (bytes == 400 * KIB) {
        mapped = at;
    }
    return at;
}

int __wrap_munmap(void *at, size_t bytes)
{
    unmapped += bytes == 400 * KIB;
    return __real_munmap(at, bytes);
}

/* What makes it fails behind its registration, which cannot end now. */
START_TEST(unfinished_while_a_stream_waits)
{
    dma_gpu_scope_t scope;

    lease_begin(0, 512 * KIB);
    unmapped = 0;
    fake_gpu_fail("stream_create", 0, DMA_ERR_NOMEM);
    fake_gpu_fail("host_unregister", 0, DMA_AGAIN);
    ck_assert_int_eq(lease_refused(DMA_LEASE_PINNED, 0, 400 * KIB), DMA_ERR_NOMEM);
    ck_assert_msg(lease_counted(DMA_BUDGET_PINNED) == 0, "counted though no call can have it");
    ck_assert_msg(fake_gpu_pinned() == 400 * KIB && unmapped == 0, "unmapped though it is registered");
    ck_assert_int_eq(lease_rt->enter(0, &scope), DMA_OK);
    ck_assert_int_eq(lease_rt->host_unregister(mapped), DMA_OK);
    lease_rt->leave(&scope);
    ck_assert_int_eq(__real_munmap(mapped, 400 * KIB), 0);
    fake_gpu_fail("stream_create", 0, DMA_ERR_NOMEM);
    ck_assert_int_eq(lease_refused(DMA_LEASE_PINNED, 0, 400 * KIB), DMA_ERR_NOMEM);
    ck_assert_msg(fake_gpu_pinned() == 0 && unmapped == 1, "something is left");
    lease_end();
}
END_TEST

/* What gives way is not mapped any more, also if what it gave way to cannot be made. */
START_TEST(given_way_in_vain)
{
    dma_lease_t *l;
    char *memory;

    lease_begin(0, 512 * KIB);
    l = lease_take(DMA_LEASE_PINNED, 0, 400 * KIB);
    memory = l->memory;
    dma_lease_give_back(&lease_proc, l);
    ck_assert(is_mapped(memory, 400 * KIB));
    fake_gpu_fail("host_register", 0, DMA_UNSUPPORTED);
    ck_assert_int_eq(lease_refused(DMA_LEASE_PINNED, 1, 300 * KIB), DMA_UNSUPPORTED);
    ck_assert(fake_gpu_pinned() == 0 && lease_counted(DMA_BUDGET_PINNED) == 0 && !is_mapped(memory, 400 * KIB));
    lease_end();
}
END_TEST

/* Copies that have not ended after the timeout: the memory is not used again. It is freed at the end if they have ended then. */
START_TEST(late_copies)
{
    dma_gpu_scope_t scope;
    dma_lease_t *late, *next;

    lease_begin(MIB, MIB);
    late = lease_take(_i ? DMA_LEASE_PINNED : DMA_LEASE_DEVICE, 0, 100 * KIB);
    fake_gpu_hold(0, true);
    ck_assert_int_eq(lease_rt->enter(0, &scope), DMA_OK);
    ck_assert_int_eq(lease_rt->copy_async(late->stream[0], late->addr, late->addr + 4096, 8), DMA_OK);
    late->copies = true;
    dma_lease_give_back(&lease_proc, late);
    next = lease_take(late->kind, 0, 100 * KIB);
    ck_assert_ptr_ne(next, late);
    dma_lease_give_back(&lease_proc, next);
    lease_trim(0);
    fake_gpu_hold(0, false);
    lease_rt->leave(&scope);
    lease_wait(late);
    lease_end();
}
END_TEST

/* The process ends while a copy has not begun. When it runs later, its destination still exists. */
__attribute__((weak)) void __lsan_disable(void);
START_TEST(late_at_the_end)
{
    dma_gpu_scope_t scope;
    dma_gpu_stream_t *stream;
    char *to;
    uint64_t late_bytes;
    dma_lease_t *l, *idle;
    char *device;

    if (__lsan_disable) {
        __lsan_disable(); /* what the runtime allocates is left */
    }
    lease_begin(0, MIB);
    idle = lease_take(DMA_LEASE_PINNED, 1, 8 * KIB);
    (void)dma_lease_give_back(&lease_proc, idle);
    l = lease_take(DMA_LEASE_PINNED, 0, 8 * KIB);
    to = l->memory;
    to[0] = 0;
    device = fake_gpu_alloc(DMA_GPU_DEVICE_PLAIN, 0, 4 * KIB);
    device[0] = 7;
    fake_gpu_hold(0, true);
    ck_assert_int_eq(lease_rt->enter(0, &scope), DMA_OK);
    ck_assert_int_eq(lease_rt->copy_async(l->stream[0], l->addr, (uint64_t)(uintptr_t)device, 1), DMA_OK);
    l->copies = true;
    stream = l->stream[0];
    late_bytes = l->bytes;
    dma_lease_give_back(&lease_proc, l);
    dma_leases_destroy(&lease_proc);
    fake_gpu_hold(0, false);
    while (lease_rt->stream_query(stream) == DMA_AGAIN) {
        usleep(100);
    }
    lease_rt->leave(&scope);
    ck_assert_uint_eq(fake_gpu_pinned(), late_bytes);
    ck_assert_int_eq(to[0], 7);
    /* the fake machine is not stopped: it would report the stream as a misuse */
}
END_TEST

/* The application has shut the runtime down before the process ends: nothing of it is called, and what is ours is freed. */
START_TEST(after_the_runtime)
{
    dma_lease_t *device, *pinned;
    char *memory;

    lease_begin(512 * KIB, 512 * KIB);
    device = lease_take(DMA_LEASE_DEVICE, 0, 100 * KIB);
    pinned = lease_take(DMA_LEASE_PINNED, 1, 400 * KIB);
    memory = pinned->memory;
    dma_lease_give_back(&lease_proc, device);
    pinned->copies = true;
    fake_gpu_shut_down();
    dma_lease_give_back(&lease_proc, pinned);
    unmapped = 0;
    dma_leases_destroy(&lease_proc);
    ck_assert(unmapped == 1 && !is_mapped(memory, 400 * KIB));
    ck_assert_uint_eq(lease_counters.at[DMA_COUNT_scratch_held] + lease_counters.at[DMA_COUNT_pinned_held], 0);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("lease_cases");

    unit_loop(s, what_calls_get, 0, (int)(sizeof(sizes) / sizeof(sizes[0])), 10);
    unit_test(s, beyond_the_bound, 10);
    unit_loop(s, an_arena_ends, 0, 2, 10);
    unit_loop(s, scratch_of_a_relay, 0, 2, 10);
    unit_test(s, relays_make_room, 10);
    unit_test(s, while_a_stream_waits, 10);
    unit_test(s, unfinished_while_a_stream_waits, 10);
    unit_test(s, given_way_in_vain, 10);
    unit_loop(s, late_copies, 0, 2, 10);
    unit_test(s, late_at_the_end, 10);
    unit_test(s, after_the_runtime, 10);
    return unit_main(s);
}
