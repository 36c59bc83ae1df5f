/*
 * Cross-memory copies: reads of another process's memory with one system call (process_vm_readv).
 *
 * They are used only between pairs of ranks that have read a random number of each other in set-up. In another pid
 * namespace the same pid is another process, and a security module may forbid the system call although the kernel has
 * it.
 */
#ifndef DMA_NODE_CROSS_H
#define DMA_NODE_CROSS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "dma/status.h"

/* Copies `bytes` bytes from `addr` of process `pid` to `dst`. DMA_UNSUPPORTED: it was refused, and part of `dst` may
 * have been written. */
dma_status_t dma_cross_read(pid_t pid, void *dst, uint64_t addr, size_t bytes);

/* Whether the 64-bit word at `addr` of process `pid` can be read and is `value`. */
bool dma_cross_probe(pid_t pid, uint64_t addr, uint64_t value);

#endif
