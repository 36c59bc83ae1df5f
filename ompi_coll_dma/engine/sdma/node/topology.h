/*
 * The GPUs of a node and the links between them, read from the text files of the kernel driver KFD in sysfs:
 *
 *   ROOT/nodes/N/gpu_id                  0: the node is a CPU
 *   ROOT/nodes/N/properties              lines "key number"
 *   ROOT/nodes/N/io_links/L/properties   a link of node N: its target node, its type, the recommended SDMA engines
 *   ROOT/nodes/N/p2p_links/L/properties  a path to another GPU through a host bridge
 *
 * N counts all nodes of the machine and is the same in every container. A job may not have access to some devices (a
 * device cgroup). Then the files of these nodes cannot be read, and the nodes are counted as hidden; a hidden node may
 * still be the GPU of a peer. ROCr numbers only the nodes that the process may open, so its numbers differ from N. A node with
 * malformed text is hidden, too, because a GPU must not be used with incomplete information. All reads are bounded: the bytes
 * of a file, the number of nodes and the number of links.
 *
 * A GPU is identified by its PCI address, never by counting, because runtimes number only the devices that a job may use,
 * in an order that the environment can change. The driver's location_id is that address and the number of a partition:
 *
 *      31       28 27        16 15     8 7      3 2        0
 *     +-----------+------------+--------+--------+----------+
 *     | partition |     0      |  bus   | device | function |
 *     +-----------+------------+--------+--------+----------+
 *
 * Most drivers have the partition in the function. If the location_id of several partitions is equal, none of them can be
 * identified.
 */
#ifndef DMA_SDMA_TOPOLOGY_H
#define DMA_SDMA_TOPOLOGY_H

#include <stdbool.h>
#include <stdint.h>

#include "dma/reason.h"
#include "dma/status.h"

#define DMA_TOPO_ROOT      "/sys/class/kfd/kfd/topology"
#define DMA_TOPO_DEVICE    "/dev/kfd"
#define DMA_TOPO_MAX_NODES 256   /* far above any machine; bounds the memory of a read, as the next two do */
#define DMA_TOPO_MAX_LINKS 256   /* of one node, of either kind */
#define DMA_TOPO_MAX_TEXT  65536 /* bytes of a file */

#define DMA_TOPO_ANY_PARTITION (-1)

/* Values of the driver. */
typedef enum dma_topo_link_type { DMA_TOPO_PCIE = 2, DMA_TOPO_XGMI = 11 } dma_topo_link_type_t;

typedef struct dma_topo_link {
    uint32_t type;    /* dma_topo_link_type_t, or another value */
    uint32_t to;      /* node number */
    uint32_t engines; /* bit mask of the engines that the driver recommends for this link; 0: no recommendation */
} dma_topo_link_t;

typedef struct dma_topo_gpu {
    uint32_t node;
    uint32_t gpu_id;
    uint32_t domain;   /* of the PCI address */
    uint32_t location; /* bus << 8 | device << 3 | function */
    /* Partitions of one device share its PCI address, or, with most drivers, differ in the function. */
    uint32_t partition;
    uint32_t device_id;
    uint32_t version;  /* gfx_target_version, 90402 for gfx942; 0: not reported */
    uint32_t firmware; /* version of the SDMA engines' firmware; 0: not reported */
    uint32_t xccs;     /* compute dies of this GPU or partition; 0: not reported */
    uint32_t host_engines;
    uint32_t xgmi_engines; /* their numbers follow those of the host-facing engines */
    uint32_t nlinks;
    dma_topo_link_t *links;
} dma_topo_gpu_t;

typedef struct dma_topo {
    uint32_t ngpus; /* in the order of their nodes */
    dma_topo_gpu_t *gpus;
    uint32_t hidden; /* nodes that cannot be read or are malformed */
} dma_topo_t;

/* Reads a tree. On success the caller frees *topo, which has at least one GPU, with dma_topo_free. DMA_UNSUPPORTED: there
 * is no topology; *reason says why. */
dma_status_t dma_topo_read(const char *root, dma_topo_t **topo, const char **reason);
void dma_topo_free(dma_topo_t *topo);

/* Returns the GPU at a PCI address, or NULL: there is none, or DMA_TOPO_ANY_PARTITION matches several partitions. Also
 * finds a partition that the runtime presents as a function of the device. */
const dma_topo_gpu_t *dma_topo_find(const dma_topo_t *topo, uint32_t domain, uint32_t location, int partition);
/* How many GPUs, or partitions of one, have a PCI address. */
unsigned dma_topo_count(const dma_topo_t *topo, uint32_t domain, uint32_t location);
/* The driver's location_id. */
static inline uint32_t dma_topo_location_id(const dma_topo_gpu_t *gpu)
{
    return gpu->partition << 28 | gpu->location;
}
/* Whether no other GPU is a partition of the same device. */
bool dma_topo_is_whole_device(const dma_topo_t *topo, const dma_topo_gpu_t *gpu);

#endif
