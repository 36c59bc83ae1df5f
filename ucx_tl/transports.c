/* The transports of a UCP context. */
#include "internal.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Transports that do not leave the node: shared memory, and copies to and from GPUs, which UCX lists beside networks. */
static const char *const local_transports[] = {"self/",     "sysv/",      "posix/",    "cma/",      "knem/",
                                               "xpmem/",    "cuda_copy/", "cuda_ipc/", "gdr_copy/", "rocm_copy/",
                                               "rocm_ipc/", "ze_copy/",   "ze_ipc/",   "ze_gdr/"};

bool dma_ucx_has_infiniband(const char *folder)
{
    DIR *dir = opendir(folder);
    struct dirent *entry;
    bool found = false;

    while (dir && (entry = readdir(dir))) {
        found = found || entry->d_name[0] != '.';
    }
    if (dir) {
        closedir(dir);
    }
    return found;
}

bool dma_ucx_has_mlx5(const char *folder)
{
    DIR *dir = opendir(folder);
    struct dirent *entry;
    bool found = false;

    while (dir && !found && (entry = readdir(dir))) {
        char path[512], driver[512];
        ssize_t bytes;

        snprintf(path, sizeof(path), "%s/%s/device/driver", folder, entry->d_name);
        bytes = readlink(path, driver, sizeof(driver) - 1);
        driver[bytes > 0 ? bytes : 0] = '\0';
        found = strstr(driver, "mlx5");
    }
    if (dir) {
        closedir(dir);
    }
    return found;
}

/* "tcp/eth0" of "resource 0 : md 0 dev 0 flags -- tcp/eth0", or NULL. Not every supported version of UCX has a query for
 * transports, but all can print them. */
static const char *resource_of(char *line)
{
    char *name = strstr(line, " resource ") ? strrchr(line, ' ') : NULL;

    return name && strchr(name, '/') ? name + 1 : NULL;
}

static bool is_local(const char *resource)
{
    bool local = false;

    for (size_t i = 0; i < sizeof(local_transports) / sizeof(local_transports[0]); i++) {
        local = local || !strncmp(resource, local_transports[i], strlen(local_transports[i]));
    }
    return local;
}

static bool is_tcp(const char *resource)
{
    return !strncmp(resource, "tcp/", 4);
}

dma_ucx_transports_t dma_ucx_transports_parse(char *text)
{
    dma_ucx_transports_t found = {0};
    const char *resource;
    char *line, *rest;

    for (line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        if ((resource = resource_of(line))) {
            found.tcp = found.tcp || is_tcp(resource);
            found.other = found.other || (!is_local(resource) && !is_tcp(resource));
            found.ud_verbs = found.ud_verbs || !strncmp(resource, "ud_verbs/", 9);
        }
    }
    return found;
}

/* To be freed; NULL without memory. */
static char *print_context(ucp_context_h context)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *file = open_memstream(&text, &bytes);

    if (file) {
        dma_ucx_api.ucp_context_print_info(context, file);
        fclose(file);
    }
    return text;
}

dma_ucx_transports_t dma_ucx_transports_query(ucp_context_h context)
{
    dma_ucx_transports_t found = {0};
    char *text = print_context(context);

    if (text) {
        found = dma_ucx_transports_parse(text);
    }
    free(text);
    return found;
}

static bool has_device(const char *devices, const char *device)
{
    size_t length = strlen(device);

    for (const char *at = devices; (at = strstr(at, device)); at += length) {
        if ((at == devices || at[-1] == ',') && (!at[length] || at[length] == ',')) {
            return true;
        }
    }
    return false;
}

/* Appends a device to a list with commas. An adapter has several transports, and UCX warns of a device that is named twice. */
static bool add_device(char devices[DMA_UCX_DEVICES_BYTES], const char *device)
{
    size_t used = strlen(devices), left = DMA_UCX_DEVICES_BYTES - used;

    if (has_device(devices, device)) {
        return true;
    }
    return (size_t)snprintf(devices + used, left, "%s%s", used ? "," : "", device) < left;
}

static bool is_in(const char *device, const char *list)
{
    return list && *list && dma_ucx_interface_in(device, list);
}

/* Why no connection may use a device, or NULL. The loopback interface leads to this host alone, and other users of the host could
 * connect over it. */
static const char *why_excluded(const char *resource, const char *device, const dma_ucx_unwanted_t *unwanted)
{
    if (!is_tcp(resource)) {
        return NULL;
    }
    return !strcmp(device, "lo")                                             ? "it leads to this host only"
           : dma_ucx_interface_has(device, unwanted->addresses, unwanted->n) ? "other hosts have its address too"
           : dma_ucx_interface_is_inner(device) ? "a bridge that leads to guests of this host only"
           : is_in(device, unwanted->exclude)   ? "btl_tcp_if_exclude names it"
           : unwanted->include && *unwanted->include && !is_in(device, unwanted->include)
               ? "btl_tcp_if_include does not name it"
               : NULL;
}

dma_status_t dma_ucx_devices_without(ucp_context_h context, const dma_ucx_unwanted_t *unwanted,
                                     char devices[DMA_UCX_DEVICES_BYTES], unsigned *excluded)
{
    char *text = print_context(context), *line, *rest;
    bool fits = text, leads_away = false;

    devices[0] = '\0';
    *excluded = 0;
    for (line = text ? strtok_r(text, "\n", &rest) : NULL; line; line = strtok_r(NULL, "\n", &rest)) {
        const char *resource = resource_of(line), *device = resource ? strchr(resource, '/') + 1 : NULL;

        if (!device || is_local(resource)) {
            continue;
        }
        if (why_excluded(resource, device, unwanted)) {
            *excluded += 1;
            continue;
        }
        fits = fits && add_device(devices, device);
        leads_away = true;
    }
    free(text);
    return fits && leads_away ? DMA_OK : DMA_UNSUPPORTED;
}

unsigned dma_ucx_resources_list(ucp_context_h context, const dma_ucx_unwanted_t *unwanted,
                                dma_ucx_resource_t *resources, unsigned most)
{
    char *text = print_context(context), *line, *rest;
    unsigned n = 0;

    for (line = text ? strtok_r(text, "\n", &rest) : NULL; line && n < most; line = strtok_r(NULL, "\n", &rest)) {
        const char *resource = resource_of(line), *device = resource ? strchr(resource, '/') + 1 : NULL;
        dma_ucx_resource_t *r = &resources[n];

        if (!device) {
            continue;
        }
        *r = (dma_ucx_resource_t){.unused = is_local(resource) ? "it does not leave the node"
                                            : unwanted         ? why_excluded(resource, device, unwanted)
                                                               : NULL};
        snprintf(r->transport, sizeof(r->transport), "%.*s", (int)(device - resource) - 1, resource);
        snprintf(r->device, sizeof(r->device), "%s", device);
        n++;
    }
    free(text);
    return n;
}
