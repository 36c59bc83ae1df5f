/*
 * The checks of stage 1. Each runs in a process of its own, on a unit of the sdma engine that is opened as in a job, with
 * the trials of the self-test (engine/sdma/proof/trial.h).
 */
#include <stdlib.h>
#include <string.h>

#include "engine/sdma/node/map.h"
#include "engine/sdma/proof/trial.h"
#include "tools/accept/accept.h"

#define HOLD_SECONDS 500e-6 /* how long a POLL is watched; on some GPUs a POLL sometimes ends early: */
#define ROUNDS       100    /* and how often, here and on each link */
#define LINK_ROUNDS  20

/* The state of a check. */
typedef struct check {
    const accept_t *accept;
    const dma_topo_gpu_t *gpu;
    dma_sdma_unit_t *unit;
    dma_trial_t trial;
    dma_map_pick_t picks[ACCEPT_GPUS]; /* by number of a GPU in the topology: the queue for copies to it */
    accept_answer_t *answer;
} check_t;

static const accept_t *current; /* for pci_of, which has no argument */

static dma_status_t pci_of(int device, dma_gpu_pci_t *pci)
{
    const dma_topo_gpu_t *gpu = &current->topo->gpus[device];

    *pci = (dma_gpu_pci_t){.domain = gpu->domain,
                           .bus = gpu->location >> 8,
                           .device = gpu->location >> 3 & 31,
                           .function = gpu->location & 7,
                           .has_function = true};
    return DMA_OK;
}

static bool fail(check_t *c, const char *what, const char *where)
{
    snprintf(c->answer->text, sizeof(c->answer->text), "%s%s", what, where);
    return false;
}

/* A trial went wrong. If the queue has not come to its end, the engine may hang. */
static bool fail_trial(check_t *c, const char *what, const char *where)
{
    c->answer->broken = dma_fault_seen(&c->unit->fault) || dma_queue_waits(&c->unit->queues, c->trial.queue);
    return fail(c, what, where);
}

/* The picks of a job with a rank on each GPU. */
static void map_links(check_t *c)
{
    const dma_topo_t *topo = c->accept->topo;
    uint32_t nodes[ACCEPT_GPUS];

    for (uint32_t i = 0; i < topo->ngpus; i++) {
        nodes[i] = topo->gpus[i].node;
    }
    dma_map_build(c->unit->gen, c->unit->gpu, nodes, (int)topo->ngpus, (int)(c->gpu - topo->gpus), c->picks);
}

/* Starts ROCr and opens the engine. What is missing then is not a failure of the GPU. */
static bool begin(check_t *c, const accept_task_t *task, accept_answer_t *answer)
{
    static dma_gpu_runtime_t runtime = {.name = "hip", .device_pci = pci_of};
    const accept_options_t *options = task->accept->options;
    dma_gpu_config_t config = {.rt = &runtime,
                               .device = (int)task->subject->gpu,
                               .sysfs = options->sysfs,
                               .queues = task->subject->provider,
                               .timeout = ACCEPT_LIMIT * options->seconds,
                               .stamps = true};
    char why[ACCEPT_TEXT] = "";

    *c = (check_t){.accept = task->accept, .gpu = &task->accept->topo->gpus[task->subject->gpu], .answer = answer};
    current = task->accept;
    answer->absent = true;
    if (!accept_rocr_start(why) || dma_sdma_unit_open(&config, &c->unit, why) != DMA_OK) {
        return fail(c, why, "");
    }
    c->trial = (dma_trial_t){.seconds = options->seconds, .hold = HOLD_SECONDS, .rounds = ROUNDS};
    if (!dma_trial_begin(&c->trial, c->unit)) {
        return fail(c, "no memory for queues", "");
    }
    answer->absent = false;
    map_links(c);
    return true;
}

/* Everything went well, so it can be released. */
static void end(check_t *c)
{
    dma_trial_end(&c->trial);
    dma_sdma_unit_close(c->unit);
    c->answer->passed = true;
}

static bool get_queue(check_t *c, const dma_map_pick_t *pick, uint32_t peer)
{
    c->trial.queue = dma_queue_get(&c->unit->queues, pick, peer);
    return c->trial.queue || fail(c, c->unit->queues.refusal ? c->unit->queues.refusal : "no queue", "");
}

/* The host-facing queue, and that of each link. */
void accept_check_queues(const accept_task_t *task, accept_answer_t *answer)
{
    const dma_topo_t *topo = task->accept->topo;
    bool all = true;
    check_t c;

    if (!begin(&c, task, answer)) {
        return;
    }
    for (uint32_t i = 0; i < topo->ngpus && all; i++) {
        all = get_queue(&c, &c.picks[i], topo->gpus[i].node);
    }
    answer->has = c.unit->limited.has;
    dma_record_key_read(c.gpu, task->subject->provider, &answer->key);
    if (all) {
        end(&c);
    }
}

/* Runs a trial on the host-facing queue, in the scratch memory. */
static bool run_here(check_t *c, const char *(*run)(dma_trial_t *t))
{
    dma_map_pick_t pick = dma_map_host_facing(c->unit->gen, "a check");
    const char *wrong;

    if (!get_queue(c, &pick, 0)) {
        return false;
    }
    wrong = run(&c->trial);
    return wrong ? fail_trial(c, wrong, "") : true;
}

static const char *copy(dma_trial_t *t)
{
    return dma_trial_copy(t, DMA_TRIAL_PLACE_BYTES);
}

void accept_check_copy(const accept_task_t *task, accept_answer_t *answer)
{
    check_t c;

    if (begin(&c, task, answer) && run_here(&c, copy)) {
        end(&c);
    }
}

/* The next GPU after `peer`, for the second destination of a broadcast; `peer` if there is no other. */
static uint32_t second_peer(const check_t *c, uint32_t peer)
{
    const dma_topo_t *topo = c->accept->topo;

    for (uint32_t i = 1; i < topo->ngpus; i++) {
        uint32_t other = (peer + i) % topo->ngpus;

        if (&topo->gpus[other] != c->gpu && accept_is_chosen(c->accept, other)) {
            return other;
        }
    }
    return peer;
}

/* Puts the places into memory of GPUs: 0 and 2 here, 1 and 3 at peers. */
static bool place(check_t *c, uint32_t peer)
{
    const dma_topo_gpu_t *gpus = c->accept->topo->gpus;
    uint32_t second = second_peer(c, peer);
    uint64_t here = accept_gpu_memory(c->gpu, c->gpu, 0), there = accept_gpu_memory(&gpus[peer], c->gpu, 0);
    uint64_t other = second == peer ? there + 4096 : accept_gpu_memory(&gpus[second], c->gpu, 0);

    if (!here || !there || !other) {
        return fail(c, "no memory of the GPUs that both may use", "");
    }
    c->trial.places[0] = here;
    c->trial.places[1] = there;
    c->trial.places[2] = here + 4096;
    c->trial.places[3] = other;
    return true;
}

/* Runs a trial on the queue of a link, in memory at its ends. */
static bool run_link(check_t *c, uint32_t peer, const char *(*run)(dma_trial_t *t))
{
    const dma_map_pick_t *pick = &c->picks[peer];
    const char *wrong;
    char where[64];

    if (!place(c, peer) || !get_queue(c, pick, c->accept->topo->gpus[peer].node)) {
        return false;
    }
    if (pick->kind == DMA_MAP_ENGINE && c->unit->queues.provider->names_engines) {
        snprintf(where, sizeof(where), " (to GPU %u, engine %u)", peer, c->trial.queue->engine);
    } else {
        snprintf(where, sizeof(where), " (to GPU %u)", peer);
    }
    c->trial.rounds = LINK_ROUNDS;
    wrong = run(&c->trial);
    return wrong ? fail_trial(c, wrong, where) : true;
}

void accept_check_link(const accept_task_t *task, accept_answer_t *answer)
{
    check_t c;

    if (begin(&c, task, answer) && run_link(&c, task->peer, copy)) {
        end(&c);
    }
}

/* Here first, then over each link. */
void accept_check_packet(const accept_task_t *task, accept_answer_t *answer)
{
    const dma_trial_packet_t *packet = &dma_trial_packets[task->packet];
    bool works;
    check_t c;

    if (!begin(&c, task, answer)) {
        return;
    }
    works = run_here(&c, packet->run);
    for (uint32_t i = 0; i < task->accept->topo->ngpus && works; i++) {
        if (i != task->subject->gpu && accept_is_chosen(task->accept, i)) {
            works = run_link(&c, i, packet->run);
        }
    }
    if (works) {
        end(&c);
    }
}

/* Over a link if there is one, as in most jobs. */
static bool run_large(check_t *c, uint64_t bytes)
{
    const dma_topo_t *topo = c->accept->topo;
    uint32_t here = (uint32_t)(c->gpu - topo->gpus), peer = 0;
    const dma_map_pick_t facing = dma_map_host_facing(c->unit->gen, "a check");
    const char *wrong;
    uint64_t from, to;

    while (peer < topo->ngpus && (peer == here || !accept_is_chosen(c->accept, peer))) {
        peer++;
    }
    peer = peer == topo->ngpus ? here : peer;
    from = accept_gpu_memory(c->gpu, c->gpu, bytes);
    to = accept_gpu_memory(&topo->gpus[peer], c->gpu, bytes);
    if (!from || !to) {
        c->answer->absent = true;
        return fail(c, "no memory of the GPU for it", "");
    }
    if (!get_queue(c, peer == here ? &facing : &c->picks[peer], topo->gpus[peer].node)) {
        return false;
    }
    c->trial.places[0] = from;
    c->trial.places[1] = to;
    c->trial.places[2] = from + bytes - DMA_TRIAL_PLACE_BYTES;
    c->trial.places[3] = to + bytes - DMA_TRIAL_PLACE_BYTES;
    wrong = dma_trial_copy(&c->trial, bytes);
    return wrong ? fail_trial(c, wrong, "") : true;
}

void accept_check_large(const accept_task_t *task, accept_answer_t *answer)
{
    check_t c;

    if (!begin(&c, task, answer)) {
        return;
    }
    if (c.unit->gen->max_copy < DMA_GEN_LARGEST) {
        answer->absent = true;
        fail(&c, "packets of this generation have no room for so many bytes", "");
    } else if (run_large(&c, task->bytes)) {
        end(&c);
    }
}
