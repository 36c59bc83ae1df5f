/* What UCX has on this node, for coll_dma_info: see ucx_tl.h. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

static dma_status_t list(const dma_ucx_config_t *config, dma_ucx_found_t *found)
{
    const dma_ucx_unwanted_t unwanted = {.include = config->include, .exclude = config->exclude};
    dma_ucx_t *net = calloc(1, sizeof(*net)); /* as dma_ucx_create begins one */
    ucp_context_h context;
    ucs_status_t status;

    if (!net) {
        return DMA_ERR_NOMEM;
    }
    net->config = *config;
    status = dma_ucx_probe(net, NULL, &context);
    free(net);
    if (status != UCS_OK) {
        snprintf(found->why, sizeof(found->why), "UCX does not start: %s", dma_ucx_api.ucs_status_string(status));
        return DMA_UNSUPPORTED;
    }
    found->tcp_only = dma_ucx_transports_query(context).tcp && !dma_ucx_transports_query(context).other;
    found->by_user = dma_ucx_user_names_devices();
    found->n = dma_ucx_resources_list(context, found->by_user ? NULL : &unwanted, found->resources, DMA_UCX_RESOURCES);
    dma_ucx_api.ucp_cleanup(context);
    return DMA_OK;
}

dma_status_t dma_ucx_inspect(const dma_ucx_config_t *config, dma_ucx_found_t *found)
{
    const char *why = NULL;

    *found = (dma_ucx_found_t){0};
    if (dma_ucx_load(&why) != DMA_OK) {
        snprintf(found->why, sizeof(found->why), "%s", why);
        return DMA_UNSUPPORTED;
    }
    dma_ucx_api.ucp_get_version(&found->version[0], &found->version[1], &found->version[2]);
    if (dma_ucx_try_filter() != DMA_OK) {
        snprintf(found->filter_why, sizeof(found->filter_why), "%s", strerror(errno));
    }
    return list(config, found);
}
