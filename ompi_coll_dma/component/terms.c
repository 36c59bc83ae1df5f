/*
 * The parameters on which the ranks of a communicator must agree before their first message. They say whether coll/dma is among
 * its components, and which call begins the set-up. If ranks had different values, some would wait in the set-up for others that
 * are in the next component, for ever.
 *
 * So each process publishes its values when Open MPI opens the component, with all that processes publish for MPI_Init. All
 * communicators use the values of rank 0 of the job. A process reads them once, when MPI_COMM_WORLD is made, or the first communicator
 * of a session. The daemon of its node has collected them by then. If Open MPI is told to collect nothing at its start, the
 * daemon asks that of rank 0. No collective costs more by that.
 */
#include "coll_dma.h"

/* Who names dma in the list of collective components waits for it: it has the first call, unless the parameter says otherwise. Who
 * does not may not even know that it is there. */
static uint32_t first_calls(const mca_coll_dma_component_t *component)
{
    return component->named && !component->first_calls_set ? 0 : component->params.net_first_calls;
}

static mca_coll_dma_terms_t own_terms(void)
{
    const dma_params_t *params = &mca_coll_dma_component.params;

    return (mca_coll_dma_terms_t){
        .priority = params->priority,
        .nodes = params->nodes,
        .network = NULL != mca_coll_dma_net_ops(),
        .net_first_calls = first_calls(&mca_coll_dma_component),
    };
}

void mca_coll_dma_terms_publish(void)
{
    mca_coll_dma_terms_t own = own_terms();

    mca_coll_dma_component.published = dma_modex_send(COLL_DMA_KEY, &own, sizeof(own));
}

/* Returns whether rank 0 of the job has published terms. Without the lock, because PMIx may ask another node. */
static bool read_terms(mca_coll_dma_terms_t *terms)
{
    ompi_process_name_t name = {.jobid = OMPI_PROC_MY_NAME->jobid, .vpid = 0};
    char text[160];
    int rc = dma_modex_recv(COLL_DMA_KEY, &name, terms, sizeof(*terms));

    if (0 != rc && DMA_MODEX_NOTHING != rc) {
        snprintf(
            text, sizeof(text),
            "what rank 0 of the job has published cannot be read (PMIx: %d), so this process uses other components",
            rc);
        mca_coll_dma_host.report(DMA_REPORT_WARN, "terms", text);
    }
    return 0 == rc;
}

/* A communicator of one process has nobody to agree with. If this process could not publish its terms, no process of the job could.
 * Then each uses its own. */
bool mca_coll_dma_terms_get(ompi_communicator_t *comm, mca_coll_dma_terms_t *terms)
{
    mca_coll_dma_component_t *component = &mca_coll_dma_component;
    bool found, known;

    if (ompi_comm_size(comm) == 1 || OMPI_PROC_MY_NAME->vpid == 0 || !component->published) {
        *terms = own_terms();
        return true;
    }
    pthread_mutex_lock(&component->lock);
    known = component->terms_read;
    found = component->has_terms;
    *terms = component->terms;
    pthread_mutex_unlock(&component->lock);
    if (!known) {
        found = read_terms(terms);
        pthread_mutex_lock(&component->lock);
        component->terms = *terms;
        component->has_terms = found;
        component->terms_read = true;
        pthread_mutex_unlock(&component->lock);
    }
    return found;
}
