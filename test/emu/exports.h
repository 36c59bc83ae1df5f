/* Functions that the libraries of the emulated node export in addition to those that they replace. */
#ifndef EMU_EXPORTS_H
#define EMU_EXPORTS_H

#include <stddef.h>
#include <stdint.h>

#pragma GCC visibility push(default)
/* For programs: writes the statistics of all queues of this process to a file. Returns 0 or -errno. */
int emu_stats_dump(const char *path);

/* Returns the driver's id of the GPU of a node. */
uint32_t emu_gpu_id(uint32_t node);

/* In kfd.c, for the preloaded shim of the thunk's door and for rocr_queues.c: an ioctl on the driver's file by code at
 * `caller`. Returns 0 or an errno. */
int emu_kfd_ioctl(const void *caller, unsigned long request, void *argument);
/* Maps what the offset of the driver's file means, at an address or anywhere. Returns MAP_FAILED and sets errno on failure. */
void *emu_kfd_map(void *at, size_t bytes, int protection, int flags, uint64_t offset);
/* In machine.c, for the preloaded shim: wakes the thread of the engines, and waits until it has nothing to do, at most for this
 * time. */
void emu_settle(long most_ns);
#pragma GCC visibility pop

#endif
