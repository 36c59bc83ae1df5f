/*
 * The driver's files at the kernel's door, /dev/kfd and the render nodes. Each open creates an empty memfd, whose name says
 * which file it is. A copy of a descriptor has the same memfd. So two descriptors belong to one open file, in the kernel's
 * sense, if their memfds have the same number.
 */
#ifndef EMU_FILE_H
#define EMU_FILE_H

#include <stdint.h>

enum { EMU_FILE_NONE = -2, EMU_FILE_DRIVER = -1 /* otherwise the number of the GPU of a render node */ };

/* Returns a descriptor, or -1 and sets errno. `flags` are those of open. */
int emu_file_open(int device, int flags);
/* Returns which file a descriptor belongs to: EMU_FILE_NONE, EMU_FILE_DRIVER or a GPU. */
int emu_file_device(int fd);
/* Returns the number of the open file, or 0 if there is none. */
uint64_t emu_file_number(int fd);

#endif
