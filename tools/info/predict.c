/*
 * What the cost model chooses: the variants for a call, each with its predicted time, or why it cannot do the call. The
 * requests are made by the functions that a job's set-up and calls use. dma_plan_choose is called once for each variant, as
 * if a user had forced it, and once as in a job.
 */
#include <stdlib.h>
#include <string.h>

#include "core/setup/geometry.h"
#include "plan/cluster/cluster.h"
#include "tools/info/info.h"

#define MODEL_GPU_ID 0x74a1 /* MI300X: the machine of the built-in profile */

static void assume(info_prediction_t *p, const char *text)
{
    if (p->nassumptions < (int)(sizeof(p->assumptions) / sizeof(p->assumptions[0]))) {
        snprintf(p->assumptions[p->nassumptions++], INFO_LINE, "%s", text);
    }
}

static void assume_wrong(void *arg, const char *topic, const char *text)
{
    (void)topic;
    assume(arg, text);
}

/* ---- one node ---- */

/* As the set-up counts them, if every rank may use the processors that this process may use. */
static uint32_t ranks_per_core(const info_host_t *host, int ranks)
{
    dma_cores_t cores = host->cores;

    cores.local_procs = (uint32_t)ranks;
    return dma_cores_ranks_per_core(&cores, 0, ranks);
}

/* The profile of the host engine, with the costs that two processes have measured here. */
static void measure(const info_t *info, const dma_choices_t *choices, uint32_t per_core, dma_profile_t *profile)
{
    dma_measured_t mean = dma_measure_mean(info->host.measured, 2);

    *profile = choices->profile;
    if (choices->measure) {
        (void)dma_measure_apply(profile, &mean, per_core > DMA_WHOLE_CORE);
    }
}

static void assume_host(const info_t *info, const dma_choices_t *choices, uint32_t per_core, info_prediction_t *p)
{
    assume(p, info->mpi.params.profile ? "costs of copies between cores are those of coll_dma_profile"
              : !choices->measure      ? "costs of copies between cores are built-in (coll_dma_measure is 0)"
              : !info->host.measured[0].pull
                  ? "costs of copies between cores are built-in: they could not be measured"
                  : "costs of copies between cores were measured now; a job measures them again");
    if (per_core > DMA_WHOLE_CORE) {
        assume(p, "there are more ranks than processors");
    }
}

static dma_plan_req_t request(const info_t *info, const dma_choices_t *choices, dma_profile_t *profile, int ranks)
{
    const info_question_t *q = &info->options.question;
    const dma_params_t *params = &info->mpi.params;
    uint32_t per_core = ranks_per_core(&info->host, ranks);
    dma_geom_t geom = dma_geom_from_params(params, ranks);
    dma_plan_req_t req;

    measure(info, choices, per_core, profile);
    dma_geom_fit(&geom, ranks, dma_geom_min_slot_bytes(ranks), params->arena_bytes, params->arena_bytes);
    req = dma_choices_request(choices, profile, ranks, info->host.cross, per_core, &geom);
    req.coll = q->coll;
    req.in_place = q->in_place && !dma_coll_gathers(q->coll); /* ranks of an all-gather may differ in that */
    req.bytes = q->bytes;
    return req;
}

/* The engines of the ranks: those of the GPUs here, in turn; without a GPU, those of an MI300X on which everything is
 * proven. */
static bool find_traits(const info_t *info, dma_plan_req_t *req, info_prediction_t *p)
{
    dma_gpu_traits_t *traits = calloc((size_t)req->nranks, sizeof(*traits));
    const char *reason;
    const dma_gen_t *model = dma_gen_find(MODEL_GPU_ID, 0, &reason);

    if (!traits) {
        return false;
    }
    for (int r = 0; r < req->nranks; r++) {
        const dma_topo_gpu_t gpu = {.device_id = MODEL_GPU_ID, .host_engines = 2, .xgmi_engines = 14};
        const dma_sdma_unit_t unit = {.gpu = &gpu, .gen = model};

        const dma_gpu_traits_t of_gpu =
            info->gpus.n ? info->gpus.gpus[r % info->gpus.n].traits : dma_sdma_traits(&unit);

        traits[r] =
            dma_gpu_traits_of_call(&of_gpu, info->options.question.persistent && info->mpi.params.prelaunch > 0);
    }
    dma_gpu_request_traits(req, traits);
    free(traits);
    if (!info->gpus.n) {
        assume(p, "there is no GPU here: engines as of MI300X, on which all packets are proven");
    } else if (req->nranks > info->gpus.n) {
        assume(p, "there are more ranks than GPUs");
    }
    if (req->by_copies && req->in_place) {
        assume(p, "the engines have no swap, or may not use it: each exchange of swap and halves is three copies");
    }
    return true;
}

static bool predict_gpu(const info_t *info, dma_choices_t *choices, dma_plan_req_t *req, info_prediction_t *p)
{
    const info_question_t *q = &info->options.question;
    const char *path = q->profile ? q->profile : info->mpi.params.gpu_profile;
    char text[INFO_LINE];

    p->model = "gpu";
    req->gpu = &choices->gpu_profile;
    req->queues = choices->gpu_queues;
    snprintf(text, sizeof(text), "constants of the engines: %s",
             path ? path : "built-in, of MI300X; they have not been measured on this machine");
    assume(p, text);
    assume(p, "all buffers are plain device memory (hipMalloc, cudaMalloc)");
    return find_traits(info, req, p);
}

/* Fills the list. `forced`: what the parameters force, or -1. */
static void choose(const dma_profile_t *profile, const dma_plan_req_t *req, int forced, info_prediction_t *p)
{
    dma_choice_t choice;
    const char *reason;
    bool done = dma_plan_choose(profile, req, forced, &choice, &reason) == DMA_OK;

    p->chosen = -1;
    p->forced = forced >= 0 ? dma_variants[forced]->name : NULL;
    p->forced_reason = forced >= 0 ? reason : NULL;
    for (int v = 0; dma_variants[v] && p->n < INFO_VARIANTS; v++) {
        info_variant_t *row = &p->variants[p->n];
        dma_choice_t c;

        if (dma_variants[v]->gpu != (req->gpu != NULL)) {
            continue;
        }
        *row = (info_variant_t){.name = dma_variants[v]->name};
        row->fits = dma_plan_choose(profile, req, v, &c, &row->reason) == DMA_OK && !row->reason;
        row->cost_ps = row->fits ? c.cost_ps : 0;
        row->queues = row->fits ? c.queues : 0;
        row->armed = row->fits && c.prelaunch;
        if (done && choice.variant == (uint32_t)v) {
            p->chosen = p->n;
        }
        p->n++;
    }
}

/* Why calls in device memory would not use engines, or NULL. */
static const char *why_staged(const info_t *info)
{
    for (int i = 0; i < info->gpus.n; i++) {
        if (!info->gpus.gpus[i].engine[0]) {
            return info->gpus.gpus[i].engine_why;
        }
    }
    return NULL;
}

static const char *predict_node(info_t *info, int ranks)
{
    const info_question_t *q = &info->options.question;
    info_prediction_t *p = &info->prediction;
    dma_params_t params = info->mpi.params;
    const char *staged = q->device ? why_staged(info) : NULL;
    char text[INFO_LINE];
    dma_choices_t choices;
    dma_profile_t profile;
    dma_plan_req_t req;

    params.gpu_profile = q->profile ? q->profile : params.gpu_profile;
    dma_choices_make(&choices, &params, assume_wrong, p);
    req = request(info, &choices, &profile, ranks);
    p->model = "host";
    if (staged) {
        snprintf(text, sizeof(text),
                 "device memory goes through the host (%.200s); copies to and from it are not in "
                 "these times",
                 staged);
        assume(p, text);
    } else if (q->device && !predict_gpu(info, &choices, &req, p)) {
        return "no memory";
    }
    if (!req.gpu) {
        assume_host(info, &choices, req.ranks_per_core_x16, p);
    }
    choose(&profile, &req, req.gpu ? choices.gpu_forced : choices.forced, p);
    return NULL;
}

/* ---- several nodes ---- */

static bool lay_out(const info_question_t *q, dma_node_map_t *map)
{
    uint32_t *first;
    int ranks = 0, n = 0;
    bool done;

    for (int i = 0; i < q->nodes; i++) {
        ranks += q->sizes[i];
    }
    first = malloc((size_t)ranks * sizeof(*first));
    for (int i = 0; first && i < q->nodes; i++) {
        for (int r = 0, begin = n; r < q->sizes[i]; r++) {
            first[n++] = (uint32_t)begin;
        }
    }
    done = first && dma_node_map_create(map, first, ranks, 0) == DMA_OK;
    free(first);
    return done;
}

static void choose_cluster(const dma_net_profile_t *profile, const dma_cluster_req_t *req, uint64_t bytes, int forced,
                           info_prediction_t *p)
{
    const char *reason;
    int best = dma_cluster_choose(profile, req, bytes, forced, &reason);

    p->chosen = best;
    p->forced = forced >= 0 ? dma_cluster_variants[forced]->name : NULL;
    p->forced_reason = reason;
    for (int v = 0; dma_cluster_variants[v] && v < INFO_VARIANTS; v++) {
        info_variant_t *row = &p->variants[p->n++];

        *row = (info_variant_t){.name = dma_cluster_variants[v]->name};
        row->fits = dma_cluster_choose(profile, req, bytes, v, &row->reason) == v && !row->reason;
        row->cost_ps = row->fits ? dma_cluster_variants[v]->cost(profile, req->node_map, req->coll, bytes) : 0;
    }
}

static const char *predict_cluster(info_t *info)
{
    const info_question_t *q = &info->options.question;
    const dma_params_t *params = &info->mpi.params;
    info_prediction_t *p = &info->prediction;
    bool over_tcp = false;
    char error[128], text[INFO_LINE];
    dma_net_profile_t profile;
    dma_node_map_t map;
    dma_cluster_req_t req = {.coll = q->coll, .in_place = q->in_place, .node_map = &map};

#ifdef DMA_HAVE_UCX
    over_tcp = info->ucx_usable && info->ucx.tcp_only;
#endif
    p->model = "cluster";
    if (dma_net_profile_choose(params->net_profile, over_tcp, &profile, error, sizeof(error)) != DMA_OK) {
        snprintf(text, sizeof(text), "coll_dma_net_profile cannot be used (%s)", error);
        assume(p, text);
    }
    assume(p, params->net_profile ? "constants of the network: coll_dma_net_profile"
              : over_tcp ? "constants of the network: built-in, 10 Gbit/s Ethernet, because UCX has TCP alone here"
                         : "constants of the network: built-in, eight adapters of 400 Gbit/s in each node");
    if (q->device) {
        assume(p, "device memory passes through pinned slots; the choice is that of host memory");
    }
    if (!lay_out(q, &map)) {
        return "no memory";
    }
    req.send.bytes = req.recv.bytes = q->bytes;
    choose_cluster(&profile, &req, q->bytes, dma_cluster_variant_find(params->net_variant), p);
    dma_node_map_free(&map);
    return NULL;
}

/* A file that the user has named must be valid. An invalid file of a parameter is replaced by the built-in profile, as in
 * a job. */
static const char *check_profile(const char *path)
{
    static char why[INFO_LINE];
    dma_gpu_profile_t profile;
    char error[128];

    if (!path || dma_gpu_profile_load(path, &profile, error, sizeof(error)) == DMA_OK) {
        return NULL;
    }
    snprintf(why, sizeof(why), "--profile %.150s: %s", path, error);
    return why;
}

const char *info_predict(info_t *info)
{
    info_question_t *q = &info->options.question;
    const char *wrong = check_profile(q->profile);

    if (wrong) {
        return wrong;
    }
    if (q->nodes > 1) {
        return predict_cluster(info);
    }
    if (!q->ranks) {
        q->ranks = info->host.local_ranks > 1 ? info->host.local_ranks
                   : info->gpus.n > 1         ? info->gpus.n
                   : info->host.usable > 1    ? (int)info->host.usable
                                              : 2;
    }
    return predict_node(info, q->ranks);
}
