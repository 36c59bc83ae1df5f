/*
 * The set-up of a communicator at its first collective, and the messages about its outcome.
 */
#include "coll_dma.h"

typedef struct name {
    char text[MPI_MAX_OBJECT_NAME + 36];
} name_t;

static name_t name_of(ompi_communicator_t *comm)
{
    name_t name;
    char cid[32];

    dma_comm_cid(comm, cid, sizeof(cid));
    snprintf(name.text, sizeof(name.text), "%s%s(%s)", comm->c_name, comm->c_name[0] ? " " : "", cid);
    return name;
}

dma_status_t mca_coll_dma_comm_open(mca_coll_dma_module_t *module, ompi_communicator_t *comm)
{
    name_t name;
    dma_proc_t *proc;

    if (OPAL_LIKELY(module->comm || DMA_OK != module->create_status)) {
        return module->create_status;
    }
    name = name_of(comm);
    module->create_status = mca_coll_dma_proc_retain(&proc);
    if (DMA_OK == module->create_status) {
        dma_comm_config_t config = {
            .handle = comm,
            .rank = ompi_comm_rank(comm),
            .nranks = ompi_comm_size(comm),
            .threads = &opal_uses_threads, /* see series.h */
            .text = name.text,
            .nodes = module->multi_node,
            .first = module->local_leader,
            .first_calls = module->terms.net_first_calls,
        };

        module->create_status = dma_comm_create(proc, &config, &module->comm);
        if (DMA_OK != module->create_status) {
            module->comm = NULL;
            mca_coll_dma_proc_release();
        }
    }
    return module->create_status;
}

/* One line on request (coll_dma_verbose), and a warning if coll/dma does not serve the communicator. Rank 0 prints. */
void mca_coll_dma_report_state(mca_coll_dma_module_t *module, ompi_communicator_t *comm)
{
    dma_comm_state_t state = module->comm ? dma_comm_state(module->comm) : DMA_COMM_NEW;
    bool ready = DMA_COMM_READY == state, declined = DMA_COMM_ASIDE == state;
    bool left = declined && dma_comm_is_left(module->comm);
    const char *reason;
    char line[512];
    name_t name;

    if (DMA_COMM_NEW == state || DMA_COMM_FIRST == state || DMA_COMM_SETUP == state ||
        atomic_exchange(&module->reported, true)) {
        return;
    }
    if (0 != ompi_comm_rank(comm)) {
        return;
    }
    reason = ready ? "" : dma_comm_reason(module->comm);
    name = name_of(comm);
    if (mca_coll_dma_component.params.verbose > 0) {
        opal_output(0, "coll/dma: communicator %s: %d ranks, %s%s", name.text, ompi_comm_size(comm),
                    ready      ? "ready"
                    : declined ? "not served: "
                               : "failed: ",
                    reason);
    }
    if (declined) {
        snprintf(
            line, sizeof(line),
            "communicator %s is not served by coll/dma: its %scollectives go to the next collective component%s: %s",
            name.text, left ? "" : "blocking ", left ? "" : ", others are done by messages", reason);
        mca_coll_dma_host.report(DMA_REPORT_WARN, "aside", line);
    }
}

/* Who asks whether coll/dma is used, or brings device memory, is told why it is not so far. Rank 0 prints. A rank alone cannot begin
 * the set-up: it does not know whether others have device memory, too. */
void mca_coll_dma_report_first(const mca_coll_dma_module_t *module, ompi_communicator_t *comm, bool on_device)
{
    char line[512];
    name_t name;

    if (0 != ompi_comm_rank(comm) || DMA_COMM_FIRST != dma_comm_state(module->comm)) {
        return;
    }
    name = name_of(comm);
    snprintf(
        line, sizeof(line),
        "communicator %s: its first collectives%s go to the next collective component, until coll_dma_net_first_calls "
        "(%u) small ones or a few longer ones have been called",
        name.text, on_device ? ", some of them in device memory," : "", (unsigned)module->terms.net_first_calls);
    mca_coll_dma_host.report(on_device ? DMA_REPORT_WARN : DMA_REPORT_NOTE, on_device ? "first on device" : "first",
                             line);
}

dma_status_t mca_coll_dma_comm_setup(mca_coll_dma_module_t *module, ompi_communicator_t *comm)
{
    dma_status_t status = mca_coll_dma_comm_open(module, comm);

    if (DMA_OK != status) {
        return status;
    }
    if (OPAL_UNLIKELY(mca_coll_dma_component.some_absent) && !module->looked) {
        mca_coll_dma_look(module, comm);
    }
    status = dma_comm_prepare(module->comm);
    module->left = dma_comm_is_left(module->comm);
    module->looked = true;
    mca_coll_dma_report_state(module, comm);
    if (DMA_OK == status) {
        module->state = COLL_DMA_READY;
    } else if (DMA_UNSUPPORTED == status) {
        module->state = COLL_DMA_DECLINED;
    }
    return status;
}
