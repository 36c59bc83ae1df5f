/*
 * Memory on the emulated render nodes, and addresses that a process manages itself: what is refused, with the error number of
 * Linux's amdgpu, and what GPUs reach of what is granted.
 */
#include <check.h>

#include "libdriver.h"

enum { READ = 1 << 1, WRITE = 1 << 2, DO_MAP = 1, DO_UNMAP = 2 };

static uint32_t imported(int gpu, int dmabuf)
{
    struct prime in = {.dmabuf = dmabuf};
    ROW(0, driver_render(gpu, FROM_DMABUF, &in, sizeof in));
    return in.handle;
}

#define VA(gpu, ...) RENDER(gpu, GEM_VA, emu_gem_va, __VA_ARGS__)

static char *reached(int gpu, uint64_t va, uint64_t bytes, bool write)
{
    const char *why;
    return emu_vm_translate(emu_node_of(gpu), va, bytes, write, &why);
}

START_TEST(handles)
{
    driver_begin();
    int plain = memfd_create("plain", MFD_CLOEXEC);
    struct kfd_alloc made = driver_memory(0, 2 * PAGE, VRAM);
    struct kfd_export_dmabuf out = {.handle = made.handle};
    ROW(0, driver_call(EXPORT, &out, sizeof out));
    ROW(EBADF, RENDER(0, FROM_DMABUF, prime, .dmabuf = 9999));
    ROW(EINVAL, RENDER(0, FROM_DMABUF, prime, .dmabuf = plain));
    uint32_t handle = imported(0, out.fd);
    ck_assert_uint_eq(imported(0, out.fd), handle); /* the same memory */
    ROW(ENOENT, RENDER(0, TO_DMABUF, prime, .handle = handle + 1000));
    ROW(ENOENT, RENDER(1, TO_DMABUF, prime, .handle = handle)); /* of another file */
    struct prime back = {.handle = handle};
    ROW(0, driver_render(0, TO_DMABUF, &back, sizeof back));
    ck_assert_uint_eq(imported(0, back.dmabuf), handle);
    ROW(ENOENT, RENDER(0, GEM_MMAP, gem, .handle = handle + 1000));
    uint64_t offset = handle;
    ROW(0, driver_render(0, GEM_MMAP, &offset, sizeof offset));
    ck_assert_ptr_eq(emu_kfd_map(NULL, 3 * PAGE, PROT_READ, MAP_SHARED, offset), MAP_FAILED);
    char *here = emu_kfd_map(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, offset);
    ck_assert_ptr_ne(here, MAP_FAILED);
    here[PAGE] = 42;
    emu_vm_lock_read();
    ck_assert_int_eq(emu_vm_find(made.va)->host[PAGE], 42);
    emu_vm_unlock();
    munmap(here, 2 * PAGE);
    ROW(EINVAL, RENDER(0, GEM_CLOSE, gem, .handle = handle + 1000));
    ROW(0, RENDER(0, GEM_CLOSE, gem, .handle = handle));
    ROW(EINVAL, RENDER(0, GEM_CLOSE, gem, .handle = handle));
    ROW(0, CALL(FREE, free, made.handle));
    close(out.fd);
    close(back.dmabuf);
    close(plain);
}
END_TEST

START_TEST(addresses)
{
    driver_begin();
    uint64_t at = driver_reserve(8 * PAGE);
    struct kfd_alloc made = driver_memory(0, 4 * PAGE, VRAM), other = driver_memory(0, 4 * PAGE, VRAM);
    struct kfd_export_dmabuf out = {.handle = made.handle}, second = {.handle = other.handle};
    ROW(0, driver_call(EXPORT, &out, sizeof out));
    ROW(0, driver_call(EXPORT, &second, sizeof second));
    uint32_t h = imported(0, out.fd), peer = imported(1, out.fd), strange = imported(1, second.fd);
    ROW(EINVAL, VA(0, .handle = h, .operation = 9, .flags = READ, .va = at, .bytes = PAGE));
    ROW(EINVAL, VA(0, .handle = h, .operation = DO_MAP, .flags = 1 << 20, .va = at, .bytes = PAGE));
    ROW(EINVAL, VA(0, .handle = h, .operation = DO_MAP, .flags = READ, .va = PAGE, .bytes = PAGE));
    ROW(EINVAL, VA(0, .handle = h, .operation = DO_MAP, .flags = READ, .va = 1ull << 47, .bytes = PAGE));
    ROW(EINVAL, VA(0, .handle = h, .operation = DO_MAP, .flags = READ, .va = at, .bytes = 0));
    ROW(EINVAL, VA(0, .handle = h, .operation = DO_MAP, .flags = READ, .va = at + 1, .bytes = PAGE));
    ROW(EINVAL, VA(0, .handle = h, .operation = DO_MAP, .flags = READ, .va = at, .bytes = PAGE + 1));
    ROW(EINVAL, VA(0, .handle = h, .operation = DO_MAP, .flags = READ, .va = at, .bytes = PAGE, .offset = 1));
    ROW(EINVAL, VA(0, .handle = h, .operation = DO_MAP, .flags = READ, .va = at, .bytes = 5 * PAGE));
    ROW(EINVAL, VA(0, .handle = h, .operation = DO_MAP, .flags = READ, .va = at, .bytes = 4 * PAGE, .offset = PAGE));
    ROW(ENOENT, VA(0, .handle = h + 1000, .operation = DO_MAP, .flags = READ, .va = at, .bytes = PAGE));
    ROW(ENOENT, VA(0, .handle = peer, .operation = DO_MAP, .flags = READ, .va = at, .bytes = PAGE));
    ROW(ENOENT, VA(0, .handle = h, .operation = DO_UNMAP, .va = at, .bytes = PAGE));
    ck_assert_ptr_null(reached(0, at, PAGE, false));

    /* A part of it, from its third page on. */
    ROW(0, VA(0, .handle = h, .operation = DO_MAP, .flags = READ | WRITE, .va = at, .bytes = 2 * PAGE,
              .offset = 2 * PAGE));
    char *here = reached(0, at, 2 * PAGE, true);
    ck_assert_ptr_nonnull(here);
    ck_assert_ptr_null(reached(0, at, 3 * PAGE, true));
    ck_assert_ptr_null(reached(1, at, PAGE, false));
    here[0] = 7;
    ck_assert_int_eq(emu_vm_find(made.va)->host[2 * PAGE], 7);
    /* There is something. */
    ROW(EINVAL, VA(0, .handle = h, .operation = DO_MAP, .flags = READ, .va = at + PAGE, .bytes = 2 * PAGE));
    ROW(EINVAL, VA(1, .handle = strange, .operation = DO_MAP, .flags = READ, .va = at, .bytes = PAGE));
    /* The same for the other GPU, and once more elsewhere. */
    ROW(0, VA(1, .handle = peer, .operation = DO_MAP, .flags = READ | WRITE, .va = at, .bytes = 2 * PAGE,
              .offset = 2 * PAGE));
    ck_assert_ptr_eq(reached(1, at, PAGE, true), here);
    ROW(0, VA(0, .handle = h, .operation = DO_MAP, .flags = READ, .va = at + 4 * PAGE, .bytes = 4 * PAGE));
    ck_assert_ptr_nonnull(reached(0, at + 4 * PAGE, 4 * PAGE, false));
    ck_assert_ptr_null(reached(0, at + 4 * PAGE, PAGE, true)); /* read-only */
    /* Whole mappings only, by where they begin. */
    ROW(ENOENT, VA(0, .handle = h, .operation = DO_UNMAP, .va = at + PAGE, .bytes = PAGE));
    ROW(0, VA(0, .handle = h, .operation = DO_UNMAP, .va = at, .bytes = 2 * PAGE));
    ROW(ENOENT, VA(0, .handle = h, .operation = DO_UNMAP, .va = at, .bytes = 2 * PAGE));
    ck_assert_ptr_null(reached(0, at, PAGE, false));
    ck_assert_ptr_nonnull(reached(1, at, PAGE, false));
    /* With the handle goes what was mapped by it. */
    ROW(0, RENDER(0, GEM_CLOSE, gem, .handle = h));
    ck_assert_ptr_null(reached(0, at + 4 * PAGE, PAGE, false));
    ROW(0, RENDER(1, GEM_CLOSE, gem, .handle = peer));
    ROW(0, RENDER(1, GEM_CLOSE, gem, .handle = strange));
    ck_assert_ptr_null(emu_vm_find_overlap(at, 8 * PAGE));
    ROW(0, CALL(FREE, free, made.handle));
    ROW(0, CALL(FREE, free, other.handle));
    close(out.fd);
    close(second.fd);
}
END_TEST

/* Memory with addresses that no GPU has stands back, until it is mapped itself. So ROCr 6.1 reserves addresses. */
START_TEST(reserved)
{
    driver_begin();
    uint32_t done;
    struct kfd_alloc reserved = driver_memory(0, 4 * PAGE, (uint32_t)(GTT | RW)), made = driver_memory(0, PAGE, VRAM);
    struct kfd_export_dmabuf out = {.handle = made.handle};
    ROW(0, driver_call(EXPORT, &out, sizeof out));
    uint32_t h = imported(0, out.fd);
    uint64_t at = reserved.va + PAGE;
    ROW(0, driver_map_for(MAP, reserved.handle, (int[]){0}, 1, &done));
    reached(0, at, PAGE, true)[0] = 8;
    ROW(EINVAL, VA(0, .handle = h, .operation = DO_MAP, .flags = READ, .va = at, .bytes = PAGE));
    ROW(0, driver_map_for(UNMAP, reserved.handle, (int[]){0}, 1, &done));
    ROW(0, VA(0, .handle = h, .operation = DO_MAP, .flags = READ, .va = at, .bytes = PAGE));
    ck_assert_ptr_nonnull(reached(0, at, PAGE, false));
    ck_assert_ptr_null(reached(0, at, 2 * PAGE, false));
    ROW(EINVAL, driver_map_for(UNMAP, reserved.handle, (int[]){0}, 1, &done));
    ROW(EINVAL, driver_map_for(MAP, reserved.handle, (int[]){0}, 1, &done));
    ROW(0, VA(0, .handle = h, .operation = DO_UNMAP, .va = at, .bytes = PAGE));
    ROW(0, driver_map_for(MAP, reserved.handle, (int[]){0}, 1, &done));
    ck_assert_int_eq(reached(0, at, PAGE, true)[0], 8); /* the same memory */
    driver_give_back(0, &reserved);
    ROW(0, RENDER(0, GEM_CLOSE, gem, .handle = h));
    ROW(0, CALL(FREE, free, made.handle));
    close(out.fd);
}
END_TEST

/* Addresses are those of the file's own space; queues run in the one that was given to the driver. */
START_TEST(other_space)
{
    driver_begin();
    uint64_t at = driver_reserve(PAGE);
    int kept = driver_nodes[0];
    struct kfd_alloc made = driver_memory(0, PAGE, VRAM);
    struct kfd_export_dmabuf out = {.handle = made.handle};
    ROW(0, driver_call(EXPORT, &out, sizeof out));
    driver_nodes[0] = emu_file_open(0, O_RDWR | O_CLOEXEC);
    uint32_t h = imported(0, out.fd);
    ROW(0, VA(0, .handle = h, .operation = DO_MAP, .flags = READ, .va = at, .bytes = PAGE));
    ck_assert_ptr_null(reached(0, at, PAGE, false));
    ROW(EINVAL, VA(0, .handle = h, .operation = DO_MAP, .flags = READ, .va = at, .bytes = PAGE));
    ROW(0, VA(0, .handle = h, .operation = DO_UNMAP, .va = at, .bytes = PAGE));
    ROW(0, RENDER(0, GEM_CLOSE, gem, .handle = h));
    close(driver_nodes[0]);
    driver_nodes[0] = kept;
    ROW(0, CALL(FREE, free, made.handle));
    close(out.fd);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("emu_gem");

    unit_test(suite, handles, 10);
    unit_test(suite, addresses, 10);
    unit_test(suite, reserved, 10);
    unit_test(suite, other_space, 10);
    return unit_main(suite);
}
