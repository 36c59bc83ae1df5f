/*
 * What is missing, and what that costs. If a row of include/dma/reasons_table.h fits, it is the reason, in the words that a
 * job prints and counts.
 */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "tools/info/info.h"

#define ASIDE_COST "no communicator is served: blocking calls go to the next component, others are done by messages"

static void add(info_t *info, dma_reason_t reason, const char *cost, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

static void add(info_t *info, dma_reason_t reason, const char *cost, const char *format, ...)
{
    info_missing_t *m = &info->missing[info->nmissing];
    va_list args;

    if (info->nmissing == INFO_MISSING) {
        return;
    }
    *m = (info_missing_t){.reason = reason, .cost = cost};
    va_start(args, format);
    vsnprintf(m->what, sizeof(m->what), format, args);
    va_end(args);
    info->nmissing++;
}

/* ---- Open MPI and the host ---- */

static void check_mpi(info_t *info)
{
    const char *why = info_why_unserved(&info->mpi);

    if (why) {
        add(info, DMA_REASON_NONE, "no collective is served", "%s%s%s", why, info->mpi.loaded ? "" : ": ",
            info->mpi.loaded ? "" : info->mpi.why);
    }
    /* This process may have found it where ranks of mpirun do not look. */
    else if (!strcmp(DMA_PATH_KEPT, "no") && !getenv("OMPI_MCA_mca_base_component_path")) {
        add(info, DMA_REASON_NONE, "jobs run without coll/dma, and mpirun --mca coll dma fails",
            "the path of components under mpirun; before it, run: . " DMA_PKGDATADIR "/env.sh");
    }
}

static void check_host(info_t *info)
{
    const info_host_t *host = &info->host;

    if (!host->memfd) {
        add(info, host->memfd_reason,
            !info->mpi.params.arena_bytes ? ASIDE_COST
                                          : "a file in the session directory is tried; without one, " ASIDE_COST,
            "shared memory: %s", host->memfd_why);
    }
    if (!host->cross && info->mpi.params.cross_memory) {
        add(info, DMA_REASON_cross_refused, "blocks are copied twice, through shared memory", "cross memory: %s",
            host->cross_why);
    }
    if (host->usable < 2) {
        add(info, DMA_REASON_NONE, "ranks of one processor take turns: each step costs a switch", "a second processor");
    }
}

static void check_net(info_t *info)
{
    static const char cost[] = "communicators over several nodes go to the next component";

    if (!info->ucx_built) {
        add(info, DMA_REASON_network_missing, cost, "UCX: coll/dma was built without it");
    } else if (!info->mpi.params.nodes) {
        add(info, DMA_REASON_NONE, cost, "coll_dma_nodes is 0");
    }
#ifdef DMA_HAVE_UCX
    else if (!info->ucx_usable) {
        add(info, DMA_REASON_network_missing, cost, "UCX: %s", info->ucx.why);
    }
#endif
}

/* ---- GPUs ---- */

/* What a program does without a kind of packet. */
static const char *packet_cost(dma_record_feature_t feature)
{
    static const char *const costs[DMA_RECORD_FEATURES] = {
        [DMA_RECORD_TIMESTAMP] = "traces show engines as the processor sees them",
        [DMA_RECORD_STRIDES] = "derived datatypes are packed on the device",
        [DMA_RECORD_BROADCAST] = "no variant bcst",
        [DMA_RECORD_SWAP] = "no variants swap and halves: exchanges are three copies",
        [DMA_RECORD_POLL] = "the processor waits between steps, where the engine could",
        [DMA_RECORD_PRELAUNCH] = "persistent calls write their packets in MPI_Start",
    };

    return costs[feature];
}

/* Would an earlier GPU print the same? */
static bool is_repeated(const info_t *info, const char *what)
{
    for (int i = 0; i < info->nmissing; i++) {
        const char *text = strstr(info->missing[i].what, ": ");

        if (text && !strncmp(info->missing[i].what, "GPU", 3) && !strcmp(text + 2, what)) {
            return true;
        }
    }
    return false;
}

/* The first of several equal GPUs stands for all. */
static void add_gpu(info_t *info, int i, dma_reason_t reason, const char *cost, const char *what)
{
    if (!is_repeated(info, what)) {
        add(info, reason, cost, "GPU %d%s: %s", i, info->gpus.n > 1 ? " and those like it" : "", what);
    }
}

static void check_packets(info_t *info, int i)
{
    const info_gpu_t *gpu = &info->gpus.gpus[i];
    char what[INFO_LINE];

    if (!info->gpus.proof.all && !gpu->recorded) {
        snprintf(what, sizeof(what), "a record for its packets: %.200s", gpu->record_why);
        add_gpu(info, i, DMA_REASON_packets_unrecorded,
                "plain copies alone are used: no bcst, swap, halves, no arming, no strides; coll_dma_accept makes it",
                what);
        return;
    }
    for (int p = 0; p < DMA_TRIAL_PACKETS; p++) {
        const info_packet_t *packet = &gpu->packets[p];
        dma_record_feature_t feature = dma_trial_packets[p].feature;
        bool failed = !strcmp(packet->record, "failed"), broken = packet->self_test && !packet->used;

        if (packet->has && !packet->used && feature != DMA_RECORD_TIMESTAMP) {
            snprintf(what, sizeof(what), "packet %s: %s%s%s", dma_record_feature_name(feature),
                     broken   ? "it failed in the self-test"
                     : failed ? "it failed when coll_dma_accept tried it"
                              : "coll_dma_accept has not tried it",
                     packet->why[0] ? ": " : "", packet->why);
            add_gpu(info, i, broken || failed ? DMA_REASON_packet_failed : DMA_REASON_packets_unrecorded,
                    packet_cost(feature), what);
        }
    }
}

static void check_gpu(info_t *info, int i)
{
    const info_gpu_t *gpu = &info->gpus.gpus[i];
    bool sdma = !strcmp(gpu->engine, "sdma");
    char what[INFO_LINE];

    if (!gpu->engine[0]) {
        snprintf(what, sizeof(what), "an engine: %.200s", gpu->engine_why);
        add_gpu(info, i, DMA_REASON_staged_no_engine, "its memory goes through the host", what);
    } else if (!sdma && strcmp(info->mpi.params.engine, "stream") != 0) {
        snprintf(what, sizeof(what), "the engine sdma: %.200s", gpu->sdma_why);
        add_gpu(info, i, DMA_REASON_engine_refused,
                "copies of the runtime: on one queue, nothing armed, and exchanges in three copies", what);
    }
    if (sdma && !gpu->named) {
        add_gpu(info, i, DMA_REASON_NONE, "links share engines that the driver picks; nothing waits in them",
                "queues that can name their engine");
    }
    if (sdma) {
        check_packets(info, i);
    }
}

static void check_gpus(info_t *info)
{
    const info_gpus_t *gpus = &info->gpus;

    if (!gpus->rt && gpus->kernel_gpus) {
        add(info, DMA_REASON_staged_no_engine,
            "a program with device memory needs it; coll/dma uses what the program loads", "a GPU runtime: %s",
            gpus->why);
    }
    if (gpus->hidden) {
        add(info, DMA_REASON_NONE, "ranks of this process's kind cannot use them",
            "%u nodes of the kernel's description may not be read here", gpus->hidden);
    }
    for (int i = 0; i < gpus->n; i++) {
        check_gpu(info, i);
    }
}

void info_missing_find(info_t *info)
{
    check_mpi(info);
    check_host(info);
    check_net(info);
    check_gpus(info);
}
