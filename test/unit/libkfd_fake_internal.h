/* What the two halves of the machine of libkfd_fake.h share. */
#ifndef DMA_TEST_LIBKFD_FAKE_INTERNAL_H
#define DMA_TEST_LIBKFD_FAKE_INTERNAL_H

#include "libkfd_fake.h"

extern fake_options_t fake_options;

/* Guards everything: ranks are threads, and so is what moves the engines. It may be taken again by who has it. */
void fake_lock(void);
void fake_unlock(void);

/* Engines. `left`: a queue that has not ended is dropped on purpose. */
void fake_engines_begin(void);
void fake_engines_start(void);
void fake_engines_stop(void);
void fake_engines_end(void);
emu_sdma_queue_t *fake_engine_queue(int gpu, unsigned engine, bool link, const emu_sdma_ring_t *ring);
void fake_engine_drop(emu_sdma_queue_t *queue, bool left);
/* Memory objects of the kernel that the GPU may use; and the pointers of late queues. */
bool fake_ring_mapped(uint64_t at, uint64_t bytes);
void fake_late_pass(void);

/* Counts a call. True: this call must fail, and errno is set. */
bool fake_fails(void);

/* ROCr's memory. */
void fake_memory_begin(void);
void fake_memory_end(void);
void fake_memory_sweep(void);
/* Bytes that the GPU may use; whether a mapping has exactly these bytes. */
bool fake_memory_mapped(uint64_t at, uint64_t bytes);
bool fake_memory_exact(uint64_t at, uint64_t bytes);

/* A call of the kernel: 0 or an errno. And the doorbell whose offset it has returned. */
int fake_kernel(unsigned long request, void *argument);
uint64_t *fake_doorbell(uint64_t offset);

/* Of the kernel: whether a queue uses memory that begins there. */
bool fake_memory_in_use(uint64_t at);

#endif
