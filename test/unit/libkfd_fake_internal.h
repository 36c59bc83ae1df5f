/* What the two halves of the machine of libkfd_fake.h share. */
#ifndef DMA_TEST_LIBKFD_FAKE_INTERNAL_H
#define DMA_TEST_LIBKFD_FAKE_INTERNAL_H

#include "libkfd_fake.h"

extern fake_options_t fake_options;

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
