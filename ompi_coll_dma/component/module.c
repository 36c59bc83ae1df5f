/*
 * Modules: for which communicators coll/dma is available, and the functions of the module below.
 *
 * comm_query and enable decide without messages of their own, from facts that are equal on all ranks of the communicator. If ranks
 * decided differently, the first collective would hang. So parameters are those of one process (terms.c).
 */
#include "request.h"

static void construct(mca_coll_dma_module_t *module)
{
    module->state = COLL_DMA_NEW;
    module->comm = NULL;
    module->multi_node = false;
    module->local_leader = 0;
    module->terms = (mca_coll_dma_terms_t){0};
    module->create_status = DMA_OK;
    module->looked = module->left = false;
    atomic_init(&module->reported, false);
    module->spare_request = NULL;
    memset(&module->below, 0, sizeof(module->below));
}

/* Local, and possibly after the pml has dropped the communicator: nothing here may communicate. */
static void destruct(mca_coll_dma_module_t *module)
{
    if (module->spare_request) {
        mca_coll_dma_request_discard(module->spare_request);
        module->spare_request = NULL;
    }
    if (module->comm) {
        dma_comm_destroy(module->comm);
        module->comm = NULL;
        mca_coll_dma_proc_release();
    }
#define COLL_DMA_DO(slot)                                                                                              \
    if (module->below.slot##_module) {                                                                                 \
        OBJ_RELEASE(module->below.slot##_module);                                                                      \
        module->below.slot##_module = NULL;                                                                            \
    }
    COLL_DMA_SLOTS
#undef COLL_DMA_DO
}

/* The destructor does the same as disable: Open MPI never disables a module whose functions were all replaced by another. */
OBJ_CLASS_INSTANCE(mca_coll_dma_module_t, mca_coll_base_module_t, construct, destruct);

static int enable(mca_coll_base_module_t *base, ompi_communicator_t *comm)
{
    mca_coll_dma_module_t *module = (mca_coll_dma_module_t *)base;

    mca_coll_dma_below_t *below = &module->below;
    bool complete = true;

#define COLL_DMA_DO(slot)                                                                                              \
    DMA_SLOT_SAVE(comm, slot, below->slot, below->slot##_module);                                                      \
    if (below->slot##_module) {                                                                                        \
        OBJ_RETAIN(below->slot##_module);                                                                              \
    }                                                                                                                  \
    complete = complete && below->slot && below->slot##_module;
    COLL_DMA_SLOTS
#undef COLL_DMA_DO
    if (!complete) {
        /* An info key of the communicator may put coll/dma below all others. It needs a module below. */
        dma_counters_add_reason(&mca_coll_dma_component.counters, DMA_REASON_comm_below);
        return OMPI_ERR_NOT_AVAILABLE;
    }
#define COLL_DMA_DO(slot) DMA_SLOT_INSTALL(comm, slot, &module->super);
    COLL_DMA_SLOTS
#undef COLL_DMA_DO
    return OMPI_SUCCESS;
}

/* Open MPI up to 5.0 calls this once for every installed function. */
static int disable(mca_coll_base_module_t *base, ompi_communicator_t *comm)
{
    mca_coll_dma_module_t *module = (mca_coll_dma_module_t *)base;

    (void)comm;
#define COLL_DMA_DO(slot) DMA_SLOT_RESTORE(comm, slot, &module->super, module->below.slot, module->below.slot##_module);
    COLL_DMA_SLOTS
#undef COLL_DMA_DO
    destruct(module);
    return OMPI_SUCCESS;
}

ompi_process_name_t mca_coll_dma_name_of(ompi_communicator_t *comm, int rank)
{
    ompi_proc_t *proc = ompi_group_get_proc_ptr_raw(comm->c_local_group, rank);

    return ompi_proc_is_sentinel(proc) ? ompi_proc_sentinel_to_name((uintptr_t)proc)
                                       : *(ompi_process_name_t *)&proc->super.proc_name;
}

/* A sentinel is a process that this process has not resolved yet. It is on another node, because Open MPI resolves its local peers
 * at start; so nothing has to be allocated to find out. */
bool mca_coll_dma_is_here(ompi_communicator_t *comm, int rank)
{
    ompi_proc_t *proc = ompi_group_get_proc_ptr_raw(comm->c_local_group, rank);

    return !ompi_proc_is_sentinel(proc) && OPAL_PROC_ON_LOCAL_NODE(proc->super.proc_flags);
}

/*
 * Whether all ranks are processes of this job. Then also: whether there are several nodes, and the lowest rank on this one.
 * Communicators with processes of several jobs are not served, even on one node: when Open MPI connects to processes of several
 * jobs at once, it finds the local ones by rank number alone (dpm.c), so two processes may see a third differently.
 */
static bool is_one_job(ompi_communicator_t *comm, bool *multi_node, int *local_leader)
{
    *multi_node = false;
    *local_leader = -1;
    for (int rank = 0; rank < ompi_comm_size(comm); rank++) {
        if (mca_coll_dma_name_of(comm, rank).jobid != OMPI_PROC_MY_NAME->jobid) {
            return false;
        }
        if (!mca_coll_dma_is_here(comm, rank)) {
            *multi_node = true;
        } else if (*local_leader < 0) {
            *local_leader = rank;
        }
    }
    return true;
}

/* One line for a communicator over several nodes that coll/dma was told, or built, to leave alone. A user who switched the
 * nodes off gets it on request only. Rank 0 prints. */
static void report_left_out(ompi_communicator_t *comm, bool off)
{
    if (0 == ompi_comm_rank(comm)) {
        mca_coll_dma_host.report(
            off ? DMA_REPORT_NOTE : DMA_REPORT_WARN, "several nodes",
            off ? "communicators over several nodes are left to the other components: coll_dma_nodes is 0 on rank 0 of "
                  "MPI_COMM_WORLD"
                : "communicators over several nodes are left to the other components: coll/dma was built "
                  "without UCX on the node of rank 0 of MPI_COMM_WORLD");
    }
}

/* Why coll/dma must not serve the communicator, if there is a reason. Uses only facts that are equal on all ranks. Fills the
 * module. */
static dma_reason_t why_left_out(ompi_communicator_t *comm, mca_coll_dma_module_t *module)
{
    mca_coll_dma_terms_t *terms = &module->terms;

    if (mca_coll_dma_component.fault_tolerant || OMPI_COMM_IS_INTER(comm) ||
        !is_one_job(comm, &module->multi_node, &module->local_leader)) {
        return DMA_REASON_comm_kind;
    }
    if (!mca_coll_dma_terms_get(comm, terms)) {
        return DMA_REASON_comm_not_loaded;
    }
    if (terms->priority < 0) {
        return DMA_REASON_comm_off;
    }
    if (module->multi_node && !(terms->nodes && terms->network)) {
        report_left_out(comm, !terms->nodes);
        return terms->nodes ? DMA_REASON_comm_no_ucx : DMA_REASON_comm_off;
    }
    return DMA_REASON_NONE;
}

mca_coll_base_module_t *mca_coll_dma_comm_query(ompi_communicator_t *comm, int *priority)
{
    mca_coll_dma_module_t *module = OBJ_NEW(mca_coll_dma_module_t);
    dma_reason_t why;

    if (!module) {
        return NULL;
    }
    why = why_left_out(comm, module);
    if (why) {
        dma_counters_add_reason(&mca_coll_dma_component.counters, why);
        OBJ_RELEASE(module);
        return NULL;
    }
    *priority = module->terms.priority;
    module->super.coll_module_enable = enable;
    module->super.coll_module_disable = disable;
#define COLL_DMA_DO(slot) module->super.coll_##slot = mca_coll_dma_##slot;
    COLL_DMA_SLOTS
#undef COLL_DMA_DO
    return &module->super;
}
