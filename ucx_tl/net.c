/*
 * This process on the network: UCX's context and worker, their settings, their end.
 *
 * Settings of ours give way to the user's environment, UCX_* or COLL_DMA_UCX_*, but for the devices, which are a parameter,
 * and the number of rails for small messages, which is one.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

#define PREFIX "COLL_DMA"

void dma_net_config_default(dma_net_config_t *config)
{
    *config = (dma_net_config_t){.keepalive_seconds = 15, .processes = 1, .local_processes = 1};
}

static void report(const dma_net_config_t *config, const char *what, const char *reason)
{
    char text[300];

    if (config->host && config->host->report) {
        snprintf(text, sizeof(text), "no transfers between nodes: %s: %s", what, reason);
        config->host->report(DMA_REPORT_WARN, "ucx", text);
    }
}

static bool in_environment(const char *name)
{
    char full[80];

    snprintf(full, sizeof(full), "UCX_%s", name);
    if (getenv(full)) {
        return true;
    }
    snprintf(full, sizeof(full), PREFIX "_UCX_%s", name);
    return getenv(full);
}

/* A setting that this UCX does not know is not needed by it. */
static void set(ucp_config_t *ucx, const char *name, const char *value)
{
    if (!in_environment(name)) {
        dma_ucx.ucp_config_modify(ucx, name, value);
    }
}

/* One of TCP's. Since 1.15 UCX wants it with the transport's name, before without. */
static void set_tcp(ucp_config_t *ucx, const char *name, const char *value)
{
    unsigned major, minor, release;

    dma_ucx.ucp_get_version(&major, &minor, &release);
    if (!in_environment(name)) {
        dma_ucx.ucp_config_modify(ucx, major > 1 || minor >= 15 ? name : name + strlen("TCP_"), value);
    }
}

/*
 * The kernel counts whole seconds. An idle connection is probed after about a sixth of the time, and given up if no probe is
 * answered until it is over: a link that comes back before, or a host that is slow for a while, is not taken for dead.
 *
 *     seconds  2: probed after 1, given up 1 later       10: after 2, 3, 4, ... 9; given up at 10
 */
static void set_tcp_keepalive(ucp_config_t *ucx, double seconds)
{
    dma_net_probes_t probes = dma_net_probes(seconds);
    char text[32];

    snprintf(text, sizeof(text), "%ds", probes.idle);
    set_tcp(ucx, "TCP_KEEPIDLE", text);
    snprintf(text, sizeof(text), "%ds", probes.interval);
    set_tcp(ucx, "TCP_KEEPINTVL", text);
    snprintf(text, sizeof(text), "%d", probes.count);
    set_tcp(ucx, "TCP_KEEPCNT", text);
}

static void set_keepalive(ucp_config_t *ucx, double seconds, dma_net_transports_t transports)
{
    char text[32];

    if (transports.tcp) {
        set_tcp_keepalive(ucx, seconds);
    }
    /* UCP's own would send data on the idle TCP connections; the kernel's keepalive needs them idle. */
    if (transports.tcp && !transports.other) {
        set(ucx, "KEEPALIVE_INTERVAL", "inf");
    } else {
        snprintf(text, sizeof(text), "%ldms", (long)(500 * seconds));
        set(ucx, "KEEPALIVE_INTERVAL", text);
    }
}

/* Over TCP the words of a rendezvous stand in line behind the data of messages the other way, and adapters idle meanwhile:
 * what is not very large goes at once. */
static void set_rendezvous(ucp_config_t *ucx, dma_net_transports_t transports)
{
    if (transports.tcp && !transports.other) {
        set(ucx, "RNDV_THRESH", "128k");
    }
}

/* Whatever the user has set: the order of messages hangs on it, see ucx_tl.h. */
static void set_one_rail(ucp_config_t *ucx)
{
    dma_ucx.ucp_config_modify(ucx, "MAX_EAGER_RAILS", "1");
}

static ucs_status_t try_context(const dma_net_config_t *config, const dma_net_transports_t *transports,
                                ucp_context_h *context)
{
    ucp_params_t params = {
        .field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_NAME | UCP_PARAM_FIELD_ESTIMATED_NUM_EPS |
                      UCP_PARAM_FIELD_ESTIMATED_NUM_PPN,
        .features = UCP_FEATURE_AM,
        .name = "coll_dma",
        .estimated_num_eps = config->processes,
        .estimated_num_ppn = config->local_processes,
    };
    ucp_config_t *ucx;
    ucs_status_t status = dma_ucx.ucp_config_read(PREFIX, NULL, &ucx);

    if (status != UCS_OK) {
        return status;
    }
    set_one_rail(ucx);
    if (transports) {
        set_keepalive(ucx, config->keepalive_seconds, *transports);
        set_rendezvous(ucx, *transports);
    }
    if (config->devices) {
        status = dma_ucx.ucp_config_modify(ucx, "NET_DEVICES", config->devices);
    }
    if (status == UCS_OK) {
        status = dma_ucx.ucp_init_version(UCP_API_MAJOR, UCP_API_MINOR, &params, ucx, context);
    }
    dma_ucx.ucp_config_release(ucx);
    return status;
}

/* UCX complains about settings of transports that it does not use: once to see which it has, and once for good. */
static ucs_status_t start_context(const dma_net_config_t *config, ucp_context_h *context, bool *over_tcp)
{
    dma_net_transports_t transports;
    ucs_status_t status = try_context(config, NULL, context);

    if (status == UCS_OK) {
        transports = dma_net_transports_of(*context);
        *over_tcp = transports.tcp && !transports.other;
        dma_ucx.ucp_cleanup(*context);
        status = try_context(config, &transports, context);
    }
    return status;
}

static ucs_status_t start_worker(dma_net_t *net)
{
    ucp_worker_params_t params = {.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
                                  .thread_mode = UCS_THREAD_MODE_SERIALIZED};
    ucp_am_handler_param_t handler = {
        .field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_FLAGS | UCP_AM_HANDLER_PARAM_FIELD_CB |
                      UCP_AM_HANDLER_PARAM_FIELD_ARG,
        .id = DMA_NET_AM,
        .flags = UCP_AM_FLAG_WHOLE_MSG | UCP_AM_FLAG_PERSISTENT_DATA,
        .cb = dma_net_arrived,
        .arg = net,
    };
    dma_net_listeners_t before;
    ucs_status_t status;

    dma_net_listeners(&before);
    status = dma_ucx.ucp_worker_create(net->context, &params, &net->worker);
    if (status != UCS_OK) {
        return status;
    }
    dma_net_watch_new_listeners(&before, net->config.keepalive_seconds);
    status = dma_ucx.ucp_worker_set_am_recv_handler(net->worker, &handler);
    if (status == UCS_OK) {
        status = dma_ucx.ucp_worker_get_address(net->worker, &net->address, &net->address_bytes);
    }
    if (status != UCS_OK) {
        dma_ucx.ucp_worker_destroy(net->worker);
    }
    return status;
}

dma_status_t dma_net_create(const dma_net_config_t *config, dma_net_t **result)
{
    ucp_context_attr_t attr = {.field_mask = UCP_ATTR_FIELD_MEMORY_TYPES};
    const char *why = NULL;
    ucs_status_t status;
    dma_net_t *net;

    if (dma_ucx_load(&why) != DMA_OK) {
        report(config, "UCX cannot be used", why);
        return DMA_UNSUPPORTED;
    }
    net = calloc(1, sizeof(*net));
    if (!net) {
        return DMA_ERR_NOMEM;
    }
    net->config = *config;
    net->config.devices = NULL;
    net->hello = (dma_net_head_t){.kind = DMA_NET_HELLO, .key = config->key};
    net->bye = (dma_net_head_t){.kind = DMA_NET_BYE, .key = config->key};
    net->quit = (dma_net_head_t){.kind = DMA_NET_QUIT, .key = config->key};
    net->taken_tail = &net->taken;
    status = start_context(config, &net->context, &net->over_tcp);
    if (status != UCS_OK) {
        report(config, "UCX does not start", dma_ucx.ucs_status_string(status));
        goto free_net;
    }
    if (dma_ucx.ucp_context_query(net->context, &attr) == UCS_OK) {
        net->memory_types = attr.memory_types;
    }
    status = start_worker(net);
    if (status != UCS_OK) {
        report(config, "UCX has no worker for us", dma_ucx.ucs_status_string(status));
        goto cleanup_context;
    }
    pthread_mutex_init(&net->lock, NULL);
    *result = net;
    return DMA_OK;

cleanup_context:
    dma_ucx.ucp_cleanup(net->context);
free_net:
    free(net);
    return DMA_UNSUPPORTED;
}

bool dma_net_over_tcp(const dma_net_t *net)
{
    return net->over_tcp;
}

const void *dma_net_address(const dma_net_t *net, size_t *bytes)
{
    *bytes = net->address_bytes;
    return net->address;
}

static bool sending(dma_net_t *net)
{
    for (dma_net_peer_t *peer = net->peers; peer; peer = peer->next) {
        if (peer->sends) {
            return true;
        }
    }
    return false;
}

static void flushed(void *request, ucs_status_t status, void *arg)
{
    (void)status;
    *(unsigned *)arg -= 1;
    dma_ucx.ucp_request_free(request);
}

static void flush(ucp_ep_h ep, unsigned *flushing)
{
    ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
                                 .cb.send = flushed,
                                 .user_data = flushing};

    if (ep && UCS_PTR_IS_PTR(dma_ucx.ucp_ep_flush_nbx(ep, &param))) {
        *flushing += 1;
    }
}

static bool any(const dma_net_entry_t *entry, const void *arg)
{
    (void)entry;
    (void)arg;
    return true;
}

static void free_all(dma_net_t *net)
{
    dma_net_entry_t *entry;
    dma_net_peer_t *peer;
    dma_net_slab_t *slab;

    while ((entry = dma_net_table_find(&net->joined, any, NULL))) {
        free(entry);
    }
    while ((slab = net->slabs)) {
        net->slabs = slab->next;
        free(slab);
    }
    while ((peer = net->peers)) {
        net->peers = peer->next;
        free(peer->address);
        free(peer);
    }
    dma_net_table_free(&net->posted);
    dma_net_table_free(&net->kept);
    dma_net_table_free(&net->joined);
    dma_net_table_free(&net->known);
}

void dma_net_destroy(dma_net_t *net)
{
    double deadline = dma_now() + DMA_NET_DESTROY_SECONDS;
    unsigned flushing = 0;
    dma_net_entry_t *entry;

    net->config.failed = NULL;
    while (sending(net) && dma_now() < deadline) {
        dma_net_move(net);
    }
    for (dma_net_peer_t *peer = net->peers; peer; peer = peer->next) {
        if (peer->ep) {
            dma_net_say(peer, DMA_NET_BYE);
            flush(peer->ep, &flushing);
            flush(peer->watch, &flushing);
        }
    }
    while (flushing && dma_now() < deadline) {
        dma_net_move(net);
    }
    while ((entry = dma_net_table_find(&net->kept, any, NULL))) {
        dma_net_drop(net, (dma_net_kept_t *)entry);
    }
    for (dma_net_peer_t *peer = net->peers; peer; peer = peer->next) {
        dma_net_close(peer);
    }
    for (deadline = dma_now() + DMA_NET_DESTROY_SECONDS; net->closing && dma_now() < deadline;) {
        dma_net_move(net);
    }
    dma_ucx.ucp_worker_release_address(net->worker, net->address);
    dma_ucx.ucp_worker_destroy(net->worker);
    dma_ucx.ucp_cleanup(net->context);
    free_all(net);
    pthread_mutex_destroy(&net->lock);
    free(net);
}
