/*
 * The hosts of a communicator: which addresses of theirs are used, who may connect to this process, and whether the limits of
 * descriptors allow the connections. All ranks have the same records, and so come to the same end.
 */
#include <stdlib.h>

#include "cluster/cluster.h"

/* Beside the connections: what the rest of the process opens, and the second socket of two ranks that connect at once. */
#define SPARE_DESCRIPTORS 12

static bool has_address(const uint32_t *addresses, uint32_t n, uint32_t address)
{
    uint32_t i = 0;

    while (i < n && addresses[i] != address) {
        i++;
    }
    return i < n;
}

/* Whether a rank on another host uses this address too. */
static bool is_shared(const dma_comm_t *comm, uint64_t space, uint32_t address)
{
    for (int r = 0; r < comm->nranks; r++) {
        const dma_net_place_t *place = &dma_cluster_record(comm, r)->place;

        if (place->space != space && has_address(place->addresses, place->naddresses, address)) {
            return true;
        }
    }
    return false;
}

dma_status_t dma_cluster_exclude_shared(dma_comm_t *comm)
{
    dma_cluster_t *c = comm->cluster;
    const dma_net_place_t *mine = &dma_cluster_record(comm, comm->rank)->place;
    uint32_t shared[DMA_NET_PLACE_ADDRESSES], n = 0;

    for (uint32_t i = 0; i < mine->naddresses; i++) {
        if (is_shared(comm, mine->space, mine->addresses[i])) {
            shared[n++] = mine->addresses[i];
        }
    }
    return n ? c->net_ops->exclude(c->net, shared, n) : DMA_OK;
}

/* Adds the addresses of a rank's host. One that this host has too would admit the other users of this host. */
static uint32_t add_addresses(const dma_net_place_t *mine, const dma_net_place_t *place, uint32_t *addresses,
                              uint32_t n)
{
    for (uint32_t i = 0; i < place->nhost_addresses; i++) {
        if (place->space == mine->space || !has_address(mine->addresses, mine->nhost_addresses, place->addresses[i])) {
            addresses[n++] = place->addresses[i];
        }
    }
    return n;
}

dma_status_t dma_cluster_admit_hosts(dma_comm_t *comm)
{
    dma_cluster_t *c = comm->cluster;
    const dma_net_place_t *mine = &dma_cluster_record(comm, comm->rank)->place;
    uint32_t *addresses = malloc((size_t)comm->nranks * sizeof(mine->addresses)), n = 0;
    dma_status_t status;

    if (!addresses) {
        return DMA_ERR_NOMEM;
    }
    for (int r = 0; r < comm->nranks; r++) {
        int first = (int)dma_cluster_record(comm, r)->first;
        const dma_net_place_t *place = &dma_cluster_record(comm, r)->place;

        /* The first rank of a node speaks for the others, unless they are in containers with networks of their own. */
        if (first != (int)c->first && (r == first || place->space != dma_cluster_record(comm, first)->place.space)) {
            n = add_addresses(mine, place, addresses, n);
        }
    }
    status = c->net_ops->admit(c->net, addresses, n);
    free(addresses);
    if (status == DMA_UNSUPPORTED) {
        dma_comm_count_reason(comm, DMA_REASON_net_filter_refused);
        dma_proc_report(comm->proc, DMA_REPORT_NOTE, "net-filter", "%s: hosts that are not of the job can connect, too",
                        dma_reason_text(DMA_REASON_net_filter_refused));
        status = DMA_OK;
    }
    return status;
}

/* The ranks of other nodes that this process has not connected to, and the most descriptors that they may take. Open MPI itself may
 * need a connection to each of them as well. */
static uint32_t count_new(const dma_comm_t *comm, uint32_t *needed)
{
    const dma_cluster_t *c = comm->cluster;
    uint32_t here = 0, new = 0;

    for (int r = 0; r < comm->nranks; r++) {
        bool same = dma_cluster_record(comm, r)->first == c->first;

        here += same;
        new += !same && !c->net_ops->is_connected(c->net, c->handle, r);
    }
    *needed = 2 * new + here + SPARE_DESCRIPTORS;
    return new;
}

bool dma_cluster_has_descriptors(const dma_comm_t *comm)
{
    uint32_t left = dma_cluster_record(comm, comm->rank)->place.descriptors;

    comm->cluster->descriptors_left = left;
    return !count_new(comm, &comm->cluster->descriptors_needed) || left >= comm->cluster->descriptors_needed;
}

void dma_cluster_report_descriptors(dma_comm_t *comm)
{
    const dma_cluster_t *c = comm->cluster;

    dma_proc_report(
        comm->proc, DMA_REPORT_WARN, "descriptors",
        "rank %d of %s may open %u more files, and connections to the ranks of other nodes may need %u; raise the "
        "limit of open files (ulimit -n) on all nodes",
        comm->rank, comm->text, (unsigned)c->descriptors_left, (unsigned)c->descriptors_needed);
}
