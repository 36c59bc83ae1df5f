/*
 * Addresses that a program manages itself, with the real ROCr from 6.0 on: hsa_amd_vmem_*, which hipMemMap calls in HIP from
 * 6.1 on. Memory of two GPUs is adjacent in one range of addresses. Both GPUs and the CPU access it, another process maps it at
 * other addresses, and memory that was unmapped is mapped again elsewhere.
 *
 * usage: addresses [child FD]
 * The program starts the child itself. Exit status 77: this ROCr has no such calls.
 */
#include <hsa/hsa.h>
#include <hsa/hsa_ext_amd.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#if HSA_AMD_INTERFACE_VERSION_MINOR < 4
int main(void)
{
    puts("this ROCr lets programs manage no addresses");
    return 77;
}
#else
enum { BYTES = 4 << 20, GPUS = 2, AGENTS = 8 };

static void expect(int held, const char *what, int line)
{
    if (!held) {
        fprintf(stderr, "addresses.c:%d: not so: %s\n", line, what);
        exit(1);
    }
}
#define EXPECT(condition) expect(condition, #condition, __LINE__)
#define HSA(call)         expect((call) == HSA_STATUS_SUCCESS, #call, __LINE__)

static struct {
    hsa_agent_t host, gpus[AGENTS];
    hsa_amd_memory_pool_t host_pool, pools[AGENTS];
    int n;
    hsa_signal_t done;
    unsigned char *buffer; /* in host memory, mapped for all GPUs */
} node;

/* Finds the first pool in which programs may allocate: GPU memory, or fine-grained host memory. */
static hsa_status_t find_pool(hsa_amd_memory_pool_t pool, void *found)
{
    hsa_amd_segment_t segment;
    bool may;
    HSA(hsa_amd_memory_pool_get_info(pool, HSA_AMD_MEMORY_POOL_INFO_SEGMENT, &segment));
    HSA(hsa_amd_memory_pool_get_info(pool, HSA_AMD_MEMORY_POOL_INFO_RUNTIME_ALLOC_ALLOWED, &may));
    if (segment != HSA_AMD_SEGMENT_GLOBAL || !may)
        return HSA_STATUS_SUCCESS;
    *(hsa_amd_memory_pool_t *)found = pool;
    return HSA_STATUS_INFO_BREAK;
}

static hsa_status_t find_agent(hsa_agent_t agent, void *unused)
{
    hsa_device_type_t type;
    (void)unused;
    HSA(hsa_agent_get_info(agent, HSA_AGENT_INFO_DEVICE, &type));
    if (type == HSA_DEVICE_TYPE_CPU) {
        node.host = agent;
        EXPECT(hsa_amd_agent_iterate_memory_pools(agent, find_pool, &node.host_pool) == HSA_STATUS_INFO_BREAK);
    } else if (type == HSA_DEVICE_TYPE_GPU && node.n < AGENTS) {
        node.gpus[node.n] = agent;
        EXPECT(hsa_amd_agent_iterate_memory_pools(agent, find_pool, &node.pools[node.n]) == HSA_STATUS_INFO_BREAK);
        node.n++;
    }
    return HSA_STATUS_SUCCESS;
}

static void begin(void)
{
    HSA(hsa_init());
    HSA(hsa_iterate_agents(find_agent, NULL));
    EXPECT(node.n >= GPUS);
    HSA(hsa_signal_create(1, 0, NULL, &node.done));
    HSA(hsa_amd_memory_pool_allocate(node.host_pool, BYTES, 0, (void **)&node.buffer));
    HSA(hsa_amd_agents_allow_access(GPUS, node.gpus, NULL, node.buffer));
}

static void end(void)
{
    HSA(hsa_signal_destroy(node.done));
    HSA(hsa_amd_memory_pool_free(node.buffer));
    HSA(hsa_shut_down());
}

/* Copies with a DMA engine of a GPU. */
static void copy(void *to, const void *from, int gpu)
{
    hsa_signal_store_relaxed(node.done, 1);
    HSA(hsa_amd_memory_async_copy(to, node.gpus[gpu], from, node.gpus[gpu], BYTES, 0, NULL, node.done));
    EXPECT(hsa_signal_wait_scacquire(node.done, HSA_SIGNAL_CONDITION_LT, 1, UINT64_MAX, HSA_WAIT_STATE_BLOCKED) == 0);
}

static unsigned char pattern(size_t at, int seed)
{
    return (unsigned char)(at * 7 + (at >> 11) + (size_t)seed);
}

static void fill(unsigned char *memory, int seed)
{
    for (size_t i = 0; i < BYTES; i++)
        memory[i] = pattern(i, seed);
}

static bool filled(const unsigned char *memory, int seed)
{
    for (size_t i = 0; i < BYTES; i++)
        if (memory[i] != pattern(i, seed))
            return false;
    return true;
}

static void put(unsigned char *to, int gpu, int seed)
{
    fill(node.buffer, seed);
    copy(to, node.buffer, gpu);
}

static bool holds(const unsigned char *from, int gpu, int seed)
{
    memset(node.buffer, 0, BYTES);
    copy(node.buffer, from, gpu);
    return filled(node.buffer, seed);
}

static unsigned char *reserve(size_t bytes)
{
    void *at;
    HSA(hsa_amd_vmem_address_reserve(&at, bytes, 0, 0));
    return at;
}

/* Allows access by both GPUs and the CPU. */
static void allow(void *at, size_t bytes)
{
    hsa_amd_memory_access_desc_t who[] = {{HSA_ACCESS_PERMISSION_RW, node.gpus[0]},
                                          {HSA_ACCESS_PERMISSION_RW, node.gpus[1]},
                                          {HSA_ACCESS_PERMISSION_RW, node.host}};
    HSA(hsa_amd_vmem_set_access(at, bytes, who, sizeof who / sizeof *who));
}

static int child(const char *descriptor)
{
    hsa_amd_vmem_alloc_handle_t theirs;
    begin();
    unsigned char *at = reserve(BYTES);
    HSA(hsa_amd_vmem_import_shareable_handle(atoi(descriptor), &theirs));
    HSA(hsa_amd_vmem_map(at, BYTES, 0, theirs, 0));
    allow(at, BYTES);
    EXPECT(holds(at, 1, 3));
    put(at, 0, 4);
    HSA(hsa_amd_vmem_unmap(at, BYTES));
    HSA(hsa_amd_vmem_handle_release(theirs));
    HSA(hsa_amd_vmem_address_free(at, BYTES));
    end();
    return 0;
}

/* Another process maps the memory at addresses of its own. */
static void other_process(const char *self, hsa_amd_vmem_alloc_handle_t handle)
{
    int exported, status;
    char text[16];
    HSA(hsa_amd_vmem_export_shareable_handle(&exported, handle, 0));
    int inherited = dup(exported);
    snprintf(text, sizeof text, "%d", inherited);
    pid_t pid = fork();
    if (pid == 0) {
        execl(self, self, "child", text, NULL);
        _exit(9);
    }
    EXPECT(waitpid(pid, &status, 0) == pid && status == 0);
    close(exported);
    close(inherited);
}

int main(int argc, char **argv)
{
    hsa_amd_vmem_alloc_handle_t handles[GPUS];
    hsa_access_permission_t permission;
    if (argc == 3)
        return child(argv[2]);
    begin();
    unsigned char *both = reserve(GPUS * (size_t)BYTES), *elsewhere = reserve(BYTES);
    for (int gpu = 0; gpu < GPUS; gpu++) {
        HSA(hsa_amd_vmem_handle_create(node.pools[gpu], BYTES, MEMORY_TYPE_NONE, 0, &handles[gpu]));
        HSA(hsa_amd_vmem_map(both + (size_t)gpu * BYTES, BYTES, 0, handles[gpu], 0));
        allow(both + (size_t)gpu * BYTES, BYTES);
    }
    HSA(hsa_amd_vmem_get_access(both, &permission, node.gpus[1]));
    EXPECT(permission == HSA_ACCESS_PERMISSION_RW);
    /* Each GPU's engine fills the memory of the other GPU. Then one copies the second memory to the first. */
    put(both, 1, 1);
    put(both + BYTES, 0, 2);
    EXPECT(holds(both, 0, 1) && holds(both + BYTES, 1, 2));
    copy(both, both + BYTES, 0);
    EXPECT(holds(both, 1, 2));
    /* The CPU reads the same bytes. */
    EXPECT(filled(both, 2));
    fill(both, 3);
    EXPECT(holds(both, 0, 3));
    other_process(argv[0], handles[0]);
    EXPECT(holds(both, 0, 4) && holds(both + BYTES, 0, 2));
    /* The second memory is mapped at another address. */
    HSA(hsa_amd_vmem_unmap(both + BYTES, BYTES));
    HSA(hsa_amd_vmem_map(elsewhere, BYTES, 0, handles[1], 0));
    allow(elsewhere, BYTES);
    EXPECT(holds(elsewhere, 0, 2));
    HSA(hsa_amd_vmem_unmap(elsewhere, BYTES));
    HSA(hsa_amd_vmem_unmap(both, BYTES));
    for (int gpu = 0; gpu < GPUS; gpu++)
        HSA(hsa_amd_vmem_handle_release(handles[gpu]));
    HSA(hsa_amd_vmem_address_free(both, GPUS * (size_t)BYTES));
    HSA(hsa_amd_vmem_address_free(elsewhere, BYTES));
    end();
    return 0;
}
#endif
