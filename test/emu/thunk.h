/* The thunk's API, for those who implement it: what <hsakmt.h> declares is exported. */
#ifndef EMU_THUNK_H
#define EMU_THUNK_H

#pragma GCC visibility push(default)
#include <hsakmt.h>
#include <stddef.h>

/* Ours: writes the statistics of all queues of this process to a file; 0 or -errno. */
int emu_stats_dump(const char *path);

/* Ours: the driver's name of the GPU of a node. */
uint32_t emu_gpu_id(uint32_t node);

/* For the preloaded shim and the newer ROCr, in kfd.c. An ioctl on the driver's file by code at `caller`: 0, or an errno. */
int emu_kfd_ioctl(const void *caller, unsigned long request, void *argument);
/* A mapping of the doorbells of a GPU, all of them or none, or NULL. */
void *emu_kfd_map(size_t bytes, uint64_t offset);
/* For the preloaded shim, in machine.c: wakes the thread of the engines and waits until it has found nothing to do, or for so
 * long. */
void emu_settle(long most_ns);
#pragma GCC visibility pop

#endif
