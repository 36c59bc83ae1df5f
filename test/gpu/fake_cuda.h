/* Shared by the files of the library that replaces libcuda. */
#ifndef DMA_TEST_GPU_FAKE_CUDA_H
#define DMA_TEST_GPU_FAKE_CUDA_H

#include <pthread.h>

#include "fake_driver.h"
#include "gpu/cuda/api.h"

extern fake_driver_t fake_driver;

#define FAKE_CUDA_DEVICES 2

/* The rest of the function holds the lock, which a thread may take several times: for what two threads may call at once. */
#define FAKE_LOCKED __attribute__((cleanup(fake_unlock), unused)) int locked = fake_lock()
int fake_lock(void);
void fake_unlock(int *locked);

/* Can the thread's current context be used? The first is for calls that a capture allows, the second for all others,
 * which invalidate a capture unless the thread has set another capture mode. Both set the device of the context. */
cuda_error_t fake_current(int *device);
cuda_error_t fake_unsafe(int *device);

/* Resets of a device, and whether its context is active. What was made before the last reset does not exist any more. */
unsigned fake_resets(int device);
bool fake_is_active(int device);

/* The late copies of the application arrive here. */
void fake_copies_arrive(void);

/* Memory that the library itself has allocated, beside the range of fake_driver_t. */
typedef struct fake_memory {
    uint64_t base, size, id;
    int device;
} fake_memory_t;
bool fake_find_memory(uint64_t addr, fake_memory_t *memory);

/* What is mapped at an address, and the reservation around it, whose id is that of the buffer. */
typedef struct fake_mapping {
    uint64_t base, size, id;
    uint64_t range, range_size, range_id;
    unsigned types;
    int device;
} fake_mapping_t;
bool fake_find_mapping(uint64_t addr, fake_mapping_t *mapping);
/* After a reset, the library gives the addresses out again if the test wants so. */
void fake_forget_addresses(int device);

#define FAKE_DECLARE(name, symbol, required, ...) cuda_error_t symbol(__VA_ARGS__);
CUDA_CALLS(FAKE_DECLARE)
CUDA_OLD_CALLS(FAKE_DECLARE)

#endif
