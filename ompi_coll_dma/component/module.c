/*
 * Modules: which communicators we offer ourselves for, and what we keep of the modules below.
 *
 * comm_query and enable decide from facts that are equal on all ranks of the communicator, without a message: on one
 * rank ours and on another not would be a hang.
 */
#include "request.h"

static void construct(mca_coll_dma_module_t *module)
{
    module->state = COLL_DMA_NEW;
    module->comm = NULL;
    module->spans = false;
    module->first = 0;
    module->failed = DMA_OK;
    atomic_init(&module->told, false);
    module->spare = NULL;
    memset(&module->below, 0, sizeof(module->below));
}

/* Local, and possibly after the last pml request of the communicator: nothing here may communicate. */
static void let_go(mca_coll_dma_module_t *module)
{
    if (module->spare) {
        mca_coll_dma_request_drop(module->spare);
        module->spare = NULL;
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
    COLL_DMA_SLOTS(COLL_DMA_DO)
#undef COLL_DMA_DO
}

/* A module that owns no slot in the end, because another was put on top, is never disabled. */
OBJ_CLASS_INSTANCE(mca_coll_dma_module_t, mca_coll_base_module_t, construct, let_go);

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
    COLL_DMA_SLOTS(COLL_DMA_DO)
#undef COLL_DMA_DO
    if (!complete) {
        /* An info key of the communicator may ask for us at the bottom. We cannot be alone. */
        return OMPI_ERR_NOT_AVAILABLE;
    }
#define COLL_DMA_DO(slot) DMA_SLOT_INSTALL(comm, slot, &module->super);
    COLL_DMA_SLOTS(COLL_DMA_DO)
#undef COLL_DMA_DO
    return OMPI_SUCCESS;
}

/* Open MPI up to 5.0 calls this once for every slot we own. */
static int disable(mca_coll_base_module_t *base, ompi_communicator_t *comm)
{
    mca_coll_dma_module_t *module = (mca_coll_dma_module_t *)base;

    (void)comm;
#define COLL_DMA_DO(slot) DMA_SLOT_RESTORE(comm, slot, &module->super, module->below.slot, module->below.slot##_module);
    COLL_DMA_SLOTS(COLL_DMA_DO)
#undef COLL_DMA_DO
    let_go(module);
    return OMPI_SUCCESS;
}

/*
 * Whether all ranks are processes of this job; the lowest one of this node, and whether there are others. A rank that this
 * process has not met yet (a sentinel) is on another node, because Open MPI knows its local peers from the start; nothing
 * is allocated to find out.
 * Other jobs are left out even on this node: when processes of several jobs are met at once, Open MPI tells by their
 * rank numbers alone who is local (dpm.c), so that two processes may see a third differently.
 */
static bool all_of_this_job(ompi_communicator_t *comm, bool *spans, int *first)
{
    ompi_group_t *group = comm->c_local_group;

    *spans = false;
    *first = -1;
    for (int rank = 0; rank < ompi_comm_size(comm); rank++) {
        ompi_proc_t *proc = ompi_group_get_proc_ptr_raw(group, rank);
        bool sentinel = ompi_proc_is_sentinel(proc);
        ompi_process_name_t name =
            sentinel ? ompi_proc_sentinel_to_name((uintptr_t)proc) : *(ompi_process_name_t *)&proc->super.proc_name;

        if (name.jobid != OMPI_PROC_MY_NAME->jobid) {
            return false;
        }
        if (sentinel || !OPAL_PROC_ON_LOCAL_NODE(proc->super.proc_flags)) {
            *spans = true;
        } else if (*first < 0) {
            *first = rank;
        }
    }
    return true;
}

/* Facts that are equal on all ranks alone. */
mca_coll_base_module_t *mca_coll_dma_comm_query(ompi_communicator_t *comm, int *priority)
{
    mca_coll_dma_module_t *module;
    bool spans;
    int first;

    if (mca_coll_dma_component.params.priority < 0 || DMA_FAULT_TOLERANT || OMPI_COMM_IS_INTER(comm) ||
        ompi_comm_size(comm) < 2 || !all_of_this_job(comm, &spans, &first) || (spans && !mca_coll_dma_net_ops())) {
        return NULL;
    }
    module = OBJ_NEW(mca_coll_dma_module_t);
    if (!module) {
        return NULL;
    }
    module->spans = spans;
    module->first = first;
    *priority = mca_coll_dma_component.params.priority;
    module->super.coll_module_enable = enable;
    module->super.coll_module_disable = disable;
#define COLL_DMA_DO(slot) module->super.coll_##slot = mca_coll_dma_##slot;
    COLL_DMA_SLOTS(COLL_DMA_DO)
#undef COLL_DMA_DO
    return &module->super;
}
