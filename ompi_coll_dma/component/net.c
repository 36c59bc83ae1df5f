/*
 * The network behind dma/net.h: UCX, if this build has it.
 *
 * UCX moves only when it is asked to, also what a finished call has left with it. So from the first communicator over
 * several nodes on, it has a place among Open MPI's low-priority callbacks, until the component is closed. There we also listen
 * to alarms for communicators that have no call.
 */
#include "coll_dma.h"

#include "dma/net.h"

#ifdef DMA_HAVE_UCX

#include "ucx_tl.h"

_Static_assert(DMA_WIRE_ADDRESS_MAX == DMA_NET_ADDRESS_MAX, "an address fits");

static dma_net_t *polled;

static int poll_net(void)
{
    int events = (int)dma_net_progress(polled);

    dma_proc_poll_notices(mca_coll_dma_component.proc);
    return events;
}

/* Names are pairs of a job and a rank in it. */
static uint64_t key_of(const ompi_process_name_t *name)
{
    return (uint64_t)name->jobid << 32 | (uint64_t)(uint32_t)name->vpid;
}

static dma_status_t net_open(void **net)
{
    dma_net_config_t config;
    dma_net_t *made;
    dma_status_t status;

    dma_net_config_default(&config);
    config.key = key_of(OMPI_PROC_MY_NAME);
    config.host = &mca_coll_dma_host;
    config.keepalive_seconds = mca_coll_dma_component.params.keepalive;
    config.processes = ompi_process_info.num_procs ? ompi_process_info.num_procs : 1; /* none: sessions alone */
    config.local_processes = (size_t)ompi_process_info.num_local_peers + 1;
    status = dma_net_create(&config, &made);
    if (DMA_OK != status) {
        return status;
    }
    polled = made;
    if (OPAL_SUCCESS != opal_progress_register_lp(poll_net)) {
        dma_net_destroy(made);
        return DMA_ERR_NOMEM;
    }
    *net = made;
    return DMA_OK;
}

/* It rests already. */
static void net_close(void *net)
{
    dma_net_destroy(net);
}

static const void *net_address(void *net, size_t *bytes)
{
    return dma_net_address(net, bytes);
}

static bool net_over_tcp(void *net)
{
    return dma_net_over_tcp(net);
}

static dma_status_t net_offer(void *comm, const void *buf, size_t bytes, int rank, void **req)
{
    int rc = MCA_PML_CALL(
        isend(buf, bytes, MPI_BYTE, rank, COLL_DMA_NET_TAG, MCA_PML_BASE_SEND_STANDARD, comm, (ompi_request_t **)req));

    return OMPI_SUCCESS == rc ? DMA_OK : DMA_ERR_NET;
}

static dma_status_t net_ask(void *comm, void *buf, size_t bytes, int rank, void **req)
{
    int rc = MCA_PML_CALL(irecv(buf, bytes, MPI_BYTE, rank, COLL_DMA_NET_TAG, comm, (ompi_request_t **)req));

    return OMPI_SUCCESS == rc ? DMA_OK : DMA_ERR_NET;
}

static dma_status_t net_heard(void *comm, void **req)
{
    return mca_coll_dma_host.test(comm, req);
}

static dma_status_t net_peer(void *net, void *comm, int rank, const void *address, size_t bytes, void **peer)
{
    /* known since the introduction: the messages went to it */
    ompi_proc_t *proc = ompi_comm_peer_lookup(comm, rank);
    ompi_process_name_t name = *(ompi_process_name_t *)&proc->super.proc_name;

    return dma_net_peer(net, key_of(&name), address, bytes, (dma_net_peer_t **)peer);
}

static uint32_t net_self(void)
{
    return (uint32_t)OMPI_PROC_MY_NAME->vpid;
}

static dma_net_tag_t net_tag(const dma_wire_tag_t *tag)
{
    return (dma_net_tag_t){
        .comm = tag->comm, .owner = tag->owner, .seq = tag->seq, .step = tag->step, .note = tag->note};
}

static dma_status_t net_join(void *net, uint32_t owner, uint32_t comm)
{
    return dma_net_join(net, comm, owner);
}

static void net_leave(void *net, uint32_t owner, uint32_t comm)
{
    dma_net_leave(net, comm, owner);
}

static dma_status_t net_isend(void *net, void *peer, const dma_wire_tag_t *tag, const void *buf, size_t bytes,
                              void **req)
{
    dma_net_tag_t t = net_tag(tag);

    return dma_net_isend(net, peer, &t, buf, bytes, DMA_NET_HOST, (dma_net_req_t **)req);
}

static dma_status_t net_irecv(void *net, void *peer, const dma_wire_tag_t *tag, void *buf, size_t bytes, void **req)
{
    dma_net_tag_t t = net_tag(tag);

    return dma_net_irecv(net, peer, &t, buf, bytes, DMA_NET_HOST, (dma_net_req_t **)req);
}

static dma_status_t net_test(void *net, void **req)
{
    return dma_net_test(net, (dma_net_req_t **)req);
}

static void net_cancel(void *net, void *req)
{
    dma_net_cancel(net, req);
}

static void net_give_up(void *net, void *req)
{
    dma_net_give_up(net, req);
}

static bool net_left(void *net, void *peer)
{
    (void)net;
    return dma_net_peer_left(peer);
}

static void net_progress(void *net)
{
    dma_net_progress(net);
}

static void net_trouble(void *net, char *text, size_t bytes)
{
    uint64_t key;
    const char *words = dma_net_trouble(net, &key);

    if (NULL != words) {
        snprintf(text, bytes, "rank %u of %s: %s", (unsigned)(uint32_t)key,
                 key >> 32 == key_of(OMPI_PROC_MY_NAME) >> 32 ? "MPI_COMM_WORLD" : "another job", words);
    }
}

static const dma_wire_t ucx = {
    .open = net_open,
    .close = net_close,
    .address = net_address,
    .over_tcp = net_over_tcp,
    .offer = net_offer,
    .ask = net_ask,
    .heard = net_heard,
    .peer = net_peer,
    .self = net_self,
    .join = net_join,
    .leave = net_leave,
    .isend = net_isend,
    .irecv = net_irecv,
    .test = net_test,
    .cancel = net_cancel,
    .give_up = net_give_up,
    .left = net_left,
    .progress = net_progress,
    .trouble = net_trouble,
};

const dma_wire_t *mca_coll_dma_wire(void)
{
    return mca_coll_dma_component.params.nodes ? &ucx : NULL;
}

void mca_coll_dma_net_stop_polling(void)
{
    opal_progress_unregister(poll_net);
}

#else

const dma_wire_t *mca_coll_dma_wire(void)
{
    return NULL;
}

void mca_coll_dma_net_stop_polling(void)
{
}

#endif
