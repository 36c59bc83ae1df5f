/*
 * The GPUs of a node and the links between them, read from the text that KFD, the driver, keeps in sysfs:
 *
 *   ROOT/nodes/N/gpu_id                  0: the node is a CPU
 *   ROOT/nodes/N/name                    of the product or of its generation, one line
 *   ROOT/nodes/N/properties              lines "key number"
 *   ROOT/nodes/N/io_links/L/properties   links of node N: to which node, of which type, by which engines
 *   ROOT/nodes/N/p2p_links/L/properties  ways to other GPUs that pass a host bridge
 *
 * N counts all nodes of the machine, in every container alike. A job may be kept from some devices; then reading the
 * files of those nodes fails, and the node is counted as hidden, nothing more: it may be a peer's GPU all the same.
 * Text that is not as it should be hides its node too: to drive a GPU of which we know half is worse than not to.
 * Whatever the files hold, what is read is bounded: by the bytes of a file, by the numbers of nodes and links.
 *
 * A GPU is found by its PCI address, never by counting: runtimes number only the devices a job may see, in an order
 * that the environment can change.
 */
#ifndef DMA_SDMA_TOPOLOGY_H
#define DMA_SDMA_TOPOLOGY_H

#include <stdbool.h>
#include <stdint.h>

#include "dma/status.h"

#define DMA_TOPO_ROOT      "/sys/class/kfd/kfd/topology"
#define DMA_TOPO_DEVICE    "/dev/kfd"
#define DMA_TOPO_MAX_NODES 256
#define DMA_TOPO_MAX_LINKS 256   /* of one node, of either kind */
#define DMA_TOPO_MAX_TEXT  65536 /* bytes of a file */

#define DMA_TOPO_ANY_PARTITION (-1)

typedef enum dma_topo_link_type { DMA_TOPO_PCIE = 2, DMA_TOPO_XGMI = 11 } dma_topo_link_type_t;

typedef struct dma_topo_link {
    uint32_t type;    /* dma_topo_link_type_t, or another */
    uint32_t to;      /* number of a node */
    uint32_t engines; /* bit mask: those the driver recommends for this link; 0: it says nothing */
} dma_topo_link_t;

typedef struct dma_topo_gpu {
    uint32_t node;
    uint32_t gpu_id;
    uint32_t domain;   /* of the PCI address */
    uint32_t location; /* bus << 8 | device << 3 | function */
    uint32_t
        partition; /* GPUs that are parts of one device share its address, or, with most drivers, differ in the function */
    uint32_t device_id;
    uint32_t version; /* 90402 is gfx942; 0: not said */
    uint32_t host_engines;
    uint32_t xgmi_engines; /* their numbers follow those of the host-facing ones */
    uint32_t nlinks;
    dma_topo_link_t *links;
} dma_topo_gpu_t;

typedef struct dma_topo {
    uint32_t ngpus; /* in the order of their nodes */
    dma_topo_gpu_t *gpus;
    uint32_t hidden; /* nodes we may not read, or cannot understand */
} dma_topo_t;

/* Reads a tree. On success *topo, of one GPU at least, is the caller's (dma_topo_free). DMA_UNSUPPORTED: there is none,
 * *reason says why. */
dma_status_t dma_topo_read(const char *root, dma_topo_t **topo, const char **reason);
void dma_topo_free(dma_topo_t *topo);

/* The GPU at a PCI address, or NULL: none, or several partitions and any of them was asked for. A runtime that shows
 * partitions as functions of one device is understood. */
const dma_topo_gpu_t *dma_topo_find(const dma_topo_t *topo, uint32_t domain, uint32_t location, int partition);
/* Is there no other GPU that is a part of the same device? */
bool dma_topo_is_whole_device(const dma_topo_t *topo, const dma_topo_gpu_t *gpu);
/* Takes an address apart: "0000:0c:00.0", or without a domain. DMA_ERR_ARG for anything else. */
dma_status_t dma_topo_address(const char *text, uint32_t *domain, uint32_t *location);

/* Why this process cannot use KFD's device file, or NULL. It is not opened: that makes the driver set things up. */
const char *dma_topo_no_access(const char *device);

#endif
