/*
 * What the two doors of the emulated node share about this process: which GPUs it may open and has opened, how they are
 * counted, and who calls. The doors are the thunk's calls (api.h), and the kernel's (kfd.h).
 */
#ifndef EMU_PROCESS_H
#define EMU_PROCESS_H

#include <stdbool.h>
#include <stdint.h>

/* The file name of the library or program that an address of code is in. */
const char *emu_process_caller(const void *address);
/* The same for whoever called the library that called us: the first on the stack that is not ROCm's thunk, nor us. */
const char *emu_process_caller_of_thunk(void);

/* Whether that is AMD's runtime, which never destroys its queues where HIP is used. */
bool emu_process_is_runtime(const char *caller);

/* Whether this is a child of a process that used the node, and so has none. */
bool emu_process_forked(void);

/* Gives the process an address space on a GPU: without one there is neither memory nor a queue. */
void emu_process_acquire(int gpu);
void emu_process_release(int gpu);
bool emu_process_has(int gpu);
/* Whether it has had one on any. */
bool emu_process_used(void);

/* Nodes as the thunk counts them: the host, then the GPUs that this process may open (hide.h). GPUs are counted as the
 * driver does, from 0. */
bool emu_is_gpu(uint32_t node);
uint32_t emu_node_count(void);
/* The GPU of a node for which emu_is_gpu is true. */
int emu_gpu_of(uint32_t node);
/* The node of a GPU; 0: there is none, or this process may not open it. */
uint32_t emu_node_of(int gpu);

#endif
