/* Which transports UCX has for a context. */
#include "internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Transports that stay inside a node or a process: through shared memory, and to and from GPUs, which UCX has beside a network
 * wherever it finds one. */
static const char *const inside[] = {"self/",     "sysv/",      "posix/",    "cma/",      "knem/",
                                     "xpmem/",    "cuda_copy/", "cuda_ipc/", "gdr_copy/", "rocm_copy/",
                                     "rocm_ipc/", "ze_copy/",   "ze_ipc/",   "ze_gdr/"};

/* Not every UCX that we work with can be asked, but all can print: "resource 0 : md 0 dev 0 flags -- tcp/eth0". */
dma_net_transports_t dma_net_transports(char *text)
{
    dma_net_transports_t found = {false, false};
    char *line, *rest, *name;

    for (line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        bool local = false, tcp;

        if (!strstr(line, " resource ") || !(name = strrchr(line, ' ')) || !strchr(++name, '/')) {
            continue;
        }
        for (size_t i = 0; i < sizeof(inside) / sizeof(inside[0]); i++) {
            local = local || !strncmp(name, inside[i], strlen(inside[i]));
        }
        tcp = !strncmp(name, "tcp/", 4);
        found.tcp = found.tcp || tcp;
        found.other = found.other || (!local && !tcp);
    }
    return found;
}

dma_net_transports_t dma_net_transports_of(ucp_context_h context)
{
    dma_net_transports_t found = {false, false};
    char *text = NULL;
    size_t bytes = 0;
    FILE *file = open_memstream(&text, &bytes);

    if (file) {
        dma_ucx.ucp_context_print_info(context, file);
        fclose(file);
        found = text ? dma_net_transports(text) : found;
        free(text);
    }
    return found;
}
