/*
 * This process on the network: creation, settings and destruction of UCX's context and worker.
 *
 * The user's environment, UCX_* or COLL_DMA_UCX_*, has priority over the settings made here, except for the number of rails of
 * eager messages, which is always one.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

#define PREFIX "COLL_DMA"

static void report(const dma_ucx_config_t *config, const char *what, const char *reason)
{
    char text[300];

    if (config->host && config->host->report) {
        snprintf(text, sizeof(text), "no transfers between nodes: %s: %s", what, reason);
        config->host->report(DMA_REPORT_WARN, "ucx", text);
    }
}

static bool is_set_by_user(const char *name)
{
    char full[80];

    snprintf(full, sizeof(full), "UCX_%s", name);
    if (getenv(full)) {
        return true;
    }
    snprintf(full, sizeof(full), PREFIX "_UCX_%s", name);
    return getenv(full);
}

/* The status is ignored: a version of UCX that does not know a setting does not need it. */
static void set(ucp_config_t *ucx, const char *name, const char *value)
{
    if (!is_set_by_user(name)) {
        dma_ucx_api.ucp_config_modify(ucx, name, value);
    }
}

/* A setting of one transport. Since UCX 1.15 its name begins with `prefix`. Before, it holds for all transports that have it. */
static void set_of(ucp_config_t *ucx, const char *prefix, const char *name, const char *value)
{
    unsigned major, minor, release;
    char full[64];

    snprintf(full, sizeof(full), "%s%s", prefix, name);
    dma_ucx_api.ucp_get_version(&major, &minor, &release);
    if (!is_set_by_user(full)) {
        dma_ucx_api.ucp_config_modify(ucx, major > 1 || minor >= 15 ? full : name, value);
    }
}

static bool user_sets_tcp_keepalive(void)
{
    return is_set_by_user("TCP_KEEPIDLE") || is_set_by_user("TCP_KEEPINTVL") || is_set_by_user("TCP_KEEPCNT");
}

/*
 * The kernel counts whole seconds. It probes an idle connection after about a sixth of the time. If nothing comes until the
 * time is over, the peer has failed. So a link that comes back before, or a host that is slow for a while, does not count as
 * failed.
 *
 *     seconds  2: probed after 1, failed 1 later       10: probed after 2, 3, 4, ... 9; failed at 10
 */
static void set_tcp_keepalive(ucp_config_t *ucx, const dma_ucx_keepalive_t *keepalive)
{
    char text[32];

    snprintf(text, sizeof(text), "%ds", keepalive->idle);
    set_of(ucx, "TCP_", "KEEPIDLE", text);
    snprintf(text, sizeof(text), "%ds", keepalive->interval);
    set_of(ucx, "TCP_", "KEEPINTVL", text);
    snprintf(text, sizeof(text), "%d", keepalive->kernel_count);
    set_of(ucx, "TCP_", "KEEPCNT", text);
}

static void set_keepalive(ucp_config_t *ucx, const dma_ucx_t *net, dma_ucx_transports_t transports)
{
    char text[32];

    if (transports.tcp) {
        set_tcp_keepalive(ucx, &net->watch.keepalive);
    }
    /* UCP's keepalive would send data on idle TCP connections, and the kernel's keepalive needs them idle. */
    if (transports.tcp && !transports.other) {
        set(ucx, "KEEPALIVE_INTERVAL", "inf");
    } else {
        snprintf(text, sizeof(text), "%ldms", (long)(500 * net->config.keepalive_seconds));
        set(ucx, "KEEPALIVE_INTERVAL", text);
    }
}

/* Over TCP the control messages of a rendezvous queue behind the data of other messages, and adapters are idle meanwhile. So only
 * very large messages use rendezvous. */
static void set_rendezvous(ucp_config_t *ucx, dma_ucx_transports_t transports)
{
    if (transports.tcp && !transports.other) {
        set(ucx, "RNDV_THRESH", "128k");
    }
}

/* UD over verbs drops packets that were not sent to an address of the adapter. Whether an address is of IPv4 it reads in a field
 * that only mlx5 fills (wc.sl), so with other RoCE adapters it drops all packets of IPv4, also those that connect RC. No
 * connection is made then, and after UCX_UD_TIMEOUT (30 s) UCX 1.13 ends the process. */
static void set_address_check(ucp_config_t *ucx, dma_ucx_transports_t transports)
{
    if (transports.ud_verbs && !dma_ucx_has_mlx5(DMA_UCX_INFINIBAND)) {
        set_of(ucx, "UD_VERBS_", "ETH_DGID_CHECK", "n");
    }
}

/* Overrides the user's setting, because the order of messages depends on it: see ucx_tl.h. */
static void set_one_rail(ucp_config_t *ucx)
{
    dma_ucx_api.ucp_config_modify(ucx, "MAX_EAGER_RAILS", "1");
}

/* Messages go to other nodes only. UCX would allocate its receive queues for shared memory nevertheless: megabytes for each
 * process, System V segments that other users of the group may write, and no worker at all where /dev/shm is full. */
static void set_no_shared_memory(ucp_config_t *ucx)
{
    set(ucx, "TLS", "^sm");
}

/* UCX loads its modules for InfiniBand, and the libraries below them, whether there is a device or not: more than a megabyte and a
 * millisecond of each process. The setting holds for all users of UCX in the process, until it ends; without a device they
 * would find nothing either. */
static void set_no_infiniband(ucp_config_t *ucx)
{
    if (!dma_ucx_has_infiniband(DMA_UCX_INFINIBAND)) {
        set(ucx, "MODULES", "^ib,rdmacm");
    }
}

static ucs_status_t create_context_with(const dma_ucx_t *net, const dma_ucx_transports_t *transports,
                                        const char *devices, ucp_context_h *context)
{
    ucp_params_t params = {
        .field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_NAME | UCP_PARAM_FIELD_ESTIMATED_NUM_EPS |
                      UCP_PARAM_FIELD_ESTIMATED_NUM_PPN,
        .features = UCP_FEATURE_AM,
        .name = "coll_dma",
        .estimated_num_eps = net->config.processes,
        .estimated_num_ppn = net->config.local_processes,
    };
    ucp_config_t *ucx;
    ucs_status_t status = dma_ucx_api.ucp_config_read(PREFIX, NULL, &ucx);

    if (status != UCS_OK) {
        return status;
    }
    set_one_rail(ucx);
    set_no_shared_memory(ucx);
    set_no_infiniband(ucx);
    if (devices) {
        set(ucx, "NET_DEVICES", devices);
    }
    if (transports) {
        set_keepalive(ucx, net, *transports);
        set_rendezvous(ucx, *transports);
        set_address_check(ucx, *transports);
    }
    status = dma_ucx_api.ucp_init_version(UCP_API_MAJOR, UCP_API_MINOR, &params, ucx, context);
    dma_ucx_api.ucp_config_release(ucx);
    return status;
}

ucs_status_t dma_ucx_probe(const dma_ucx_t *net, const char *devices, ucp_context_h *context)
{
    return create_context_with(net, NULL, devices, context);
}

bool dma_ucx_user_names_devices(void)
{
    return is_set_by_user("NET_DEVICES");
}

/* Creates the context twice: a first one to see which transports and devices there are, because UCX prints warnings about
 * settings of transports that it does not use. */
static ucs_status_t create_context(const dma_ucx_t *net, const char *devices, dma_ucx_stack_t *stack)
{
    const dma_ucx_unwanted_t unwanted = {.include = net->config.include, .exclude = net->config.exclude};
    char outer[DMA_UCX_DEVICES_BYTES];
    dma_ucx_transports_t transports;
    ucs_status_t status = dma_ucx_probe(net, devices, &stack->context);
    unsigned excluded;

    if (status == UCS_OK) {
        transports = dma_ucx_transports_query(stack->context);
        stack->tcp = transports.tcp;
        stack->tcp_only = transports.tcp && !transports.other;
        if (!devices && dma_ucx_devices_without(stack->context, &unwanted, outer, &excluded) == DMA_OK && excluded) {
            devices = outer;
        }
        dma_ucx_api.ucp_cleanup(stack->context);
        status = create_context_with(net, &transports, devices, &stack->context);
    }
    return status;
}

static ucs_status_t make_address(dma_ucx_stack_t *stack)
{
    ucp_address_t *address;
    size_t bytes;
    ucs_status_t status = dma_ucx_api.ucp_worker_get_address(stack->worker, &address, &bytes);

    if (status == UCS_OK) {
        status = dma_ucx_address_pack(stack, address, bytes) == DMA_OK ? UCS_OK : UCS_ERR_NO_MEMORY;
        dma_ucx_api.ucp_worker_release_address(stack->worker, address);
    }
    return status;
}

static ucs_status_t create_worker(dma_ucx_t *net, dma_ucx_stack_t *stack)
{
    ucp_worker_params_t params = {.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
                                  .thread_mode = UCS_THREAD_MODE_SERIALIZED};
    ucp_am_handler_param_t handler = {
        .field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_FLAGS | UCP_AM_HANDLER_PARAM_FIELD_CB |
                      UCP_AM_HANDLER_PARAM_FIELD_ARG,
        .id = DMA_UCX_AM_ID,
        .flags = UCP_AM_FLAG_WHOLE_MSG | UCP_AM_FLAG_PERSISTENT_DATA,
        .cb = dma_ucx_am_handler,
        .arg = net,
    };
    dma_ucx_listeners_t before;
    ucs_status_t status;

    dma_ucx_listeners_find(&before);
    status = dma_ucx_api.ucp_worker_create(stack->context, &params, &stack->worker);
    if (status != UCS_OK) {
        return status;
    }
    dma_ucx_listeners_find_addresses(&before, stack);
    if (net->config.closed) {
        dma_ucx_filter(stack, &net->admitted);
        dma_ucx_shut_accepted(stack);
    }
    dma_ucx_listeners_set_keepalive(&before, &net->watch.keepalive);
    status = dma_ucx_api.ucp_worker_set_am_recv_handler(stack->worker, &handler);
    if (status == UCS_OK) {
        status = make_address(stack);
    }
    if (status != UCS_OK) {
        dma_ucx_api.ucp_worker_destroy(stack->worker);
    }
    return status;
}

/* Creates UCX's objects. `devices`: the only network devices to be used, or NULL for all. */
static dma_status_t create_stack(dma_ucx_t *net, const char *devices)
{
    dma_ucx_stack_t stack = {0};
    ucs_status_t status = create_context(net, devices, &stack);

    if (status != UCS_OK) {
        report(&net->config, "UCX does not start", dma_ucx_api.ucs_status_string(status));
        return DMA_UNSUPPORTED;
    }
    status = create_worker(net, &stack);
    if (status != UCS_OK) {
        report(&net->config, "UCX cannot create a worker", dma_ucx_api.ucs_status_string(status));
        dma_ucx_api.ucp_cleanup(stack.context);
        return DMA_UNSUPPORTED;
    }
    dma_ucx_place_fill(&stack);
    net->ucx = stack;
    return DMA_OK;
}

static void destroy_stack(dma_ucx_stack_t *stack)
{
    free(stack->address);
    dma_ucx_api.ucp_worker_destroy(stack->worker);
    dma_ucx_api.ucp_cleanup(stack->context);
}

dma_status_t dma_ucx_create(const dma_ucx_config_t *config, dma_ucx_t **result)
{
    const char *why = NULL;
    dma_status_t status;
    dma_ucx_t *net;

    if (dma_ucx_load(&why) != DMA_OK) {
        report(config, "UCX cannot be used", why);
        return DMA_UNSUPPORTED;
    }
    if (dma_ucx_count_descriptors_left() < DMA_UCX_DESCRIPTORS) {
        report(config, "UCX is not started", "too many open files; raise the limit (ulimit -n)");
        return DMA_UNSUPPORTED;
    }
    net = calloc(1, sizeof(*net));
    if (!net) {
        return DMA_ERR_NOMEM;
    }
    net->config = *config;
    net->hello = (dma_ucx_header_t){.kind = DMA_UCX_HELLO, .key = config->key};
    net->goodbye = (dma_ucx_header_t){.kind = DMA_UCX_GOODBYE, .key = config->key};
    net->abort = (dma_ucx_header_t){.kind = DMA_UCX_ABORT, .key = config->key};
    net->matched_tail = &net->matched;
    dma_ucx_watch_init(&net->watch, config->keepalive_seconds, user_sets_tcp_keepalive());
    status = create_stack(net, NULL);
    if (status != DMA_OK) {
        free(net);
        return status;
    }
    pthread_mutex_init(&net->lock, NULL);
    *result = net;
    return DMA_OK;
}

void dma_ucx_get_place(dma_ucx_t *net, dma_net_place_t *place)
{
    pthread_mutex_lock(&net->lock);
    *place = net->ucx.place;
    place->descriptors = net->ucx.tcp ? dma_ucx_count_descriptors_left() : UINT32_MAX;
    pthread_mutex_unlock(&net->lock);
}

/* With the lock. Replaces UCX's objects, which nobody has connected to. */
static dma_status_t replace_stack(dma_ucx_t *net, const uint32_t *addresses, uint32_t n)
{
    const dma_ucx_unwanted_t unwanted = {addresses, n, net->config.include, net->config.exclude};
    char devices[DMA_UCX_DEVICES_BYTES];
    unsigned excluded;
    dma_ucx_stack_t old = net->ucx;
    dma_status_t status = dma_ucx_devices_without(old.context, &unwanted, devices, &excluded);

    status = status == DMA_OK ? create_stack(net, devices) : status;
    if (status == DMA_OK) {
        destroy_stack(&old);
    }
    return status;
}

dma_status_t dma_ucx_exclude(dma_ucx_t *net, const uint32_t *addresses, uint32_t n)
{
    dma_status_t status = DMA_OK;

    pthread_mutex_lock(&net->lock);
    if (!net->address_given && !dma_ucx_user_names_devices()) {
        status = replace_stack(net, addresses, n);
    }
    pthread_mutex_unlock(&net->lock);
    return status;
}

bool dma_ucx_is_tcp_only(const dma_ucx_t *net)
{
    return net->ucx.tcp_only;
}

const void *dma_ucx_get_address(dma_ucx_t *net, size_t *bytes)
{
    const void *address;

    pthread_mutex_lock(&net->lock);
    net->address_given = true;
    address = net->ucx.address;
    *bytes = net->ucx.address_bytes;
    pthread_mutex_unlock(&net->lock);
    return address;
}

static bool is_sending(dma_ucx_t *net)
{
    for (dma_ucx_peer_t *peer = net->peers; peer; peer = peer->next) {
        if (peer->sends) {
            return true;
        }
    }
    return false;
}

static void on_flushed(void *request, ucs_status_t status, void *arg)
{
    (void)status;
    *(unsigned *)arg -= 1;
    dma_ucx_api.ucp_request_free(request);
}

static void flush(ucp_ep_h ep, unsigned *flushing)
{
    ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
                                 .cb.send = on_flushed,
                                 .user_data = flushing};

    if (ep && UCS_PTR_IS_PTR(dma_ucx_api.ucp_ep_flush_nbx(ep, &param))) {
        *flushing += 1;
    }
}

static bool match_any(const dma_ucx_entry_t *entry, const void *arg)
{
    (void)entry;
    (void)arg;
    return true;
}

static void free_all(dma_ucx_t *net)
{
    dma_ucx_entry_t *entry;
    dma_ucx_peer_t *peer;
    dma_ucx_slab_t *slab;

    while ((entry = dma_ucx_table_pop_if(&net->comms, match_any, NULL))) {
        free(entry);
    }
    while ((slab = net->slabs)) {
        net->slabs = slab->next;
        free(slab);
    }
    while ((peer = net->peers)) {
        net->peers = peer->next;
        free(peer->address);
        free(peer->ports);
        free(peer);
    }
    dma_ucx_watch_free(&net->watch);
    free(net->admitted.addresses);
    dma_ucx_table_free(&net->posted);
    dma_ucx_table_free(&net->unexpected);
    dma_ucx_table_free(&net->comms);
    dma_ucx_table_free(&net->peer_table);
}

/* A goodbye contains the hash of this process's address, by which a receiver that does not know this process yet tells this
 * network from a later one. On idle endpoints it could overtake data, so there it says nothing to such a receiver. */
static void fill_goodbye(dma_ucx_t *net)
{
    uint64_t hash = net->watch.limit_ms ? dma_ucx_address_hash(net->ucx.address, net->ucx.address_bytes) : 0;

    net->goodbye.tag.comm = (uint32_t)(hash >> 32);
    net->goodbye.tag.owner = (uint32_t)hash;
}

void dma_ucx_destroy(dma_ucx_t *net)
{
    double deadline = dma_now() + DMA_UCX_DESTROY_SECONDS;
    unsigned flushing = 0;
    dma_ucx_entry_t *entry;

    while (is_sending(net) && dma_now() < deadline) {
        dma_ucx_progress_locked(net);
    }
    fill_goodbye(net);
    for (dma_ucx_peer_t *peer = net->peers; peer; peer = peer->next) {
        if (peer->ep) {
            dma_ucx_peer_send_control(peer, DMA_UCX_GOODBYE);
            flush(peer->ep, &flushing);
            flush(peer->idle_ep, &flushing);
        }
    }
    while (flushing && dma_now() < deadline) {
        dma_ucx_progress_locked(net);
    }
    while ((entry = dma_ucx_table_pop_if(&net->unexpected, match_any, NULL))) {
        dma_ucx_message_free(net, (dma_ucx_message_t *)entry);
    }
    for (dma_ucx_peer_t *peer = net->peers; peer; peer = peer->next) {
        dma_ucx_peer_close(peer);
    }
    for (deadline = dma_now() + DMA_UCX_DESTROY_SECONDS; net->closing_eps && dma_now() < deadline;) {
        dma_ucx_progress_locked(net);
    }
    destroy_stack(&net->ucx);
    free_all(net);
    pthread_mutex_destroy(&net->lock);
    free(net);
}
