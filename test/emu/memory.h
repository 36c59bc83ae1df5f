/* Functions for memory that other files of the thunk's door use, too. */
#ifndef EMU_MEMORY_H
#define EMU_MEMORY_H

#include "vm.h"

/* Allocates host memory for the node itself, which all GPUs may write. NULL: no memory. */
void *emu_memory_internal(uint64_t bytes);

/* Returns the alignment of an allocation. For large ones it is what the runtime's allocator expects. */
uint64_t emu_memory_alignment(uint64_t bytes);

#endif
