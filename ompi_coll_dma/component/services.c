/*
 * The services that the core needs of Open MPI: the table of dma/host.h.
 */
#include "buffer.h"

/* No receive of the user's, not even with MPI_ANY_TAG, matches a negative tag. */
static int mpi_tag(int tag)
{
    return tag ? COLL_DMA_CHANNEL_TAGS - tag : COLL_DMA_TAG;
}

static dma_status_t isend(void *comm, const void *buf, size_t bytes, int peer, int tag, void **req)
{
    int rc = MCA_PML_CALL(
        isend(buf, bytes, MPI_BYTE, peer, mpi_tag(tag), MCA_PML_BASE_SEND_STANDARD, comm, (ompi_request_t **)req));

    return OMPI_SUCCESS == rc ? DMA_OK : DMA_ERR_NET;
}

static dma_status_t irecv(void *comm, void *buf, size_t bytes, int peer, int tag, void **req)
{
    int rc = MCA_PML_CALL(irecv(buf, bytes, MPI_BYTE, peer, mpi_tag(tag), comm, (ompi_request_t **)req));

    return OMPI_SUCCESS == rc ? DMA_OK : DMA_ERR_NET;
}

/* MPI_Test would run the progress engine, from which this may be called. */
static dma_status_t test(void *comm, void **req)
{
    ompi_request_t *request = *req;
    int error;

    (void)comm;
    if (!REQUEST_COMPLETE(request)) {
        return DMA_AGAIN;
    }
    /* Read barrier: the completion flag before the data and the status. */
    opal_atomic_rmb();
    error = request->req_status.MPI_ERROR;
    ompi_request_free(&request);
    *req = NULL;
    return MPI_SUCCESS == error ? DMA_OK : DMA_ERR_NET;
}

/* Open MPI completes a receive that it takes back at once. */
static void cancel(void *comm, void **req)
{
    ompi_request_t *request = *req;

    (void)comm;
    ompi_request_cancel(request);
    if (REQUEST_COMPLETE(request)) {
        ompi_request_free(&request);
        *req = NULL;
    }
}

/* opal_convertor_pack and unpack return 1 when the convertor has moved everything; that must be `bytes`. */
static dma_status_t pack(const void *buf, size_t count, void *type, void *packed, size_t bytes)
{
    struct iovec iov = {.iov_base = packed, .iov_len = bytes};
    size_t moved = bytes;
    uint32_t niov = 1;
    opal_convertor_t convertor;
    int rc;

    OBJ_CONSTRUCT(&convertor, opal_convertor_t);
    rc = opal_convertor_copy_and_prepare_for_send(ompi_mpi_local_convertor, &((ompi_datatype_t *)type)->super, count,
                                                  buf, 0, &convertor);
    if (OPAL_SUCCESS == rc) {
        rc = opal_convertor_pack(&convertor, &iov, &niov, &moved);
    }
    OBJ_DESTRUCT(&convertor);
    return 1 == rc && moved == bytes ? DMA_OK : DMA_ERR_ARG;
}

static dma_status_t unpack(void *buf, size_t count, void *type, const void *packed, size_t bytes)
{
    struct iovec iov = {.iov_base = (void *)packed, .iov_len = bytes};
    size_t moved = bytes;
    uint32_t niov = 1;
    opal_convertor_t convertor;
    int rc;

    OBJ_CONSTRUCT(&convertor, opal_convertor_t);
    rc = opal_convertor_copy_and_prepare_for_recv(ompi_mpi_local_convertor, &((ompi_datatype_t *)type)->super, count,
                                                  buf, 0, &convertor);
    if (OPAL_SUCCESS == rc) {
        rc = opal_convertor_unpack(&convertor, &iov, &niov, &moved);
    }
    OBJ_DESTRUCT(&convertor);
    return 1 == rc && moved == bytes ? DMA_OK : DMA_ERR_ARG;
}

static void type_side(void *type, dma_side_t *side)
{
    coll_dma_set_elements(side, side->addr, type);
}

/* From 5.0 on, opal_progress returns a number of events. */
static void progress(void)
{
    (void)opal_progress();
}

/* If the table is full, warnings of further topics are printed every time. */
static bool is_first_report(const char *topic)
{
    mca_coll_dma_component_t *component = &mca_coll_dma_component;
    bool first = true;
    size_t i;

    pthread_mutex_lock(&component->report_lock);
    for (i = 0; i < COLL_DMA_TOPICS && component->reported[i][0] && first; i++) {
        first = 0 != strncmp(component->reported[i], topic, sizeof(component->reported[i]) - 1);
    }
    if (first && i < COLL_DMA_TOPICS) {
        snprintf(component->reported[i], sizeof(component->reported[i]), "%s", topic);
    }
    pthread_mutex_unlock(&component->report_lock);
    return first;
}

/* Prints to the stderr of the process. opal_show_help would merge equal lines of several processes, but the mpirun of Debian's
 * Open MPI 4.1.4 loses about half of them. */
static void report(dma_report_t level, const char *topic, const char *text)
{
    if (DMA_REPORT_ERROR == level || (DMA_REPORT_WARN == level && is_first_report(topic)) ||
        (DMA_REPORT_NOTE == level && mca_coll_dma_component.params.verbose > 0 && is_first_report(topic)) ||
        (DMA_REPORT_INFO == level && mca_coll_dma_component.params.verbose > 1)) {
        opal_output(0, "coll/dma: %s", text);
    }
}

const dma_host_t mca_coll_dma_host = {
    .isend = isend,
    .irecv = irecv,
    .test = test,
    .cancel = cancel,
    .find_absent = mca_coll_dma_find_absent,
    .progress = progress,
    .pack = pack,
    .unpack = unpack,
    .type_side = type_side,
    .type_rows = mca_coll_dma_type_rows,
    .type_strips = mca_coll_dma_type_strips,
    .report = report,
};

int mca_coll_dma_error_class(dma_status_t status)
{
    switch (status) {
    case DMA_OK:
        return MPI_SUCCESS;
    case DMA_ERR_TRUNCATE:
        return MPI_ERR_TRUNCATE;
    case DMA_ERR_NOMEM:
        return MPI_ERR_NO_MEM;
    case DMA_ERR_ARG:
        return MPI_ERR_INTERN;
    default:
        return MPI_ERR_OTHER;
    }
}
