/* UCX: see info.h. */
#include "tools/info/info.h"

void info_net_find(info_t *info)
{
#ifdef DMA_HAVE_UCX
    const dma_ucx_config_t config = {
        .keepalive_seconds = info->mpi.params.keepalive, .processes = 1, .local_processes = 1};

    info->ucx_built = true;
    info->ucx_usable = dma_ucx_inspect(&config, &info->ucx) == DMA_OK;
#else
    (void)info;
#endif
}
