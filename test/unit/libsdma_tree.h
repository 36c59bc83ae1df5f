/*
 * KFD's topology of machines that the developers do not have: test/topologies/NAME.txt, written out as the tree of
 * files that the driver shows.
 *
 * A machine is lines of words. # begins a comment.
 *   cpus N                                                          nodes 0 ... N-1 are CPUs
 *   device ID gfx VERSION engines HOST XGMI queues N hive N name S  of the GPUs that follow; the id is hexadecimal
 *   gpu DOMAIN:BUS:DEVICE.FUNCTION [PARTITION]                      the next node
 *   xgmi MASK...                                                    links of the first GPU, then of the second ...:
 *                                                                   recommended engines towards each GPU, hexadecimal;
 *                                                                   -: no link, none: the driver does not say
 *   all xgmi MASK, all p2p MASK                                     links between all GPUs, direct or through the host
 */
#ifndef DMA_TEST_LIBSDMA_TREE_H
#define DMA_TEST_LIBSDMA_TREE_H

#include "engine/sdma/node/topology.h"

/* Writes the tree of a machine into a new directory. The caller owns the name (tree_remove). */
char *tree_make(const char *machine);
void tree_remove(char *root);

/* Changes one file below the root: its text, or it becomes a link to nowhere, or a directory. */
void tree_write(const char *root, const char *path, const char *text);
void tree_dangle(const char *root, const char *path);
void tree_bar(const char *root, const char *path);

/* Splits a PCI address, "0000:0c:00.0", into the numbers that dma_topo_find takes. */
void tree_address(const char *text, unsigned *domain, unsigned *location);

/* Reads a machine and removes its tree. The caller owns the topology. */
dma_topo_t *tree_read(const char *machine);

#endif
