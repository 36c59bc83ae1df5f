/* Memory calls of the thunk that the rest of the library needs, too. */
#ifndef EMU_MEMORY_H
#define EMU_MEMORY_H

#include "vm.h"

/* Host memory that all GPUs may write to: the node's own. NULL if there is none. */
void *emu_memory_internal(uint64_t bytes);

/* Large allocations are aligned as the runtime's allocator of fragments expects. */
uint64_t emu_memory_alignment(uint64_t bytes);

#endif
