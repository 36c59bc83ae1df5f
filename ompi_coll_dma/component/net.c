/*
 * The network behind dma/net.h: UCX, if this build has it.
 *
 * UCX makes progress only when it is called, also with data of sends that have completed. So from the first communicator over
 * several nodes until the component is closed, UCX's progress is among Open MPI's low-priority progress callbacks. The callback
 * also reads failure notices of peers for communicators without a call in progress.
 */
#include "coll_dma.h"

#include "dma/net.h"

#ifdef DMA_HAVE_UCX

#include "ucx_tl.h"

static dma_ucx_t *polled;

static int poll_net(void)
{
    int events = (int)dma_ucx_progress(polled);

    dma_proc_poll_notices(mca_coll_dma_component.proc);
    return events;
}

/* A process name is a job and a rank in it. */
static uint64_t key_of(const ompi_process_name_t *name)
{
    return (uint64_t)name->jobid << 32 | (uint64_t)(uint32_t)name->vpid;
}

/* A list of interfaces of Open MPI's own TCP, or NULL. */
static const char *interfaces(const char *name)
{
    int index = mca_base_var_find("opal", "btl", "tcp", name);
    char **value = NULL;

    return index >= 0 && OPAL_SUCCESS == mca_base_var_get_value(index, &value, NULL, NULL) && NULL != value ? *value
                                                                                                            : NULL;
}

static dma_status_t net_open(void **net)
{
    dma_ucx_config_t config = {
        .key = key_of(OMPI_PROC_MY_NAME),
        .host = &mca_coll_dma_host,
        .keepalive_seconds = mca_coll_dma_component.params.keepalive,
        .processes = ompi_process_info.num_procs ? ompi_process_info.num_procs : 1, /* 0 if there are only sessions */
        .local_processes = (size_t)ompi_process_info.num_local_peers + 1,
        .closed = mca_coll_dma_component.params.net_filter,
        .include = interfaces("if_include"),
        .exclude = interfaces("if_exclude"),
    };
    dma_ucx_t *made;
    dma_status_t status = dma_ucx_create(&config, &made);

    if (DMA_OK != status) {
        return status;
    }
    polled = made;
    if (OPAL_SUCCESS != opal_progress_register_lp(poll_net)) {
        dma_ucx_destroy(made);
        return DMA_ERR_NOMEM;
    }
    *net = made;
    return DMA_OK;
}

/* mca_coll_dma_net_stop_polling has removed the progress callback before. */
static void net_close(void *net)
{
    dma_ucx_destroy(net);
}

static void net_get_place(void *net, dma_net_place_t *place)
{
    dma_ucx_get_place(net, place);
}

static dma_status_t net_exclude(void *net, const uint32_t *addresses, uint32_t n)
{
    return dma_ucx_exclude(net, addresses, n);
}

static dma_status_t net_admit(void *net, const uint32_t *addresses, uint32_t n)
{
    return dma_ucx_admit(net, addresses, n);
}

static bool net_is_connected(void *net, void *comm, int rank)
{
    ompi_process_name_t name = mca_coll_dma_name_of(comm, rank);

    return dma_ucx_is_connected(net, key_of(&name));
}

static const void *net_get_address(void *net, size_t *bytes)
{
    return dma_ucx_get_address(net, bytes);
}

static bool net_is_tcp_only(void *net)
{
    return dma_ucx_is_tcp_only(net);
}

static uint32_t net_process_id(void)
{
    return (uint32_t)OMPI_PROC_MY_NAME->vpid;
}

static dma_status_t net_address_send(void *comm, const void *buf, size_t bytes, int rank, void **req)
{
    int rc = MCA_PML_CALL(
        isend(buf, bytes, MPI_BYTE, rank, COLL_DMA_NET_TAG, MCA_PML_BASE_SEND_STANDARD, comm, (ompi_request_t **)req));

    return OMPI_SUCCESS == rc ? DMA_OK : DMA_ERR_NET;
}

static dma_status_t net_address_recv(void *comm, void *buf, size_t bytes, int rank, void **req)
{
    int rc = MCA_PML_CALL(irecv(buf, bytes, MPI_BYTE, rank, COLL_DMA_NET_TAG, comm, (ompi_request_t **)req));

    return OMPI_SUCCESS == rc ? DMA_OK : DMA_ERR_NET;
}

static dma_status_t net_address_test(void *comm, void **req)
{
    return mca_coll_dma_host.test(comm, req);
}

static dma_status_t net_peer_create(void *net, void *comm, int rank, const void *address, size_t bytes, void **peer)
{
    ompi_process_name_t name = mca_coll_dma_name_of(comm, rank);

    return dma_ucx_peer_create(net, key_of(&name), address, bytes, (dma_ucx_peer_t **)peer);
}

static bool net_peer_closed(void *net, void *peer)
{
    (void)net;
    return dma_ucx_peer_closed(peer);
}

static dma_status_t net_comm_register(void *net, uint32_t comm, uint32_t owner)
{
    return dma_ucx_comm_register(net, comm, owner);
}

static void net_comm_unregister(void *net, uint32_t comm, uint32_t owner)
{
    dma_ucx_comm_unregister(net, comm, owner);
}

static dma_status_t net_isend(void *net, void *peer, const dma_net_tag_t *tag, const void *buf, size_t bytes,
                              void **req)
{
    return dma_ucx_isend(net, peer, tag, buf, bytes, (dma_ucx_req_t **)req);
}

static dma_status_t net_irecv(void *net, void *peer, const dma_net_tag_t *tag, void *buf, size_t bytes, void **req)
{
    return dma_ucx_irecv(net, peer, tag, buf, bytes, (dma_ucx_req_t **)req);
}

static dma_status_t net_test(void *net, void **req)
{
    return dma_ucx_test(net, (dma_ucx_req_t **)req);
}

static void net_cancel(void *net, void *req)
{
    dma_ucx_cancel(net, req);
}

static void net_abort(void *net, void *req)
{
    dma_ucx_abort(net, req);
}

static void net_progress(void *net)
{
    dma_ucx_progress(net);
}

static void net_last_error(void *net, char *text, size_t bytes)
{
    uint64_t key;
    const char *error = dma_ucx_last_error(net, &key);

    if (NULL != error) {
        snprintf(text, bytes, "rank %u of %s: %s", (unsigned)(uint32_t)key,
                 key >> 32 == key_of(OMPI_PROC_MY_NAME) >> 32 ? "MPI_COMM_WORLD" : "another job", error);
    }
}

static const dma_net_ops_t ucx = {
    .open = net_open,
    .close = net_close,
    .get_place = net_get_place,
    .exclude = net_exclude,
    .admit = net_admit,
    .is_connected = net_is_connected,
    .get_address = net_get_address,
    .is_tcp_only = net_is_tcp_only,
    .process_id = net_process_id,
    .address_send = net_address_send,
    .address_recv = net_address_recv,
    .address_test = net_address_test,
    .peer_create = net_peer_create,
    .peer_closed = net_peer_closed,
    .comm_register = net_comm_register,
    .comm_unregister = net_comm_unregister,
    .isend = net_isend,
    .irecv = net_irecv,
    .test = net_test,
    .cancel = net_cancel,
    .abort = net_abort,
    .progress = net_progress,
    .last_error = net_last_error,
};

const dma_net_ops_t *mca_coll_dma_net_ops(void)
{
    return &ucx;
}

void mca_coll_dma_net_stop_polling(void)
{
    opal_progress_unregister(poll_net);
}

#else

const dma_net_ops_t *mca_coll_dma_net_ops(void)
{
    return NULL;
}

void mca_coll_dma_net_stop_polling(void)
{
}

#endif
