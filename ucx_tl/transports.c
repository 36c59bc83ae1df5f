/* The transports of a UCP context. */
#include "internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Transports that do not leave the node: shared memory, and copies to and from GPUs, which UCX lists beside networks. */
static const char *const local_transports[] = {"self/",     "sysv/",      "posix/",    "cma/",      "knem/",
                                               "xpmem/",    "cuda_copy/", "cuda_ipc/", "gdr_copy/", "rocm_copy/",
                                               "rocm_ipc/", "ze_copy/",   "ze_ipc/",   "ze_gdr/"};

/* Not every supported version of UCX has a query for transports, but all can print them: "resource 0 : md 0 dev 0 flags --
 * tcp/eth0". */
dma_ucx_transports_t dma_ucx_transports_parse(char *text)
{
    dma_ucx_transports_t found = {false, false};
    char *line, *rest, *name;

    for (line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        bool local = false, tcp;

        if (!strstr(line, " resource ") || !(name = strrchr(line, ' ')) || !strchr(++name, '/')) {
            continue;
        }
        for (size_t i = 0; i < sizeof(local_transports) / sizeof(local_transports[0]); i++) {
            local = local || !strncmp(name, local_transports[i], strlen(local_transports[i]));
        }
        tcp = !strncmp(name, "tcp/", 4);
        found.tcp = found.tcp || tcp;
        found.other = found.other || (!local && !tcp);
    }
    return found;
}

dma_ucx_transports_t dma_ucx_transports_query(ucp_context_h context)
{
    dma_ucx_transports_t found = {false, false};
    char *text = NULL;
    size_t bytes = 0;
    FILE *file = open_memstream(&text, &bytes);

    if (file) {
        dma_ucx_api.ucp_context_print_info(context, file);
        fclose(file);
        found = text ? dma_ucx_transports_parse(text) : found;
        free(text);
    }
    return found;
}
