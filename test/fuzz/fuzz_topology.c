/*
 * The driver's tree of files: engine/sdma/node/topology.c.
 *
 * An input is files: a line "@PATH" begins one, the lines after it are its text. A PATH that ends in / is an empty directory.
 */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "engine/sdma/node/topology.h"
#include "fuzz.h"

#define MOST_FILES 60

static void write_tree(const char *at, const char *end)
{
    char name[128];

    for (int files = 0; at < end && files < MOST_FILES; files++) {
        const char *line = memchr(at, '\n', (size_t)(end - at)), *next;
        size_t n;

        if (*at != '@' || !line) {
            return;
        }
        n = (size_t)(line - at - 1);
        for (next = line; (next = memchr(next, '@', (size_t)(end - next))) && next[-1] != '\n';) {
            next++;
        }
        next = next ? next : end;
        if (n && n < sizeof(name) && !memchr(at + 1, '\0', n)) {
            memcpy(name, at + 1, n);
            name[n] = '\0';
            if (!strstr(name, "//")) {
                fuzz_write(name, line + 1, (size_t)(next - line - 1));
            }
        }
        at = next;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    const char *reason = NULL;
    dma_topo_t *topo;

    fuzz_clear();
    write_tree((const char *)data, (const char *)data + bytes);
    if (dma_topo_read(fuzz_dir(), &topo, &reason) != DMA_OK) {
        FUZZ_MUST(reason && *reason);
        return 0;
    }
    for (unsigned i = 0; i < topo->ngpus; i++) {
        const dma_topo_gpu_t *gpu = &topo->gpus[i];

        FUZZ_MUST(dma_topo_count(topo, gpu->domain, dma_topo_location_id(gpu) & 0xffff) <= topo->ngpus);
        (void)dma_topo_find(topo, gpu->domain, dma_topo_location_id(gpu), 0);
        (void)dma_topo_is_whole_device(topo, gpu);
    }
    dma_topo_free(topo);
    return 0;
}
