/* The topology of KFD: see topology.h. */
#include "engine/sdma/node/topology.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/sdma/node/topology_text.h"

#define COUNT(table)           (sizeof(table) / sizeof((table)[0]))
#define MAX_ENGINES            32                             /* bits of an engine mask */
#define PATH                   64                             /* longest path below nodes/ */
#define FUNCTIONS              7u                             /* mask of the function in a PCI address */
#define PARTITION_OF(location) ((uint32_t)((location) >> 28)) /* bits 28 to 31; the PCI address has 16 bits */
#define ADDRESS_OF(location)   ((uint32_t)((location)&0xffff))

typedef enum node_kind { NODE_CPU, NODE_GPU, NODE_HIDDEN, NODE_NOMEM } node_kind_t;

/* State while a tree is read. */
typedef struct reader {
    int dir; /* the directory nodes/ */
    char text[DMA_TOPO_MAX_TEXT];
    uint32_t nodes[DMA_TOPO_MAX_NODES];
    uint32_t numbers[DMA_TOPO_MAX_LINKS];
} reader_t;

static bool read_link(reader_t *r, uint32_t node, const char *kind, uint32_t number, dma_topo_link_t *link)
{
    dma_text_key_t keys[] = {
        {.key = "type", .max = UINT32_MAX, .needed = true},
        {.key = "node_to", .max = UINT32_MAX, .needed = true},
        {.key = "recommended_sdma_engine_id_mask", .max = UINT32_MAX}, /* missing in old drivers */
    };
    char path[PATH];

    snprintf(path, sizeof(path), "%u/%s/%u/properties", node, kind, number);
    if (!dma_text_read(r->dir, path, r->text, sizeof(r->text)) || !dma_text_keys(r->text, keys, COUNT(keys))) {
        return false;
    }
    *link = (dma_topo_link_t){
        .type = (uint32_t)keys[0].value, .to = (uint32_t)keys[1].value, .engines = (uint32_t)keys[2].value};
    return true;
}

/* Appends the links of one kind. A link that cannot be read is left out, because the other links are still valid. */
static bool read_links(reader_t *r, dma_topo_gpu_t *gpu, const char *kind)
{
    char path[PATH];
    int n;
    dma_topo_link_t *links;

    snprintf(path, sizeof(path), "%u/%s", gpu->node, kind);
    n = dma_text_numbers(r->dir, path, r->numbers, DMA_TOPO_MAX_LINKS);
    if (n <= 0) {
        return true;
    }
    links = realloc(gpu->links, (gpu->nlinks + (size_t)n) * sizeof(*links));
    if (!links) {
        return false;
    }
    gpu->links = links;
    for (int i = 0; i < n; i++) {
        if (read_link(r, gpu->node, kind, r->numbers[i], &links[gpu->nlinks])) {
            gpu->nlinks++;
        }
    }
    return true;
}

static bool read_properties(reader_t *r, dma_topo_gpu_t *gpu)
{
    dma_text_key_t keys[] = {
        {.key = "location_id", .max = UINT32_MAX, .needed = true},
        {.key = "device_id", .max = UINT32_MAX, .needed = true},
        {.key = "num_sdma_engines", .max = MAX_ENGINES, .needed = true},
        {.key = "num_sdma_xgmi_engines", .max = MAX_ENGINES, .needed = true},
        /* missing in old drivers */
        {.key = "domain", .max = UINT32_MAX},
        {.key = "gfx_target_version", .max = UINT32_MAX},
        {.key = "sdma_fw_version", .max = UINT32_MAX},
        {.key = "num_xcc", .max = UINT32_MAX},
    };
    char path[PATH];

    snprintf(path, sizeof(path), "%u/properties", gpu->node);
    if (!dma_text_read(r->dir, path, r->text, sizeof(r->text)) || !dma_text_keys(r->text, keys, COUNT(keys)) ||
        keys[2].value + keys[3].value > MAX_ENGINES) {
        return false;
    }
    gpu->location = ADDRESS_OF(keys[0].value);
    gpu->partition = PARTITION_OF(keys[0].value);
    gpu->device_id = (uint32_t)keys[1].value;
    gpu->host_engines = (uint32_t)keys[2].value;
    gpu->xgmi_engines = (uint32_t)keys[3].value;
    gpu->domain = (uint32_t)keys[4].value;
    gpu->version = (uint32_t)keys[5].value;
    gpu->firmware = (uint32_t)keys[6].value;
    gpu->xccs = (uint32_t)keys[7].value;
    return true;
}

/* With NODE_GPU, the caller frees the links. */
static node_kind_t read_node(reader_t *r, uint32_t node, dma_topo_gpu_t *gpu)
{
    uint64_t id;
    char path[PATH];

    *gpu = (dma_topo_gpu_t){.node = node};
    snprintf(path, sizeof(path), "%u/gpu_id", node);
    if (!dma_text_read(r->dir, path, r->text, sizeof(r->text)) || !dma_text_number(r->text, UINT32_MAX, &id)) {
        return NODE_HIDDEN;
    }
    if (id == 0) {
        return NODE_CPU;
    }
    gpu->gpu_id = (uint32_t)id;
    if (!read_properties(r, gpu)) {
        return NODE_HIDDEN;
    }
    if (!read_links(r, gpu, "io_links") || !read_links(r, gpu, "p2p_links")) {
        free(gpu->links);
        return NODE_NOMEM;
    }
    return NODE_GPU;
}

static dma_status_t read_nodes(reader_t *r, int nnodes, dma_topo_t *topo)
{
    for (int i = 0; i < nnodes; i++) {
        switch (read_node(r, r->nodes[i], &topo->gpus[topo->ngpus])) {
        case NODE_CPU:
            break;
        case NODE_GPU:
            topo->ngpus++;
            break;
        case NODE_HIDDEN:
            topo->hidden++;
            break;
        case NODE_NOMEM:
            return DMA_ERR_NOMEM;
        }
    }
    return DMA_OK;
}

static const char *no_gpu_reason(const dma_topo_t *topo)
{
    return topo->hidden ? "no GPU in KFD's topology may be read by this process" : "there is no GPU in KFD's topology";
}

static dma_status_t read_tree(reader_t *r, dma_topo_t **topo, const char **reason)
{
    dma_topo_t *t;
    dma_status_t status;
    int nnodes = dma_text_numbers(r->dir, ".", r->nodes, DMA_TOPO_MAX_NODES);

    if (nnodes < 0) {
        *reason = "KFD's topology cannot be read, or has more than 256 nodes";
        return DMA_UNSUPPORTED;
    }
    t = calloc(1, sizeof(*t));
    if (!t) {
        return DMA_ERR_NOMEM;
    }
    t->gpus = calloc((size_t)nnodes + 1, sizeof(*t->gpus));
    if (!t->gpus) {
        status = DMA_ERR_NOMEM;
        goto free_topo;
    }
    status = read_nodes(r, nnodes, t);
    if (status == DMA_OK && t->ngpus == 0) {
        *reason = no_gpu_reason(t);
        status = DMA_UNSUPPORTED;
    }
    if (status != DMA_OK) {
        goto free_topo;
    }
    *topo = t;
    return DMA_OK;

free_topo:
    dma_topo_free(t);
    return status;
}

dma_status_t dma_topo_read(const char *root, dma_topo_t **topo, const char **reason)
{
    reader_t *r = malloc(sizeof(*r));
    dma_status_t status;
    int dir;

    if (!r) {
        return DMA_ERR_NOMEM;
    }
    dir = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    r->dir = dir < 0 ? -1 : openat(dir, "nodes", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir >= 0) {
        close(dir);
    }
    if (r->dir < 0) {
        *reason = "there is no KFD topology: the amdgpu driver is not loaded, or sysfs is not mounted";
        status = DMA_UNSUPPORTED;
        goto free_reader;
    }
    status = read_tree(r, topo, reason);
    close(r->dir);

free_reader:
    free(r);
    return status;
}

void dma_topo_free(dma_topo_t *topo)
{
    if (!topo) {
        return;
    }
    for (uint32_t i = 0; i < topo->ngpus; i++) {
        free(topo->gpus[i].links);
    }
    free(topo->gpus);
    free(topo);
}

/* Returns the only match, or NULL if there is none or several. */
static const dma_topo_gpu_t *match(const dma_topo_t *topo, uint32_t domain, uint32_t location, int partition)
{
    const dma_topo_gpu_t *found = NULL;

    for (uint32_t i = 0; i < topo->ngpus; i++) {
        const dma_topo_gpu_t *gpu = &topo->gpus[i];
        if (gpu->domain == domain && gpu->location == location &&
            (partition == DMA_TOPO_ANY_PARTITION || gpu->partition == (uint32_t)partition)) {
            if (found) {
                return NULL;
            }
            found = gpu;
        }
    }
    return found;
}

const dma_topo_gpu_t *dma_topo_find(const dma_topo_t *topo, uint32_t domain, uint32_t location, int partition)
{
    const dma_topo_gpu_t *gpu = match(topo, domain, location, partition);
    uint32_t function = location & FUNCTIONS;

    if (!gpu && function && partition == DMA_TOPO_ANY_PARTITION) {
        return match(topo, domain, location & ~FUNCTIONS, (int)function);
    }
    return gpu;
}

unsigned dma_topo_count(const dma_topo_t *topo, uint32_t domain, uint32_t location)
{
    unsigned n = 0;

    for (uint32_t i = 0; i < topo->ngpus; i++) {
        n += topo->gpus[i].domain == domain && topo->gpus[i].location == location;
    }
    return n;
}

bool dma_topo_is_whole_device(const dma_topo_t *topo, const dma_topo_gpu_t *gpu)
{
    for (uint32_t i = 0; i < topo->ngpus; i++) {
        const dma_topo_gpu_t *other = &topo->gpus[i];

        if (other != gpu && other->domain == gpu->domain && (other->location ^ gpu->location) <= FUNCTIONS) {
            return false;
        }
    }
    return true;
}
