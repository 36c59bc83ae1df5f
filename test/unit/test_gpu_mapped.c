/*
 * Virtually mapped memory of CUDA: which memory can be shared, what another process then sees, and how the product
 * notices that the owner has mapped other memory at the same address. The driver is that of
 * test/gpu/fake_cuda_mapped.c.
 */
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gpu/cuda/api.h"
#include "gpu/ipc.h"
#include "libunit.h"
#include "libvendor.h"

#define UNIT  65536u
#define PARTS 3
#define BYTES (4 * UNIT) /* parts of one unit, two units, one unit */
#define ODD   777

static const dma_gpu_runtime_t *rt;
static fake_driver_t *driver;
static char dir[64];

/* ---- the application ---- */

static struct {
    cuda_error_t (*create)(cuda_addr_t *, size_t, const void *, uint64_t);
    cuda_error_t (*release)(cuda_addr_t);
    cuda_error_t (*reserve)(cuda_addr_t *, size_t, size_t, cuda_addr_t, unsigned long long);
    cuda_error_t (*map)(cuda_addr_t, size_t, size_t, cuda_addr_t, unsigned long long);
    cuda_error_t (*unmap)(cuda_addr_t, size_t);
    cuda_error_t (*access)(cuda_addr_t, size_t, const cuda_access_t *, size_t);
    cuda_error_t (*unreserve)(cuda_addr_t, size_t);
} cu;

static void begin(void)
{
    static const struct {
        const char *name;
        void **entry;
    } calls[] = {{"cuMemCreate", (void **)&cu.create},
                 {"cuMemRelease", (void **)&cu.release},
                 {"cuMemAddressReserve", (void **)&cu.reserve},
                 {"cuMemMap", (void **)&cu.map},
                 {"cuMemUnmap", (void **)&cu.unmap},
                 {"cuMemSetAccess", (void **)&cu.access},
                 {"cuMemAddressFree", (void **)&cu.unreserve}};

    rt = vendor_cuda(&driver);
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        *calls[i].entry = vendor_call("libcuda.so.1", calls[i].name);
    }
    snprintf(dir, sizeof(dir), "/tmp/dma-test-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
}

static void end(void)
{
    ck_assert_int_eq(rmdir(dir), 0);
}

static size_t part_bytes(int i)
{
    return i == 1 ? 2 * UNIT : UNIT;
}

/* New memory for part i. All its bytes are `fill`. */
static void map_part(char *base, int i, int types, int device, char fill)
{
    struct {
        int type, types, location, id;
    } prop = {1, types, 1, device};
    cuda_access_t access = {.type = CUDA_LOCATION_DEVICE, .id = device, .flags = CUDA_ACCESS_READ_WRITE};
    cuda_addr_t handle, at = (uintptr_t)base + (i > 0) * UNIT + (i > 1) * 2 * UNIT;

    ck_assert_uint_eq(cu.create(&handle, part_bytes(i), &prop, 0), CUDA_DONE);
    ck_assert_uint_eq(cu.map(at, part_bytes(i), 0, handle, 0), CUDA_DONE);
    ck_assert_uint_eq(cu.access(at, part_bytes(i), &access, 1), CUDA_DONE);
    ck_assert_uint_eq(cu.release(handle), CUDA_DONE);
    memset((void *)(uintptr_t)at, fill, part_bytes(i));
}

static void unmap_part(char *base, int i)
{
    ck_assert_uint_eq(cu.unmap((uintptr_t)base + (i > 0) * UNIT + (i > 1) * 2 * UNIT, part_bytes(i)), CUDA_DONE);
}

static char *map_all(void)
{
    cuda_addr_t base;

    ck_assert_uint_eq(cu.reserve(&base, 2 * BYTES, 0, 0, 0), CUDA_DONE);
    for (int i = 0; i < PARTS; i++) {
        map_part((char *)(uintptr_t)base, i, CUDA_HANDLE_FD, 1, (char)('a' + i));
    }
    return (char *)(uintptr_t)base;
}

static void unmap_all(char *base)
{
    for (int i = 0; i < PARTS; i++) {
        unmap_part(base, i);
    }
    ck_assert_uint_eq(cu.unreserve((uintptr_t)base, 2 * BYTES), CUDA_DONE);
}

static dma_gpu_memory_t classify(const char *at, uint64_t bytes)
{
    dma_gpu_memory_t m;

    dma_gpu_classify(rt, (uintptr_t)at, bytes, &m);
    return m;
}

static dma_ipc_t *process(void)
{
    dma_ipc_t *ipc = dma_ipc_create(rt, NULL);

    dma_ipc_owner(ipc)->dir = dir;
    return ipc;
}

static int open_files(void)
{
    DIR *d = opendir("/proc/self/fd");
    int n = 0;

    while (readdir(d)) {
        n++;
    }
    closedir(d);
    return n;
}

/* ---- what can be shared ---- */

START_TEST(whole_parts_around_a_buffer)
{
    static const struct {
        uint64_t at, bytes, base, size;
    } rows[] = {{0, BYTES, 0, BYTES},
                {ODD, 100, 0, UNIT},
                {UNIT - 1, 2, 0, 3 * UNIT},
                {UNIT, 1, UNIT, 2 * UNIT},
                {UNIT + ODD, 0, UNIT, 2 * UNIT},
                {3 * UNIT - 1, 2, UNIT, 3 * UNIT},
                {ODD, 3 * UNIT, 0, BYTES}};
    char *base;

    begin();
    base = map_all();
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        dma_gpu_memory_t m = classify(base + rows[i].at, rows[i].bytes);

        ck_assert(m.exportable && m.mapped && m.kind == DMA_GPU_DEVICE_VMM && m.device == 1);
        ck_assert_uint_eq(m.base, (uintptr_t)base + rows[i].base);
        ck_assert_uint_eq(m.size, rows[i].size);
        ck_assert_uint_ne(m.buffer_id, 0);
        ck_assert_uint_eq(m.buffer_id, classify(base + rows[i].at, rows[i].bytes).buffer_id);
    }
    ck_assert_uint_ne(classify(base, 10).buffer_id, classify(base + UNIT, 10).buffer_id);
    ck_assert_uint_ne(classify(base, 10).buffer_id, classify(base, BYTES).buffer_id);
    unmap_all(base);
    end();
}
END_TEST

/* Synchronous copies of the application into any part are complete when they return. The driver is told once. */
START_TEST(every_part_is_adopted)
{
    dma_gpu_memory_t m;
    char *base;

    begin();
    base = map_all();
    m = classify(base + ODD, BYTES - ODD);
    rt->adopt(&m);
    ck_assert_uint_eq(driver->adopted, PARTS);
    rt->adopt(&m);
    ck_assert_uint_eq(driver->adopted, PARTS);
    unmap_all(base);
    end();
}
END_TEST

static void refused(const char *at, uint64_t bytes)
{
    dma_gpu_memory_t m = classify(at, bytes);

    ck_assert(!m.exportable && !m.mapped);
    ck_assert_int_eq(m.reason, DMA_REASON_memory_vmm);
}

START_TEST(not_shared)
{
    char *base;

    begin();
    base = map_all();
    refused(base, BYTES + 1); /* nothing is mapped behind it */
    refused(base + ODD, UINT64_MAX);
    unmap_part(base, 1);
    refused(base, UNIT + 1); /* a hole */
    ck_assert(classify(base, UNIT).exportable);
    map_part(base, 1, 0, 1, 'x'); /* without a type of handle, or of another type */
    refused(base + UNIT - 1, 2);
    refused(base + UNIT, 1);
    unmap_part(base, 1);
    map_part(base, 1, 8, 1, 'x');
    refused(base + UNIT - 1, 2);
    unmap_part(base, 1);
    map_part(base, 1, CUDA_HANDLE_FD, 0, 'x'); /* on another device */
    refused(base + UNIT - 1, 2);
    ck_assert(classify(base + UNIT, 2).exportable);
    driver->no_blocks = true;
    refused(base, 1);
    driver->no_blocks = false;
    unmap_all(base);
    end();
}
END_TEST

START_TEST(noticed_when_mapped_again)
{
    dma_export_t was, is, again;
    dma_gpu_memory_t m;
    dma_ipc_t *ipc;
    char *base;

    begin();
    base = map_all();
    ipc = process();
    m = classify(base + ODD, BYTES - ODD);
    ck_assert_int_eq(dma_ipc_export(ipc, &m, &was), DMA_OK);
    ck_assert_int_eq(dma_ipc_export(ipc, &m, &again), DMA_OK);
    ck_assert_uint_eq(again.number, was.number);
    ck_assert(!dma_ipc_is_freed(ipc, was.number));
    unmap_part(base, _i);
    ck_assert(dma_ipc_is_freed(ipc, was.number));
    map_part(base, _i, CUDA_HANDLE_FD, 1, 'n');
    ck_assert(dma_ipc_is_freed(ipc, was.number));
    m = classify(base + ODD, BYTES - ODD);
    ck_assert_int_eq(dma_ipc_export(ipc, &m, &is), DMA_OK);
    ck_assert_uint_ne(is.number, was.number);
    ck_assert(dma_ipc_is_freed(ipc, was.number) && !dma_ipc_is_freed(ipc, is.number));
    dma_ipc_destroy(ipc);
    unmap_all(base);
    end();
}
END_TEST

/* ---- two processes ---- */

/* The commands for the owner, one letter each. It answers with an export. */
static void owner(int from, int to)
{
    char *base = map_all(), order;
    dma_ipc_t *ipc = process();

    while (read(from, &order, 1) == 1) {
        struct {
            uint64_t nonce;
            dma_export_t export;
        } answer = {.nonce = dma_ipc_nonce(ipc)};
        dma_gpu_memory_t m;

        if (order == 'm') {
            unmap_part(base, 1);
            map_part(base, 1, CUDA_HANDLE_FD, 1, 'n');
        }
        if (order == 'w' && base[UNIT + 5] != 'W') {
            break; /* what the other process wrote is not here */
        }
        m = classify(base + ODD, BYTES - 2 * ODD);
        if (dma_ipc_export(ipc, &m, &answer.export) != DMA_OK ||
            write(to, &answer, sizeof(answer)) != (ssize_t)sizeof(answer)) {
            break;
        }
        if (order == 'u') {
            unmap_part(base, 1); /* between the export and the import */
            if (write(to, "u", 1) != 1) {
                break;
            }
        }
    }
    _exit(1);
}

typedef struct other {
    pid_t pid;
    int to, from;
    uint64_t nonce;
} other_t;

static other_t start_owner(void)
{
    int orders[2], answers[2];
    other_t o;

    ck_assert(pipe(orders) == 0 && pipe(answers) == 0);
    ck_assert_int_ge(o.pid = fork(), 0);
    if (!o.pid) {
        close(orders[1]);
        close(answers[0]);
        owner(orders[0], answers[1]);
    }
    close(orders[0]);
    close(answers[1]);
    o.to = orders[1];
    o.from = answers[0];
    return o;
}

static dma_export_t order(other_t *o, char what)
{
    struct {
        uint64_t nonce;
        dma_export_t export;
    } answer;

    ck_assert_int_eq(write(o->to, &what, 1), 1);
    ck_assert_int_eq(read(o->from, &answer, sizeof(answer)), (ssize_t)sizeof(answer));
    o->nonce = answer.nonce;
    return answer.export;
}

static void stop_owner(const other_t *o)
{
    char path[200];

    kill(o->pid, SIGKILL);
    waitpid(o->pid, NULL, 0);
    close(o->to);
    close(o->from);
    snprintf(path, sizeof(path), "%s/coll_dma.%016llx.fds", dir, (unsigned long long)o->nonce);
    ck_assert_int_eq(unlink(path), 0);
}

static void must_hold(const dma_import_t *i, const char *parts)
{
    const char *at = (const char *)(uintptr_t)dma_import_base(i);

    for (size_t b = 0; b < BYTES; b++) {
        ck_assert_int_eq(at[b], parts[b < UNIT ? 0 : b < 3 * UNIT ? 1 : 2]);
    }
}

START_TEST(two_processes_see_the_same_bytes)
{
    dma_import_t *first, *same, *second;
    dma_export_t was, is;
    unsigned objects;
    dma_ipc_t *ipc;
    other_t o;
    int files;

    begin();
    o = start_owner();
    ipc = process();
    was = order(&o, 'e');
    ck_assert_uint_eq(was.size, BYTES);
    files = open_files();
    objects = driver->objects;
    ck_assert_int_eq(dma_ipc_open(ipc, 1, o.nonce, &was, &first), DMA_OK);
    ck_assert_int_eq(dma_ipc_open(ipc, 1, o.nonce, &was, &same), DMA_OK);
    ck_assert_ptr_eq(first, same);
    must_hold(first, "abc");
    memset((char *)(uintptr_t)dma_import_base(first) + UNIT, 'W', 10);
    is = order(&o, 'w'); /* it ends the owner if the owner does not notice that */
    ck_assert_uint_eq(is.number, was.number);
    is = order(&o, 'm');
    ck_assert_uint_ne(is.number, was.number);
    ck_assert_int_eq(dma_ipc_open(ipc, 1, o.nonce, &is, &second), DMA_OK);
    must_hold(second, "anc");
    dma_ipc_close(ipc, first);
    dma_ipc_close(ipc, same);
    dma_ipc_close(ipc, second);
    /* the imports were descriptors of the fake driver; a marker of resets may have been made */
    ck_assert_uint_le(driver->objects, objects + 1);
    ck_assert_int_eq(open_files(), files);
    stop_owner(&o);
    dma_ipc_destroy(ipc);
    end();
}
END_TEST

START_TEST(refused_imports_leave_nothing)
{
    static const char *const calls[] = {"reserve", "import", "map", "access"};
    dma_import_t *import;
    dma_export_t e, wrong;
    unsigned objects;
    dma_ipc_t *ipc;
    other_t o;
    int files;
    char u;

    begin();
    o = start_owner();
    ipc = process();
    e = order(&o, 'e');
    ck_assert_int_eq(dma_ipc_open(ipc, 1, o.nonce, &e, &import), DMA_OK);
    dma_ipc_close(ipc, import);
    files = open_files();
    objects = driver->objects;
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        snprintf(driver->fails, sizeof(driver->fails), "%s", calls[i]);
        ck_assert_int_eq(dma_ipc_open(ipc, 1, o.nonce, &e, &import), DMA_UNSUPPORTED);
        ck_assert_uint_eq(driver->objects, objects);
        ck_assert_int_eq(open_files(), files);
    }
    driver->fails[0] = '\0';
    wrong = e;
    wrong.buffer_id ^= 4; /* not the memory that is there now */
    ck_assert_int_eq(dma_ipc_open(ipc, 1, o.nonce, &wrong, &import), DMA_UNSUPPORTED);
    wrong = e;
    wrong.handle.bytes[3] ^= 1; /* the secret */
    wrong.number += 1000;
    ck_assert_int_eq(dma_ipc_open(ipc, 1, o.nonce, &wrong, &import), DMA_UNSUPPORTED);
    e = order(&o, 'u');
    ck_assert_int_eq(read(o.from, &u, 1), 1);
    ck_assert_int_eq(dma_ipc_open(ipc, 1, o.nonce, &e, &import), DMA_UNSUPPORTED); /* unmapped in between */
    ck_assert_uint_eq(driver->objects, objects);
    ck_assert_int_eq(open_files(), files);
    stop_owner(&o);
    dma_ipc_destroy(ipc);
    end();
}
END_TEST

/* The owner dies between the export and the import; or after the import, which stays readable. */
START_TEST(owner_dies)
{
    dma_import_t *import;
    dma_export_t e;
    dma_ipc_t *ipc;
    other_t o;

    begin();
    o = start_owner();
    ipc = process();
    e = order(&o, 'e');
    if (_i) {
        ck_assert_int_eq(dma_ipc_open(ipc, 1, o.nonce, &e, &import), DMA_OK);
    }
    stop_owner(&o);
    if (_i) {
        must_hold(import, "abc");
        dma_ipc_close(ipc, import);
    } else {
        ck_assert_int_eq(dma_ipc_open(ipc, 1, o.nonce, &e, &import), DMA_UNSUPPORTED);
        ck_assert_str_eq(dma_gpu_error(), "its owner cannot be asked for file descriptors");
    }
    dma_ipc_destroy(ipc);
    end();
}
END_TEST

START_TEST(thousand_rounds)
{
    dma_import_t *import;
    unsigned objects = 0;
    dma_export_t e;
    dma_ipc_t *ipc;
    int files = 0;
    other_t o;

    begin();
    o = start_owner();
    ipc = process();
    for (int i = 0; i < 1000; i++) {
        e = order(&o, 'm');
        ck_assert_int_eq(dma_ipc_open(ipc, 1, o.nonce, &e, &import), DMA_OK);
        dma_ipc_close(ipc, import);
        if (i == 0) {
            files = open_files();
            objects = driver->objects;
        }
    }
    ck_assert_int_eq(open_files(), files);
    ck_assert_uint_eq(driver->objects, objects);
    stop_owner(&o);
    dma_ipc_destroy(ipc);
    end();
}
END_TEST

int main(void)
{
    Suite *s = suite_create("gpu_mapped");

    unit_test(s, whole_parts_around_a_buffer, 20);
    unit_test(s, every_part_is_adopted, 20);
    unit_test(s, not_shared, 20);
    unit_loop(s, noticed_when_mapped_again, 0, PARTS, 20);
    unit_test(s, two_processes_see_the_same_bytes, 20);
    unit_test(s, refused_imports_leave_nothing, 20);
    unit_loop(s, owner_dies, 0, 2, 20);
    unit_test(s, thousand_rounds, 60);
    return unit_main(s);
}
