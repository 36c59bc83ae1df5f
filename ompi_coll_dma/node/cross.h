/*
 * Cross-memory copies: reading another process's memory with one system call.
 *
 * Used only between pairs that have proven it on a random number: an equal pid in another pid namespace is another
 * process, and a security module may forbid what the kernel offers.
 */
#ifndef DMA_NODE_CROSS_H
#define DMA_NODE_CROSS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "dma/status.h"

/* All `bytes` at `addr` of process `pid`, or DMA_UNSUPPORTED: then part of `dst` may have been written. */
dma_status_t dma_cross_read(pid_t pid, void *dst, uint64_t addr, size_t bytes);

/* Does `addr` of process `pid` hold `value`? */
bool dma_cross_probe(pid_t pid, uint64_t addr, uint64_t value);

#endif
