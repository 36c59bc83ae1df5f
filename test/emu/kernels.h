/*
 * Native twins of the few kernels that AMD's runtimes launch by themselves: copies, fills, writes and waits of streams.
 *
 * ROCr's own are known by their first code words, HIP's by their names, which are in the code object around them. Programs
 * with kernels of their own do not run here: an unknown kernel is a violation.
 */
#ifndef EMU_KERNELS_H
#define EMU_KERNELS_H

#include <hsa/hsa.h>
#include <stdint.h>

enum emu_kernel_state {
    EMU_KERNEL_DONE,
    EMU_KERNEL_WAITS, /* try again */
    EMU_KERNEL_FAULT, /* reported; the queue is dead */
};

enum emu_kernel_state emu_kernel_run(uint32_t node, const hsa_kernel_dispatch_packet_t *packet);

#endif
