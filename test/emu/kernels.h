/*
 * C functions in place of the few kernels that AMD's runtimes launch for themselves: copies, fills, writes and waits of
 * streams.
 *
 * ROCr's kernels are identified by their first code words, HIP's by their names in the code object. An unknown kernel is a
 * violation, so programs with kernels of their own do not run on this node.
 */
#ifndef EMU_KERNELS_H
#define EMU_KERNELS_H

#include <hsa/hsa.h>
#include <stdint.h>

enum emu_kernel_state {
    EMU_KERNEL_DONE,
    EMU_KERNEL_WAITS, /* try again */
    EMU_KERNEL_FAULT, /* was reported; the queue is dead */
};

enum emu_kernel_state emu_kernel_run(uint32_t node, const hsa_kernel_dispatch_packet_t *packet);

#endif
