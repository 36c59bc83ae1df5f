/*
 * What every call of the thunk's API shares: is the channel open, was the topology released, who calls?
 */
#ifndef EMU_API_H
#define EMU_API_H

#include "thunk.h"

#include <stdbool.h>

/* Success, or what the call must return: not open, or the topology was released under it (a violation). */
HSAKMT_STATUS emu_api_enter(const char *function);

#define EMU_API_ENTER()                                                                                                \
    do {                                                                                                               \
        HSAKMT_STATUS status_ = emu_api_enter(__func__);                                                               \
        if (status_ != HSAKMT_STATUS_SUCCESS)                                                                          \
            return status_;                                                                                            \
    } while (0)

/* The file name of the library or program that an address of code is in. */
const char *emu_api_caller(const void *address);

/* Whether that is AMD's runtime, which never destroys its queues where HIP is used. */
bool emu_api_is_runtime(const char *caller);

/* Whether this is a child of a process that used the node, and so has none. */
bool emu_api_forked(void);

/* Nodes as the thunk counts them: the host, then the GPUs that this process may open (hide.h). GPUs are counted as the
 * driver does, from 0. */
bool emu_is_gpu(uint32_t node);
uint32_t emu_node_count(void);
/* The GPU of a node for which emu_is_gpu is true. */
int emu_gpu_of(uint32_t node);
/* The node of a GPU; 0: there is none, or this process may not open it. */
uint32_t emu_node_of(int gpu);

#endif
