/*
 * Faults of a GPU, as ROCr reports them: which of them the engine takes for its own, what it says about them, and that a process
 * to which no fault is reported does not wait for ever.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/sdma/queues/fault.h"
#include "libunit.h"

/* ---- a ROCr with nothing but events ---- */

static dma_rocr_on_event_t *handler;
static void *handler_data;
static unsigned registrations;
static bool refuses;

static uint32_t on_event(dma_rocr_on_event_t *wanted, void *data)
{
    registrations++;
    handler = wanted;
    handler_data = data;
    return refuses ? DMA_ROCR_ERROR : DMA_ROCR_SUCCESS;
}

static const dma_rocr_t rocr = {.on_event = on_event};

static uint32_t fault_of(uint64_t agent, uint64_t address, uint32_t reasons)
{
    dma_rocr_event_t event = {.type = DMA_ROCR_EVENT_FAULT, .agent = {agent}, .address = address, .reasons = reasons};

    return handler(&event, handler_data);
}

static uint32_t event_of(uint64_t agent, uint32_t type)
{
    dma_rocr_event_t event = {.type = type, .agent = {agent}};

    return handler(&event, handler_data);
}

/* ---- GPUs ---- */

typedef struct gpu {
    dma_fault_t fault;
    bool works;
    uint64_t asked; /* the last address */
} gpu_t;

static bool works(void *arg, uint64_t address)
{
    gpu_t *gpu = arg;

    gpu->asked = address;
    return gpu->works;
}

static void watch(gpu_t *gpu, uint64_t agent, double seconds)
{
    ck_assert(dma_fault_watch(&gpu->fault, &rocr, (dma_rocr_handle_t){agent}, seconds, works, gpu));
}

START_TEST(only_where_we_work)
{
    gpu_t a = {.works = true}, b = {.works = false};

    watch(&a, 1, 100);
    watch(&b, 2, 100);
    ck_assert_uint_eq(registrations, 1); /* a handler cannot be removed */
    ck_assert_uint_ne(fault_of(3, 0x1000, 1), DMA_ROCR_SUCCESS);
    ck_assert_uint_ne(fault_of(2, 0x2000, 1), DMA_ROCR_SUCCESS);
    ck_assert_uint_eq(b.asked, 0x2000);
    ck_assert_uint_ne(event_of(1, 7), DMA_ROCR_SUCCESS); /* of a kind that is not known */
    ck_assert_ptr_null(dma_fault_seen(&a.fault));
    ck_assert_uint_eq(fault_of(1, 0xabc000, DMA_ROCR_FAULT_READ_ONLY), DMA_ROCR_SUCCESS);
    ck_assert_uint_eq(a.asked, 0xabc000);
    ck_assert_str_eq(dma_fault_seen(&a.fault), "the GPU faulted at address 0xabc000 (the memory is read-only)");
    ck_assert_ptr_null(dma_fault_seen(&b.fault));
    dma_fault_told(&a.fault);
    /* what follows from it is dealt with as well, and changes nothing */
    ck_assert_uint_eq(event_of(1, DMA_ROCR_EVENT_RESET), DMA_ROCR_SUCCESS);
    ck_assert_str_eq(dma_fault_seen(&a.fault), "the GPU faulted at address 0xabc000 (the memory is read-only)");
    dma_fault_unwatch(&a.fault);
    ck_assert_uint_ne(fault_of(1, 0x1000, 1), DMA_ROCR_SUCCESS);
    dma_fault_unwatch(&b.fault);
}
END_TEST

START_TEST(reset_of_an_engine)
{
    gpu_t a = {.works = true};

    a.asked = 1;
    watch(&a, 1, 100);
    ck_assert_uint_eq(event_of(1, DMA_ROCR_EVENT_RESET), DMA_ROCR_SUCCESS);
    ck_assert_uint_eq(a.asked, 0);
    ck_assert_ptr_nonnull(strstr(dma_fault_seen(&a.fault), "reset"));
    dma_fault_unwatch(&a.fault);
}
END_TEST

START_TEST(no_events)
{
    dma_rocr_t old = {0};
    gpu_t a = {.works = true};

    refuses = _i;
    ck_assert(!dma_fault_watch(&a.fault, _i ? &rocr : &old, (dma_rocr_handle_t){1}, 1, works, &a));
    ck_assert(!dma_fault_watch(&a.fault, &rocr, (dma_rocr_handle_t){1}, 1, works, &a)); /* not tried again */
    ck_assert_uint_eq(registrations, (unsigned)_i);
    ck_assert_ptr_null(dma_fault_seen(&a.fault));
    dma_fault_unwatch(&a.fault);
}
END_TEST

/* A process with a fault that nobody asks about: how it ends. */
static int end_of(bool told, bool unwatched)
{
    int status = 0;
    pid_t child = fork();

    if (child == 0) {
        static gpu_t a = {.works = true};

        watch(&a, 1, 2); /* seconds in which a busy machine tells it */
        if (fault_of(1, 0x1000, 1) != DMA_ROCR_SUCCESS) {
            _exit(3);
        }
        if (told) {
            dma_fault_told(&a.fault);
        }
        if (unwatched) {
            dma_fault_unwatch(&a.fault);
        }
        sleep(told || unwatched ? 5 : 60);
        _exit(0);
    }
    ck_assert_int_gt(child, 0);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

START_TEST(nobody_waits_for_ever)
{
    ck_assert_int_eq(end_of(false, false), -SIGABRT);
    ck_assert_int_eq(end_of(true, false), 0);
    ck_assert_int_eq(end_of(false, true), 0);
}
END_TEST

/* Units are opened where others with a fault were a moment ago. The watchdogs of those faults may begin only then. They do not take
 * the new units for theirs, and read nothing of what is freed. */
START_TEST(next_unit_at_the_same_address)
{
    enum { UNITS = 100 };
    int status = 0;
    pid_t child = fork();

    if (child == 0) {
        static gpu_t *units[UNITS];

        for (unsigned i = 0; i < 2 * UNITS; i++) {
            gpu_t **a = &units[i / 2];

            if (i % 2) {
                fault_of(i / 2, 0x1000, 1);
                dma_fault_told(&(*a)->fault);
                dma_fault_unwatch(&(*a)->fault);
                free(*a);
            }
            *a = calloc(1, sizeof(**a)); /* often where the one was that is freed */
            (*a)->works = i % 2 == 0;
            watch(*a, i / 2, 1);
        }
        sleep(3);
        for (int i = 0; i < UNITS; i++) {
            dma_fault_unwatch(&units[i]->fault);
            free(units[i]);
        }
        _exit(0);
    }
    ck_assert_int_gt(child, 0);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("sdma_fault");

    unit_test(s, only_where_we_work, 20);
    unit_test(s, reset_of_an_engine, 20);
    unit_loop(s, no_events, 0, 2, 20);
    unit_test(s, nobody_waits_for_ever, 200);
    unit_test(s, next_unit_at_the_same_address, 60);
    return unit_main(s);
}
