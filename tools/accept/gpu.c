/* ROCr and memory of GPUs, for the checks: see accept.h. */
#include <dlfcn.h>
#include <string.h>

#include "engine/sdma/queues/rocr.h"
#include "gpu/internal.h"
#include "tools/accept/accept.h"

#define MEMORY_BYTES (UINT64_C(2) << 20) /* ROCr takes small allocations out of larger ones */

bool accept_rocr_start(char *why)
{
    static const char *const names[] = {"libhsa-runtime64.so.1", "libhsa-runtime64.so",
                                        "/opt/rocm/lib/libhsa-runtime64.so.1"};
    void *library = NULL;
    uint32_t (*init)(void), status;

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]) && !library; i++) {
        library = dlopen(names[i], RTLD_NOW | RTLD_GLOBAL);
    }
    if (!library) {
        snprintf(why, ACCEPT_TEXT, "libhsa-runtime64.so.1 cannot be loaded: set LD_LIBRARY_PATH");
        return false;
    }
    *(void **)&init = dlsym(library, "hsa_init");
    status = init ? init() : DMA_ROCR_ERROR;
    if (status != DMA_ROCR_SUCCESS) {
        snprintf(why, ACCEPT_TEXT, "ROCr does not start (%#x): may this process open /dev/kfd?", status);
    }
    return status == DMA_ROCR_SUCCESS;
}

typedef struct pools {
    const dma_rocr_t *rocr;
    dma_rocr_handle_t pool;
    bool found;
} pools_t;

/* Device memory as applications have it: not fine-grained. */
static uint32_t visit_pool(dma_rocr_handle_t pool, void *data)
{
    pools_t *p = data;
    uint32_t segment, flags;
    bool allowed;

    if (p->rocr->pool_info(pool, DMA_ROCR_POOL_SEGMENT, &segment) == DMA_ROCR_SUCCESS &&
        segment == DMA_ROCR_SEGMENT_GLOBAL &&
        p->rocr->pool_info(pool, DMA_ROCR_POOL_ALLOWED, &allowed) == DMA_ROCR_SUCCESS && allowed &&
        p->rocr->pool_info(pool, DMA_ROCR_POOL_FLAGS, &flags) == DMA_ROCR_SUCCESS &&
        !(flags & (DMA_ROCR_POOL_FINE | DMA_ROCR_POOL_KERNARG)) && !p->found) {
        p->pool = pool;
        p->found = true;
    }
    return DMA_ROCR_SUCCESS;
}

static bool find_agent(const dma_rocr_t *rocr, const dma_topo_gpu_t *gpu, dma_rocr_handle_t *agent)
{
    dma_rocr_address_t address = {.domain = gpu->domain, .location_id = dma_topo_location_id(gpu)};
    const char *reason;

    return dma_rocr_find_gpu(rocr, &address, agent, &reason) == DMA_OK;
}

uint64_t accept_gpu_memory(const dma_topo_gpu_t *gpu, const dma_topo_gpu_t *user, uint64_t bytes)
{
    dma_rocr_handle_t agents[2];
    const char *reason;
    dma_rocr_t rocr;
    pools_t pools = {.rocr = &rocr};
    void *memory;

    if (dma_rocr_find(&rocr, &reason) != DMA_OK || !find_agent(&rocr, gpu, &agents[0]) ||
        !find_agent(&rocr, user, &agents[1]) || rocr.iterate_pools(agents[0], visit_pool, &pools) != DMA_ROCR_SUCCESS ||
        !pools.found ||
        rocr.pool_allocate(pools.pool, bytes > MEMORY_BYTES ? bytes : MEMORY_BYTES, 0, &memory) != DMA_ROCR_SUCCESS) {
        return 0;
    }
    /* The memory stays until the process ends, which is soon. */
    return rocr.allow_access(gpu == user ? 1 : 2, agents, NULL, memory) == DMA_ROCR_SUCCESS
               ? (uint64_t)(uintptr_t)memory
               : 0;
}

/* ---- a copy of ROCr's own ---- */

#define COPY_BYTES   4096u
#define CONDITION_LT 2u
#define WAIT_BLOCKED 0u

/* In the order of `symbols`. */
typedef struct copier {
    uint32_t (*signal_create)(int64_t value, uint32_t n, const dma_rocr_handle_t *agents, dma_rocr_handle_t *signal);
    int64_t (*signal_wait)(dma_rocr_handle_t signal, uint32_t condition, int64_t value, uint64_t timeout,
                           uint32_t state);
    uint32_t (*copy)(void *dst, dma_rocr_handle_t dst_agent, const void *src, dma_rocr_handle_t src_agent, size_t bytes,
                     uint32_t n, const dma_rocr_handle_t *before, dma_rocr_handle_t signal);
} copier_t;

static const dma_gpu_symbol_t symbols[] = {
    {"hsa_signal_create", true}, {"hsa_signal_wait_scacquire", true}, {"hsa_amd_memory_async_copy", true}};

/* This never ends if the GPU does not copy. The parent has a time limit. */
static bool copy(const copier_t *c, dma_rocr_handle_t agent, void *dst, const void *src)
{
    dma_rocr_handle_t signal;

    if (c->signal_create(1, 0, NULL, &signal) != DMA_ROCR_SUCCESS ||
        c->copy(dst, agent, src, agent, COPY_BYTES, 0, NULL, signal) != DMA_ROCR_SUCCESS) {
        return false;
    }
    return c->signal_wait(signal, CONDITION_LT, 1, UINT64_MAX, WAIT_BLOCKED) == 0;
}

/* Host memory to the GPU and back. */
static const char *copy_both_ways(const dma_topo_gpu_t *gpu)
{
    dma_rocr_address_t address = {.domain = gpu->domain, .location_id = dma_topo_location_id(gpu)};
    void *there = (void *)(uintptr_t)accept_gpu_memory(gpu, gpu, COPY_BYTES);
    unsigned char *from, *to;
    const char *reason;
    dma_rocr_pool_t pool;
    dma_rocr_t rocr;
    copier_t c;

    if (dma_rocr_find(&rocr, &reason) != DMA_OK || dma_rocr_find_pool(&rocr, &address, &pool, &reason) != DMA_OK) {
        return reason;
    }
    from = dma_rocr_alloc(&rocr, &pool, COPY_BYTES);
    to = dma_rocr_alloc(&rocr, &pool, COPY_BYTES);
    if (!there || !from || !to || !dma_gpu_find_symbols(RTLD_DEFAULT, symbols, 3, &c)) {
        return "ROCr has no memory";
    }
    memset(from, 0x5a, COPY_BYTES);
    if (!copy(&c, pool.gpu, there, from) || !copy(&c, pool.gpu, to, there)) {
        return "ROCr does not copy";
    }
    return memcmp(from, to, COPY_BYTES) ? "ROCr copies wrong data" : NULL;
}

void accept_check_runtime(const accept_task_t *task, accept_answer_t *answer)
{
    const char *wrong;

    if (accept_rocr_start(answer->text)) {
        wrong = copy_both_ways(&task->accept->topo->gpus[task->subject->gpu]);
        snprintf(answer->text, sizeof(answer->text), "%s", wrong ? wrong : "");
        answer->passed = !wrong;
    }
}
