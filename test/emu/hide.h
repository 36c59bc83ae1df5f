/*
 * EMU_HIDE: GPUs that a process may not open, as a device cgroup hides them from a container or from a task of Slurm. The
 * driver's numbers include them. Its files about them can be opened and cannot be read. The thunk numbers only GPUs that may be
 * opened, so its numbers differ from the driver's after the first hidden GPU.
 */
#ifndef EMU_HIDE_H
#define EMU_HIDE_H

#include <stdbool.h>
#include <stdint.h>

/* Reads a list of GPUs such as "0,3" into a bit mask; NULL and "" are an empty list. False: the text is no list. */
bool emu_hide_read(const char *text, uint32_t *mask);

#endif
