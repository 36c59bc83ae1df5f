/* See libsdma_stage.h. */
#include "libsdma_stage.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "libsdma_tree.h"
#include "libunit.h"

static dma_topo_t *machine;

static dma_status_t pci_of(int device, dma_gpu_pci_t *pci)
{
    const dma_topo_gpu_t *gpu = &machine->gpus[device];

    *pci = (dma_gpu_pci_t){.domain = gpu->domain, .bus = gpu->location >> 8, .device = gpu->location >> 3 & 31};
    return DMA_OK;
}

char *stage_memory(size_t bytes)
{
    char *p = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);

    memset(p, 0, (bytes + 4095) / 4096 * 4096);
    fake_show(p, (bytes + 4095) / 4096 * 4096);
    return p;
}

static void make_window(stage_t *s)
{
    dma_geom_t geom = {.ring_depth = 4, .slot_bytes = 64};

    s->window = (dma_window_t){.rank = 0, .nranks = STAGE_RANKS, .geom = geom, .peers = s->peers};
    s->window.layout = dma_block_layout(&geom, STAGE_RANKS);
    s->block_bytes = s->window.layout.bytes;
    s->block = stage_memory(s->block_bytes);
    s->peers[0] = (dma_peer_t){.block = (dma_block_t *)s->block, .epoch_words = true};
}

void stage_plan(stage_t *s, const char *variant, dma_coll_t coll, bool in_place)
{
    dma_plan_req_t req = {.coll = coll, .nranks = STAGE_RANKS, .in_place = in_place, .max_queues = 16};
    dma_choice_t choice = {.variant = (uint32_t)dma_variant_find(variant), .queues = STAGE_RANKS - 1};

    ck_assert_int_eq(dma_plan_build(&req, &choice, 0, &s->plan), DMA_OK);
    s->run =
        (dma_run_t){.plan = s->plan, .window = &s->window, .targets = s->targets, .binding = s->binding, .epoch = 5};
    s->run.send = (dma_blocks_t){.addr = s->send, .bytes = STAGE_BYTES};
    s->run.recv = (dma_blocks_t){.addr = s->recv[0], .bytes = STAGE_BYTES};
}

void stage_bind(stage_t *s)
{
    dma_gpu_bind_params_t job = {.rank = 0, .nranks = STAGE_RANKS, .traits = s->traits};
    char why[DMA_GPU_WHY_BYTES];

    job.lines = (uint64_t)(uintptr_t)dma_window_queue(&s->window, 0, 0);
    job.trigger = (uint64_t)(uintptr_t)dma_window_trigger_line(&s->window, 0);
    ck_assert_int_eq(dma_gpu_engine_sdma.bind(s->unit, &job, &s->binding, why), DMA_OK);
}

/* All of a communicator. */
static void join(stage_t *s)
{
    make_window(s);
    s->send = stage_memory(STAGE_RANKS * STAGE_BYTES);
    for (int i = 0; i < STAGE_RANKS * STAGE_BYTES; i++) {
        s->send[i] = (char)(i * 7 + i / 256 + 1);
    }
    for (int r = 0; r < STAGE_RANKS; r++) {
        s->traits[r].node = s->machine->gpus[r].node;
        s->recv[r] = stage_memory(STAGE_RANKS * STAGE_BYTES);
        s->targets[r] = (dma_target_t){.addr = (uint64_t)(uintptr_t)s->recv[r], .bytes = STAGE_BYTES};
    }
    stage_bind(s);
    stage_plan(s, "pcpy", DMA_ALLGATHER, false);
}

void stage_begin(stage_t *s, fake_options_t options)
{
    fake_gpu_options_t gpus = {.devices = 8, .seed = 1};
    dma_gpu_config_t config = {.device = 0, .record = "all", .timeout = 60};
    char why[DMA_GPU_WHY_BYTES] = "";

    memset(s, 0, sizeof(*s));
    s->rt = fake_gpu_start(&gpus);
    s->root = tree_make("mi300x-spx");
    s->machine = machine = tree_read("mi300x-spx");
    s->rt->name = "hip";
    s->rt->device_pci = pci_of;
    options.running = true;
    options.gen = EMU_SDMA_GFX942;
    options.seed = unit_seed();
    options.rt = s->rt;
    options.topo = s->machine;
    fake_begin(&options);
    config.rt = s->rt;
    config.sysfs = s->root;
    pthread_mutex_init(&s->counters.lock, NULL);
    config.counters = &s->counters;
    ck_assert_msg(dma_gpu_engine_sdma.open(&config, &s->unit, why) == DMA_OK, "%s", why);
    join(s);
}

uint64_t stage_reasons(stage_t *s, dma_reason_t reason)
{
    return dma_counters_read(&s->counters, DMA_COUNT_REASON + (int)reason, NULL);
}

void stage_begin_beside(stage_t *s, const stage_t *first)
{
    memset(s, 0, sizeof(*s));
    s->machine = first->machine;
    s->unit = first->unit;
    join(s);
}

static void unbind(stage_t *s)
{
    if (s->binding) {
        dma_gpu_engine_sdma.unbind(s->binding);
    }
}

static void free_all(stage_t *s)
{
    dma_plan_free(s->plan);
    free(s->block);
    free(s->send);
    for (int r = 0; r < STAGE_RANKS; r++) {
        free(s->recv[r]);
    }
}

void stage_end_beside(stage_t *s)
{
    unbind(s);
    free_all(s);
}

void stage_end(stage_t *s)
{
    unbind(s);
    dma_gpu_engine_sdma.close(s->unit);
    fake_end();
    fake_gpu_stop();
    tree_remove(s->root);
    dma_topo_free(s->machine);
    free_all(s);
}

void stage_release(stage_t *s)
{
    dma_trigger_release(stage_trigger(s), s->run.epoch);
}

uint32_t stage_line(const stage_t *s, int queue)
{
    return atomic_load(&dma_window_queue(&s->window, 0, queue)->by_epoch[s->run.epoch % DMA_EPOCH_WORDS]);
}

void stage_wait(const stage_t *s)
{
    for (int q = 0; q + 1 < (int)s->plan->nprogs; q++) {
        for (int k = 0; stage_line(s, q) != s->run.epoch; k++) {
            ck_assert_int_lt(k, 100000);
            usleep(100);
        }
    }
}
