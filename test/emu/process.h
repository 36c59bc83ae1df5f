/*
 * Functions about this process that both doors share: which GPUs it may open and has opened, their numbers, and which library
 * makes a call. The doors are the thunk's calls (api.h) and the kernel's (kfd.h).
 */
#ifndef EMU_PROCESS_H
#define EMU_PROCESS_H

#include <stdbool.h>
#include <stdint.h>

/* Returns the file name of the library or program that contains this address of code. */
const char *emu_process_caller(const void *address);
/* Returns the file name of the first library or program on the stack that is neither ROCm's thunk nor the emulated node. */
const char *emu_process_caller_of_thunk(void);

/* Returns whether this file name is that of AMD's runtime, which never destroys its queues if HIP is used. */
bool emu_process_is_runtime(const char *caller);

/* Returns whether this is a forked child of a process that has used the node. Such a child cannot use it. */
bool emu_process_forked(void);

/* Gives the process an address space on a GPU, which it needs for memory and queues. */
void emu_process_acquire(int gpu);
void emu_process_release(int gpu);
bool emu_process_has(int gpu);
/* Returns whether the process has had an address space on any GPU. */
bool emu_process_used(void);

/* Nodes have the thunk's numbers: the host, then the GPUs that this process may open (hide.h). GPUs have the driver's numbers,
 * from 0. */
bool emu_is_gpu(uint32_t node);
uint32_t emu_node_count(void);
/* Returns the GPU of a node for which emu_is_gpu is true. */
int emu_gpu_of(uint32_t node);
/* Returns the node of a GPU. 0: there is no such GPU, or this process may not open it. */
uint32_t emu_node_of(int gpu);

#endif
