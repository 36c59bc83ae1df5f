/*
 * What the emulated driver refuses: every check of its calls on /dev/kfd, with the error number of Linux's amdkfd, beside a
 * call that is granted. A refused call leaves what there was.
 */
#include <check.h>

#include "libdriver.h"

START_TEST(spaces)
{
    driver_begin();
    int other = emu_file_open(0, O_RDWR), driver = emu_file_open(EMU_FILE_DRIVER, O_RDWR), again = dup(driver_nodes[0]);
    ROW(EINVAL, WORDS(ACQUIRE, 9999, driver_id(UNBOUND)));
    ROW(EINVAL, WORDS(ACQUIRE, (uint32_t)driver, driver_id(UNBOUND)));
    ROW(EINVAL, WORDS(ACQUIRE, (uint32_t)other, driver_id(UNBOUND))); /* another GPU's */
    ROW(EINVAL, WORDS(ACQUIRE, (uint32_t)other, 1));
    ROW(EINVAL, WORDS(ACQUIRE, (uint32_t)other, driver_id(HIDDEN)));
    ROW(EBUSY, WORDS(ACQUIRE, (uint32_t)other, driver_id(0)));
    ROW(0, WORDS(ACQUIRE, (uint32_t)again, driver_id(0)));
    close(other);
    close(driver);
    close(again);
}
END_TEST

/* A GPU that there is, but on which the process has no address space. */
START_TEST(unbound)
{
    driver_begin();
    uint32_t done, id = driver_id(UNBOUND);
    struct kfd_alloc made = driver_memory(0, PAGE, GTT);
    ROW(ENODEV, CALL(ALLOC, kfd_alloc, .va = 0x1000000, .bytes = PAGE, .gpu_id = id, .flags = GTT));
    ROW(ENODEV, driver_map_for(MAP, made.handle, (int[]){0, UNBOUND}, 2, &done));
    ck_assert_uint_eq(done, 1);
    ROW(0, driver_map_for(UNMAP, made.handle, (int[]){0}, 1, &done));
    ROW(ENODEV, driver_map_for(MAP, (uint32_t)made.handle | (uint64_t)id << 32, (int[]){0}, 1, &done));
    ROW(ENODEV, WORDS(SCRATCH, 0, 0, id, 0));
    ROW(ESRCH, WORDS(MEMORY_POLICY, 0, 0, 0, 0, id, 0, 0, 0));
    ROW(ESRCH, WORDS(TRAP_HANDLER, 0, 0, 0, 0, id, 0));
    ROW(ESRCH, CALL(CREATE_QUEUE, kfd_create_queue, .gpu_id = id, .ring_bytes = RING, .type = 1));
    ROW(0, CALL(FREE, free, made.handle));
}
END_TEST

START_TEST(allocations)
{
    driver_begin();
    uint32_t id = driver_id(0);
    uint64_t at = driver_reserve(4 * PAGE), user = driver_own_pages(2 * PAGE), gone = driver_own_pages(PAGE);
    munmap((void *)(uintptr_t)gone, PAGE);
    ROW(EINVAL, CALL(ALLOC, kfd_alloc, .va = at, .bytes = 0, .gpu_id = id, .flags = GTT));
    ROW(EINVAL, CALL(ALLOC, kfd_alloc, .va = at, .bytes = PAGE, .gpu_id = 1, .flags = GTT));
    ROW(EINVAL, CALL(ALLOC, kfd_alloc, .va = at, .bytes = PAGE, .gpu_id = driver_id(HIDDEN), .flags = GTT));
    ROW(EINVAL, CALL(ALLOC, kfd_alloc, .va = at, .bytes = PAGE, .gpu_id = id, .flags = (uint32_t)RW));
    ROW(EINVAL, CALL(ALLOC, kfd_alloc, .va = at, .bytes = PAGE, .gpu_id = id, .flags = DOORBELL));
    ROW(EINVAL, CALL(ALLOC, kfd_alloc, .va = at, .bytes = 2 * PAGE, .gpu_id = id, .flags = MMIO));
    ROW(EINVAL, CALL(ALLOC, kfd_alloc, .va = at, .bytes = PAGE, .gpu_id = id, .flags = USERPTR));
    ROW(EFAULT, CALL(ALLOC, kfd_alloc, .va = at, .bytes = PAGE, .gpu_id = id, .flags = USERPTR, .mmap_offset = gone));
    ROW(ENOMEM, CALL(ALLOC, kfd_alloc, .va = at, .bytes = 1ull << 44, .gpu_id = id, .flags = VRAM));
    struct kfd_alloc doorbell = driver_memory(0, EMU_DOORBELL_BYTES, DOORBELL), vram = driver_memory(0, PAGE, VRAM);
    struct kfd_alloc own = {.va = at, .bytes = 2 * PAGE, .gpu_id = id, .flags = USERPTR, .mmap_offset = user};
    ROW(0, driver_call(ALLOC, &own, sizeof own));
    ROW(EINVAL, CALL(ALLOC, kfd_alloc, .va = at + PAGE, .bytes = PAGE, .gpu_id = id, .flags = GTT)); /* in use */
    ROW(0, CALL(FREE, free, own.handle));
    ROW(0, CALL(FREE, free, doorbell.handle));
    ROW(0, CALL(FREE, free, vram.handle));
    munmap((void *)(uintptr_t)user, 2 * PAGE);
}
END_TEST

/* What is free of a GPU's memory counts what this process has of it, and no imports. */
START_TEST(available)
{
    driver_begin();
    struct kfd_available before = {.gpu_id = driver_id(0)}, now = {.gpu_id = driver_id(0)};
    ROW(EINVAL, CALL(AVAILABLE, kfd_available, .gpu_id = driver_id(HIDDEN)));
    ROW(0, driver_call(AVAILABLE, &before, sizeof before));
    struct kfd_alloc made = driver_memory(0, 3 * PAGE, VRAM);
    ROW(0, driver_call(AVAILABLE, &now, sizeof now));
    ck_assert_uint_eq(before.bytes - now.bytes, 3 * PAGE);
    ROW(ENOMEM, CALL(ALLOC, kfd_alloc, .va = driver_reserve(PAGE), .bytes = now.bytes + PAGE, .gpu_id = driver_id(0),
                     .flags = VRAM));
    ROW(0, CALL(FREE, free, made.handle));
    ROW(0, driver_call(AVAILABLE, &now, sizeof now));
    ck_assert_uint_eq(before.bytes, now.bytes);
}
END_TEST

START_TEST(mappings)
{
    driver_begin();
    uint32_t done;
    struct kfd_alloc made = driver_memory(0, PAGE, VRAM);
    uint64_t elsewhere = (uint32_t)made.handle | (uint64_t)driver_id(1) << 32; /* the number is the other GPU's */
    ROW(EINVAL, driver_map_for(MAP, made.handle, NULL, 0, &done));
    ROW(EINVAL, CALL(MAP, kfd_map, .handle = made.handle, .gpu_ids = (uintptr_t)&done, .n_gpus = 1, .n_success = 2));
    ROW(EINVAL, driver_map_for(MAP, made.handle, (int[]){0, HIDDEN}, 2, &done));
    ck_assert_uint_eq(done, 1);
    ROW(EINVAL, driver_map_for(MAP, (uint32_t)made.handle | 1ull << 32, (int[]){0}, 1, &done));
    ROW(ENOMEM, driver_map_for(MAP, made.handle + 1000, (int[]){0}, 1, &done));
    ROW(ENOMEM, driver_map_for(MAP, elsewhere, (int[]){0}, 1, &done));
    ROW(0, driver_map_for(MAP, made.handle, (int[]){0, 1}, 2, &done)); /* once more */
    ck_assert_uint_eq(done, 2);
    ROW(EBUSY, CALL(FREE, free, made.handle));
    ROW(EINVAL, CALL(FREE, free, elsewhere));
    ROW(EINVAL, CALL(FREE, free, made.handle + 1000));
    ROW(EINVAL, driver_map_for(UNMAP, made.handle, NULL, 0, &done));
    ROW(ENOMEM, driver_map_for(UNMAP, elsewhere, (int[]){0}, 1, &done));
    ROW(0, driver_map_for(UNMAP, made.handle, (int[]){1}, 1, &done));
    ROW(EINVAL, driver_map_for(UNMAP, made.handle, (int[]){1}, 1, &done)); /* is not mapped there */
    ROW(EBUSY, CALL(FREE, free, made.handle));
    driver_give_back(0, &made);
    ROW(EINVAL, CALL(FREE, free, made.handle));
}
END_TEST

struct parts {
    struct kfd_alloc ring, pointers[2];
};

static struct parts parts(void)
{
    return (struct parts){driver_mapped(0, RING, (uint32_t)(GTT | EXECUTABLE | RW)),
                          {driver_mapped(0, PAGE, (uint32_t)(GTT | RW)), driver_mapped(0, PAGE, (uint32_t)(GTT | RW))}};
}

static struct kfd_create_queue queue_on(const struct parts *p)
{
    return (struct kfd_create_queue){.ring = p->ring.va,
                                     .ring_bytes = RING,
                                     .write_pointer = p->pointers[0].va,
                                     .read_pointer = p->pointers[1].va + 128,
                                     .gpu_id = driver_id(0),
                                     .type = 4,
                                     .percentage = 100,
                                     .priority = 7,
                                     .engine = 1};
}

/* A queue that differs from one that would be granted. */
#define QUEUE(...)                                                                                                     \
    __extension__({                                                                                                    \
        struct kfd_create_queue args = queue_on(&p);                                                                   \
        __VA_ARGS__;                                                                                                   \
        driver_call(CREATE_QUEUE, &args, sizeof args);                                                                 \
    })

START_TEST(queues_made)
{
    driver_begin();
    struct parts p = parts();
    struct kfd_alloc plain = driver_mapped(0, RING, (uint32_t)(GTT | RW)),
                     peers = driver_mapped(1, RING, (uint32_t)(GTT | EXECUTABLE | RW));
    ROW(EINVAL, QUEUE(args.percentage = 101));
    ROW(EINVAL, QUEUE(args.priority = 16));
    ROW(EINVAL, QUEUE(args.ring_bytes = RING - PAGE)); /* no power of two */
    ROW(EINVAL, QUEUE(args.percentage = 101; args.type = 9));
    ROW(KFD_NOT_SUPPORTED, QUEUE(args.type = 9));
    ROW(KFD_NOT_SUPPORTED, QUEUE(args.type = 9; args.gpu_id = 1));
    ROW(EINVAL, QUEUE(args.gpu_id = 1));
    ROW(EINVAL, QUEUE(args.gpu_id = driver_id(HIDDEN)));
    ROW(ESRCH, QUEUE(args.gpu_id = driver_id(UNBOUND)));
    ROW(EINVAL, QUEUE(args.engine = 99)); /* no GPU has so many */
    ROW(EINVAL, QUEUE(args.ring_bytes = RING / 2));
    ROW(EINVAL, QUEUE(args.ring_bytes = RING * 2));
    ROW(EINVAL, QUEUE(args.ring += PAGE; args.ring_bytes = PAGE));
    ROW(EINVAL, QUEUE(args.ring = plain.va)); /* a violation besides */
    ROW(EINVAL, QUEUE(args.ring = peers.va));
    ROW(EINVAL, QUEUE(args.write_pointer = p.ring.va));
    ROW(EINVAL, QUEUE(args.read_pointer = p.ring.va));
    ROW(EINVAL, QUEUE(args.read_pointer = driver_reserve(PAGE)));
    ck_assert(!emu_queue_any());
    driver_config()->kfd_minor = 16;
    ROW(KFD_NOT_SUPPORTED, QUEUE());
    ROW(0, QUEUE(args.type = 1));
    driver_config()->kfd_minor = 17;
    ROW(0, QUEUE(args.percentage = 0x364)); /* the second byte is no percentage */
    ROW(0, WORDS(DESTROY_QUEUE, 1, 0));
    ROW(0, WORDS(DESTROY_QUEUE, 2, 0));
    driver_give_back(0, &plain);
    driver_give_back(1, &peers);
}
END_TEST

/* A compute queue needs a buffer for the end of its kernels, and room for its waves. */
START_TEST(compute_queues)
{
    driver_begin();
    struct parts p = parts();
    struct kfd_alloc eop = driver_mapped(0, PAGE, (uint32_t)(GTT | RW)),
                     area = driver_mapped(0, 64 << 20, (uint32_t)(GTT | RW));
    ROW(EINVAL, QUEUE(args.type = 2; args.eop = eop.va; args.eop_bytes = PAGE));
    ROW(EINVAL, QUEUE(args.type = 2; args.eop = eop.va; args.eop_bytes = 2 * PAGE));
    ROW(EINVAL, QUEUE(args.type = 2; args.save_area = area.va; args.save_area_bytes = 64 << 20));
    ck_assert(!emu_queue_any());
}
END_TEST

START_TEST(queues_kept)
{
    driver_begin();
    uint32_t done;
    struct parts p = parts();
    struct kfd_create_queue made = queue_on(&p);
    ROW(0, driver_call(CREATE_QUEUE, &made, sizeof made));
    /* Nothing of it can be taken away. */
    ROW(EBUSY, driver_map_for(UNMAP, p.ring.handle, (int[]){0}, 1, &done));
    ROW(EBUSY, driver_map_for(UNMAP, p.pointers[0].handle, (int[]){0}, 1, &done));
    ROW(EBUSY, driver_map_for(UNMAP, p.pointers[1].handle, (int[]){0}, 1, &done));
    ROW(EBUSY, CALL(FREE, free, p.ring.handle));
    ROW(EINVAL, CALL(UPDATE_QUEUE, kfd_update_queue, .id = made.id, .ring_bytes = RING, .percentage = 101));
    ROW(EINVAL, CALL(UPDATE_QUEUE, kfd_update_queue, .id = made.id, .ring_bytes = RING, .priority = 16));
    ROW(EINVAL, CALL(UPDATE_QUEUE, kfd_update_queue, .id = made.id, .ring_bytes = RING - 1));
    ROW(EFAULT, CALL(UPDATE_QUEUE, kfd_update_queue, .id = made.id + 1, .ring_bytes = RING));
    ROW(0, CALL(UPDATE_QUEUE, kfd_update_queue, .id = made.id, .ring_bytes = RING, .percentage = 100));
    ROW(EINVAL, CALL(CU_MASK, kfd_set_cu_mask, .id = made.id, .n_bits = 0));
    ROW(EINVAL, CALL(CU_MASK, kfd_set_cu_mask, .id = made.id, .n_bits = 33));
    ROW(EFAULT, CALL(CU_MASK, kfd_set_cu_mask, .id = made.id + 1, .n_bits = 32));
    ROW(0, CALL(CU_MASK, kfd_set_cu_mask, .id = made.id, .n_bits = 32));
    ROW(EBUSY, WORDS(XNACK, 0));
    ROW(EBUSY, WORDS(XNACK, 1));
    ROW(0, WORDS(XNACK, UINT32_MAX));
    ROW(EINVAL, WORDS(DESTROY_QUEUE, made.id + 1, 0));
    ROW(0, WORDS(DESTROY_QUEUE, made.id, 0));
    ROW(EINVAL, WORDS(DESTROY_QUEUE, made.id, 0));
    ROW(0, WORDS(XNACK, 0));
    ROW(EPERM, WORDS(XNACK, 1));
    driver_give_back(0, &p.ring);
    driver_give_back(0, &p.pointers[0]);
    driver_give_back(0, &p.pointers[1]);
}
END_TEST

static int wait_for(uint32_t id)
{
    struct kfd_event_data data = {.id = id};
    return CALL(WAIT_EVENTS, kfd_wait_events, .events = (uintptr_t)&data, .n_events = 1);
}

START_TEST(events)
{
    driver_begin();
    struct kfd_alloc small = driver_memory(0, PAGE, GTT), page = driver_memory(0, EMU_EVENTS * sizeof(uint64_t), GTT);
    struct kfd_create_event made = {.page = page.handle}, fault = {.type = EMU_EVENT_MEMORY};
    ROW(EINVAL, CALL(CREATE_EVENT, kfd_create_event, .page = small.handle));
    ROW(EINVAL, CALL(CREATE_EVENT, kfd_create_event, .page = page.handle + 1000));
    ROW(0, CALL(FREE, free, small.handle));
    ROW(0, driver_call(CREATE_EVENT, &made, sizeof made));
    ROW(EPERM, CALL(FREE, free, page.handle));                              /* the driver writes there */
    ROW(EINVAL, CALL(CREATE_EVENT, kfd_create_event, .page = page.handle)); /* there is one */
    ROW(0, driver_call(CREATE_EVENT, &fault, sizeof fault));
    ROW(EINVAL, WORDS(SET_EVENT, made.id + 1, 0));
    ROW(EINVAL, WORDS(RESET_EVENT, made.id + 1, 0));
    ROW(EINVAL, WORDS(SET_EVENT, fault.id, 0)); /* no program signals these */
    ROW(EINVAL, WORDS(RESET_EVENT, fault.id, 0));
    ROW(EINVAL, wait_for(made.id + 1));
    ROW(0, WORDS(SET_EVENT, made.id, 0));
    ROW(0, wait_for(made.id));
    ROW(0, WORDS(RESET_EVENT, made.id, 0));
    ROW(0, WORDS(DESTROY_EVENT, made.id, 0));
    ROW(EINVAL, WORDS(DESTROY_EVENT, made.id, 0));
    ROW(0, WORDS(DESTROY_EVENT, fault.id, 0));
}
END_TEST

/* Attributes of `bytes` at an address; one of them. */
static int attribute(uint64_t at, uint64_t bytes, uint32_t op, uint32_t type, uint32_t value)
{
    union {
        struct kfd_svm svm;
        char room[sizeof(struct kfd_svm) + sizeof(struct kfd_svm_attribute)];
    } args = {.svm = {.start = at, .bytes = bytes, .op = op, .n_attributes = 1}};
    args.svm.attributes[0] = (struct kfd_svm_attribute){type, value};
    return driver_call(SVM, &args, sizeof args.svm);
}

START_TEST(attributes)
{
    enum { SET, GET, PREFERRED = 0, PREFETCH, ACCESS, IN_PLACE, NO_ACCESS, FLAGS };
    driver_begin();
    uint64_t at = driver_own_pages(4 * PAGE), gone = driver_own_pages(PAGE), user = driver_own_pages(PAGE);
    munmap((void *)(uintptr_t)gone, PAGE);
    struct kfd_alloc registered = {
        .va = user, .bytes = PAGE, .gpu_id = driver_id(0), .flags = USERPTR, .mmap_offset = user};
    ROW(0, driver_call(ALLOC, &registered, sizeof registered));
    ROW(EINVAL, attribute(at + 1, PAGE, SET, IN_PLACE, driver_id(0)));
    ROW(EINVAL, attribute(at, PAGE + 1, SET, IN_PLACE, driver_id(0)));
    ROW(EINVAL, attribute(0, PAGE, SET, IN_PLACE, driver_id(0)));
    ROW(EINVAL, attribute(at, 0, SET, IN_PLACE, driver_id(0)));
    ROW(EINVAL, attribute(at, PAGE, 2, IN_PLACE, driver_id(0)));
    ROW(EINVAL, attribute(at, PAGE, SET, 8, 0));
    ROW(EINVAL, attribute(at, PAGE, SET, ACCESS, 1));
    ROW(EINVAL, attribute(at, PAGE, SET, NO_ACCESS, driver_id(HIDDEN)));
    ROW(EINVAL, attribute(at, PAGE, SET, PREFERRED, 1));
    ROW(EINVAL, attribute(at, PAGE, SET, PREFETCH, UINT32_MAX));
    ROW(EINVAL, attribute(gone, PAGE, SET, ACCESS, 1)); /* attributes come before addresses */
    ROW(EFAULT, attribute(gone, PAGE, SET, IN_PLACE, driver_id(0)));
    ROW(EFAULT, attribute(gone, PAGE, GET, FLAGS, 0));
    ROW(EADDRINUSE, attribute(user, PAGE, SET, IN_PLACE, driver_id(0)));
    ROW(EADDRINUSE, attribute(user, PAGE, GET, FLAGS, 0));
    ROW(EINVAL, attribute(at, PAGE, GET, IN_PLACE, driver_id(0))); /* only SET knows it */
    const char *why;
    ck_assert_ptr_null(emu_vm_translate(emu_node_of(0), at, PAGE, true, &why));
    ROW(0, attribute(at, PAGE, SET, PREFERRED, UINT32_MAX));
    ROW(0, attribute(at, PAGE, SET, PREFETCH, 0));
    ROW(0, attribute(at, 2 * PAGE, SET, IN_PLACE, driver_id(0)));
    ck_assert_ptr_nonnull(emu_vm_translate(emu_node_of(0), at, 2 * PAGE, true, &why));
    ck_assert_ptr_null(emu_vm_translate(emu_node_of(0), at, 3 * PAGE, true, &why));
    ROW(0, attribute(at, PAGE, SET, NO_ACCESS, driver_id(0)));
    ck_assert_ptr_null(emu_vm_translate(emu_node_of(0), at, PAGE, true, &why));
    ck_assert_ptr_nonnull(emu_vm_translate(emu_node_of(0), at + PAGE, PAGE, true, &why));
    ROW(0, CALL(FREE, free, registered.handle));
    driver_config()->kfd_minor = 4;
    ROW(ENOTTY, attribute(at, PAGE, SET, IN_PLACE, driver_id(0)));
}
END_TEST

START_TEST(shared)
{
    driver_begin();
    int plain = memfd_create("plain", MFD_CLOEXEC);
    uint64_t user = driver_own_pages(PAGE), at = driver_reserve(2 * PAGE);
    struct kfd_alloc made = driver_memory(1, 2 * PAGE, VRAM);
    struct kfd_alloc own = {.va = user, .bytes = PAGE, .gpu_id = driver_id(0), .flags = USERPTR, .mmap_offset = user};
    struct kfd_export_dmabuf out = {.handle = made.handle};
    struct kfd_dmabuf_info info;
    ROW(0, driver_call(ALLOC, &own, sizeof own));
    ROW(EINVAL, CALL(EXPORT, kfd_export_dmabuf, .handle = made.handle + 1000));
    ROW(EPERM, CALL(EXPORT, kfd_export_dmabuf, .handle = own.handle)); /* the process's own pages */
    ROW(0, driver_call(EXPORT, &out, sizeof out));
    ROW(EBADF, CALL(DMABUF_INFO, kfd_dmabuf_info, .fd = 9999));
    ROW(EINVAL, CALL(DMABUF_INFO, kfd_dmabuf_info, .fd = plain));
    info = (struct kfd_dmabuf_info){.fd = out.fd};
    ROW(0, driver_call(DMABUF_INFO, &info, sizeof info));
    ck_assert_uint_eq(info.bytes, 2 * PAGE);
    ck_assert_uint_eq(info.gpu_id, driver_id(1));
    ROW(EINVAL, CALL(IMPORT, kfd_import_dmabuf, .va = at, .gpu_id = 1, .fd = out.fd));
    ROW(ENODEV, CALL(IMPORT, kfd_import_dmabuf, .va = at, .gpu_id = driver_id(UNBOUND), .fd = out.fd));
    ROW(EBADF, CALL(IMPORT, kfd_import_dmabuf, .va = at, .gpu_id = driver_id(0), .fd = 9999));
    ROW(EINVAL, CALL(IMPORT, kfd_import_dmabuf, .va = at, .gpu_id = driver_id(0), .fd = plain));
    struct kfd_import_dmabuf in = {.va = at, .gpu_id = driver_id(0), .fd = out.fd};
    ROW(0, driver_call(IMPORT, &in, sizeof in));
    ROW(0, CALL(FREE, free, in.handle));
    driver_config()->kfd_minor = 11;
    ROW(ENOTTY, CALL(EXPORT, kfd_export_dmabuf, .handle = made.handle));
    ROW(0, CALL(FREE, free, made.handle));
    ROW(0, CALL(FREE, free, own.handle));
    close(out.fd);
    close(plain);
}
END_TEST

START_TEST(modes)
{
    driver_begin();
    ROW(EINVAL, WORDS(MEMORY_POLICY, 0, 0, 0, 0, driver_id(0), 2, 0, 0));
    ROW(EINVAL, WORDS(MEMORY_POLICY, 0, 0, 0, 0, driver_id(0), 0, 2, 0));
    ROW(EINVAL, WORDS(MEMORY_POLICY, 0, 0, 0, 0, 1, 0, 0, 0));
    ROW(0, WORDS(MEMORY_POLICY, 0, 0, 0, 0, driver_id(0), 1, 1, 0));
    ROW(EINVAL, WORDS(TRAP_HANDLER, 0, 0, 0, 0, 1, 0));
    ROW(EINVAL, WORDS(SCRATCH, 0, 0, 1, 0));
    ROW(EINVAL, WORDS(TILES, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0));
    ROW(0, WORDS(RUNTIME, 0, 0, 1, 0));
    ROW(EBUSY, WORDS(RUNTIME, 0, 0, 1, 0));
    ROW(0, WORDS(RUNTIME, 0, 0, 0, 0));
    ROW(0, WORDS(RUNTIME, 0, 0, 1, 0));
    ROW(0, WORDS(RUNTIME, 0, 0, 0, 0));
    for (unsigned number = 0x0d; number <= 0x10; number++)
        ROW(EPERM, WORDS(number, 0, 0)); /* the old debugger */
    ROW(ENOTTY, WORDS(0x70, 0, 0));
    driver_config()->kfd_minor = 12;
    ROW(ENOTTY, WORDS(RUNTIME, 0, 0, 1, 0));
    driver_config()->kfd_minor = 8;
    ROW(ENOTTY, CALL(AVAILABLE, kfd_available, .gpu_id = driver_id(0)));
}
END_TEST

/* Time is what it is called with. Each eviction ends; queues run as long as asked for, on average. */
START_TEST(evictions)
{
    enum { EVERY = 1000, MOST = 300, TICKS = 1000000 };
    struct emu_evict never = {.most_ns = MOST}, evict = {.every_ns = EVERY, .most_ns = MOST, .random = unit_seed()};
    unsigned in_row = 0, off = 0;
    ck_assert(!emu_evicted(&never, 1) && !emu_evicted(&never, 1 << 30));
    for (uint64_t now = 1; now <= TICKS; now++) {
        bool is = emu_evicted(&evict, now);
        off += is;
        in_row = is ? in_row + 1 : 0;
        ck_assert_uint_le(in_row, MOST + 1);
    }
    ck_assert_uint_ge(evict.count, TICKS / (EVERY + MOST / 2) * 8 / 10);
    ck_assert_uint_le(evict.count, TICKS / (EVERY + MOST / 2) * 12 / 10);
    ck_assert_uint_ge(off, evict.count * MOST / 4);
    ck_assert_uint_eq(never.count, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("emu_kfd");

    unit_test(suite, spaces, 10);
    unit_test(suite, unbound, 10);
    unit_test(suite, allocations, 10);
    unit_test(suite, available, 10);
    unit_test(suite, mappings, 10);
    unit_test(suite, queues_made, 10);
    unit_test(suite, compute_queues, 10);
    unit_test(suite, queues_kept, 10);
    unit_test(suite, events, 10);
    unit_test(suite, attributes, 10);
    unit_test(suite, shared, 10);
    unit_test(suite, modes, 10);
    unit_test(suite, evictions, 10);
    return unit_main(suite);
}
