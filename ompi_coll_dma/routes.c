/* The routes that there are beside the host route. The one file that knows all of them; the order is that of destruction. */
#include "cluster/cluster.h"
#include "device/device.h"

const dma_route_t *const dma_routes[] = {
    &dma_route_cluster, /* its network goes before leases of device and pinned memory, into which requests may receive */
    &dma_route_device,
    NULL,
};
