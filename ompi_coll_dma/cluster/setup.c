/*
 * The set-up of communicators over several nodes: see cluster.h.
 *
 *     LAYOUT      all ranks exchange the lowest rank of their nodes, and rank 0's parameters and a number for the communicator
 *     MEMORY      all exchange whether they have the memory for the rest: if not, ASIDE
 *     LOCAL       the ranks of each node set up the communicator beneath
 *     NEIGHBOURS  ranks of neighbouring nodes meet; those of a channel have met
 *     VERDICT     all exchange how that went: READY if it went well everywhere, else ASIDE
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/cluster.h"

#define PROTOCOL  5
#define GPU_CHUNK (256u << 10) /* where ranks may have device memory: a copy of less costs as much */

enum { LAYOUT, MEMORY, LOCAL, NEIGHBOURS, VERDICT };
/* The worst counts. */
enum { GOOD, NO_MEMORY, APART, MIXED };

typedef struct record {
    uint32_t protocol, first, network;
    uint32_t owner, id;
    int32_t forced;
    uint64_t chunk, first_seq;
    dma_net_profile_t profile;
    uint64_t address_bytes;
    uint64_t spare[3]; /* records are exchanged at a fixed size: another version may have more to say */
} record_t;

/* ---- the services of the communicator beneath ---- */

typedef struct local_handle {
    const dma_host_t *host;
    void *handle;
    const dma_node_map_t *node_map;
} local_handle_t;

static dma_status_t local_isend(void *comm, const void *buf, size_t bytes, int peer, void **req)
{
    local_handle_t *h = comm;

    return h->host->isend(h->handle, buf, bytes, dma_node_map_rank(h->node_map, h->node_map->node, peer), req);
}

static dma_status_t local_irecv(void *comm, void *buf, size_t bytes, int peer, void **req)
{
    local_handle_t *h = comm;

    return h->host->irecv(h->handle, buf, bytes, dma_node_map_rank(h->node_map, h->node_map->node, peer), req);
}

static dma_status_t local_test(void *comm, void **req)
{
    local_handle_t *h = comm;

    return h->host->test(h->handle, req);
}

/* ---- set-up ---- */

static dma_status_t join(dma_cluster_t *c)
{
    dma_status_t status = c->wire->comm_register(c->net, c->id, c->owner);

    c->joined = status == DMA_OK;
    return status;
}

void dma_cluster_drop_local(dma_cluster_t *c)
{
    if (c->local) {
        void *handle = c->local->handle;

        dma_comm_destroy(c->local);
        free(handle);
        c->local = NULL;
    }
}

/* A row of the table by name, or -1 for the cost model. */
static int32_t forced_variant(dma_comm_t *comm, const char *name)
{
    int v = dma_cluster_variant_find(name);

    if (name[0] && strcmp(name, "auto") && v < 0) {
        dma_proc_report(comm->proc, DMA_REPORT_WARN, "net_variant",
                        "there is no variant \"%s\" between nodes; the cost model chooses instead", name);
    }
    return v;
}

static void rank0_choices(dma_comm_t *comm, record_t *r)
{
    const dma_params_t *params = &comm->proc->params;
    bool over_tcp = comm->cluster->net && comm->cluster->wire->is_tcp_only(comm->cluster->net);
    char error[128];

    r->profile = over_tcp ? dma_net_profile_tcp() : dma_net_profile_default();
    if (params->net_profile && dma_net_profile_load(params->net_profile, &r->profile, error, sizeof(error)) != DMA_OK) {
        dma_proc_report(comm->proc, DMA_REPORT_WARN, "net_profile",
                        "the network profile %s cannot be used (%s); the built-in one is used instead",
                        params->net_profile, error);
    }
    r->forced = forced_variant(comm, params->net_variant);
    r->chunk = params->net_chunk_bytes ? params->net_chunk_bytes : dma_net_profile_chunk(&r->profile, over_tcp);
    if (!params->net_chunk_bytes && dma_proc_runtime(comm->proc)) {
        r->chunk = r->chunk < GPU_CHUNK ? GPU_CHUNK : r->chunk;
    }
    r->chunk = r->chunk < 4096 ? 4096 : r->chunk;
    r->owner = comm->cluster->wire->process_id();
    r->id = atomic_fetch_add(&comm->proc->next_id, 1);
}

static dma_status_t exchange(dma_comm_t *comm, const void *record, size_t bytes)
{
    dma_cluster_t *c = comm->cluster;
    dma_status_t status;

    status = dma_bootstrap_begin(&c->exchange, comm->host, comm->handle, comm->rank, comm->nranks, record, bytes);
    c->exchanging = status == DMA_OK;
    return status;
}

dma_status_t dma_cluster_setup_begin(dma_comm_t *comm)
{
    dma_cluster_t *c = comm->cluster;
    record_t mine = {.protocol = PROTOCOL, .first = c->first, .first_seq = comm->seq + 1, .forced = -1};
    dma_status_t status;
    size_t bytes;

    if (dma_proc_network(comm->proc, &c->net) == DMA_OK) {
        c->wire->get_address(c->net, &bytes);
        mine.address_bytes = bytes;
        mine.network = bytes <= DMA_NET_ADDRESS_MAX;
    }
    if (comm->rank == 0) {
        rank0_choices(comm, &mine);
    }
    status = exchange(comm, &mine, sizeof(mine));
    if (status == DMA_OK) {
        c->phase = LAYOUT;
        comm->state = DMA_COMM_SETUP;
    }
    return status;
}

static uint64_t piece_of(uint64_t chunk)
{
    uint64_t piece = chunk < CLUSTER_PIECE / CLUSTER_CHUNKS ? CLUSTER_CHUNKS * chunk : CLUSTER_PIECE;

    piece = piece > chunk ? piece : chunk;
    return piece < CLUSTER_PIECE_MOST ? piece : CLUSTER_PIECE_MOST;
}

/* From the same records on all ranks, and without memory, so all find the same: why none goes on, or NULL. */
static const char *agree(dma_comm_t *comm)
{
    dma_cluster_t *c = comm->cluster;
    const record_t *zero = dma_bootstrap_record(&c->exchange, 0);
    const char *why = NULL;

    for (int r = 0; r < comm->nranks; r++) {
        const record_t *rec = dma_bootstrap_record(&c->exchange, r);

        c->address_bytes = rec->address_bytes > c->address_bytes ? rec->address_bytes : c->address_bytes;
        if (rec->protocol != PROTOCOL || rec->first_seq != zero->first_seq) {
            why = "the ranks run different versions of this component";
        } else if (!rec->network) {
            why = "a rank has no network that this component can use";
        }
    }
    c->profile = zero->profile;
    c->forced = zero->forced;
    c->chunk = zero->chunk;
    c->piece = piece_of(c->chunk);
    c->owner = zero->owner;
    c->id = zero->id;
    return why;
}

static dma_status_t lay_out(dma_comm_t *comm)
{
    dma_cluster_t *c = comm->cluster;
    uint32_t *first = malloc((size_t)comm->nranks * sizeof(*first));
    dma_status_t status;

    if (!first) {
        return DMA_ERR_NOMEM;
    }
    for (int r = 0; r < comm->nranks; r++) {
        first[r] = ((const record_t *)dma_bootstrap_record(&c->exchange, r))->first;
    }
    status = dma_node_map_create(&c->node_map, first, comm->nranks, comm->rank);
    free(first);
    return status;
}

static dma_status_t begin_local(dma_comm_t *comm)
{
    dma_cluster_t *c = comm->cluster;
    int n = dma_node_map_size(&c->node_map, c->node_map.node);
    local_handle_t *handle;
    dma_comm_config_t config = {.rank = c->node_map.index, .nranks = n, .threads = comm->threads, .text = comm->text};
    dma_status_t status;

    if (!(c->call.numbers = malloc(4 * (size_t)n * sizeof(*c->call.numbers)))) {
        return DMA_ERR_NOMEM;
    }
    if (n == 1) {
        return DMA_OK;
    }
    if (!(c->call.arrays = malloc(dma_arrays_total(n))) || !(handle = malloc(sizeof(*handle)))) {
        return DMA_ERR_NOMEM;
    }
    *handle = (local_handle_t){.host = comm->host, .handle = comm->handle, .node_map = &c->node_map};
    config.handle = handle;
    status = dma_comm_create(comm->proc, &config, &c->local);
    if (status != DMA_OK) {
        c->local = NULL;
        free(handle);
        return status;
    }
    c->local_host = *comm->host;
    c->local_host.isend = local_isend;
    c->local_host.irecv = local_irecv;
    c->local_host.test = local_test;
    c->local->host = &c->local_host;
    c->local->parent = c->root == c ? NULL : c->root->local;
    dma_comm_lock(c->local);
    status = dma_comm_begin(c->local);
    dma_comm_set_active(c->local, false); /* its set-up moves with ours alone: who has our lock may take its lock */
    dma_comm_unlock(c->local);
    return status;
}

/* The communicator beneath, as far as it has come: DMA_OK when its set-up has ended. */
static dma_status_t advance_local(dma_comm_t *comm)
{
    dma_cluster_t *c = comm->cluster;

    if (!c->local) {
        return DMA_OK;
    }
    if (c->local->state == DMA_COMM_SETUP && dma_comm_trylock(c->local)) {
        dma_comm_advance(c->local);
        dma_comm_unlock(c->local);
    }
    return c->local->state == DMA_COMM_SETUP      ? DMA_AGAIN
           : c->local->state == DMA_COMM_POISONED ? c->local->error
                                                  : DMA_OK;
}

static dma_status_t advance_exchange(dma_comm_t *comm)
{
    return dma_bootstrap_advance(&comm->cluster->exchange);
}

static dma_status_t step_aside(dma_comm_t *comm, const char *why)
{
    dma_cluster_t *c = comm->cluster;

    dma_bootstrap_end(&c->exchange);
    c->exchanging = false;
    dma_cluster_drop_local(c); /* it has sent nothing yet */
    snprintf(comm->reason, sizeof(comm->reason), "%s", why);
    dma_comm_step_aside(comm);
    return DMA_OK;
}

static dma_status_t end_layout(dma_comm_t *comm)
{
    dma_cluster_t *c = comm->cluster;
    const char *why = agree(comm);
    dma_status_t status;

    if (why) {
        return step_aside(comm, why);
    }
    status = lay_out(comm);
    status = status == DMA_OK ? join(c) : status;
    status = status == DMA_OK ? begin_local(comm) : status;
    status = status == DMA_OK && c->root == c ? dma_cluster_alloc_neighbors(c) : status;
    if (status != DMA_OK) {
        dma_cluster_drop_local(c); /* its failure is for the verdict to tell */
    }
    c->verdict = status == DMA_OK ? GOOD : status == DMA_ERR_ARG ? MIXED : NO_MEMORY;
    c->phase = MEMORY;
    dma_bootstrap_restart(&c->exchange, &c->verdict, sizeof(c->verdict));
    return DMA_OK;
}

/* Of all ranks. */
static uint32_t worst_verdict(const dma_comm_t *comm)
{
    uint32_t worst = GOOD;

    for (int r = 0; r < comm->nranks; r++) {
        uint32_t verdict = *(uint32_t *)dma_bootstrap_record(&comm->cluster->exchange, r);

        worst = verdict > worst ? verdict : worst;
    }
    return worst;
}

static dma_status_t end_memory(dma_comm_t *comm)
{
    uint32_t worst = worst_verdict(comm);

    if (worst != GOOD) {
        return step_aside(comm, worst == MIXED ? "the ranks disagree about who is on which node"
                                               : "a rank has no memory for its set-up");
    }
    comm->cluster->phase = LOCAL;
    return DMA_OK;
}

static dma_status_t end_local(dma_comm_t *comm)
{
    dma_cluster_t *c = comm->cluster;

    c->verdict = !c->local || c->local->state == DMA_COMM_READY ? GOOD : NO_MEMORY;
    c->phase = NEIGHBOURS;
    return DMA_OK;
}

/* Also of a node without shared memory: others wait to meet us. */
static dma_status_t advance_neighbours(dma_comm_t *comm)
{
    dma_cluster_t *c = comm->cluster;
    int lost = -1;
    dma_status_t status = c->root == c ? dma_cluster_connect_neighbors(c, &lost) : DMA_OK;

    if (status < 0) {
        c->verdict = APART;
        snprintf(comm->reason, sizeof(comm->reason), "no connection to rank %d: %s", lost, dma_status_name(status));
        dma_cluster_append_trouble(comm);
        status = DMA_OK;
    }
    return status;
}

static dma_status_t begin_verdict(dma_comm_t *comm)
{
    dma_cluster_t *c = comm->cluster;

    c->phase = VERDICT;
    dma_bootstrap_restart(&c->exchange, &c->verdict, sizeof(c->verdict));
    return DMA_OK;
}

static dma_status_t judge(dma_comm_t *comm)
{
    dma_cluster_t *c = comm->cluster;
    uint32_t worst = worst_verdict(comm);

    dma_bootstrap_end(&c->exchange);
    c->exchanging = false;
    if (worst == NO_MEMORY) {
        snprintf(comm->reason, sizeof(comm->reason), "%.140s: no shared memory for the ranks of a node",
                 c->verdict == NO_MEMORY ? c->local->reason : "on another node");
    } else if (worst == APART && c->verdict != APART) {
        snprintf(comm->reason, sizeof(comm->reason), "ranks of other nodes cannot reach each other");
    }
    comm->oversubscribed = c->local ? c->local->oversubscribed : comm->proc->params.local_procs > 1;
    if (worst != GOOD) {
        dma_comm_step_aside(comm);
        return DMA_OK;
    }
    comm->state = DMA_COMM_READY;
    dma_comm_set_polled(comm, c->root == c); /* channels use its peers */
    return DMA_OK;
}

static const struct {
    dma_status_t (*advance)(dma_comm_t *comm), (*end)(dma_comm_t *comm);
} phases[] = {
    [LAYOUT] = {advance_exchange, end_layout}, [MEMORY] = {advance_exchange, end_memory},
    [LOCAL] = {advance_local, end_local},      [NEIGHBOURS] = {advance_neighbours, begin_verdict},
    [VERDICT] = {advance_exchange, judge},
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
