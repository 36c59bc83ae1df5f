/*
 * The component structure that Open MPI looks up, and the process object of all communicators.
 */
#include "coll_dma.h"

static int component_register(void);
static int component_open(void);
static int component_close(void);
static int component_init_query(bool progress_threads, bool mpi_threads);

mca_coll_dma_component_t mca_coll_dma_component = {
    .super =
        {
            .collm_version =
                {
                    DMA_COLL_BASE_VERSION,
                    .mca_component_name = "dma",
                    .mca_open_component = component_open,
                    .mca_close_component = component_close,
                    .mca_register_component_params = component_register,
                },
            .collm_data = {.param_field = MCA_BASE_METADATA_PARAM_NONE},
            .collm_init_query = component_init_query,
            .collm_comm_query = mca_coll_dma_comm_query,
        },
    .lock = PTHREAD_MUTEX_INITIALIZER,
    .counters = DMA_COUNTERS_INIT,
    .report_lock = PTHREAD_MUTEX_INITIALIZER,
};

/* Called before MPI_Init selects components, and by tools such as ompi_info. */
static int component_register(void)
{
    mca_base_component_t *version = &mca_coll_dma_component.super.collm_version;
    int rc;

    sscanf(DMA_VERSION, "%d.%d.%d", &version->mca_component_major_version, &version->mca_component_minor_version,
           &version->mca_component_release_version);
    opal_show_help_add_dir(DMA_HELP_DIR);
    rc = mca_coll_dma_register_params();
    rc = OMPI_SUCCESS == rc ? mca_coll_dma_register_counters() : rc;
    rc = OMPI_SUCCESS == rc ? mca_coll_dma_register_events() : rc;
    return OMPI_SUCCESS == rc ? mca_coll_dma_extend_selection() : rc;
}

/* Called in MPI_Init, before the processes exchange what they have published. */
static int component_open(void)
{
    mca_coll_dma_component.fault_tolerant = DMA_FAULT_TOLERANT;
    mca_coll_dma_terms_publish();
    return OMPI_SUCCESS;
}

/* The module structure differs between the series of Open MPI, and the dynamic loader does not distinguish 4.0 from 4.1. */
static int component_init_query(bool progress_threads, bool mpi_threads)
{
    char version[MPI_MAX_LIBRARY_VERSION_STRING];
    int major = -1, minor = -1;
    char *text;

    (void)progress_threads;
    (void)mpi_threads;
    dma_library_version(version);
    if (2 == sscanf(version, "Open MPI v%d.%d", &major, &minor) && OMPI_MAJOR_VERSION == major &&
        OMPI_MINOR_VERSION == minor) {
        return OMPI_SUCCESS;
    }
    /* All processes of a node run the same library, so one of them prints. */
    if (0 == ompi_process_info.my_local_rank) {
        version[strcspn(version, ",")] = '\0';
        text = opal_show_help_string("help-coll-dma.txt", "wrong series", false, OMPI_MAJOR_VERSION, OMPI_MINOR_VERSION,
                                     version);
        opal_output(0, "%s", text ? text : "coll/dma is disabled: it was built for another series of Open MPI");
        free(text);
    }
    return OMPI_ERR_NOT_AVAILABLE;
}

dma_status_t mca_coll_dma_proc_retain(dma_proc_t **proc)
{
    mca_coll_dma_component_t *component = &mca_coll_dma_component;
    dma_status_t status = DMA_OK;

    pthread_mutex_lock(&component->lock);
    if (!component->proc) {
        const ompi_process_name_t *me = OMPI_PROC_MY_NAME;
        char job[24]; /* as Open MPI's own messages name it: [[JOB],RANK] */
        dma_proc_config_t config = {
            .session_dir = ompi_process_info.job_session_dir,
            .job = job,
            .rank = (int)me->vpid,
            .host = &mca_coll_dma_host,
            .routes = dma_routes,
            .net_ops = mca_coll_dma_net_ops(),
            .counters = &component->counters,
            .events = component->events,
        };

        snprintf(job, sizeof(job), "%u,%u", (unsigned)me->jobid >> 16, (unsigned)me->jobid & 0xffff);
        mca_coll_dma_params(&config.params);
        status = dma_proc_create(&config, &component->proc);
    }
    if (DMA_OK == status) {
        component->ncomms++;
        *proc = component->proc;
    }
    pthread_mutex_unlock(&component->lock);
    return status;
}

void mca_coll_dma_proc_release(void)
{
    pthread_mutex_lock(&mca_coll_dma_component.lock);
    mca_coll_dma_component.ncomms--;
    pthread_mutex_unlock(&mca_coll_dma_component.lock);
}

/* Called after MPI_COMM_WORLD and the pml are gone. If a communicator still exists, the process object stays: its memory is
 * freed with the process. But the component may be unloaded before that, so its callbacks are removed and its threads
 * ended in any case. */
static int component_close(void)
{
    mca_coll_dma_component_t *component = &mca_coll_dma_component;

    /* The next session of the process publishes and reads anew. */
    component->published = component->terms_read = component->has_terms = false;
    mca_coll_dma_forget_absent();
    mca_coll_dma_progress_update(false);
    mca_coll_dma_net_stop_polling();
    if (component->proc && !component->ncomms) {
        dma_proc_destroy(component->proc);
        component->proc = NULL;
    } else if (component->proc) {
        dma_proc_abandon(component->proc);
    }
    return OMPI_SUCCESS;
}
