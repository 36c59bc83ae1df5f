/*
 * EMU_HIDE: GPUs that a process may not open, as a device cgroup hides them from a container or from a task of Slurm. The
 * driver goes on counting them. Its files about them can be opened, and then not be read. The thunk counts only what may be
 * opened, so that from the first hidden GPU on its numbers are not the driver's.
 */
#ifndef EMU_HIDE_H
#define EMU_HIDE_H

#include <stdbool.h>
#include <stdint.h>

/* Reads a list of GPUs, "0,3"; NULL or "" is an empty one. False if it is none. The mask has a bit for each GPU. */
bool emu_hide_read(const char *text, uint32_t *mask);

#endif
