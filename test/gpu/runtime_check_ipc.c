/*
 * IPC needs two processes, each with a runtime of its own. The second is this program again, with a fourth argument. It
 * reads the handle from its standard input.
 */
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "runtime_check.h"

#define BYTES  (3u << 20)
#define OFFSET 12345
#define CLOSES 100u

static bool has(const dma_gpu_runtime_t *rt, uint64_t at, const char *text)
{
    char seen[64] = "";

    return rt->copy((uintptr_t)seen, at, strlen(text) + 1) == DMA_OK && strcmp(seen, text) == 0;
}

void check_ipc(const dma_gpu_runtime_t *rt, const char *self)
{
    static const char hello[] = "from the owner", reply[] = "from the peer";
    dma_gpu_handle_t handle;
    dma_gpu_memory_t memory;
    char command[512];
    uint64_t base = 0;
    FILE *child;

    if (!check_line(rt->alloc(BYTES, &base) == DMA_OK, "alloc", "for another process")) {
        return;
    }
    rt->copy(base + OFFSET, (uintptr_t)hello, sizeof(hello));
    dma_gpu_classify(rt, base + OFFSET, 64, &memory);
    if (!check_line(memory.exportable && memory.base == base && rt->ipc_export(memory.base, &handle) == DMA_OK,
                    "ipc_export", "%s", check_kind_name(memory.kind))) {
        return;
    }
    snprintf(command, sizeof(command), "%s %s 0 0 child", self, rt->name);
    child = popen(command, "w");
    fwrite(&handle, sizeof(handle), 1, child);
    fflush(child);
    check_line(pclose(child) == 0 && has(rt, base + OFFSET, reply), "ipc", "written by another process");
    rt->free(base);
}

/* On a busy machine the threads of the runtime may take their time. */
static bool closed(const dma_gpu_runtime_t *rt, uint64_t base)
{
    dma_status_t status = DMA_AGAIN;

    for (int i = 0; i < 5000 && (status = rt->ipc_close(base)) == DMA_AGAIN; i++) {
        usleep(1000);
    }
    return status == DMA_OK;
}

/*
 * What was closed must be gone at once, even if a copy from it has only just ended: a runtime whose own threads still hold
 * it must not keep it. A word that the stream writes shows the end, without asking the runtime.
 */
static unsigned closed_for_good(const dma_gpu_runtime_t *rt, const dma_gpu_handle_t *handle, dma_gpu_stream_t *stream,
                                uint64_t to, volatile uint32_t *word, uint64_t word_at)
{
    dma_gpu_memory_t memory;
    unsigned good = 0;
    uint64_t base;

    for (uint32_t i = 1; i <= CLOSES && rt->ipc_open(handle, &base) == DMA_OK; i++) {
        rt->copy_async(stream, to, base, 4096);
        rt->write32(stream, word_at, i);
        while (*word != i) {
            sched_yield();
        }
        good += closed(rt, base) && rt->query(base, &memory) == DMA_OK && memory.kind == DMA_GPU_HOST;
    }
    return good;
}

/* ---- HIP: its thread is in a function of the application, which may wait for us ---- */

static atomic_int in_function; /* 1: it is there, until this is 2 */

static void application_function(void *stream, unsigned error, void *data)
{
    (void)stream;
    (void)error;
    (void)data;
    atomic_store(&in_function, 1);
    while (atomic_load(&in_function) != 2) {
        usleep(1000);
    }
}

static bool check_busy_thread(const dma_gpu_runtime_t *rt, const dma_gpu_handle_t *handle, dma_gpu_stream_t *stream,
                              uint64_t to)
{
    unsigned (*create)(void **, unsigned) = (unsigned (*)(void **, unsigned))check_vendor("hipStreamCreateWithFlags");
    unsigned (*add)(void *, void *, void *, unsigned) =
        (unsigned (*)(void *, void *, void *, unsigned))check_vendor("hipStreamAddCallback");
    void *theirs = NULL;
    uint64_t base = 0;
    bool good;

    if (!create || !add || create(&theirs, 1) != 0 || rt->ipc_open(handle, &base) != DMA_OK) {
        return check_line(false, "ipc_close", "not begun");
    }
    rt->copy_async(stream, to, base, 4096);
    if (add(theirs, (void *)application_function, NULL, 0) != 0) {
        return check_line(false, "hipStreamAddCallback", "failed");
    }
    while (atomic_load(&in_function) != 1) {
        sched_yield();
    }
    good = check_line(rt->ipc_close(base) == DMA_AGAIN, "ipc_close", "does not wait for the application");
    rt->copy_async(stream, to, base, 4096);
    good &= check_line(rt->stream_sync(stream) == DMA_OK, "copy_async", "goes on meanwhile");
    atomic_store(&in_function, 2);
    return good & check_line(closed(rt, base), "ipc_close", "when it is over");
}

static bool check_closing(const dma_gpu_runtime_t *rt, const dma_gpu_handle_t *handle)
{
    unsigned char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    dma_gpu_stream_t *stream = NULL;
    uint64_t to = 0, at = 0;
    unsigned n = 0;
    bool good = false;

    if (!rt->write32) {
        check_skip("ipc_close", "no write32");
        return true;
    }
    if (rt->alloc(4096, &to) == DMA_OK && rt->host_register(page, 4096, &at) == DMA_OK &&
        rt->stream_create(&stream) == DMA_OK) {
        n = closed_for_good(rt, handle, stream, to, (volatile uint32_t *)page, at);
        good = strcmp(rt->name, "hip") != 0 || check_busy_thread(rt, handle, stream, to);
        rt->stream_destroy(stream);
        rt->host_unregister(page);
        rt->free(to);
    }
    munmap(page, 4096);
    return check_line(n == CLOSES, "ipc_close", "%u of %u are gone at once", n, CLOSES) && good;
}

int check_ipc_child(const dma_gpu_runtime_t *rt)
{
    static const char reply[] = "from the peer";
    dma_gpu_handle_t handle, again;
    dma_gpu_memory_t memory;
    dma_gpu_scope_t scope;
    uint64_t base = 0;
    bool good;

    if (fread(&handle, sizeof(handle), 1, stdin) != 1 || rt->enter(0, &scope) != DMA_OK) {
        return 1;
    }
    if (!check_line(rt->ipc_open(&handle, &base) == DMA_OK, "ipc_open", "at %#lx", base)) {
        return 1;
    }
    good = check_line(has(rt, base + OFFSET, "from the owner"), "ipc_open", "the owner's data");
    good &= rt->copy(base + OFFSET, (uintptr_t)reply, sizeof(reply)) == DMA_OK;
    dma_gpu_classify(rt, base + OFFSET, 64, &memory);
    good &= check_line(memory.kind == DMA_GPU_DEVICE_IMPORTED && !memory.exportable, "query", "imported: %s, %s",
                       check_kind_name(memory.kind), memory.reason ? dma_reason_text(memory.reason) : "exportable");
    good &= check_line(closed(rt, base), "ipc_close", "%s", "");
    good &= check_closing(rt, &handle);
    memset(&again, 0x5c, sizeof(again));
    good &= check_line(rt->ipc_open(&again, &base) == DMA_UNSUPPORTED, "ipc_open", "no handle: refused");
    rt->leave(&scope);
    return !good;
}
