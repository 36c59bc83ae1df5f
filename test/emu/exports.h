/* What the libraries of the emulated node export beside the calls that they stand in for. */
#ifndef EMU_EXPORTS_H
#define EMU_EXPORTS_H

#include <stddef.h>
#include <stdint.h>

#pragma GCC visibility push(default)
/* For programs: writes the statistics of all queues of this process to a file; 0 or -errno. */
int emu_stats_dump(const char *path);

/* The driver's name of the GPU of a node. */
uint32_t emu_gpu_id(uint32_t node);

/* For the preloaded shim of the thunk's door and the newer ROCr, in kfd.c. An ioctl on the driver's file by code at `caller`:
 * 0, or an errno. */
int emu_kfd_ioctl(const void *caller, unsigned long request, void *argument);
/* A mapping of what the offset names, at an address or anywhere, or MAP_FAILED and errno. */
void *emu_kfd_map(void *at, size_t bytes, int protection, int flags, uint64_t offset);
/* For the preloaded shim, in machine.c: wakes the thread of the engines and waits until it has found nothing to do, or for so
 * long. */
void emu_settle(long most_ns);
#pragma GCC visibility pop

#endif
