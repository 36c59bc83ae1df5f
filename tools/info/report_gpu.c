/* The part of the report about GPUs, and predictions. */
#include <string.h>

#include "tools/info/info.h"

/* ---- GPUs ---- */

/* "2 to 15" or "0, 2, 4" */
static const char *mask_text(uint32_t mask, char text[128])
{
    size_t used = 0;

    text[0] = '\0';
    for (unsigned first = 0; first < 32; first++) {
        unsigned last = first;

        if (!(mask >> first & 1)) {
            continue;
        }
        while (last < 31 && mask >> (last + 1) & 1) {
            last++;
        }
        used += (size_t)snprintf(text + used, 128 - used, last > first ? "%s%u to %u" : "%s%u", used ? ", " : "", first,
                                 last);
        first = last;
    }
    return mask ? text : "none";
}

static const dma_topo_link_t *link_to(const dma_topo_gpu_t *gpu, uint32_t node)
{
    const dma_topo_link_t *best = NULL;

    for (uint32_t i = 0; i < gpu->nlinks; i++) {
        if (gpu->links[i].to == node && (!best || gpu->links[i].type == DMA_TOPO_XGMI)) {
            best = &gpu->links[i];
        }
    }
    return best;
}

static const char *type_text(const dma_topo_link_t *link)
{
    return !link ? "none" : link->type == DMA_TOPO_XGMI ? "xgmi" : link->type == DMA_TOPO_PCIE ? "pcie" : "other";
}

static void report_link(out_t *o, const info_gpus_t *gpus, int i, int to)
{
    const info_gpu_t *gpu = &gpus->gpus[i];
    const dma_map_pick_t *pick = &gpu->picks[to];
    const dma_topo_link_t *link = gpus->gpus[to].located ? link_to(gpu->unit.gpu, gpus->gpus[to].unit.gpu->node) : NULL;
    char engine[64], mask[128];

    if (pick->kind == DMA_MAP_ENGINE && gpu->named) {
        snprintf(engine, sizeof(engine), "engine %u", pick->engine);
    } else {
        snprintf(engine, sizeof(engine), "%s engine that the driver picks",
                 pick->kind == DMA_MAP_HOST ? "a host-facing" : "a link's");
    }
    out_object(o, NULL);
    out_number(o, "to", (uint64_t)to);
    out_text(o, "type", type_text(link));
    out_number(o, "recommended", link ? link->engines : 0);
    out_limit(o, "engine", pick->kind == DMA_MAP_ENGINE && gpu->named ? pick->engine : UINT64_MAX);
    out_bool(o, "waits", pick->may_wait);
    out_text(o, "why", pick->reason);
    out_close(o);
    out_say(o, 3, "to GPU %d, %s: %s (%s; recommended: %s)", to, type_text(link), engine, pick->reason,
            mask_text(link ? link->engines : 0, mask));
}

static void report_engines(out_t *o, const info_gpus_t *gpus, int i)
{
    const info_gpu_t *gpu = &gpus->gpus[i];
    const dma_topo_gpu_t *topo = gpu->unit.gpu;
    uint32_t listed = topo->host_engines + topo->xgmi_engines;
    uint32_t there = dma_map_engines(gpu->unit.gen, topo);
    uint32_t absent = (listed < 32 ? (UINT32_C(1) << listed) - 1 : UINT32_MAX) & ~there;
    char a[128], b[128];

    out_text(o, "generation", gpu->unit.gen->name);
    out_number(o, "node", topo->node);
    out_number(o, "firmware", topo->firmware);
    out_number(o, "host_engines", topo->host_engines);
    out_number(o, "link_engines", topo->xgmi_engines);
    out_number(o, "engines", there);
    out_number(o, "engines_absent", absent);
    out_say(o, 2, "engines: %s, firmware %u, %u host-facing and %u of links; %s%s%s", gpu->unit.gen->name,
            topo->firmware, topo->host_engines, topo->xgmi_engines, mask_text(there, a),
            absent ? "; listed, but fused off: " : "", absent ? mask_text(absent, b) : "");
    out_array(o, "links");
    for (int to = 0; to < gpus->n; to++) {
        if (to != i) {
            report_link(o, gpus, i, to);
        }
    }
    out_close(o);
}

static void report_providers(out_t *o, const info_gpu_t *gpu)
{
    out_text(o, "provider", gpu->provider);
    out_array(o, "providers");
    for (int p = 0; p < gpu->nproviders; p++) {
        const info_provider_t *provider = &gpu->providers[p];

        out_object(o, NULL);
        out_text(o, "name", provider->name);
        out_bool(o, "usable", provider->usable);
        out_bool(o, "names_engines", provider->names_engines);
        out_text(o, "why", provider->usable ? "" : provider->why);
        out_close(o);
        if (provider->usable) {
            out_say(o, 2, "queues from %s: %s%s", provider->name,
                    provider->names_engines ? "usable, on engines by number"
                                            : "usable, on engines that the driver picks",
                    gpu->provider && !strcmp(gpu->provider, provider->name) ? "; these are used" : "");
        } else {
            out_say(o, 2, "queues from %s", provider->why);
        }
    }
    out_close(o);
}

static void say_packet(out_t *o, const info_packet_t *packet, dma_record_feature_t feature)
{
    const char *name = dma_record_feature_name(feature);

    if (!packet->has) {
        out_say(o, 2, "packet %s: this generation does not have it, or it is not reliable", name);
    } else {
        out_say(o, 2, "packet %s: record: %s%s%s%s%s; %s", name, packet->record, packet->why[0] ? ": " : "",
                packet->why, packet->self_test ? "; self-test: " : "", packet->self_test ? packet->self_test : "",
                packet->used                      ? "used"
                : feature == DMA_RECORD_TIMESTAMP ? "for traces alone (coll_dma_trace)"
                                                  : "not used");
    }
}

static void report_packets(out_t *o, const info_gpu_t *gpu)
{
    out_array(o, "packets");
    for (int p = 0; p < DMA_TRIAL_PACKETS; p++) {
        const info_packet_t *packet = &gpu->packets[p];
        const char *name = dma_record_feature_name(dma_trial_packets[p].feature);

        out_object(o, NULL);
        out_text(o, "name", name);
        out_bool(o, "has", packet->has);
        out_text(o, "record", packet->record);
        out_text(o, "why", packet->why);
        out_text(o, "self_test", packet->self_test);
        out_bool(o, "used", packet->used);
        out_close(o);
        say_packet(o, packet, dma_trial_packets[p].feature);
    }
    out_close(o);
}

/* Has a GPU the same queues and packets as the first one? Then the text does not repeat them. */
static bool is_like_first(const info_gpus_t *gpus, int i)
{
    const info_gpu_t *a = &gpus->gpus[0], *b = &gpus->gpus[i];
    bool like = i > 0 && a->located && b->located && a->nproviders == b->nproviders && a->recorded == b->recorded &&
                !strcmp(a->record_why, b->record_why) && a->provider == b->provider;

    for (int p = 0; like && p < a->nproviders; p++) {
        like = a->providers[p].usable == b->providers[p].usable && !strcmp(a->providers[p].why, b->providers[p].why);
    }
    for (int p = 0; like && p < DMA_TRIAL_PACKETS; p++) {
        const info_packet_t *x = &a->packets[p], *y = &b->packets[p];

        like = x->has == y->has && x->used == y->used && x->self_test == y->self_test &&
               !strcmp(x->record, y->record) && !strcmp(x->why, y->why);
    }
    return like;
}

static void report_sdma(out_t *o, const info_gpus_t *gpus, int i)
{
    const info_gpu_t *gpu = &gpus->gpus[i];
    bool like = is_like_first(gpus, i);

    out_object(o, "sdma");
    out_bool(o, "works", gpu->located && gpu->provider);
    out_text(o, "why", gpu->sdma_why);
    if (gpu->located) {
        report_engines(o, gpus, i);
        if (like) {
            out_say(o, 2, "queues and packets: as of GPU 0");
        }
        o->quiet = like;
        report_providers(o, gpu);
        report_packets(o, gpu);
        out_bool(o, "recorded", gpu->recorded);
        out_text(o, "record_why", gpu->record_why);
        if (!gpu->recorded && !gpus->proof.all) {
            out_say(o, 2, "the record does not count: %s", gpu->record_why);
        }
        o->quiet = false;
    } else {
        out_say(o, 2, "no engine sdma: %s", gpu->sdma_why);
    }
    out_close(o);
}

static void report_gpu(out_t *o, const info_gpus_t *gpus, int i)
{
    const info_gpu_t *gpu = &gpus->gpus[i];
    char pci[24];

    snprintf(pci, sizeof(pci), "%04x:%02x:%02x.%x", gpu->pci.domain, gpu->pci.bus, gpu->pci.device, gpu->pci.function);
    out_say(o, 1, "GPU %d: %s%s%s, %s, %s", i, gpu->name, gpu->name[0] ? ", " : "", gpu->isa[0] ? gpu->isa : "unknown",
            pci, gpu->memory ? info_bytes(gpu->memory) : "memory not known");
    out_say(o, 2, "engine: %s%s%s%s", gpu->engine[0] ? gpu->engine : "none", gpu->engine_why[0] ? ": " : "",
            gpu->engine_why, gpu->tested ? " (self-test)" : "");
    if (gpu->advice[0]) {
        out_say(o, 2, "%s", gpu->advice);
    }
    out_object(o, NULL);
    out_number(o, "device", (uint64_t)i);
    out_text(o, "name", gpu->name);
    out_text(o, "isa", gpu->isa);
    out_text(o, "pci", pci);
    out_number(o, "memory_bytes", gpu->memory);
    out_text(o, "engine", gpu->engine[0] ? gpu->engine : NULL);
    out_text(o, "engine_why", gpu->engine_why);
    out_bool(o, "self_tested", gpu->tested);
    out_text(o, "advice", gpu->advice);
    report_sdma(o, gpus, i);
    out_close(o);
}

static void report_runtime(out_t *o, const info_gpus_t *gpus)
{
    if (gpus->rt) {
        out_say(o, 0, "GPUs: %s %u, %d device%s; the kernel describes %u, and hides %u", gpus->rt->name,
                gpus->rt->version, gpus->n, gpus->n == 1 ? "" : "s", gpus->kernel_gpus, gpus->hidden);
    } else {
        out_say(o, 0, "GPUs: none: %s", gpus->why);
        if (gpus->kernel_gpus) {
            out_say(o, 1, "the kernel describes %u GPUs", gpus->kernel_gpus);
        } else {
            out_say(o, 1, "%s", gpus->kernel_why);
        }
    }
    out_object(o, "runtime");
    out_text(o, "name", gpus->rt ? gpus->rt->name : NULL);
    out_number(o, "version", gpus->rt ? gpus->rt->version : 0);
    out_text(o, "why", gpus->why);
    out_number(o, "kernel_gpus", gpus->kernel_gpus);
    out_number(o, "kernel_hidden", gpus->hidden);
    out_text(o, "kernel_why", gpus->kernel_why);
    out_close(o);
}

static void report_record(out_t *o, const info_gpus_t *gpus)
{
    out_object(o, "record");
    out_text(o, "path", gpus->proof.path);
    out_text(o, "state", gpus->proof_state);
    out_text(o, "why", gpus->proof.reason);
    out_number(o, "sections", gpus->proof.loaded == DMA_OK ? gpus->proof.record.n : 0);
    out_close(o);
    if (gpus->proof.all) {
        out_say(o, 1, "record: coll_dma_record is \"all\": every packet counts as proven");
    } else if (gpus->proof.loaded == DMA_OK) {
        out_say(o, 1, "record: %s, %zu sections", gpus->proof.path, gpus->proof.record.n);
    } else if (gpus->n || gpus->kernel_gpus) {
        out_say(o, 1, "record: %s: %s", gpus->proof.path, gpus->proof.reason);
    }
}

void info_report_gpus(out_t *o, const info_t *info)
{
    const info_gpus_t *gpus = &info->gpus;

    report_runtime(o, gpus);
    report_record(o, gpus);
    out_array(o, "gpus");
    for (int i = 0; i < gpus->n; i++) {
        report_gpu(o, gpus, i);
    }
    out_close(o);
}

/* ---- predictions ---- */

static void report_variant(out_t *o, const info_prediction_t *p, int i)
{
    const info_variant_t *v = &p->variants[i];
    double us = (double)v->cost_ps * 1e-6, best = p->chosen >= 0 ? (double)p->variants[p->chosen].cost_ps * 1e-6 : us;
    char queues[32] = "", why[INFO_LINE];

    if (v->queues) {
        snprintf(queues, sizeof(queues), ", %u queue%s%s", v->queues, v->queues == 1 ? "" : "s",
                 v->armed ? ", armed" : "");
    }
    if (!v->fits) {
        snprintf(why, sizeof(why), "cannot: %s", v->reason);
    } else if (i == p->chosen) {
        snprintf(why, sizeof(why), "chosen%s", p->forced && !p->forced_reason ? ", because a parameter names it" : "");
    } else if (p->chosen >= 0 && v->cost_ps == p->variants[p->chosen].cost_ps) {
        snprintf(why, sizeof(why), "equal: of equal ones the first is taken");
    } else {
        snprintf(why, sizeof(why),
                 us < best ? "faster by %.1f us, but a parameter names another one" : "slower by %.1f us",
                 us < best ? best - us : us - best);
    }
    out_object(o, NULL);
    out_text(o, "name", v->name);
    out_bool(o, "fits", v->fits);
    if (v->fits) {
        out_real(o, "microseconds", us);
    } else {
        out_text(o, "microseconds", NULL);
    }
    out_number(o, "queues", v->queues);
    out_bool(o, "armed", v->armed);
    out_text(o, "reason", v->fits ? NULL : v->reason);
    out_text(o, "why", why);
    out_close(o);
    if (v->fits) {
        out_say(o, 1, "%-18s %10.1f us%s: %s", v->name, us, queues, why);
    } else {
        out_say(o, 1, "%-18s %10s   : %s", v->name, "-", why);
    }
}

static void describe_question(out_t *o, const info_t *info)
{
    static const char *const names[] = {DMA_COLLS(DMA_COLL_TEXT)};
    const info_question_t *q = &info->options.question;
    int ranks = q->ranks;
    char where[64] = "one node";

    if (q->nodes > 1) {
        ranks = 0;
        for (int i = 0; i < q->nodes; i++) {
            ranks += q->sizes[i];
        }
        snprintf(where, sizeof(where), "%d nodes", q->nodes);
    }
    out_say(o, 0, "Prediction: %s of %s, %d ranks on %s, in %s memory%s%s", names[q->coll], info_bytes(q->bytes), ranks,
            where, q->device ? "device" : "host", q->in_place ? ", in place" : "", q->persistent ? ", persistent" : "");
    out_text(o, "operation", names[q->coll]);
    out_number(o, "bytes", q->bytes);
    out_number(o, "ranks", (uint64_t)ranks);
    out_number(o, "nodes", q->nodes > 1 ? (uint64_t)q->nodes : 1);
    out_text(o, "memory", q->device ? "device" : "host");
    out_bool(o, "in_place", q->in_place);
    out_bool(o, "persistent", q->persistent);
}

void info_report_prediction(out_t *o, const info_t *info)
{
    const info_prediction_t *p = &info->prediction;

    if (!info->options.question.asked) {
        out_text(o, "prediction", NULL);
        return;
    }
    out_object(o, "prediction");
    describe_question(o, info);
    out_text(o, "model", p->model);
    out_text(o, "chosen", p->chosen >= 0 ? p->variants[p->chosen].name : NULL);
    out_text(o, "forced", p->forced);
    out_text(o, "forced_reason", p->forced_reason);
    if (p->forced_reason) {
        out_say(o, 1, "%s, which a parameter names, is not taken: %s", p->forced, p->forced_reason);
    }
    out_array(o, "variants");
    for (int i = 0; i < p->n; i++) {
        report_variant(o, p, i);
    }
    out_close(o);
    out_array(o, "assumptions");
    for (int i = 0; i < p->nassumptions; i++) {
        out_text(o, NULL, p->assumptions[i]);
        out_say(o, 1, "%s", p->assumptions[i]);
    }
    out_close(o);
    out_close(o);
}
