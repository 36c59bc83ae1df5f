/*
 * The set-up of communicators over several nodes: see cluster.h.
 *
 *     NODE_MAP    all ranks exchange records: the lowest rank of their node, and their IP addresses; from rank 0 also
 *                 the parameters and a number for the communicator. Then each rank excludes its addresses that other
 *                 hosts have too.
 *     MEMORY      all ranks exchange whether they have the memory for the rest, an address, and the descriptors for
 *                 connections to all ranks of other nodes; if one has not: ASIDE. Short addresses travel along.
 *     NODE_COMM   the ranks of each node set up the node communicator
 *     NEIGHBORS   ranks of neighboring nodes connect; a channel has nothing to connect
 *     VERDICT     all ranks exchange whether the last two phases have succeeded: READY if they have everywhere, else
 *                 ASIDE
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/cluster.h"

#define PROTOCOL  7
#define GPU_CHUNK (256u << 10) /* the least where ranks may have device memory: copying less takes as long */

enum { PHASE_NODE_MAP, PHASE_MEMORY, PHASE_NODE_COMM, PHASE_NEIGHBORS, PHASE_VERDICT };
/* The result is the highest verdict of all ranks. */
enum {
    VERDICT_OK,
    VERDICT_NO_MEMORY,
    VERDICT_UNCONNECTED,
    VERDICT_NODES_DIFFER,
    VERDICT_NO_ADDRESS,
    VERDICT_NO_DESCRIPTORS
};

/* What a rank can do, and its address if all addresses fit: the second record. */
typedef struct second_record {
    uint32_t verdict, address_bytes;
    char address[sizeof(dma_cluster_record_t) - 2 * sizeof(uint32_t)];
} second_record_t;
_Static_assert(sizeof(second_record_t) == sizeof(dma_cluster_record_t) && sizeof(dma_cluster_record_t) % 8 == 0,
               "no larger, and aligned");

/* ---- host services of the node communicator: those of the communicator, with other rank numbers ---- */

typedef struct node_handle {
    const dma_host_t *host;
    void *handle;
    const dma_node_map_t *node_map;
} node_handle_t;

static dma_status_t node_isend(void *comm, const void *buf, size_t bytes, int peer, int tag, void **req)
{
    node_handle_t *h = comm;

    return h->host->isend(h->handle, buf, bytes, dma_node_map_rank(h->node_map, h->node_map->node, peer), tag, req);
}

static dma_status_t node_irecv(void *comm, void *buf, size_t bytes, int peer, int tag, void **req)
{
    node_handle_t *h = comm;

    return h->host->irecv(h->handle, buf, bytes, dma_node_map_rank(h->node_map, h->node_map->node, peer), tag, req);
}

static dma_status_t node_test(void *comm, void **req)
{
    node_handle_t *h = comm;

    return h->host->test(h->handle, req);
}

/* ---- set-up ---- */

static dma_status_t register_comm(dma_cluster_t *c)
{
    dma_status_t status = c->net_ops->comm_register(c->net, c->id, c->owner);

    c->registered = status == DMA_OK;
    return status;
}

void dma_cluster_destroy_node_comm(dma_cluster_t *c)
{
    if (c->node_comm) {
        void *handle = c->node_comm->handle;

        dma_comm_destroy(c->node_comm);
        free(handle);
        c->node_comm = NULL;
    }
}

/* The variant that rank 0 forces by its name; -1: the cost model chooses. */
static int32_t find_cluster_variant(dma_comm_t *comm, const char *name)
{
    int v = dma_cluster_variant_find(name);

    if (name[0] && strcmp(name, "auto") && v < 0) {
        dma_proc_report(comm->proc, DMA_REPORT_WARN, "net_variant",
                        "there is no variant \"%s\" between nodes; the cost model chooses instead", name);
    }
    return v;
}

static void choose_network_params(dma_comm_t *comm, dma_cluster_record_t *r)
{
    const dma_params_t *params = &comm->proc->params;
    bool over_tcp = comm->cluster->net && comm->cluster->net_ops->is_tcp_only(comm->cluster->net);
    char error[128];

    if (dma_net_profile_choose(params->net_profile, over_tcp, &r->profile, error, sizeof(error)) != DMA_OK) {
        dma_proc_report(comm->proc, DMA_REPORT_WARN, "net_profile",
                        "the network profile %s cannot be used (%s); the built-in one is used instead",
                        params->net_profile, error);
    }
    r->forced = find_cluster_variant(comm, params->net_variant);
    r->chunk = params->net_chunk_bytes ? params->net_chunk_bytes : dma_net_profile_chunk(&r->profile, over_tcp);
    if (!params->net_chunk_bytes && dma_proc_runtime(comm->proc)) {
        r->chunk = r->chunk < GPU_CHUNK ? GPU_CHUNK : r->chunk;
    }
    r->chunk = r->chunk < 4096 ? 4096 : r->chunk;
    r->owner = comm->cluster->net_ops->process_id();
    r->id = atomic_fetch_add(&comm->proc->next_id, 1);
}

static dma_status_t begin_exchange(dma_comm_t *comm, const void *record, size_t bytes)
{
    dma_cluster_t *c = comm->cluster;
    dma_status_t status;

    status = dma_bootstrap_begin(&c->exchange, comm->host, comm->handle, comm->rank, comm->nranks, record, bytes);
    c->exchanging = status == DMA_OK;
    return status;
}

/* Opening takes as long as many calls, so it has a lock that only those wait for who need the network. */
static dma_status_t open_network(dma_proc_t *proc, void **net)
{
    pthread_mutex_lock(&proc->net_lock);
    if (proc->net_ops && !proc->net_tried) {
        proc->net_tried = true;
        if (proc->net_ops->open(&proc->net) != DMA_OK) {
            proc->net = NULL;
        }
    }
    *net = proc->net;
    pthread_mutex_unlock(&proc->net_lock);
    return *net ? DMA_OK : DMA_UNSUPPORTED;
}

dma_status_t dma_cluster_setup_begin(dma_comm_t *comm)
{
    dma_cluster_t *c = comm->cluster;
    dma_cluster_record_t mine = {.protocol = PROTOCOL, .first = c->first, .first_seq = comm->seq + 1, .forced = -1};
    dma_status_t status;

    if (open_network(comm->proc, &c->net) == DMA_OK) {
        c->net_ops->get_place(c->net, &mine.place);
        mine.network = mine.place.address_bytes <= DMA_NET_ADDRESS_MAX;
    }
    if (comm->rank == 0) {
        choose_network_params(comm, &mine);
    }
    status = begin_exchange(comm, &mine, sizeof(mine));
    if (status == DMA_OK) {
        c->phase = PHASE_NODE_MAP;
        comm->state = DMA_COMM_SETUP;
    }
    return status;
}

static uint64_t choose_piece(uint64_t chunk)
{
    uint64_t piece = chunk < CLUSTER_PIECE / CLUSTER_CHUNKS ? CLUSTER_CHUNKS * chunk : CLUSTER_PIECE;

    piece = piece > chunk ? piece : chunk;
    return piece < CLUSTER_PIECE_MAX ? piece : CLUSTER_PIECE_MAX;
}

static size_t told_bytes(const dma_comm_t *comm)
{
    return (size_t)comm->nranks * dma_cluster_address_room(comm->cluster);
}

/* Whether the addresses of all ranks are short enough. A channel uses the peers of its primary. */
static bool can_tell(const dma_comm_t *comm)
{
    const dma_cluster_t *c = comm->cluster;

    return c->primary == c && c->address_bytes <= sizeof(((second_record_t *)NULL)->address) &&
           told_bytes(comm) <= CLUSTER_TOLD_BYTES;
}

/* Sets what all ranks agree on. Returns why the communicator steps aside. All ranks have the same records, and
 * this allocates nothing, so all ranks return the same. */
static dma_reason_t apply_records(dma_comm_t *comm)
{
    dma_cluster_t *c = comm->cluster;
    const dma_cluster_record_t *zero = dma_cluster_record(comm, 0);
    dma_reason_t why = DMA_REASON_NONE;

    for (int r = 0; r < comm->nranks; r++) {
        const dma_cluster_record_t *rec = dma_cluster_record(comm, r);

        c->address_bytes = rec->place.address_bytes > c->address_bytes ? rec->place.address_bytes : c->address_bytes;
        if (rec->protocol != PROTOCOL || rec->first_seq != zero->first_seq) {
            why = DMA_REASON_versions_differ;
        } else if (!rec->network) {
            why = DMA_REASON_network_missing;
        }
    }
    c->profile = zero->profile;
    c->forced = zero->forced;
    c->chunk = zero->chunk;
    c->piece = choose_piece(c->chunk);
    c->owner = zero->owner;
    c->id = zero->id;
    comm->identity = (uint64_t)c->owner << 32 | c->id;
    c->tells = can_tell(comm);
    return why;
}

static dma_status_t create_node_map(dma_comm_t *comm)
{
    dma_cluster_t *c = comm->cluster;
    uint32_t *first = malloc((size_t)comm->nranks * sizeof(*first));
    dma_status_t status;

    if (!first) {
        return DMA_ERR_NOMEM;
    }
    for (int r = 0; r < comm->nranks; r++) {
        first[r] = dma_cluster_record(comm, r)->first;
    }
    status = dma_node_map_create(&c->node_map, first, comm->nranks, comm->rank);
    free(first);
    return status;
}

static dma_status_t create_node_comm(dma_comm_t *comm)
{
    dma_cluster_t *c = comm->cluster;
    int n = dma_node_map_size(&c->node_map, c->node_map.node);
    node_handle_t *handle;
    dma_comm_config_t config = {.rank = c->node_map.index,
                                .nranks = n,
                                .threads = comm->threads,
                                .text = comm->text,
                                .owner = comm->counts.owner};
    dma_status_t status;

    if (!(c->call.node_counts = malloc(4 * (size_t)n * sizeof(*c->call.node_counts)))) {
        return DMA_ERR_NOMEM;
    }
    if (n == 1) {
        return DMA_OK;
    }
    if (!(handle = malloc(sizeof(*handle)))) {
        return DMA_ERR_NOMEM;
    }
    *handle = (node_handle_t){.host = comm->host, .handle = comm->handle, .node_map = &c->node_map};
    config.handle = handle;
    status = dma_comm_create(comm->proc, &config, &c->node_comm);
    if (status != DMA_OK) {
        c->node_comm = NULL;
        free(handle);
        return status;
    }
    c->node_host = *comm->host;
    c->node_host.isend = node_isend;
    c->node_host.irecv = node_irecv;
    c->node_host.test = node_test;
    c->node_comm->host = &c->node_host;
    c->node_comm->inner = true;
    c->node_comm->parent = c->primary == c ? NULL : c->primary->node_comm;
    if (!(c->call.node_arrays = malloc(dma_arrays_total(c->node_comm)))) {
        return DMA_ERR_NOMEM;
    }
    dma_comm_lock(c->node_comm);
    status = dma_comm_begin(c->node_comm);
    dma_comm_set_active(c->node_comm, false); /* only this set-up advances it: its lock is taken with ours held */
    dma_comm_unlock(c->node_comm);
    return status;
}

/* The size of the second records, equal on all ranks, so that each is aligned. */
static size_t second_bytes(const dma_cluster_t *c)
{
    return (offsetof(second_record_t, address) + (c->tells ? c->address_bytes : 0) + 7) & ~(size_t)7;
}

static dma_status_t alloc_told(dma_comm_t *comm)
{
    dma_cluster_t *c = comm->cluster;

    c->told = c->tells ? malloc(told_bytes(comm)) : NULL;
    return c->tells && !c->told ? DMA_ERR_NOMEM : DMA_OK;
}

/* This rank's second record. */
static void tell(dma_cluster_t *c, second_record_t *mine)
{
    size_t bytes = 0;
    const void *address = c->tells && c->verdict == VERDICT_OK ? c->net_ops->get_address(c->net, &bytes) : NULL;

    if (bytes > c->address_bytes) {
        c->verdict = VERDICT_NO_ADDRESS; /* the network has not kept to its place.address_bytes */
    } else if (bytes) {
        memcpy(mine->address, address, bytes);
    }
    mine->verdict = c->verdict;
    mine->address_bytes = (uint32_t)bytes;
}

/* Keeps what the other ranks have told. */
static void keep_told(dma_comm_t *comm)
{
    dma_cluster_t *c = comm->cluster;
    size_t room = dma_cluster_address_room(c);

    for (int r = 0; r < comm->nranks && c->tells; r++) {
        const second_record_t *record = dma_bootstrap_record(&c->exchange, r);

        memcpy(c->told + (size_t)r * room, &record->address_bytes, room);
    }
}

/* Advances the set-up of the node communicator. */
static dma_status_t advance_node_comm(dma_comm_t *comm)
{
    dma_cluster_t *c = comm->cluster;

    if (!c->node_comm) {
        return DMA_OK;
    }
    if (c->node_comm->state == DMA_COMM_SETUP && dma_comm_trylock(c->node_comm)) {
        dma_comm_advance(c->node_comm);
        dma_comm_unlock(c->node_comm);
    }
    return c->node_comm->state == DMA_COMM_SETUP      ? DMA_AGAIN
           : c->node_comm->state == DMA_COMM_POISONED ? c->node_comm->error
                                                      : DMA_OK;
}

static dma_status_t advance_exchange(dma_comm_t *comm)
{
    return dma_bootstrap_advance(&comm->cluster->exchange);
}

static dma_status_t step_aside(dma_comm_t *comm, dma_reason_t why)
{
    dma_cluster_t *c = comm->cluster;

    dma_bootstrap_end(&c->exchange);
    c->exchanging = false;
    dma_cluster_destroy_node_comm(c); /* it has not sent anything yet */
    snprintf(comm->reason, sizeof(comm->reason), "%s", dma_reason_text(why));
    dma_comm_count_reason(comm, why);
    dma_comm_step_aside(comm);
    return DMA_OK;
}

/* In the phase NODE_MAP, behind which no rank is missing. */
void dma_cluster_setup_cancel(dma_comm_t *comm)
{
    dma_cluster_t *c = comm->cluster;

    dma_bootstrap_cancel(&c->exchange);
    c->exchanging = false;
}

static dma_status_t end_node_map(dma_comm_t *comm)
{
    dma_cluster_t *c = comm->cluster;
    dma_reason_t why = apply_records(comm);
    second_record_t mine = {0};
    dma_status_t status;

    if (why) {
        return step_aside(comm, why);
    }
    status = create_node_map(comm);
    status = status == DMA_OK ? register_comm(c) : status;
    status = status == DMA_OK ? create_node_comm(comm) : status;
    status = status == DMA_OK ? alloc_told(comm) : status;
    status = status == DMA_OK ? dma_cluster_admit_hosts(comm) : status;
    status = status == DMA_OK && c->primary == c ? dma_cluster_alloc_neighbors(c) : status;
    if (status != DMA_OK) {
        dma_cluster_destroy_node_comm(c); /* the verdict has to report the failure, not the node communicator */
    }
    c->verdict = status == DMA_OK ? VERDICT_OK : status == DMA_ERR_ARG ? VERDICT_NODES_DIFFER : VERDICT_NO_MEMORY;
    if (dma_cluster_exclude_shared(comm) != DMA_OK) {
        c->verdict = VERDICT_NO_ADDRESS;
    }
    if (c->primary == c && !dma_cluster_has_descriptors(comm)) {
        c->verdict = VERDICT_NO_DESCRIPTORS;
    }
    tell(c, &mine);
    c->phase = PHASE_MEMORY;
    dma_bootstrap_restart(&c->exchange, &mine, second_bytes(c));
    return DMA_OK;
}

/* The highest verdict of all ranks. */
static uint32_t worst_verdict(const dma_comm_t *comm)
{
    uint32_t worst = VERDICT_OK;

    for (int r = 0; r < comm->nranks; r++) {
        uint32_t verdict = *(uint32_t *)dma_bootstrap_record(&comm->cluster->exchange, r);

        worst = verdict > worst ? verdict : worst;
    }
    return worst;
}

/* The lowest rank with this verdict. */
static int find_verdict(const dma_comm_t *comm, uint32_t verdict)
{
    int r = 0;

    while (r < comm->nranks && *(uint32_t *)dma_bootstrap_record(&comm->cluster->exchange, r) != verdict) {
        r++;
    }
    return r;
}

static dma_status_t end_memory(dma_comm_t *comm)
{
    static const dma_reason_t reasons[] = {
        [VERDICT_NO_MEMORY] = DMA_REASON_arena_system,
        [VERDICT_NODES_DIFFER] = DMA_REASON_nodes_differ,
        [VERDICT_NO_ADDRESS] = DMA_REASON_addresses_shared,
        [VERDICT_NO_DESCRIPTORS] = DMA_REASON_descriptors,
    };
    uint32_t worst = worst_verdict(comm);

    if (worst == VERDICT_NO_DESCRIPTORS && find_verdict(comm, worst) == comm->rank) {
        dma_cluster_report_descriptors(comm);
    }
    if (worst != VERDICT_OK) {
        return step_aside(comm, reasons[worst]);
    }
    keep_told(comm);
    comm->cluster->phase = PHASE_NODE_COMM;
    return DMA_OK;
}

static dma_status_t end_node_comm(dma_comm_t *comm)
{
    dma_cluster_t *c = comm->cluster;

    c->verdict = !c->node_comm || c->node_comm->state == DMA_COMM_READY ? VERDICT_OK : VERDICT_NO_MEMORY;
    c->phase = PHASE_NEIGHBORS;
    return DMA_OK;
}

/* A rank on a node without shared memory connects too, because others wait for its messages. */
static dma_status_t advance_neighbors(dma_comm_t *comm)
{
    dma_cluster_t *c = comm->cluster;
    int failed_rank = -1;
    dma_status_t status = c->primary == c ? dma_cluster_connect_neighbors(c, &failed_rank) : DMA_OK;

    if (status < 0) {
        c->verdict = VERDICT_UNCONNECTED;
        snprintf(comm->reason, sizeof(comm->reason), "no connection to rank %d: %s", failed_rank,
                 dma_status_name(status));
        dma_cluster_append_net_error(comm);
        status = DMA_OK;
    }
    return status;
}

static dma_status_t begin_verdict(dma_comm_t *comm)
{
    dma_cluster_t *c = comm->cluster;

    c->phase = PHASE_VERDICT;
    dma_bootstrap_restart(&c->exchange, &c->verdict, sizeof(c->verdict));
    return DMA_OK;
}

static dma_status_t end_verdict(dma_comm_t *comm)
{
    dma_cluster_t *c = comm->cluster;
    uint32_t worst = worst_verdict(comm);

    dma_bootstrap_end(&c->exchange);
    c->exchanging = false;
    if (worst == VERDICT_NO_MEMORY) {
        snprintf(comm->reason, sizeof(comm->reason), "%.140s: %s",
                 c->verdict == VERDICT_NO_MEMORY ? c->node_comm->reason : "on another node",
                 "no shared memory for the ranks of a node");
        dma_comm_count_reason(comm, DMA_REASON_arena_system);
    } else if (worst == VERDICT_UNCONNECTED) {
        if (c->verdict != VERDICT_UNCONNECTED) {
            snprintf(comm->reason, sizeof(comm->reason), "%s", dma_reason_text(DMA_REASON_no_connection));
        }
        dma_comm_count_reason(comm, DMA_REASON_no_connection);
    }
    comm->oversubscribed = c->node_comm ? c->node_comm->oversubscribed : comm->proc->params.local_procs > 1;
    if (worst != VERDICT_OK) {
        dma_comm_step_aside(comm);
        return DMA_OK;
    }
    comm->state = DMA_COMM_READY;
    dma_comm_set_polled(comm, c->primary == c); /* the peers of a channel are those of its primary */
    return DMA_OK;
}

dma_wait_t dma_cluster_node_waits_for(const dma_cluster_t *c)
{
    dma_wait_t inner = {0}, wait = {0};

    if (c->node_comm && dma_comm_trylock(c->node_comm)) {
        inner = dma_comm_waits_for(c->node_comm);
        dma_comm_unlock(c->node_comm);
    }
    for (int i = 0; i < inner.n && i < DMA_WAIT_RANKS; i++) {
        dma_wait_add(&wait, DMA_WAIT_RANK, dma_node_map_rank(&c->node_map, c->node_map.node, inner.ranks[i]));
    }
    wait.n = inner.n;
    return wait;
}

dma_wait_t dma_cluster_setup_waits_for(const dma_comm_t *comm)
{
    const dma_cluster_t *c = comm->cluster;
    dma_wait_t wait = {0};

    if (c->exchanging) {
        wait = dma_bootstrap_waits_for(&c->exchange);
    }
    return c->phase == PHASE_NODE_COMM ? dma_cluster_node_waits_for(c) : wait;
}

const char *dma_cluster_setup_phase(const dma_comm_t *comm)
{
    static const char *const names[] = {
        [PHASE_NODE_MAP] = "map of nodes", [PHASE_MEMORY] = "memory",   [PHASE_NODE_COMM] = "set-up of the node",
        [PHASE_NEIGHBORS] = "connections", [PHASE_VERDICT] = "results",
    };

    return names[comm->cluster->phase];
}

static const struct {
    dma_status_t (*advance)(dma_comm_t *comm), (*end)(dma_comm_t *comm);
} phases[] = {
    [PHASE_NODE_MAP] = {advance_exchange, end_node_map},    [PHASE_MEMORY] = {advance_exchange, end_memory},
    [PHASE_NODE_COMM] = {advance_node_comm, end_node_comm}, [PHASE_NEIGHBORS] = {advance_neighbors, begin_verdict},
    [PHASE_VERDICT] = {advance_exchange, end_verdict},
};

dma_status_t dma_cluster_setup_advance(dma_comm_t *comm)
{
    dma_cluster_t *c = comm->cluster;
    dma_status_t status = DMA_OK;

    while (status == DMA_OK && comm->state == DMA_COMM_SETUP) {
        int phase = c->phase;

        status = phases[phase].advance(comm);
        status = status == DMA_OK ? phases[phase].end(comm) : status;
    }
    return status;
}
