/* Queues from ROCr's public interface, in a world of plain memory (libkfd_fake.h): which ROCr has it, where queues are made, what
 * is not used, and what happens when ROCr reports an error. */
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/sdma/hw/packet.h"
#include "libkfd_fake.h"
#include "libunit.h"

#define PAGE 4096

/* Our declarations are ROCr's, as far as the headers that are installed go: those of old versions lack the descriptor. */
#if __has_include(<hsa/amd_hsa_signal.h>)
#include <hsa/amd_hsa_signal.h>
#include <hsa/hsa.h>
#include <hsa/hsa_ext_amd.h>
#define SAME(ours, our_field, theirs, their_field)                                                                     \
    _Static_assert(offsetof(ours, our_field) == offsetof(theirs, their_field) &&                                       \
                       sizeof(((ours *)0)->our_field) == sizeof(((theirs *)0)->their_field),                           \
                   #their_field)
SAME(dma_rocr_queue_t, type, hsa_queue_t, type);
SAME(dma_rocr_queue_t, ring, hsa_queue_t, base_address);
SAME(dma_rocr_queue_t, doorbell, hsa_queue_t, doorbell_signal);
SAME(dma_rocr_queue_t, bytes, hsa_queue_t, size);
SAME(dma_rocr_queue_t, id, hsa_queue_t, id);
_Static_assert(sizeof(dma_rocr_queue_t) == sizeof(hsa_queue_t), "queue");
SAME(dma_rocr_signal_t, kind, amd_signal_t, kind);
SAME(dma_rocr_signal_t, doorbell, amd_signal_t, hardware_doorbell_ptr);
_Static_assert((int)DMA_ROCR_SIGNAL_DOORBELL == (int)AMD_SIGNAL_KIND_DOORBELL, "kind of signal");
_Static_assert(DMA_ROCR_INVALID_ARGUMENT == HSA_STATUS_ERROR_INVALID_ARGUMENT, "status");
_Static_assert(DMA_ROCR_INVALID_CREATION == HSA_STATUS_ERROR_INVALID_QUEUE_CREATION, "status");
_Static_assert(DMA_ROCR_OUT_OF_RESOURCES == HSA_STATUS_ERROR_OUT_OF_RESOURCES, "status");
_Static_assert(DMA_ROCR_QUEUE_PRIORITY_NORMAL == HSA_AMD_QUEUE_PRIORITY_NORMAL, "priority");
#endif
_Static_assert(offsetof(dma_rocr_queue_desc_t, bytes) == 8 && offsetof(dma_rocr_queue_desc_t, priority) == 12 &&
                   offsetof(dma_rocr_queue_desc_t, on_error) == 16 && offsetof(dma_rocr_queue_desc_t, queue) == 32 &&
                   offsetof(dma_rocr_queue_desc_t, engine) == 40 &&
                   offsetof(dma_rocr_queue_desc_t, traffic_class) == 72,
               "the descriptor");

static const fake_options_t usual;
static const dma_provider_ops_t *const rocr_only[] = {&dma_provider_rocr, NULL};
static const dma_map_pick_t on_host = {.kind = DMA_MAP_HOST};
static const dma_map_pick_t on_link = {.kind = DMA_MAP_XGMI};

dma_status_t __wrap_dma_rocr_queues_find(dma_rocr_queues_t *queues, const char **reason);
dma_status_t __wrap_dma_rocr_queues_find(dma_rocr_queues_t *queues, const char **reason)
{
    return fake_find_queues(queues, reason);
}

static dma_status_t open_queues(dma_queues_t *q, char *why)
{
    return dma_queues_open(q, rocr_only, "auto", &fake_gpu, &on_host, why);
}

static void begin(const fake_options_t *options, dma_queues_t *q)
{
    char why[DMA_PROVIDER_WHY_BYTES];
    dma_status_t status;

    fake_begin(options);
    status = open_queues(q, why);
    ck_assert_msg(status == DMA_OK, "%s", why);
}

static void end(dma_queues_t *q)
{
    dma_queues_close(q);
    fake_end();
}

static const char *reason_of(const fake_options_t *options)
{
    static char why[DMA_PROVIDER_WHY_BYTES];
    dma_provider_gpu_t gpu = fake_gpu;
    dma_queues_t q;

    fake_begin(options);
    ck_assert_int_eq(dma_queues_open(&q, rocr_only, "auto", &gpu, &on_host, why), DMA_UNSUPPORTED);
    fake_end();
    return why;
}

static dma_map_pick_t on_engine(uint32_t engine)
{
    return (dma_map_pick_t){.kind = DMA_MAP_ENGINE, .engine = engine};
}

/* Queues are on the engine that they name, or on one of their kind, and move data. No file of the driver's is opened. */
START_TEST(kinds)
{
    dma_queues_t q;

    begin(&usual, &q);
    ck_assert_str_eq(q.provider->ops->name, "rocr");
    ck_assert(q.provider->names_engines);
    fake_use_kinds(&q);
    ck_assert_uint_eq(fake_counts.opens + fake_counts.maps, 0);
    end(&q);
}
END_TEST

/* Queues without a name take the engines of their kind in turn, and pass over those that are full. */
START_TEST(in_turn)
{
    unsigned used[FAKE_ENGINES] = {0};
    dma_queues_t q;

    begin(&usual, &q);
    fake_occupy(FAKE_HOST_ENGINES, FAKE_PER_ENGINE);
    for (int i = 0; i < 2 * (FAKE_XGMI_ENGINES - 1); i++) {
        dma_queue_t *queue = dma_queue_get_exclusive(&q, &on_link, 0);

        ck_assert_ptr_nonnull(queue);
        used[fake_engine_of(queue->made.doorbell)]++;
    }
    for (unsigned i = 0; i < FAKE_ENGINES; i++) {
        ck_assert_uint_le(used[i], i > FAKE_HOST_ENGINES ? 3 : 0);
        ck_assert_uint_ge(used[i], i > FAKE_HOST_ENGINES ? 1 : 0);
    }
    for (unsigned i = 0; i < FAKE_ENGINES; i++) {
        fake_occupy(i, FAKE_PER_ENGINE);
    }
    ck_assert_ptr_null(dma_queue_get_exclusive(&q, &on_link, 0));
    ck_assert_str_eq(q.refusal, "no queue is free on the engine");
    end(&q);
}
END_TEST

/* Counters are bytes and do not wrap: several times around the ring they still tell the engine and us where we are. */
START_TEST(around_the_ring)
{
    dma_queues_t q;
    dma_queue_t *queue;
    uint64_t rounds = 0;

    begin(&usual, &q);
    queue = dma_queue_get(&q, &on_host, 0);
    ck_assert_uint_eq(*queue->made.write_ptr, 0);
    ck_assert_uint_eq(queue->made.ring_bytes, DMA_QUEUE_RING_BYTES);
    for (uint32_t i = 0; i < DMA_QUEUE_RING_BYTES; i += 4) {
        ck_assert_uint_eq(((const uint32_t *)queue->made.ring)[i / 4], 0); /* what ROCr left there is gone */
    }
    while (*queue->made.read_ptr < 3 * DMA_QUEUE_RING_BYTES) {
        uint32_t *p;

        ck_assert_int_eq(dma_ring_reserve(&queue->ring, DMA_QUEUE_RING_BYTES / 12, 1, &p), DMA_OK);
        memset(p, 0, DMA_QUEUE_RING_BYTES / 12 * sizeof(*p)); /* nops */
        dma_ring_publish(&queue->ring);
        fake_run();
        fake_copies(&q, queue, (uint32_t)++rounds);
        ck_assert_uint_eq(*queue->made.read_ptr, *queue->made.write_ptr);
        ck_assert_uint_eq(*queue->made.doorbell, *queue->made.write_ptr);
    }
    ck_assert_uint_gt(queue->ring.count.pads, 1);
    end(&q);
}
END_TEST

/* Which ROCr is used at all. */
START_TEST(refusals)
{
    static const char old[] = "rocr: this version of ROCr does not show the pointers of DMA queues";

    ck_assert_str_eq(reason_of(&(fake_options_t){.no_rocr = true}), "rocr: ROCr is not loaded");
    ck_assert_str_eq(reason_of(&(fake_options_t){.rocr_down = true}), "rocr: ROCr does not run");
    ck_assert_str_eq(reason_of(&(fake_options_t){.hidden = true}), "rocr: ROCr does not show the device");
    ck_assert_str_eq(reason_of(&(fake_options_t){.no_fine = true}), "rocr: ROCr has no fine-grained host memory");
    ck_assert_str_eq(reason_of(&(fake_options_t){.no_queues = true}), "rocr: this version of ROCr makes no DMA queues");
    ck_assert_str_eq(reason_of(&(fake_options_t){.rocr_minor = 26}), old);
    ck_assert_str_eq(reason_of(&(fake_options_t){.rocr_minor = 30}), old);
    ck_assert_str_eq(reason_of(&(fake_options_t){.minor = 16}),
                     "rocr: the kernel driver cannot make queues on a given engine");
}
END_TEST

/* A queue that is made, and is not what it must be, is destroyed again. */
START_TEST(queues_that_are_not_used)
{
    static const struct {
        fake_options_t options;
        const char *why;
    } cases[] = {
        {{.user_signal = true}, "rocr: the queue has no doorbell of hardware"},
        {{.no_doorbell = true}, "rocr: the queue has no doorbell of hardware"},
        {{.other_engine = true}, "rocr: ROCr has made a queue on another engine"},
        {{.short_ring = true}, "rocr: ROCr does not show the ring or the pointers of the queue"},
        {{.no_pointers = true}, "rocr: ROCr does not show the ring or the pointers of the queue"},
    };
    dma_map_pick_t nowhere = on_engine(FAKE_ENGINES);
    dma_queues_t q;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        ck_assert_str_eq(reason_of(&cases[i].options), cases[i].why);
        ck_assert_uint_eq(fake_counts.queues, 0);
    }
    begin(&usual, &q);
    ck_assert_ptr_null(dma_queue_get_exclusive(&q, &nowhere, 0));
    ck_assert_str_eq(q.refusal, "ROCr does not know the engine");
    end(&q);
}
END_TEST

/* Where ROCr's queues are refused, the kernel's own are tried. */
START_TEST(next_provider)
{
    const dma_provider_ops_t *list[] = {&dma_provider_rocr, fake_providers[0], NULL};
    char why[DMA_PROVIDER_WHY_BYTES];
    dma_queues_t q;

    fake_begin(&(fake_options_t){.user_signal = true});
    ck_assert_int_eq(dma_queues_open(&q, list, "auto", &fake_gpu, &on_host, why), DMA_OK);
    ck_assert_str_eq(q.provider->ops->name, "kfd");
    ck_assert_str_eq(q.passed_over, "rocr: the queue has no doorbell of hardware");
    fake_copies(&q, dma_queue_get(&q, &on_host, 0), 3);
    end(&q);
}
END_TEST

/* ROCr may say that a queue has failed. Only that queue has. */
START_TEST(error)
{
    dma_map_pick_t four = on_engine(4);
    dma_queue_t *failed, *other;
    dma_queues_t q;

    begin(&usual, &q);
    other = dma_queue_get(&q, &on_host, 0);
    failed = dma_queue_get(&q, &four, 1);
    ck_assert_int_eq(dma_queue_check(failed, 10, NULL), DMA_OK);
    fake_report(&failed->made, 0x2b);
    ck_assert_int_eq(dma_queue_check(failed, 10, NULL), DMA_ERR_ENGINE);
    ck_assert_int_eq(dma_queue_check(other, 10, NULL), DMA_OK);
    fake_copies(&q, other, 4);
    end(&q);
}
END_TEST

/* Or it never does: then a queue that does not move is an error after a time, when it was nudged. Between two looks it may have
 * moved, so two of them do not show that. */
START_TEST(silence)
{
    dma_queue_t *queue;
    int looks = 0;
    uint32_t *word;
    uint64_t addr;
    dma_queues_t q;

    begin(&usual, &q);
    word = dma_queues_alloc(&q, PAGE, &addr);
    queue = dma_queue_get(&q, &on_host, 0);
    fake_use_poll(queue, addr);
    while (dma_queue_check(queue, 0.01, NULL) == DMA_OK) {
        looks++;
        ck_assert_int_le(looks, 10);
        usleep(20000);
    }
    ck_assert_int_ge(looks, 8);
    ck_assert_uint_gt(queue->ring.count.nudges, 0);
    *word = 1;
    fake_run();
    ck_assert_int_eq(dma_queue_check(queue, 0.01, NULL), DMA_OK);
    dma_queues_free(&q, word, PAGE);
    end(&q);
}
END_TEST

/* All that a process does with queues, as far as it gets; true: all the way. */
static bool whole_life(void)
{
    dma_map_pick_t four = on_engine(4);
    char why[DMA_PROVIDER_WHY_BYTES];
    dma_queue_t *shared, *own;
    dma_queues_t q;

    if (open_queues(&q, why) != DMA_OK) {
        ck_assert_uint_gt(strlen(why), 0);
        return false;
    }
    shared = dma_queue_get(&q, &four, 3);
    own = dma_queue_get_exclusive(&q, &four, 3);
    if (own) {
        dma_queue_put_exclusive(&q, own);
    }
    dma_queues_close(&q);
    return shared && own;
}

/* Whichever call fails, nothing is left over. */
START_TEST(every_call_fails)
{
    unsigned call = 0, ways = 0;
    bool all;

    do {
        fake_begin(&(fake_options_t){.fail_call = ++call});
        all = whole_life();
        ways += !all;
        fake_end();
    } while (fake_counts.calls >= call);
    ck_assert(all);
    ck_assert_uint_gt(ways, 15);
}
END_TEST

/* A child has no queues and calls nothing, and the parent does not notice. */
START_TEST(child)
{
    dma_queues_t q;
    dma_queue_t *queue, *own;
    pid_t pid;
    int status;

    begin(&usual, &q);
    queue = dma_queue_get(&q, &on_host, 0);
    own = dma_queue_get_exclusive(&q, &on_link, 0);
    pid = fork();
    ck_assert_int_ge(pid, 0);
    if (!pid) {
        unsigned calls = fake_counts.calls;
        bool none = !dma_queue_get(&q, &on_host, 0) && !dma_queue_get_exclusive(&q, &on_link, 0);

        dma_queue_put_exclusive(&q, own);
        dma_queues_close(&q);
        _exit(none && calls == fake_counts.calls ? 0 : 1);
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    fake_copies(&q, queue, 9);
    fake_copies(&q, own, 10);
    end(&q);
}
END_TEST

/* Queues come and go in any order, and those there are work. */
START_TEST(come_and_go)
{
    dma_queues_t q;

    begin(&usual, &q);
    fake_use_in_any_order(&q);
    end(&q);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("queues from ROCr");

    unit_test(suite, kinds, 4);
    unit_test(suite, in_turn, 4);
    unit_test(suite, around_the_ring, 10);
    unit_test(suite, refusals, 4);
    unit_test(suite, queues_that_are_not_used, 4);
    unit_test(suite, next_provider, 4);
    unit_test(suite, error, 4);
    unit_test(suite, silence, 4);
    unit_test(suite, every_call_fails, 20);
    unit_test(suite, child, 4);
    unit_test(suite, come_and_go, 20);
    return unit_main(suite);
}
