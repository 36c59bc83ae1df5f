/* Queues through the thunk: a thunk of plain functions takes the place of the one that would be looked for. */
#include <stdlib.h>
#include <string.h>

#include "engine/sdma/provider.h"
#include "engine/sdma/thunk.h"
#include "libunit.h"

#define PAGE 4096u
#define NODE 5u /* the thunk's number */
#define ID   1234u

/* What the thunk says, and what it has been asked. */
static struct {
    bool absent;
    uint32_t open_rc, alloc_rc, map_rc, create_rc;
    uint64_t device_addr;
    int opened, allocated, mapped, queues;
    uint32_t type;
    int64_t priority;
    uint64_t read, write, doorbell;
    int64_t error;
    bool no_rocr, twins, partitions;
} fake;

static uint32_t fake_open(void)
{
    fake.opened += fake.open_rc == DMA_THUNK_SUCCESS || fake.open_rc == DMA_THUNK_ALREADY_OPENED;
    return fake.open_rc;
}

static uint32_t fake_close(void)
{
    fake.opened--;
    return DMA_THUNK_SUCCESS;
}

static uint32_t fake_alloc(uint32_t node, uint64_t bytes, dma_thunk_flags_t flags, void **addr)
{
    ck_assert_uint_eq(node, 0); /* host memory */
    ck_assert_uint_eq(flags.value,
                      DMA_THUNK_NON_PAGED | DMA_THUNK_HOST_ACCESS | DMA_THUNK_EXECUTE_ACCESS | DMA_THUNK_UNCACHED);
    if (fake.alloc_rc) {
        return fake.alloc_rc;
    }
    *addr = aligned_alloc(PAGE, bytes);
    memset(*addr, 0x5a, bytes);
    fake.allocated++;
    return DMA_THUNK_SUCCESS;
}

static uint32_t fake_free(void *addr, uint64_t bytes)
{
    (void)bytes;
    ck_assert_int_lt(fake.mapped, fake.allocated); /* unmapped before, if it was */
    free(addr);
    fake.allocated--;
    return DMA_THUNK_SUCCESS;
}

static uint32_t fake_map(void *addr, uint64_t bytes, uint64_t *device_addr)
{
    (void)addr;
    (void)bytes;
    if (fake.map_rc) {
        return fake.map_rc;
    }
    *device_addr = fake.device_addr;
    fake.mapped++;
    return DMA_THUNK_SUCCESS;
}

static uint32_t fake_unmap(void *addr)
{
    (void)addr;
    ck_assert_int_eq(fake.queues, 0);
    fake.mapped--;
    return DMA_THUNK_SUCCESS;
}

static uint32_t fake_create(uint32_t node, uint32_t type, uint32_t percent, int64_t priority, void *ring,
                            uint64_t bytes, void *event, dma_thunk_queue_t *queue)
{
    ck_assert_uint_eq(node, NODE);
    ck_assert_uint_eq(percent, 100);
    ck_assert_ptr_null(event);
    ck_assert_ptr_nonnull(ring);
    ck_assert_uint_eq(bytes, PAGE);
    fake.type = type;
    fake.priority = priority;
    if (fake.create_rc) {
        return fake.create_rc;
    }
    *queue = (dma_thunk_queue_t){ID, &fake.doorbell, &fake.write, &fake.read, &fake.error};
    fake.queues++;
    return DMA_THUNK_SUCCESS;
}

static uint32_t fake_destroy(uint64_t id)
{
    ck_assert_uint_eq(id, ID);
    fake.queues--;
    return DMA_THUNK_SUCCESS;
}

dma_status_t dma_thunk_find(dma_thunk_t *thunk, const char **reason)
{
    if (fake.absent) {
        *reason = "there is none";
        return DMA_UNSUPPORTED;
    }
    *thunk = (dma_thunk_t){.open = fake_open,
                           .close = fake_close,
                           .alloc = fake_alloc,
                           .free = fake_free,
                           .map = fake_map,
                           .unmap = fake_unmap,
                           .create_queue = fake_create,
                           .destroy_queue = fake_destroy};
    return DMA_OK;
}

/* ROCr's GPUs: the one on the bus whose number is NODE has another number, and so has partition 1 of ours. */
static const struct {
    uint32_t node, domain, location_id;
} agents[] = {{1, 0, NODE << 8}, {2, 1, 0x4100}, {NODE, 0, 0x4100}, {6, 0, 0x4101}, {7, 0, 0x10004100}, {8, 0, 0x4100}};

enum { ALONE = 3, WITH_PARTITIONS = 5, WITH_TWIN = 6 };

static uint32_t iterate_agents(dma_rocr_each_t *each, void *data)
{
    uint64_t n = fake.twins ? WITH_TWIN : fake.partitions ? WITH_PARTITIONS : ALONE;

    for (uint64_t i = 0; i < n; i++) {
        each((dma_rocr_handle_t){i}, data);
    }
    return DMA_ROCR_SUCCESS;
}

static uint32_t agent_info(dma_rocr_handle_t agent, uint32_t what, void *value)
{
    *(uint32_t *)value = what == DMA_ROCR_AGENT_DEVICE     ? DMA_ROCR_DEVICE_GPU
                         : what == DMA_ROCR_AGENT_LOCATION ? agents[agent.handle].location_id
                         : what == DMA_ROCR_AGENT_DOMAIN   ? agents[agent.handle].domain
                                                           : agents[agent.handle].node;
    return DMA_ROCR_SUCCESS;
}

dma_status_t __wrap_dma_rocr_find(dma_rocr_t *rocr, const char **reason);
dma_status_t __wrap_dma_rocr_find(dma_rocr_t *rocr, const char **reason)
{
    *reason = "there is no ROCr";
    *rocr = (dma_rocr_t){.iterate_agents = iterate_agents, .agent_info = agent_info};
    return fake.no_rocr ? DMA_UNSUPPORTED : DMA_OK;
}

static dma_status_t open_at(uint32_t location_id, dma_provider_t **p, char *why)
{
    static const dma_provider_ops_t *const list[] = {&dma_provider_thunk, NULL};
    const dma_provider_gpu_t gpu = {.address = {.location_id = location_id}, .gpu_id = 99};

    dma_provider_search_t search = dma_provider_search(list, "thunk", &gpu, why);

    return dma_provider_open(&search, p);
}

static dma_status_t open_provider(dma_provider_t **p, char *why)
{
    return open_at(0x4100, p, why);
}

static dma_provider_t *begin(void)
{
    char why[DMA_PROVIDER_WHY_BYTES];
    dma_provider_t *p;

    fake.open_rc = DMA_THUNK_ALREADY_OPENED;
    ck_assert_int_eq(open_provider(&p, why), DMA_OK);
    return p;
}

static void end(dma_provider_t *p)
{
    p->ops->close(p);
    ck_assert(!fake.opened && !fake.allocated && !fake.mapped && !fake.queues);
}

/* One that ROCr has opened is its own; one that nobody has is left as it was. */
START_TEST(whose)
{
    static const uint32_t bad[] = {DMA_THUNK_SUCCESS, 20, 1};
    char why[DMA_PROVIDER_WHY_BYTES];
    dma_provider_t *p;

    for (int i = 0; i < 3; i++) {
        fake.open_rc = bad[i];
        ck_assert_int_eq(open_provider(&p, why), DMA_UNSUPPORTED);
        ck_assert_str_eq(why, "thunk: ROCr does not use the libhsakmt that is in this process");
        ck_assert_int_eq(fake.opened, 0);
    }
    fake.absent = true;
    ck_assert_int_eq(open_provider(&p, why), DMA_UNSUPPORTED);
    ck_assert_str_eq(why, "thunk: there is none");
    fake.absent = false;
    p = begin();
    ck_assert_int_eq(fake.opened, 1);
    end(p);
}
END_TEST

/* Which GPU it is: by its PCI address, and not at all where that is not certain. */
START_TEST(which)
{
    dma_provider_t *p = begin();
    char why[DMA_PROVIDER_WHY_BYTES];

    end(p);
    fake.partitions = true;
    p = begin();
    end(p);
    fake.partitions = false;
    ck_assert_int_eq(open_at(0x10004100, &p, why), DMA_UNSUPPORTED);
    ck_assert_str_eq(why, "thunk: ROCr does not show the device");
    ck_assert_int_eq(open_at(0x4101, &p, why), DMA_UNSUPPORTED);
    fake.twins = true;
    ck_assert_int_eq(open_provider(&p, why), DMA_UNSUPPORTED);
    ck_assert_str_eq(why, "thunk: ROCr shows several devices with this PCI address");
    fake.twins = false;
    fake.no_rocr = true;
    ck_assert_int_eq(open_provider(&p, why), DMA_UNSUPPORTED);
    ck_assert_str_eq(why, "thunk: there is no ROCr");
    fake.no_rocr = false;
    ck_assert_int_eq(fake.opened, 0);
}
END_TEST

START_TEST(memory)
{
    dma_provider_t *p = begin();
    uint64_t addr = 0;
    unsigned char *at;

    fake.alloc_rc = 6;
    ck_assert_ptr_null(p->ops->alloc(p, PAGE, &addr));
    fake.alloc_rc = 0;
    fake.map_rc = 1;
    ck_assert_ptr_null(p->ops->alloc(p, PAGE, &addr));
    fake.map_rc = 0;
    for (int i = 0; i < 2; i++) {
        fake.device_addr = i ? 0x7000 : 0;
        at = p->ops->alloc(p, PAGE, &addr);
        ck_assert_ptr_nonnull(at);
        ck_assert(!at[0] && !memcmp(at, at + 1, PAGE - 1));
        ck_assert_uint_eq(addr, i ? 0x7000 : (uintptr_t)at);
        p->ops->free(p, at, PAGE);
    }
    end(p);
}
END_TEST

START_TEST(kinds)
{
    static const struct {
        dma_map_kind_t kind;
        uint32_t type;
    } cases[] = {
        {DMA_MAP_HOST, DMA_THUNK_QUEUE_SDMA},
        {DMA_MAP_XGMI, DMA_THUNK_QUEUE_SDMA_XGMI},
    };
    dma_provider_t *p = begin();
    const char *reason = NULL;

    ck_assert(!p->names_engines);
    for (int i = 0; i < 2; i++) {
        dma_provider_queue_t queue;

        fake.create_rc = 1;
        ck_assert_int_eq(p->ops->create(p, cases[i].kind, 7, PAGE, &queue, &reason), DMA_UNSUPPORTED);
        ck_assert_str_eq(reason, "libhsakmt makes no queue");
        ck_assert_int_eq(fake.mapped, 0);
        fake.create_rc = 0;
        ck_assert_int_eq(p->ops->create(p, cases[i].kind, 7, PAGE, &queue, &reason), DMA_OK);
        ck_assert_uint_eq(fake.type, cases[i].type);
        ck_assert_int_eq(fake.priority, DMA_THUNK_PRIORITY_MAXIMUM);
        ck_assert_ptr_eq(queue.read_ptr, &fake.read);
        ck_assert_ptr_eq(queue.write_ptr, &fake.write);
        ck_assert_ptr_eq(queue.doorbell, &fake.doorbell);
        ck_assert_ptr_eq((void *)queue.error, &fake.error);
        p->ops->destroy(p, &queue);
    }
    end(p);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("queues through the thunk");

    unit_test(suite, whose, 4);
    unit_test(suite, which, 4);
    unit_test(suite, memory, 4);
    unit_test(suite, kinds, 4);
    return unit_main(suite);
}
