/*
 * Modules: which communicators we offer ourselves for, what we keep of the modules below, and the set-up in the first
 * collective.
 *
 * comm_query and enable decide from facts that are equal on all ranks of the communicator, without a message: on one
 * rank ours and on another not would be a hang.
 */
#include "coll_dma.h"

static void construct(mca_coll_dma_module_t *module)
{
    module->state = COLL_DMA_NEW;
    module->comm = NULL;
    module->failed = DMA_OK;
    module->below_allgather = NULL;
    module->below_allgather_module = NULL;
}

/* Local, and possibly after the last pml request of the communicator: nothing here may communicate. */
static void let_go(mca_coll_dma_module_t *module)
{
    if (module->comm) {
        dma_comm_destroy(module->comm);
        module->comm = NULL;
        mca_coll_dma_proc_release();
    }
    if (module->below_allgather_module) {
        OBJ_RELEASE(module->below_allgather_module);
        module->below_allgather_module = NULL;
    }
}

/* A module that owns no slot in the end, because another was put on top, is never disabled. */
OBJ_CLASS_INSTANCE(mca_coll_dma_module_t, mca_coll_base_module_t, construct, let_go);

static int enable(mca_coll_base_module_t *base, ompi_communicator_t *comm)
{
    mca_coll_dma_module_t *module = (mca_coll_dma_module_t *)base;

    DMA_SLOT_SAVE(comm, allgather, module->below_allgather, module->below_allgather_module);
    if (!module->below_allgather) {
        /* An info key of the communicator may ask for us at the bottom. We cannot be alone. */
        return OMPI_ERR_NOT_AVAILABLE;
    }
    OBJ_RETAIN(module->below_allgather_module);
    DMA_SLOT_INSTALL(comm, allgather, &module->super);
    return OMPI_SUCCESS;
}

/* Open MPI up to 5.0 calls this once for every slot we own. */
static int disable(mca_coll_base_module_t *base, ompi_communicator_t *comm)
{
    mca_coll_dma_module_t *module = (mca_coll_dma_module_t *)base;

    (void)comm;
    DMA_SLOT_RESTORE(comm, allgather, &module->super, module->below_allgather, module->below_allgather_module);
    let_go(module);
    return OMPI_SUCCESS;
}

/*
 * Whether all ranks are processes of this job on this node. A rank that this process has not met yet (a sentinel) is on
 * another node, because Open MPI knows its local peers from the start; nothing is allocated to find out.
 * Other jobs are left out even on this node: when processes of several jobs are met at once, Open MPI tells by their
 * rank numbers alone who is local (dpm.c), so that two processes may see a third differently.
 */
static bool all_on_this_node(ompi_communicator_t *comm)
{
    ompi_group_t *group = comm->c_local_group;

    for (int rank = 0; rank < ompi_comm_size(comm); rank++) {
        ompi_proc_t *proc = ompi_group_get_proc_ptr_raw(group, rank);

        if (ompi_proc_is_sentinel(proc) || !OPAL_PROC_ON_LOCAL_NODE(proc->super.proc_flags) ||
            proc->super.proc_name.jobid != OMPI_PROC_MY_NAME->jobid) {
            return false;
        }
    }
    return true;
}

mca_coll_base_module_t *mca_coll_dma_comm_query(ompi_communicator_t *comm, int *priority)
{
    mca_coll_dma_module_t *module;

    if (mca_coll_dma_component.priority < 0 || OMPI_COMM_IS_INTER(comm) || ompi_comm_size(comm) < 2 ||
        !all_on_this_node(comm)) {
        return NULL;
    }
    module = OBJ_NEW(mca_coll_dma_module_t);
    if (!module) {
        return NULL;
    }
    *priority = mca_coll_dma_component.priority;
    module->super.coll_module_enable = enable;
    module->super.coll_module_disable = disable;
    module->super.coll_allgather = mca_coll_dma_allgather;
    return &module->super;
}

/* Who serves a communicator: a line for those who asked, and a warning when it is not us. */
static void report_outcome(const mca_coll_dma_module_t *module, ompi_communicator_t *comm, const char *name,
                           dma_status_t status)
{
    const char *reason = module->comm ? dma_comm_reason(module->comm) : dma_status_name(status);
    char line[512];

    if (0 != ompi_comm_rank(comm)) {
        return;
    }
    if (mca_coll_dma_component.verbose > 0) {
        const char *outcome = DMA_OK == status ? "ready" : DMA_UNSUPPORTED == status ? "aside: " : "failed: ";

        opal_output(0, "coll/dma: communicator %s: %d ranks, %s%s", name, ompi_comm_size(comm), outcome,
                    DMA_OK == status ? "" : reason);
    }
    if (DMA_UNSUPPORTED == status) {
        snprintf(line, sizeof(line), "communicator %s is left to the next collective component: %s", name, reason);
        mca_coll_dma_host.report(DMA_REPORT_WARN, "aside", line);
    }
}

dma_status_t mca_coll_dma_prepare(mca_coll_dma_module_t *module, ompi_communicator_t *comm)
{
    dma_status_t status = module->failed;
    char cid[32];
    char name[MPI_MAX_OBJECT_NAME + sizeof(cid) + 4];
    bool first = !module->comm && DMA_OK == status;

    dma_comm_cid(comm, cid, sizeof(cid));
    snprintf(name, sizeof(name), "%s%s(%s)", comm->c_name, comm->c_name[0] ? " " : "", cid);
    if (!module->comm && DMA_OK == status) {
        dma_comm_config_t config = {
            .handle = comm,
            .rank = ompi_comm_rank(comm),
            .nranks = ompi_comm_size(comm),
            .threads = ompi_mpi_thread_multiple,
            .text = name,
        };
        dma_proc_t *proc;

        status = mca_coll_dma_proc_retain(&proc);
        if (DMA_OK == status) {
            status = dma_comm_create(proc, &config, &module->comm);
            if (DMA_OK != status) {
                module->comm = NULL;
                mca_coll_dma_proc_release();
            }
        }
        module->failed = status;
    }
    if (module->comm) {
        status = dma_comm_prepare(module->comm);
        mca_coll_dma_poll(true);
    }
    if (first) {
        report_outcome(module, comm, name, status);
    }
    if (DMA_OK == status) {
        module->state = COLL_DMA_READY;
    } else if (DMA_UNSUPPORTED == status) {
        module->state = COLL_DMA_ASIDE;
    }
    return status;
}
