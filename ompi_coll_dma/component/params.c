/*
 * MCA parameters: docs/parameters.md lists them, test/mpi/params.sh tries each.
 */
#include "coll_dma.h"

typedef struct param {
    const char *name;
    mca_base_var_type_t type;
    void *storage;
    const char *help;
} param_t;

/* The performance variable coll_dma_progress_turns. */
static int register_counter(void)
{
    mca_coll_dma_component_t *component = &mca_coll_dma_component;
    int index = mca_base_component_pvar_register(
        &component->super.collm_version, "progress_turns",
        "Calls of the progress callback of coll/dma, which is registered only while its collectives are under way",
        OPAL_INFO_LVL_9, MCA_BASE_PVAR_CLASS_COUNTER, MCA_BASE_VAR_TYPE_UNSIGNED_LONG_LONG, NULL,
        MCA_BASE_VAR_BIND_NO_OBJECT, MCA_BASE_PVAR_FLAG_READONLY | MCA_BASE_PVAR_FLAG_CONTINUOUS, NULL, NULL, NULL,
        &component->turns);

    return index < 0 ? index : OMPI_SUCCESS;
}

int mca_coll_dma_register_params(void)
{
    mca_coll_dma_component_t *component = &mca_coll_dma_component;
    dma_params_t *params = &component->params;
    const param_t table[] = {
        {"priority", MCA_BASE_VAR_TYPE_INT, &component->priority, "Priority of coll/dma; negative: never used"},
        {"nodes", MCA_BASE_VAR_TYPE_INT, &component->nodes,
         "1: communicators over several nodes are served too, over UCX; 0: those of one node only"},
        {"net_variant", MCA_BASE_VAR_TYPE_STRING, &component->net_variant,
         "Algorithm to use between nodes where it fits (auto: the cost model chooses)"},
        {"net_profile", MCA_BASE_VAR_TYPE_STRING, &params->net_profile,
         "File with the cost model's constants for the network (default: built-in ones)"},
        {"net_chunk_bytes", MCA_BASE_VAR_TYPE_SIZE_T, &params->net_chunk_bytes,
         "Largest message, in bytes, of large blocks between nodes; 0: as the network wants it"},
        {"keepalive", MCA_BASE_VAR_TYPE_DOUBLE, &component->keepalive,
         "Seconds after which a link between nodes that is dead is noticed, and its collectives fail; at least 2"},
        {"verbose", MCA_BASE_VAR_TYPE_INT, &component->verbose,
         "1: one line per communicator at its first collective, saying who serves it; 2: also why a forced variant was "
         "not used"},
        {"variant", MCA_BASE_VAR_TYPE_STRING, &component->variant,
         "Algorithm to use where it fits (auto: the cost model chooses)"},
        {"profile", MCA_BASE_VAR_TYPE_STRING, &params->profile,
         "File with the cost model's constants for this machine (default: built-in ones)"},
        {"engine", MCA_BASE_VAR_TYPE_STRING, &component->engine,
         "What moves device memory: sdma (the DMA engines of AMD GPUs), stream (copies of the GPU's runtime), none "
         "(the "
         "host), or auto: the best that works"},
        {"queues", MCA_BASE_VAR_TYPE_STRING, &component->queues,
         "Whom the queues of the engine sdma come from: thunk (the libhsakmt that ROCr uses), kfd (the kernel driver "
         "itself), or auto: the first of them that works"},
        {"gpu_variant", MCA_BASE_VAR_TYPE_STRING, &component->gpu_variant,
         "Algorithm to use for device memory where it fits (auto: the cost model chooses)"},
        {"gpu_queues", MCA_BASE_VAR_TYPE_UNSIGNED_INT, &params->gpu_queues,
         "Queues that copies back to back (b2b) are dealt to; 0: the cost model chooses"},
        {"own_copy", MCA_BASE_VAR_TYPE_STRING, &component->own_copy,
         "How the stream engine copies a rank's own block: copy, graph (the same, launched as a graph), echo (to a "
         "peer "
         "and back, by copy engines alone), or auto: graph, and echo while copies are late"},
        {"gpu_profile", MCA_BASE_VAR_TYPE_STRING, &params->gpu_profile,
         "File with the cost model's constants for the GPUs' engines (default: built-in ones)"},
        {"prelaunch", MCA_BASE_VAR_TYPE_INT, &params->prelaunch,
         "Persistent collectives of a process, at most, whose programs the engines get before their start; 0: none"},
        {"armed_seconds", MCA_BASE_VAR_TYPE_DOUBLE, &params->armed_seconds,
         "Seconds that such programs wait in the engines before they are given up until the next start"},
        {"stream_sync", MCA_BASE_VAR_TYPE_INT, &params->stream_sync,
         "1: wait for the default stream of the device before a collective touches device memory; 0: the caller has"},
        {"sysfs", MCA_BASE_VAR_TYPE_STRING, &params->sysfs,
         "Root of the kernel's description of GPUs and their links (default: where Linux has it)"},
        {"arena_bytes", MCA_BASE_VAR_TYPE_SIZE_T, &params->arena_bytes,
         "Most shared memory, in bytes, that a process gives to collectives; 0: none, no communicator is served"},
        {"ring_depth", MCA_BASE_VAR_TYPE_UNSIGNED_INT, &params->ring_depth,
         "Collectives of one communicator that may be under way at once"},
        {"slot_bytes", MCA_BASE_VAR_TYPE_SIZE_T, &params->slot_bytes,
         "Largest block, in bytes, that is copied through a slot of shared memory in one piece"},
        {"chunk_bytes", MCA_BASE_VAR_TYPE_SIZE_T, &params->chunk_bytes,
         "Largest piece, in bytes, in which larger blocks stream through shared memory"},
        {"chunk_depth", MCA_BASE_VAR_TYPE_UNSIGNED_INT, &params->chunk_depth,
         "Pieces of a stream that may be in shared memory at once; 0: as many as a level-2 cache holds, at least 4"},
        {"cross_memory", MCA_BASE_VAR_TYPE_INT, &params->cross_memory,
         "1: read peers' memory directly where every pair of ranks has proven that it can; 0: never"},
        {"measure", MCA_BASE_VAR_TYPE_INT, &params->measure,
         "1: what copies between processes cost is measured when a communicator is first used, unless a profile says "
         "it"},
        {"warn", MCA_BASE_VAR_TYPE_DOUBLE, &params->warn_seconds,
         "Seconds after which a waiting collective says whom it waits for, and waits on; 0: never"},
        {"timeout", MCA_BASE_VAR_TYPE_DOUBLE, &params->timeout,
         "Seconds after which an engine that has work and does not move is taken for broken, and its collective fails"},
        {"entry_timeout", MCA_BASE_VAR_TYPE_DOUBLE, &params->entry_timeout,
         "Seconds after which a collective fails because a rank has not entered it; 0: never"},
    };

    dma_params_default(params);
    /* Above coll/accelerator (78), which would copy small device buffers to the host before we see them; the framework
     * cuts at 100. */
    component->priority = 91;
    component->verbose = 0;
    component->variant = "auto";
    component->engine = "auto";
    component->queues = "auto";
    component->gpu_variant = "auto";
    component->net_variant = "auto";
    component->nodes = 1;
    component->keepalive = 10;
    component->own_copy = "auto";
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        int index = mca_base_component_var_register(&component->super.collm_version, table[i].name, table[i].help,
                                                    table[i].type, NULL, 0, 0, OPAL_INFO_LVL_5,
                                                    MCA_BASE_VAR_SCOPE_READONLY, table[i].storage);

        if (index < 0) {
            return index;
        }
    }
    return register_counter();
}

static const char *given(const char *text)
{
    return text ? text : "";
}

/* An empty path is none. */
static const char *path(const char *text)
{
    return text && '\0' != text[0] ? text : NULL;
}

void mca_coll_dma_params(dma_params_t *params)
{
    const mca_coll_dma_component_t *component = &mca_coll_dma_component;

    *params = component->params;
    snprintf(params->variant, sizeof(params->variant), "%s", given(component->variant));
    snprintf(params->engine, sizeof(params->engine), "%s", given(component->engine));
    snprintf(params->queues, sizeof(params->queues), "%s", given(component->queues));
    snprintf(params->gpu_variant, sizeof(params->gpu_variant), "%s", given(component->gpu_variant));
    snprintf(params->net_variant, sizeof(params->net_variant), "%s", given(component->net_variant));
    params->net_profile = path(params->net_profile);
    snprintf(params->own_copy, sizeof(params->own_copy), "%s", given(component->own_copy));
    params->profile = path(params->profile);
    params->gpu_profile = path(params->gpu_profile);
    params->sysfs = path(params->sysfs);
    params->local_procs = (uint32_t)ompi_process_info.num_local_peers + 1;
    params->yield = opal_progress_yield_when_idle;
}
