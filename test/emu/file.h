/*
 * The driver's files at the kernel's door, /dev/kfd and the render nodes. Each is an empty file in memory, known by its name;
 * each time that one is opened it is another, and a copy of its descriptor is the same one. So two descriptors are of one open
 * file, as the kernel has it, where the number of the file is the same.
 */
#ifndef EMU_FILE_H
#define EMU_FILE_H

#include <stdint.h>

enum { EMU_FILE_NONE = -2, EMU_FILE_DRIVER = -1 /* and the number of a GPU, of whose render node it is */ };

/* A descriptor, or -1 and errno. `flags` are those of open. */
int emu_file_open(int device, int flags);
/* Whose file a descriptor is. */
int emu_file_device(int fd);
/* The number of the open file, or 0 if there is none. */
uint64_t emu_file_number(int fd);

#endif
