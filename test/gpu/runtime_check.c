/*
 * runtime_check hip|cuda [DEVICE [PEER]]: calls every function of the table of that runtime on a GPU, and prints a line for
 * each: "ok", "FAIL" or "skip", the function, a remark. The exit status is 0 if nothing failed, and 77 without a device.
 *
 * The program behaves like an application: it loads and initialises the vendor's library itself, and checks that our table
 * appears only then. It needs only a C compiler, so it can be tried on a machine where nothing else of the project is built:
 *
 *     gcc -std=c11 -D_GNU_SOURCE -Iinclude -Iompi_coll_dma test/gpu/runtime_check*.c ompi_coll_dma/gpu/[a-z]*.c \
 *         -o runtime_check -ldl -pthread && ./runtime_check cuda
 */
#include "runtime_check.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define BYTES (1u << 20)

static int failures;
static bool good; /* of the line being written */
static void *vendor;
static int device, peer;
static const char *program;

void check_condition(bool holds)
{
    good = holds;
}

bool check_remark(const char *what, const char *format, ...)
{
    va_list args;

    printf("%-4s %-18s ", good ? "ok" : "FAIL", what);
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    if (!good && *dma_gpu_error()) {
        printf(" [%s]", dma_gpu_error());
    }
    printf("\n");
    fflush(stdout);
    failures += !good;
    return good;
}

void check_skip(const char *what, const char *why)
{
    printf("skip %-18s %s\n", what, why);
}

void *check_vendor(const char *name)
{
    void *symbol = dlsym(vendor, name);

    if (!symbol) {
        check_skip(name, "the library has none");
    }
    return symbol;
}

static double now_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

/* One line per function: the status it returned must be DMA_OK. */
#define CALL(function, ...) check_line(rt->function(__VA_ARGS__) == DMA_OK, #function, "%s", "")

/* Waits for a stream by polling, as an engine does. */
static bool finish(const dma_gpu_runtime_t *rt, dma_gpu_stream_t *stream)
{
    dma_status_t status;

    do {
        status = rt->stream_query(stream);
    } while (status == DMA_AGAIN);
    return status == DMA_OK;
}

static void fill(unsigned char *bytes, size_t n, unsigned seed)
{
    for (size_t i = 0; i < n; i++) {
        bytes[i] = (unsigned char)(i * 7 + (i >> 8) + seed);
    }
}

typedef struct buffers {
    uint64_t a, b;             /* on the device */
    unsigned char *host, *out; /* pageable */
} buffers_t;

static bool arrived(const dma_gpu_runtime_t *rt, const buffers_t *m, uint64_t at, const unsigned char *want, size_t n)
{
    memset(m->out, 0xee, n);
    return rt->copy((uintptr_t)m->out, at, n) == DMA_OK && memcmp(m->out, want, n) == 0;
}

/* The current device of this thread, from the vendor's library; -1: none. */
static int current_device(const dma_gpu_runtime_t *rt)
{
    const char *name = strcmp(rt->name, "hip") == 0 ? "hipGetDevice" : "cuCtxGetDevice";
    unsigned (*get)(int *) = (unsigned (*)(int *))check_vendor(name);
    int current = -1;

    return get && get(&current) == 0 ? current : -1;
}

static void check_devices(const dma_gpu_runtime_t *rt)
{
    int count = -1, before = -1, inside = -1, after = -1;
    dma_gpu_pci_t pci = {0};
    dma_gpu_scope_t scope;

    check_line(rt->device_count(&count) == DMA_OK && count > 0, "device_count", "%d", count);
    for (int i = 0; i < count; i++) {
        check_line(rt->device_pci(i, &pci) == DMA_OK, "device_pci", "%d: %04x:%02x:%02x", i, pci.domain, pci.bus,
                   pci.device);
    }
    before = current_device(rt);
    check_line(rt->enter(count - 1, &scope) == DMA_OK && (inside = current_device(rt)) == count - 1, "enter",
               "device %d", inside);
    rt->leave(&scope);
    after = current_device(rt);
    check_line(after == before, "leave", "back to %d", after);
    check_line(rt->enter(count, &scope) != DMA_OK, "enter", "no device %d: %s", count, dma_gpu_error());
    if (strcmp(rt->name, "hip") == 0) {
        unsigned (*peek)(void) = (unsigned (*)(void))check_vendor("hipPeekAtLastError");

        check_line(peek && peek() == 0, "enter", "leaves no error behind");
    }
}

/* Rectangles between the device and the inside of registered host memory, of which HIP 5.7.1 has its own opinion. */
static void check_rectangles(const dma_gpu_runtime_t *rt, const buffers_t *m, dma_gpu_stream_t *stream)
{
    unsigned char *page = aligned_alloc(4096, 8192);
    uint64_t at;

    if (!page || !check_line(rt->host_register(page, 8192, &at) == DMA_OK, "host_register", "for rectangles")) {
        free(page);
        return;
    }
    fill(page, 8192, 5);
    check_line(rt->copy2d_async(stream, m->b + 104, 56, (uintptr_t)page + 64, 32, 32, 2) == DMA_OK &&
                   finish(rt, stream) && arrived(rt, m, m->b + 104, page + 64, 32) &&
                   arrived(rt, m, m->b + 160, page + 96, 32),
               "copy2d_async", "from the inside of registered memory");
    memset(page, 0xee, 4096);
    check_line(rt->copy2d_async(stream, (uintptr_t)page + 104, 56, m->b + 104, 56, 32, 2) == DMA_OK &&
                   finish(rt, stream) && arrived(rt, m, m->b + 104, page + 104, 32) &&
                   arrived(rt, m, m->b + 160, page + 160, 32) && page[0] == 0xee && page[103] == 0xee &&
                   page[136] == 0xee,
               "copy2d_async", "into the inside of registered memory");
    (void)rt->host_unregister(page);
    free(page);
}

static void check_copies(const dma_gpu_runtime_t *rt, const buffers_t *m, dma_gpu_stream_t *stream)
{
    uint64_t dst[3], src[3], bytes[3];
    double t;

    fill(m->host, BYTES, 1);
    check_line(rt->copy(m->a, (uintptr_t)m->host, BYTES) == DMA_OK && arrived(rt, m, m->a, m->host, BYTES), "copy",
               "host to device and back");
    check_line(rt->copy_async(stream, m->b + 3, m->a + 3, BYTES - 3) == DMA_OK && finish(rt, stream) &&
                   arrived(rt, m, m->b + 3, m->host + 3, BYTES - 3),
               "copy_async", "inside the device, unaligned");
    check_line(rt->copy2d_async(stream, m->b, 1024, m->a, 2048, 100, 10) == DMA_OK && finish(rt, stream) &&
                   arrived(rt, m, m->b + 9 * 1024, m->host + (size_t)9 * 2048, 100) &&
                   arrived(rt, m, m->b, m->host, 100),
               "copy2d_async", "10 rows of 100 bytes");
    check_rectangles(rt, m, stream);
    for (int i = 0; i < 3; i++) {
        dst[i] = m->b + (uint64_t)i * 1000;
        src[i] = m->a + (uint64_t)i * 5000;
        bytes[i] = 900 + (uint64_t)i;
    }
    t = now_us();
    check_line(rt->copy_batch(stream, dst, src, bytes, 3) == DMA_OK && finish(rt, stream), "copy_batch",
               "3 copies, %.1f us the first time", now_us() - t);
    check_line(arrived(rt, m, dst[0], m->host, 900) && arrived(rt, m, dst[2], m->host + 10000, 902), "copy_batch",
               "data");
    check_line(rt->copy_batch(stream, dst, src, bytes, 0) == DMA_OK, "copy_batch", "of nothing");
}

static void check_streams(const dma_gpu_runtime_t *rt, const buffers_t *m, dma_gpu_stream_t *stream)
{
    dma_gpu_stream_t *other = NULL;
    dma_gpu_event_t *event = NULL;

    CALL(stream_sync, stream);
    CALL(default_sync);
    if (!CALL(stream_create, &other) || !CALL(event_create, &event)) {
        return;
    }
    check_line(rt->event_query(event) == DMA_OK, "event_query", "never recorded: reached");
    fill(m->host, BYTES, 2);
    rt->copy(m->a, (uintptr_t)m->host, BYTES);
    rt->copy_async(stream, m->b, m->a, BYTES);
    CALL(event_record, event, stream);
    check_line(rt->stream_sync(stream) == DMA_OK && rt->event_query(event) == DMA_OK, "event_query", "reached");
    check_line(rt->copy_async(other, m->a, m->b, BYTES) == DMA_OK && rt->stream_sync(other) == DMA_OK &&
                   arrived(rt, m, m->a, m->host, BYTES),
               "copy_async", "on another stream");
    CALL(event_destroy, event);
    CALL(stream_destroy, other);
}

static void check_timed_events(const dma_gpu_runtime_t *rt, const buffers_t *m, dma_gpu_stream_t *stream)
{
    dma_gpu_event_t *from = NULL, *to = NULL;
    dma_status_t status;
    double ns = -1;

    if (!rt->event_elapsed) {
        check_line(true, "event_elapsed", "the runtime has none");
        return;
    }
    if (!CALL(event_create_timed, &from) || !CALL(event_create_timed, &to)) {
        return;
    }
    rt->event_record(from, stream);
    rt->copy_async(stream, m->b, m->a, BYTES);
    rt->event_record(to, stream);
    status = rt->event_elapsed(from, to, &ns);
    check_line(status == DMA_OK || status == DMA_AGAIN, "event_elapsed", "maybe not reached yet");
    check_line(rt->stream_sync(stream) == DMA_OK && rt->event_elapsed(from, to, &ns) == DMA_OK && ns > 0 && ns < 1e9,
               "event_elapsed", "of a copy");
    check_line(rt->event_elapsed(to, from, &ns) == DMA_OK && ns < 0, "event_elapsed", "backwards");
    CALL(event_destroy, from);
    CALL(event_destroy, to);
}

static void check_memory_ops(const dma_gpu_runtime_t *rt, dma_gpu_stream_t *stream)
{
    unsigned char *page = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    volatile uint32_t *word = (volatile uint32_t *)page;
    uint64_t at = 0;

    if (!check_line(rt->host_register(page, 8192, &at) == DMA_OK, "host_register", "%p is %#lx on the device",
                    (void *)page, at)) {
        return;
    }
    if (!rt->write32) {
        check_skip("write32", "NULL");
    } else {
        check_line(rt->write32(stream, at, 77) == DMA_OK && finish(rt, stream) && word[0] == 77, "write32", "%u",
                   word[0]);
    }
    CALL(host_unregister, page);
    munmap(page, 8192);
}

static void check_graph(const dma_gpu_runtime_t *rt, const buffers_t *m, dma_gpu_stream_t *stream)
{
    dma_gpu_graph_t *graph = NULL;
    double t = now_us();

    if (!rt->graph_create) {
        check_skip("graph_create", "NULL");
        return;
    }
    fill(m->host, BYTES, 3);
    rt->copy(m->a, (uintptr_t)m->host, BYTES);
    if (!check_line(rt->graph_create(m->b, m->a, 5000, &graph) == DMA_OK, "graph_create", "%.1f us", now_us() - t)) {
        return;
    }
    check_line(rt->graph_launch(graph, stream) == DMA_OK && finish(rt, stream) && arrived(rt, m, m->b, m->host, 5000),
               "graph_launch", "5000 bytes");
    t = now_us();
    check_line(rt->graph_update(graph, m->b + 16, m->a + 32, BYTES - 32) == DMA_OK, "graph_update", "%.1f us",
               now_us() - t);
    check_line(rt->graph_launch(graph, stream) == DMA_OK && finish(rt, stream) &&
                   arrived(rt, m, m->b + 16, m->host + 32, BYTES - 32),
               "graph_launch", "other addresses, 1 MiB");
    rt->graph_destroy(graph);
    check_line(true, "graph_destroy", "%s", "");
}

static void check_peer(const dma_gpu_runtime_t *rt, const buffers_t *m, dma_gpu_stream_t *stream)
{
    dma_gpu_scope_t scope;
    uint64_t there = 0;

    if (peer == device) {
        return;
    }
    if (!check_line(rt->enter(peer, &scope) == DMA_OK && rt->alloc(BYTES, &there) == DMA_OK, "alloc", "on device %d",
                    peer)) {
        return;
    }
    rt->leave(&scope);
    fill(m->host, BYTES, 4);
    rt->copy(m->a, (uintptr_t)m->host, BYTES);
    check_line(rt->copy_async(stream, there, m->a, BYTES) == DMA_OK && finish(rt, stream) &&
                   arrived(rt, m, there, m->host, BYTES),
               "copy_async", "device %d to %d", device, peer);
    rt->enter(peer, &scope);
    CALL(free, there);
    rt->leave(&scope);
}

static void *a_thread(void *arg)
{
    const dma_gpu_runtime_t *rt = arg;

    check_kinds_of_thread(rt);
    return NULL;
}

static void check_all(const dma_gpu_runtime_t *rt)
{
    buffers_t m = {.host = malloc(BYTES), .out = malloc(BYTES)};
    dma_gpu_stream_t *stream = NULL;
    dma_gpu_scope_t scope;
    pthread_t thread;

    check_devices(rt);
    if (!check_line(rt->enter(device, &scope) == DMA_OK, "enter", "device %d", device) || !CALL(alloc, BYTES, &m.a) ||
        !CALL(alloc, BYTES, &m.b) || !CALL(stream_create, &stream)) {
        return;
    }
    check_copies(rt, &m, stream);
    check_streams(rt, &m, stream);
    check_timed_events(rt, &m, stream);
    check_memory_ops(rt, stream);
    check_graph(rt, &m, stream);
    check_peer(rt, &m, stream);
    check_kinds(rt, device);
    check_line(pthread_create(&thread, NULL, a_thread, (void *)rt) == 0 && pthread_join(thread, NULL) == 0, "thread",
               "done");
    check_ipc(rt, program);
    CALL(stream_destroy, stream);
    CALL(free, m.a);
    CALL(free, m.b);
    rt->leave(&scope);
    check_reset(rt, device);
    free(m.host);
    free(m.out);
}

/* The same as cudaSetDevice(0). */
static bool make_current(void)
{
    unsigned (*retain)(void **, int) = (unsigned (*)(void **, int))check_vendor("cuDevicePrimaryCtxRetain");
    unsigned (*set)(void *) = (unsigned (*)(void *))check_vendor("cuCtxSetCurrent");
    void *context;

    return retain && set && retain(&context, 0) == 0 && set(context) == 0;
}

/* Loads and initialises the library as an application does. */
static const dma_gpu_runtime_t *application(const char *name)
{
    bool hip = strcmp(name, "hip") == 0;
    const char *library = hip ? "libamdhip64.so.7 libamdhip64.so.6 libamdhip64.so.5 libamdhip64.so" : "libcuda.so.1";
    const char *start = hip ? "hipInit" : "cuInit";
    char names[128], *rest = names, *one;
    dma_gpu_memory_t memory;
    unsigned (*init)(unsigned);
    void *mine = malloc(16);

    check_line(!dma_gpu_runtime_loaded(), "runtime_loaded", "nothing before the application has loaded it");
    snprintf(names, sizeof(names), "%s", library);
    while (!vendor && (one = strtok_r(rest, " ", &rest))) {
        vendor = dlopen(one, RTLD_NOW | RTLD_GLOBAL);
    }
    if (!vendor) {
        check_skip(library, dlerror());
        return NULL;
    }
    if (dma_gpu_runtime_loaded()) {
        dma_gpu_classify(dma_gpu_runtime_loaded(), (uintptr_t)mine, 16, &memory);
        check_line(memory.kind == DMA_GPU_HOST, "query", "loaded, not initialised: %s", check_kind_name(memory.kind));
    }
    free(mine);
    init = (unsigned (*)(unsigned))check_vendor(start);
    if (!init || init(0) != 0 || (!hip && !make_current())) {
        check_skip(start, "failed");
        return NULL;
    }
    return dma_gpu_runtime_loaded();
}

int main(int argc, char **argv)
{
    const dma_gpu_runtime_t *rt;
    int count = 0;

    if (argc < 2) {
        fprintf(stderr, "usage: runtime_check hip|cuda [DEVICE [PEER]]\n");
        return 2;
    }
    program = argv[0];
    rt = application(argv[1]);
    if (!rt || rt->device_count(&count) != DMA_OK || count == 0) {
        printf("no device to check (%s)\n", dma_gpu_error());
        return 77;
    }
    device = argc > 2 ? atoi(argv[2]) : 0;
    peer = argc > 3 ? atoi(argv[3]) : (device + 1) % count;
    if (argc > 4) {
        return check_ipc_child(rt);
    }
    check_line(strcmp(rt->name, argv[1]) == 0, "runtime_loaded", "%s %u", rt->name, rt->version);
    check_all(rt);
    printf("%d failed\n", failures);
    return failures != 0;
}
