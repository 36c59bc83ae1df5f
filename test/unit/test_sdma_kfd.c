/* Queues from the kernel driver itself, against a driver and a ROCr made of plain memory (libkfd_fake.h), with engines that
 * execute what is put into the queues (test/emu/sdma.h). */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#if __has_include(<linux/kfd_ioctl.h>)
#include <linux/kfd_ioctl.h>
#define HAVE_HEADER 1
#endif

#include "engine/sdma/hw/packet.h"
#include "engine/sdma/queues/queue.h"
#include "libkfd_fake.h"
#include "libsdma_tree.h"
#include "libunit.h"

#define PAGE  4096u
#define BLOCK 1024u

/* Our declarations are the kernel's, as far as the header that is installed goes. */
#ifdef HAVE_HEADER
#define SAME(ours, our_field, theirs, their_field)                                                                     \
    _Static_assert(offsetof(ours, our_field) == offsetof(theirs, their_field) &&                                       \
                       sizeof(((ours *)0)->our_field) == sizeof(((theirs *)0)->their_field),                           \
                   #their_field)
SAME(dma_kfd_version_t, major, struct kfd_ioctl_get_version_args, major_version);
SAME(dma_kfd_version_t, minor, struct kfd_ioctl_get_version_args, minor_version);
SAME(dma_kfd_create_t, ring, struct kfd_ioctl_create_queue_args, ring_base_address);
SAME(dma_kfd_create_t, write_ptr, struct kfd_ioctl_create_queue_args, write_pointer_address);
SAME(dma_kfd_create_t, read_ptr, struct kfd_ioctl_create_queue_args, read_pointer_address);
SAME(dma_kfd_create_t, doorbell_offset, struct kfd_ioctl_create_queue_args, doorbell_offset);
SAME(dma_kfd_create_t, ring_bytes, struct kfd_ioctl_create_queue_args, ring_size);
SAME(dma_kfd_create_t, gpu_id, struct kfd_ioctl_create_queue_args, gpu_id);
SAME(dma_kfd_create_t, type, struct kfd_ioctl_create_queue_args, queue_type);
SAME(dma_kfd_create_t, percent, struct kfd_ioctl_create_queue_args, queue_percentage);
SAME(dma_kfd_create_t, priority, struct kfd_ioctl_create_queue_args, queue_priority);
SAME(dma_kfd_create_t, queue_id, struct kfd_ioctl_create_queue_args, queue_id);
SAME(dma_kfd_create_t, eop, struct kfd_ioctl_create_queue_args, eop_buffer_address);
SAME(dma_kfd_create_t, eop_bytes, struct kfd_ioctl_create_queue_args, eop_buffer_size);
SAME(dma_kfd_create_t, save, struct kfd_ioctl_create_queue_args, ctx_save_restore_address);
SAME(dma_kfd_create_t, save_bytes, struct kfd_ioctl_create_queue_args, ctx_save_restore_size);
SAME(dma_kfd_create_t, stack_bytes, struct kfd_ioctl_create_queue_args, ctl_stack_size);
SAME(dma_kfd_destroy_t, queue_id, struct kfd_ioctl_destroy_queue_args, queue_id);
SAME(dma_kfd_alloc_t, address, struct kfd_ioctl_alloc_memory_of_gpu_args, va_addr);
SAME(dma_kfd_alloc_t, bytes, struct kfd_ioctl_alloc_memory_of_gpu_args, size);
SAME(dma_kfd_alloc_t, handle, struct kfd_ioctl_alloc_memory_of_gpu_args, handle);
SAME(dma_kfd_alloc_t, pages, struct kfd_ioctl_alloc_memory_of_gpu_args, mmap_offset);
SAME(dma_kfd_alloc_t, gpu_id, struct kfd_ioctl_alloc_memory_of_gpu_args, gpu_id);
SAME(dma_kfd_alloc_t, flags, struct kfd_ioctl_alloc_memory_of_gpu_args, flags);
SAME(dma_kfd_free_t, handle, struct kfd_ioctl_free_memory_of_gpu_args, handle);
SAME(dma_kfd_map_t, handle, struct kfd_ioctl_map_memory_to_gpu_args, handle);
SAME(dma_kfd_map_t, gpu_ids, struct kfd_ioctl_map_memory_to_gpu_args, device_ids_array_ptr);
SAME(dma_kfd_map_t, count, struct kfd_ioctl_map_memory_to_gpu_args, n_devices);
SAME(dma_kfd_map_t, done, struct kfd_ioctl_map_memory_to_gpu_args, n_success);
_Static_assert(DMA_KFD_ALLOC == AMDKFD_IOC_ALLOC_MEMORY_OF_GPU, "number of ALLOC_MEMORY_OF_GPU");
_Static_assert(DMA_KFD_FREE == AMDKFD_IOC_FREE_MEMORY_OF_GPU, "number of FREE_MEMORY_OF_GPU");
_Static_assert(DMA_KFD_MAP == AMDKFD_IOC_MAP_MEMORY_TO_GPU, "number of MAP_MEMORY_TO_GPU");
_Static_assert(DMA_KFD_UNMAP == AMDKFD_IOC_UNMAP_MEMORY_FROM_GPU, "number of UNMAP_MEMORY_FROM_GPU");
_Static_assert(DMA_KFD_MEMORY_USERPTR == KFD_IOC_ALLOC_MEM_FLAGS_USERPTR, "pages of the process");
_Static_assert(DMA_KFD_MEMORY_COHERENT == KFD_IOC_ALLOC_MEM_FLAGS_COHERENT, "coherent");
_Static_assert(DMA_KFD_MEMORY_EXECUTABLE == KFD_IOC_ALLOC_MEM_FLAGS_EXECUTABLE, "executable");
_Static_assert(DMA_KFD_MEMORY_WRITABLE == (uint32_t)KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE, "writable");
_Static_assert(DMA_KFD_GET_VERSION == AMDKFD_IOC_GET_VERSION, "number of GET_VERSION");
_Static_assert(DMA_KFD_DESTROY_QUEUE == AMDKFD_IOC_DESTROY_QUEUE, "number of DESTROY_QUEUE");
/* Its number has the size in it, which grew with 1.17. */
_Static_assert(_IOC_NR(DMA_KFD_CREATE_QUEUE) == _IOC_NR(AMDKFD_IOC_CREATE_QUEUE) &&
                   _IOC_DIR(DMA_KFD_CREATE_QUEUE) == _IOC_DIR(AMDKFD_IOC_CREATE_QUEUE) &&
                   _IOC_TYPE(DMA_KFD_CREATE_QUEUE) == _IOC_TYPE(AMDKFD_IOC_CREATE_QUEUE),
               "number of CREATE_QUEUE");
_Static_assert(DMA_KFD_MAJOR == KFD_IOCTL_MAJOR_VERSION, "version");
_Static_assert(DMA_KFD_QUEUE_SDMA == KFD_IOC_QUEUE_TYPE_SDMA, "SDMA");
_Static_assert(DMA_KFD_QUEUE_SDMA_XGMI == KFD_IOC_QUEUE_TYPE_SDMA_XGMI, "XGMI");
_Static_assert(DMA_KFD_PERCENT <= KFD_MAX_QUEUE_PERCENTAGE && DMA_KFD_PRIORITY <= KFD_MAX_QUEUE_PRIORITY, "limits");
#ifdef KFD_IOC_QUEUE_TYPE_SDMA_BY_ENG_ID
SAME(dma_kfd_create_t, engine, struct kfd_ioctl_create_queue_args, sdma_engine_id);
_Static_assert(DMA_KFD_CREATE_QUEUE == AMDKFD_IOC_CREATE_QUEUE, "size of CREATE_QUEUE");
_Static_assert(DMA_KFD_QUEUE_SDMA_BY_ENG == KFD_IOC_QUEUE_TYPE_SDMA_BY_ENG_ID, "by engine");
#endif
#endif

static const fake_options_t usual;
static const dma_map_pick_t on_host = {.kind = DMA_MAP_HOST};
static const dma_map_pick_t on_link = {.kind = DMA_MAP_XGMI};

static dma_status_t open_queues(dma_queues_t *q, char *why)
{
    return dma_queues_open(q, fake_providers, "auto", &fake_gpu, &on_host, why);
}

static void begin(const fake_options_t *options, dma_queues_t *q)
{
    char why[DMA_PROVIDER_WHY_BYTES];

    fake_begin(options);
    ck_assert_int_eq(open_queues(q, why), DMA_OK);
}

static void end(dma_queues_t *q)
{
    dma_queues_close(q);
    fake_end();
}

/* Why no queues are had in such a world. */
static const char *reason_of(const fake_options_t *options)
{
    static char why[DMA_PROVIDER_WHY_BYTES];
    dma_provider_gpu_t gpu = fake_gpu;
    dma_queues_t q;

    fake_begin(options);
    ck_assert_int_eq(dma_queues_open(&q, fake_providers, "auto", &gpu, &on_host, why), DMA_UNSUPPORTED);
    dma_queues_close(&q); /* of what was never opened: nothing */
    fake_end();
    return why;
}

/* Kinds of queues come to the engines they name, and move data. */
START_TEST(kinds)
{
    dma_queues_t q;

    begin(&usual, &q);
    fake_use_kinds(&q);
    ck_assert_uint_eq(fake_counts.maps, 1); /* doorbells: all with the first queue */
    ck_assert_uint_eq(fake_counts.opens, 1);
    ck_assert_ptr_null(q.refusal);
    end(&q);
}
END_TEST

/* Ring, read and write pointer are where the kernel wants them. */
START_TEST(layout)
{
    dma_queues_t q;
    dma_queue_t *queue;

    begin(&usual, &q);
    queue = dma_queue_get(&q, &on_host, 0);
    ck_assert_ptr_nonnull(queue);
    ck_assert_uint_eq((uintptr_t)queue->made.write_ptr % PAGE, 0);
    ck_assert_uint_eq((uintptr_t)queue->made.read_ptr % 64, 0);
    ck_assert_ptr_ne(queue->made.read_ptr, queue->made.write_ptr);
    ck_assert_uint_eq((uintptr_t)queue->made.ring % PAGE, 0);
    ck_assert_uint_eq((uintptr_t)queue->made.doorbell % 8, 0);
    end(&q);
}
END_TEST

/* Eight queues of an engine are all there is; others' count. Then candidates serve, and nothing else. */
START_TEST(full)
{
    dma_map_pick_t pick = {.kind = DMA_MAP_ENGINE, .engine = 3, .candidates = 1u << 3 | 1u << 5};
    dma_queue_t *own[FAKE_PER_ENGINE], *queue;
    dma_queues_t q;

    begin(&usual, &q);
    fake_occupy(3, 3);
    for (int i = 0; i < FAKE_PER_ENGINE - 3; i++) {
        own[i] = dma_queue_get_exclusive(&q, &pick, 0);
        ck_assert_ptr_nonnull(own[i]);
    }
    ck_assert_ptr_null(dma_queue_get_exclusive(&q, &pick, 0));
    ck_assert_str_eq(q.refusal, "no queue is free on the engine");
    queue = dma_queue_get(&q, &pick, 0);
    ck_assert_int_eq(fake_engine_of(queue->made.doorbell), 5);
    pick.candidates = 1u << 3;
    ck_assert_ptr_null(dma_queue_get(&q, &pick, 0));
    dma_queue_put_exclusive(&q, own[0]);
    own[0] = dma_queue_get_exclusive(&q, &pick, 0); /* room again */
    ck_assert_ptr_nonnull(own[0]);
    for (int i = 0; i < FAKE_PER_ENGINE - 3; i++) {
        fake_copies(&q, own[i], 5);
    }
    end(&q);
}
END_TEST

/* Nothing is free behind the first queue; where that is not there either, nothing opens. */
START_TEST(nothing_free)
{
    char why[DMA_PROVIDER_WHY_BYTES];
    dma_queues_t q;

    begin(&usual, &q);
    for (unsigned i = 0; i < FAKE_ENGINES; i++) {
        fake_occupy(i, FAKE_PER_ENGINE);
    }
    ck_assert_ptr_null(dma_queue_get(&q, &on_link, 0));
    ck_assert_str_eq(q.refusal, "no queue is free on the engine");
    end(&q);
    fake_begin(&usual);
    for (unsigned i = 0; i < FAKE_HOST_ENGINES; i++) {
        fake_occupy(i, FAKE_PER_ENGINE);
    }
    ck_assert_int_eq(open_queues(&q, why), DMA_UNSUPPORTED);
    ck_assert_str_eq(why, "kfd: no queue is free on the engine");
    fake_end();
}
END_TEST

START_TEST(device_full)
{
    dma_queues_t q;

    begin(&(fake_options_t){.max_queues = 2}, &q);
    ck_assert_ptr_nonnull(dma_queue_get(&q, &on_link, 0));
    ck_assert_ptr_null(dma_queue_get_exclusive(&q, &on_link, 0));
    ck_assert_str_eq(q.refusal, "the device has all the queues it may have");
    end(&q);
}
END_TEST

/* Where memory is not a mapping of its own the kernel refuses. */
START_TEST(inexact)
{
    for (int i = 0; i < 2; i++) {
        ck_assert_str_eq(reason_of(&(fake_options_t){.extra = i ? PAGE : 0, .cut = i ? 0 : PAGE}),
                         "kfd: the kernel does not accept the engine or the memory");
        ck_assert_uint_eq(fake_counts.queues, 0);
    }
}
END_TEST

/* Where the kernel makes no executable memory, or no doorbells, there are no queues, and the reason says so. */
START_TEST(no_ring)
{
    static const struct {
        fake_options_t options;
        const char *refusal;
    } cases[] = {
        {{.no_ring_memory = true}, "kfd: the kernel does not accept memory for a ring"},
        {{.no_ring_map = true}, "kfd: the kernel does not map memory for a ring"},
        {{.no_doorbells = true}, "kfd: the doorbells cannot be mapped"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        ck_assert_str_eq(reason_of(&cases[i].options), cases[i].refusal);
    }
}
END_TEST

/* Pages that the kernel does not let go of are not given back: others would find them there under the GPU's hands. */
START_TEST(ring_kept)
{
    dma_queues_t q;

    begin(&(fake_options_t){.keep_rings = true}, &q);
    dma_queues_close(&q);
    ck_assert_uint_eq(fake_counts.queues, 0);
    ck_assert_uint_eq(fake_counts.rings, 1);
    ck_assert_uint_eq(fake_counts.pages, 1);
    fake_sweep();
    fake_end();
}
END_TEST

START_TEST(no_such_engine)
{
    dma_map_pick_t pick = {.kind = DMA_MAP_ENGINE, .engine = FAKE_ENGINES};
    dma_queues_t q;

    begin(&usual, &q);
    ck_assert_ptr_null(dma_queue_get_exclusive(&q, &pick, 0));
    ck_assert_str_eq(q.refusal, "the kernel does not accept the engine or the memory");
    end(&q);
}
END_TEST

/* Before 1.17 no queue names its engine: it is one of the links', and nobody has one alone. */
START_TEST(too_old)
{
    dma_map_pick_t pick = {.kind = DMA_MAP_ENGINE, .engine = 5};
    dma_queues_t q;
    dma_queue_t *queue;

    begin(&(fake_options_t){.minor = 16}, &q);
    ck_assert(!q.provider->names_engines);
    queue = dma_queue_get(&q, &pick, 3);
    ck_assert_ptr_nonnull(queue);
    ck_assert_int_eq(queue->kind, DMA_MAP_XGMI);
    fake_copies(&q, queue, 3);
    ck_assert_ptr_null(dma_queue_get_exclusive(&q, &pick, 3));
    end(&q);
}
END_TEST

/* The driver's file is opened last: not even that where the rest is not as it must be. */
START_TEST(refusals)
{
    ck_assert_str_eq(reason_of(&(fake_options_t){.no_rocr = true}), "kfd: ROCr is not loaded");
    ck_assert_str_eq(reason_of(&(fake_options_t){.rocr_down = true}), "kfd: ROCr does not run");
    ck_assert_str_eq(reason_of(&(fake_options_t){.hidden = true}), "kfd: ROCr does not show the device");
    ck_assert_str_eq(reason_of(&(fake_options_t){.no_address = true}), "kfd: ROCr does not show the device");
    ck_assert_str_eq(reason_of(&(fake_options_t){.twins = true}),
                     "kfd: ROCr shows several devices with this PCI address");
    ck_assert_str_eq(reason_of(&(fake_options_t){.no_fine = true}), "kfd: ROCr has no fine-grained host memory");
    ck_assert_uint_eq(fake_counts.system, 0);
    ck_assert_str_eq(reason_of(&(fake_options_t){.open_error = EACCES}),
                     "kfd: the driver's file cannot be opened: Permission denied");
    ck_assert_str_eq(reason_of(&(fake_options_t){.open_error = ENOENT}),
                     "kfd: the driver's file cannot be opened: No such file or directory");
    ck_assert_str_eq(reason_of(&(fake_options_t){.major = 2}), "kfd: its interface is not the one we know");
}
END_TEST

/* Memory is of the pool that is near, fine-grained, and not kept for kernels if there is another. */
START_TEST(pools)
{
    static const struct {
        fake_options_t options;
        unsigned pool;
    } cases[] = {
        {{0}, FAKE_POOL_FINE},
        {{.only_kernarg = true}, FAKE_POOL_KERNARG},
        {{.old_rocr = true}, FAKE_POOL_FINE_DISTANT},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        dma_queues_t q;

        begin(&cases[i].options, &q);
        fake_copies(&q, dma_queue_get(&q, &on_host, 0), 1);
        ck_assert_uint_eq(fake_counts.pool, cases[i].pool);
        end(&q);
    }
}
END_TEST

START_TEST(interrupted)
{
    dma_queues_t q;

    begin(&(fake_options_t){.interruptions = 3}, &q);
    fake_copies(&q, dma_queue_get(&q, &on_host, 0), 1);
    end(&q);
}
END_TEST

/* All that a process does with queues, as far as it gets; true: all the way. */
static bool whole_life(void)
{
    dma_map_pick_t pick = {.kind = DMA_MAP_ENGINE, .engine = 4};
    char why[DMA_PROVIDER_WHY_BYTES];
    dma_queue_t *first, *second, *own;
    dma_queues_t q;
    bool all;

    if (open_queues(&q, why) != DMA_OK) {
        ck_assert_uint_gt(strlen(why), 0);
        return false;
    }
    first = dma_queue_get(&q, &on_host, 0);
    second = dma_queue_get(&q, &pick, 3);
    own = dma_queue_get_exclusive(&q, &pick, 3);
    all = first && second && own && first != second;
    if (own) {
        dma_queue_put_exclusive(&q, own);
    }
    dma_queues_close(&q);
    return all;
}

/* Whichever call fails, nothing is left over. */
START_TEST(every_call_fails)
{
    static const int errors[] = {ENOMEM, EINVAL, EPERM, ENODEV, EBADF};
    unsigned call = 0, ways = 0;
    bool all;

    do {
        call++;
        fake_begin(&(fake_options_t){.fail_call = call, .fail_error = errors[call % 5]});
        all = whole_life();
        ways += !all;
        fake_end();
    } while (fake_counts.calls >= call);
    ck_assert(all);
    ck_assert_uint_gt(ways, 15);
}
END_TEST

/* A child has no queues, asks the kernel for nothing, and the parent does not notice. */
START_TEST(child)
{
    dma_queues_t q;
    dma_queue_t *queue, *own;
    uint64_t unused;
    pid_t pid;
    int status;

    begin(&usual, &q);
    queue = dma_queue_get(&q, &on_host, 0);
    own = dma_queue_get_exclusive(&q, &on_link, 0);
    ck_assert(dma_queues_is_owner(&q));
    pid = fork();
    ck_assert_int_ge(pid, 0);
    if (!pid) {
        unsigned calls = fake_counts.calls + fake_counts.system;
        bool none = msync(queue->made.ring, PAGE, MS_ASYNC) == -1 && errno == ENOMEM && !dma_queues_is_owner(&q) &&
                    !dma_queue_get(&q, &on_host, 0) && !dma_queue_get_exclusive(&q, &on_link, 0) &&
                    !dma_queues_alloc(&q, PAGE, &unused);

        dma_queue_put_exclusive(&q, own);
        dma_queues_close(&q);
        _exit(none && calls == fake_counts.calls + fake_counts.system ? 0 : 1);
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    ck_assert(dma_queues_is_owner(&q));
    fake_copies(&q, queue, 9);
    fake_copies(&q, own, 10);
    end(&q);
}
END_TEST

/* A queue that waits is left to the end of the process, and with it all that it needs. */
START_TEST(still_waiting)
{
    static struct {
        dma_provider_t *provider;
        dma_queue_t *queue;
    } left; /* on purpose, and so known to who looks for leaks */
    dma_queues_t q;
    dma_queue_t *waiting, *idle;
    unsigned char *memory;
    unsigned allocations;
    uint64_t addr;

    begin(&usual, &q);
    memory = dma_queues_alloc(&q, PAGE, &addr);
    idle = dma_queue_get(&q, &on_host, 0);
    waiting = dma_queue_get_exclusive(&q, &on_link, 0);
    fake_use_poll(waiting, addr);
    dma_queue_put_exclusive(&q, waiting);
    ck_assert_uint_eq(fake_counts.queues, 2);
    fake_copies(&q, idle, 3);
    allocations = fake_counts.allocations;
    left.provider = q.provider;
    left.queue = waiting;
    dma_queues_close(&q);
    ck_assert_uint_eq(fake_counts.queues, 1);
    ck_assert_uint_eq(fake_counts.allocations, allocations - 1); /* pointers of the idle one */
    ck_assert_uint_eq(fake_counts.rings, 1);
    ck_assert_uint_eq(fake_counts.files, 1);
    ck_assert(left.provider && left.queue);
    memory[0] = 1; /* whom it waited for comes after all: it does no harm */
    fake_run();
    ck_assert_uint_eq(memory[64], 1);
    fake_sweep();
    fake_end();
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

/* ROCr lists GPUs, and partitions of a GPU, in an order of its own. */
START_TEST(which)
{
    static const char *const machines[] = {"mi300x-spx", "mi300x-cpx", "mi300x-dpx-functions"};
    dma_topo_t *topo = tree_read(machines[_i]);
    dma_rocr_handle_t agent, before = {0};
    const char *reason;
    dma_rocr_t rocr;

    fake_begin(&(fake_options_t){.topo = topo});
    ck_assert_int_eq(fake_find_rocr(&rocr, &reason), DMA_OK);
    for (uint32_t i = 0; i < topo->ngpus; i++) {
        const dma_rocr_address_t address = {topo->gpus[i].domain, dma_topo_location_id(&topo->gpus[i])};

        ck_assert_msg(dma_rocr_find_gpu(&rocr, &address, &agent, &reason) == DMA_OK, "%s", reason);
        ck_assert_uint_eq(agent.handle, i ? before.handle + 1 : agent.handle);
        before = agent;
    }
    fake_end();
    dma_topo_free(topo);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("queues from the kernel driver");

    unit_test(suite, kinds, 4);
    unit_test(suite, layout, 4);
    unit_test(suite, full, 4);
    unit_test(suite, nothing_free, 4);
    unit_test(suite, device_full, 4);
    unit_test(suite, inexact, 4);
    unit_test(suite, no_ring, 4);
    unit_test(suite, ring_kept, 4);
    unit_test(suite, no_such_engine, 4);
    unit_test(suite, too_old, 4);
    unit_test(suite, refusals, 4);
    unit_test(suite, pools, 4);
    unit_test(suite, interrupted, 4);
    unit_test(suite, every_call_fails, 20);
    unit_test(suite, child, 4);
    unit_test(suite, still_waiting, 4);
    unit_test(suite, come_and_go, 20);
    unit_loop(suite, which, 0, 3, 4);
    return unit_main(suite);
}
