/*
 * IPC needs two processes, each with a runtime of its own: the second is this program again, told by a fourth argument.
 * It reads the handle from its standard input.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "runtime_check.h"

#define BYTES  (3u << 20)
#define OFFSET 12345

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
                    "ipc_export", "%s", dma_gpu_kind_name(memory.kind))) {
        return;
    }
    snprintf(command, sizeof(command), "%s %s 0 0 child", self, rt->name);
    child = popen(command, "w");
    fwrite(&handle, sizeof(handle), 1, child);
    fflush(child);
    check_line(pclose(child) == 0 && has(rt, base + OFFSET, reply), "ipc", "written by another process");
    rt->free(base);
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
                       dma_gpu_kind_name(memory.kind), memory.reason ? memory.reason : "exportable");
    good &= check_line(rt->ipc_close(base) == DMA_OK, "ipc_close", "%s", "");
    memset(&again, 0x5c, sizeof(again));
    good &= check_line(rt->ipc_open(&again, &base) == DMA_UNSUPPORTED, "ipc_open", "no handle: refused");
    rt->leave(&scope);
    return !good;
}
