/* The report: see info.h. Each section of the text is a member of the document. */
#include <string.h>

#include "tools/info/info.h"

#define FORMAT 1 /* version of the document; a new member does not change it */

const char *info_bytes(uint64_t bytes)
{
    static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
    static char texts[4][32];
    static unsigned turn;
    char *text = texts[turn++ % 4];
    int unit = 0;

    if (bytes == UINT64_MAX) {
        return "no limit";
    }
    while (unit < 4 && bytes >= 1024 && bytes % 1024 == 0) {
        bytes /= 1024;
        unit++;
    }
    if (bytes >= 1 << 20) {
        snprintf(text, sizeof(texts[0]), "%.1f GiB",
                 (double)bytes * (double)(UINT64_C(1) << 10 * unit) / (double)(UINT64_C(1) << 30));
    } else {
        snprintf(text, sizeof(texts[0]), "%llu %s", (unsigned long long)bytes, units[unit]);
    }
    return text;
}

/* ---- Open MPI ---- */

static void report_component(out_t *o, const info_mpi_t *mpi)
{
    out_object(o, "component");
    out_bool(o, "loaded", mpi->loaded);
    out_text(o, "path", mpi->path[0] ? mpi->path : NULL);
    out_text(o, "version", mpi->loaded ? mpi->version : NULL);
    out_text(o, "why", mpi->why);
    out_close(o);
    if (mpi->loaded) {
        out_say(o, 1, "component: coll/dma %s, %s", mpi->version, mpi->path);
    } else {
        out_say(o, 1, "component: not loaded: %s", mpi->why);
        out_say(o, 1, "looked for in: %s", mpi->search);
    }
}

static void report_params(out_t *o, const info_mpi_t *mpi)
{
    out_array(o, "parameters");
    for (int i = 0; i < DMA_PARAM_COUNT; i++) {
        if (mpi->set >> i & 1) {
            out_object(o, NULL);
            out_text(o, "name", dma_param_table[i].name);
            out_text(o, "value", mpi->values[i]);
            out_close(o);
            out_say(o, 1, "coll_dma_%s: %s", dma_param_table[i].name, mpi->values[i]);
        }
    }
    out_close(o);
}

static void report_mpi(out_t *o, const info_mpi_t *mpi)
{
    out_say(o, 0, "Open MPI %s%s", mpi->library, mpi->right_series ? "" : ", of another series than coll/dma");
    out_object(o, "open_mpi");
    out_text(o, "version", mpi->library);
    out_text(o, "built_for", mpi->built_for);
    out_bool(o, "right_series", mpi->right_series);
    out_text(o, "search_path", mpi->search);
    out_text(o, "selection", mpi->selection);
    report_component(o, mpi);
    out_close(o);
    if (mpi->selection[0]) {
        out_say(o, 1, "coll: %s", mpi->selection);
    }
    report_params(o, mpi);
}

/* ---- the host ---- */

static void say_host(out_t *o, const info_t *info)
{
    const info_host_t *host = &info->host;

    out_say(o, 0, "Host memory");
    out_say(o, 1, "processors: %u of %u for %s", host->usable, host->online,
            host->local_ranks ? "the ranks of this host" : "this process");
    if (host->memfd) {
        out_say(o, 1, "shared memory: memfd, %s for each process", info_bytes(host->arena_bytes));
    } else {
        out_say(o, 1, "shared memory: no memfd: %s", host->memfd_why);
    }
    out_say(o, 1, "memory of other processes (process_vm_readv): %s", host->cross ? "can be read" : host->cross_why);
    out_say(o, 1, "huge pages of shared memory: %s (the kernel's setting; coll/dma asks for none)", host->huge);
    out_say(o, 1,
            "limits: descriptors %llu, size of a file %s, locked memory %s, address space %s, memory of the cgroup %s",
            (unsigned long long)host->descriptors, info_bytes(host->file_bytes), info_bytes(host->locked_bytes),
            info_bytes(host->address_bytes), info_bytes(host->memory_limit));
}

static void report_host(out_t *o, const info_t *info)
{
    const info_host_t *host = &info->host;

    say_host(o, info);
    out_object(o, "host_memory");
    out_number(o, "processors_usable", host->usable);
    out_number(o, "processors_online", host->online);
    out_bool(o, "memfd", host->memfd);
    out_text(o, "memfd_why", host->memfd_why);
    out_number(o, "arena_bytes", host->arena_bytes);
    out_bool(o, "cross_memory", host->cross);
    out_text(o, "cross_memory_why", host->cross_why);
    out_text(o, "huge_pages", host->huge);
    out_object(o, "limits");
    out_limit(o, "descriptors", host->descriptors);
    out_limit(o, "file_bytes", host->file_bytes);
    out_limit(o, "locked_bytes", host->locked_bytes);
    out_limit(o, "address_bytes", host->address_bytes);
    out_limit(o, "cgroup_bytes", host->memory_limit);
    out_close(o);
    out_close(o);
}

/* ---- the network ---- */

#ifdef DMA_HAVE_UCX
static void report_devices(out_t *o, const dma_ucx_found_t *ucx)
{
    for (unsigned i = 0; i < ucx->n; i++) {
        const dma_ucx_resource_t *r = &ucx->resources[i];

        out_object(o, NULL);
        out_text(o, "transport", r->transport);
        out_text(o, "device", r->device);
        out_bool(o, "used", !r->unused);
        out_text(o, "why", r->unused ? r->unused : "");
        out_close(o);
        out_say(o, 1, "%s over %s%s%s", r->transport, r->device, r->unused ? ": not used, " : "",
                r->unused ? r->unused : "");
    }
    if (ucx->by_user) {
        out_say(o, 1, "UCX_NET_DEVICES names the devices");
    }
}
#endif

static void report_net(out_t *o, const info_t *info)
{
    char version[48] = "";
    const char *why = "coll/dma was built without UCX", *filter_why = "";
    bool tcp_only = false;

#ifdef DMA_HAVE_UCX
    const dma_ucx_found_t *ucx = &info->ucx;

    why = ucx->why;
    filter_why = ucx->filter_why;
    tcp_only = ucx->tcp_only;
    if (ucx->version[0]) {
        snprintf(version, sizeof(version), "%u.%u.%u", ucx->version[0], ucx->version[1], ucx->version[2]);
    }
#endif
    out_say(o, 0, "UCX %s%s%s%s", version, version[0] && why[0] ? ", " : "", why,
            info->ucx_usable && tcp_only ? ", TCP is the only transport between nodes" : "");
    if (filter_why[0]) {
        out_say(o, 1, "connections over TCP are not filtered, every host can connect to a rank: %s", filter_why);
    }
    out_object(o, "ucx");
    out_bool(o, "built", info->ucx_built);
    out_bool(o, "usable", info->ucx_usable);
    out_text(o, "version", version[0] ? version : NULL);
    out_text(o, "why", why);
    out_bool(o, "tcp_only", tcp_only);
    out_text(o, "filter_why", filter_why);
    out_array(o, "devices");
#ifdef DMA_HAVE_UCX
    report_devices(o, ucx);
#endif
    out_close(o);
    out_close(o);
}

/* ---- kinds of memory, what is missing ---- */

static void report_kinds(out_t *o, const info_t *info)
{
    static const char *const words[][2] = {
        {"engines", "the GPUs' engines, where it is"},
        {"scratch", "the GPUs' engines; what is received goes through scratch memory of the device"},
        {"host", "as host memory"},
        {"staged", "through host memory"},
    };

    if (info->gpus.n) {
        out_say(o, 0, "Kinds of memory");
    }
    out_array(o, "memory_kinds");
    for (int k = 0; k < INFO_KINDS; k++) {
        info_kind_t kind = info_kind((dma_gpu_kind_t)k);
        const char *text = "";

        for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
            text = strcmp(words[i][0], kind.way) ? text : words[i][1];
        }
        out_object(o, NULL);
        out_text(o, "kind", kind.name);
        out_text(o, "way", kind.way);
        out_text(o, "reason", dma_reason_text(kind.reason));
        out_close(o);
        if (info->gpus.n) {
            out_say(o, 1, "%s (%s): %s", kind.name, kind.made_by, text);
        }
    }
    out_close(o);
}

static void report_missing(out_t *o, const info_t *info)
{
    out_say(o, 0, "%s", info->nmissing ? "What is missing, and what that costs" : "Nothing is missing");
    out_array(o, "missing");
    for (int i = 0; i < info->nmissing; i++) {
        const info_missing_t *m = &info->missing[i];

        out_object(o, NULL);
        out_text(o, "what", m->what);
        out_text(o, "cost", m->cost);
        out_text(o, "reason", m->reason ? dma_reasons[m->reason].name : NULL);
        out_close(o);
        out_say(o, 1, "%s: %s", m->what, m->cost);
    }
    out_close(o);
}

/* The short answer: what moves the data of a call. */
static void report_answer(out_t *o, const info_t *info)
{
    const info_gpus_t *gpus = &info->gpus;
    const char *unserved = info_why_unserved(&info->mpi);
    char host[INFO_LINE] = "processors", device[2 * INFO_LINE] = "", one[64];

    if (unserved) {
        snprintf(host, sizeof(host), "other components, because %s", unserved);
        snprintf(device, sizeof(device), "%s", host);
    } else if (!gpus->n) {
        snprintf(device, sizeof(device), "nobody: %s", gpus->why);
    }
    for (int i = 0; i < gpus->n && !unserved; i++) {
        size_t used = strlen(device);

        snprintf(one, sizeof(one), "%sGPU %d %s", i ? ", " : "", i,
                 gpus->gpus[i].engine[0] ? gpus->gpus[i].engine : "through the host");
        snprintf(device + used, sizeof(device) - used, "%s", one);
    }
    out_object(o, "answer");
    out_text(o, "host_memory", host);
    out_text(o, "device_memory", device);
    out_close(o);
    out_say(o, 1, "collectives in host memory are done by: %s", host);
    out_say(o, 1, "collectives in device memory are done by: %s", device);
}

void info_report(out_t *o, const info_t *info)
{
    out_say(o, 0, "coll_dma_info %s on %s", DMA_VERSION, info->hostname);
    out_number(o, "version", FORMAT);
    out_text(o, "coll_dma", DMA_VERSION);
    out_text(o, "host", info->hostname);
    report_answer(o, info);
    report_mpi(o, &info->mpi);
    report_net(o, info);
    info_report_gpus(o, info);
    report_kinds(o, info);
    report_host(o, info);
    report_missing(o, info);
    info_report_prediction(o, info);
    if (info->job) {
        info_job_report(o, info);
    } else {
        out_text(o, "job", NULL);
    }
}
