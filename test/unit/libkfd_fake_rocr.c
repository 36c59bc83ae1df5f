/* The ROCr of libkfd_fake.h: two CPUs, the GPUs, pools, and memory whose GPU addresses equal the CPU's. */
#include <check.h>
#include <string.h>
#include <sys/mman.h>

#include "libkfd_fake_internal.h"

#define CPU      1 /* handles of the pools: of the first CPU, of the CPU near the GPUs, */
#define NEAR_CPU 2
#define GPU(n)   (10u + (n)) /* and of the GPU of a node */
#define RANGES   1024
#define PAGE     4096

#define NOT_RUNNING 0x100bu
#define WRONG       0x1001u
#define NO_MEMORY   0x1008u

typedef struct range {
    uint64_t at, bytes; /* of the mapping */
    bool mapped;
} range_t;

static range_t ranges[RANGES];
static int nranges; /* more than those are not in use */

void fake_memory_begin(void)
{
    memset(ranges, 0, sizeof(ranges));
    nranges = 0;
}

void fake_memory_sweep(void)
{
    for (int i = 0; i < nranges; i++) {
        if (ranges[i].at) {
            munmap((void *)(uintptr_t)ranges[i].at, ranges[i].bytes);
            ranges[i].at = 0;
        }
    }
    fake_counts.allocations = 0;
}

void fake_memory_end(void)
{
    for (int i = 0; i < nranges; i++) {
        ck_assert_uint_eq(ranges[i].at, 0);
    }
}

bool fake_memory_mapped(uint64_t at, uint64_t bytes)
{
    for (int i = 0; i < nranges; i++) {
        const range_t *r = &ranges[i];

        if (r->at && r->mapped && at >= r->at && at - r->at <= r->bytes && bytes <= r->bytes - (at - r->at)) {
            return true;
        }
    }
    return false;
}

bool fake_memory_exact(uint64_t at, uint64_t bytes)
{
    for (int i = 0; i < nranges; i++) {
        if (ranges[i].at == at && ranges[i].bytes == bytes && ranges[i].mapped) {
            return true;
        }
    }
    return false;
}

static bool is_gpu(uint64_t agent)
{
    return agent > GPU(0) && agent <= GPU(fake_options.topo ? fake_options.topo->ngpus : 3);
}

/* The CPUs first, and the GPUs in an order that is not the kernel's. */
static uint32_t iterate_agents(dma_rocr_each_t *each, void *data)
{
    static const uint64_t agents[] = {CPU, NEAR_CPU, GPU(1), GPU(FAKE_NODE), GPU(3)};
    const dma_topo_t *topo = fake_options.topo;
    uint32_t rc = DMA_ROCR_SUCCESS;

    if (fake_fails() || fake_options.rocr_down) {
        return NOT_RUNNING;
    }
    for (size_t i = 0; i < (topo ? 2 + topo->ngpus : 5) && rc == DMA_ROCR_SUCCESS; i++) {
        uint64_t agent = topo && i > 1 ? GPU(topo->ngpus + 2 - i) : agents[i];

        if (agent != GPU(FAKE_NODE) || !fake_options.hidden) {
            rc = each((dma_rocr_handle_t){agent}, data);
        }
    }
    return rc;
}

/* The bus number is n. The GPU before the tests' GPU has the same bus number, in another domain. */
static uint32_t location_of(uint64_t n)
{
    if (fake_options.topo) {
        const dma_topo_gpu_t *gpu = &fake_options.topo->gpus[n - 1];

        return gpu->partition << 28 | gpu->location;
    }
    return n == 1 || fake_options.twins ? FAKE_LOCATION : (uint32_t)n << 8;
}

static uint32_t domain_of(uint64_t n)
{
    return fake_options.topo ? fake_options.topo->gpus[n - 1].domain : n == 1 ? 0 : FAKE_DOMAIN;
}

static uint32_t agent_info(dma_rocr_handle_t agent, uint32_t what, void *value)
{
    if (fake_fails()) {
        return WRONG;
    }
    ck_assert(agent.handle < GPU(0) || is_gpu(agent.handle));
    switch (what) {
    case DMA_ROCR_AGENT_DEVICE:
        *(uint32_t *)value = agent.handle < GPU(0) ? DMA_ROCR_DEVICE_CPU : DMA_ROCR_DEVICE_GPU;
        return DMA_ROCR_SUCCESS;
    case DMA_ROCR_AGENT_LOCATION:
        *(uint32_t *)value = location_of(agent.handle - GPU(0));
        return fake_options.no_address ? WRONG : DMA_ROCR_SUCCESS;
    case DMA_ROCR_AGENT_DOMAIN:
        *(uint32_t *)value = domain_of(agent.handle - GPU(0));
        return DMA_ROCR_SUCCESS;
    case DMA_ROCR_AGENT_NEAREST_CPU:
        if (fake_options.old_rocr) {
            return WRONG;
        }
        *(dma_rocr_handle_t *)value = (dma_rocr_handle_t){NEAR_CPU};
        return DMA_ROCR_SUCCESS;
    default:
        ck_abort_msg("unknown question %#x", what);
    }
}

/* Order: coarse-grained, for kernel arguments, fine-grained; a group segment comes before all of them. */
static uint32_t iterate_pools(dma_rocr_handle_t agent, dma_rocr_each_t *each, void *data)
{
    uint64_t first = agent.handle == NEAR_CPU ? 99 : 109;
    uint32_t rc = DMA_ROCR_SUCCESS;

    if (fake_fails()) {
        return WRONG;
    }
    ck_assert(agent.handle == CPU || agent.handle == NEAR_CPU);
    for (uint64_t pool = first; pool < first + 4 && rc == DMA_ROCR_SUCCESS; pool++) {
        bool kernarg = pool % 10 == 1, fine = pool % 10 == 2;

        if ((fake_options.no_fine && (kernarg || fine)) || (fake_options.only_kernarg && fine)) {
            continue;
        }
        rc = each((dma_rocr_handle_t){pool}, data);
    }
    return rc;
}

static uint32_t pool_info(dma_rocr_handle_t pool, uint32_t what, void *value)
{
    static const uint32_t flags[] = {4, DMA_ROCR_POOL_KERNARG | DMA_ROCR_POOL_FINE, DMA_ROCR_POOL_FINE};

    if (fake_fails()) {
        return WRONG;
    }
    switch (what) {
    case DMA_ROCR_POOL_SEGMENT:
        *(uint32_t *)value = pool.handle % 10 == 9 ? 3 : DMA_ROCR_SEGMENT_GLOBAL;
        return DMA_ROCR_SUCCESS;
    case DMA_ROCR_POOL_ALLOWED:
        *(bool *)value = true;
        return DMA_ROCR_SUCCESS;
    case DMA_ROCR_POOL_FLAGS:
        ck_assert_uint_lt(pool.handle % 10, 3);
        *(uint32_t *)value = flags[pool.handle % 10];
        return DMA_ROCR_SUCCESS;
    default:
        ck_abort_msg("unknown question %#x", what);
    }
}

/* The memory is not zeroed, and children do not inherit it. */
static uint32_t pool_allocate(dma_rocr_handle_t pool, size_t bytes, uint32_t flags, void **memory)
{
    range_t *r = ranges;

    if (fake_fails()) {
        return NO_MEMORY;
    }
    ck_assert_uint_eq(bytes % PAGE, 0);
    ck_assert_uint_eq(flags, 0); /* the functions that every version has */
    bytes += fake_options.extra;
    *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(*memory, MAP_FAILED);
    madvise(*memory, bytes, MADV_DONTFORK);
    memset(*memory, 0x5a, bytes);
    fake_lock();
    while (r->at) {
        r++;
        ck_assert(r < ranges + RANGES);
    }
    *r = (range_t){.at = (uintptr_t)*memory, .bytes = bytes};
    nranges = r - ranges < nranges ? nranges : (int)(r - ranges) + 1;
    fake_counts.allocations++;
    fake_counts.pool = (unsigned)pool.handle;
    fake_unlock();
    return DMA_ROCR_SUCCESS;
}

/* With the lock. */
static range_t *range_at(const void *memory)
{
    for (int i = 0; memory && i < nranges; i++) {
        if (ranges[i].at == (uintptr_t)memory) {
            return &ranges[i];
        }
    }
    ck_abort_msg("%p is not allocated", memory);
}

static uint32_t pool_free(void *memory)
{
    range_t *r;

    fake_lock();
    ck_assert_msg(!fake_memory_in_use((uintptr_t)memory), "memory of a queue is freed before the queue");
    r = range_at(memory);
    munmap(memory, r->bytes);
    r->at = 0;
    fake_counts.allocations--;
    fake_unlock();
    return DMA_ROCR_SUCCESS;
}

static uint32_t allow_access(uint32_t n, const dma_rocr_handle_t *agents, const uint32_t *flags, const void *memory)
{
    if (fake_fails()) {
        return NO_MEMORY;
    }
    ck_assert_uint_eq(n, 1);
    ck_assert(fake_options.topo ? is_gpu(agents[0].handle) : agents[0].handle == GPU(FAKE_NODE));
    ck_assert_ptr_null(flags);
    fake_lock();
    range_at(memory)->mapped = true;
    fake_unlock();
    return DMA_ROCR_SUCCESS;
}

dma_status_t fake_find_rocr(dma_rocr_t *rocr, const char **reason)
{
    if (fake_fails() || fake_options.no_rocr) {
        *reason = "ROCr is not loaded";
        return DMA_UNSUPPORTED;
    }
    *rocr = (dma_rocr_t){iterate_agents, agent_info, iterate_pools, pool_info,
                         pool_allocate,  pool_free,  allow_access,  NULL};
    return DMA_OK;
}
