/*
 * A GPU runtime that is made of threads and host memory. With it, what is built on the table of gpu/runtime.h is tested
 * without a GPU.
 *
 * Each device is a thread. It carries out the work of its streams, each in order, in a random interleaving and after
 * random delays; the copies of one batch are done in any order. Device memory is a memfd. An IPC handle, when it is
 * opened again, gives another address of the same bytes. Memory that was freed or closed is unmapped, so that its use
 * faults. Like CUDA, a device does not open memory at an address where it still has freed memory of the same owner
 * open.
 *
 * It is strict where real runtimes are forgiving or crash. These mistakes abort the program with a line that names
 * them: a call outside of a scope, a handle for memory that is not plain, a copy that leaves its allocation or touches
 * freed device memory, a stream that is destroyed while it waits.
 */
#ifndef DMA_TEST_LIBGPU_FAKE_H
#define DMA_TEST_LIBGPU_FAKE_H

#include "gpu/runtime.h"

typedef struct fake_gpu_options {
    int devices;      /* 1 ... FAKE_GPU_MAX_DEVICES */
    uint64_t seed;    /* of the interleavings and delays */
    unsigned late_us; /* the most microseconds before each piece of work; 0: no delay */
} fake_gpu_options_t;

#define FAKE_GPU_MAX_DEVICES 8

/* One at a time. A test may set entries of the table to NULL. Stopping checks that nothing is left behind. */
dma_gpu_runtime_t *fake_gpu_start(const fake_gpu_options_t *options);
void fake_gpu_stop(void);
/* The same, except that host memory may still be registered and memory of others open: for queues that have not ended. */
void fake_gpu_may_stay(void);

/* Memory of any kind except DMA_GPU_HOST, on a device. Host kinds are on the node. */
void *fake_gpu_alloc(dma_gpu_kind_t kind, int device, uint64_t bytes);
void fake_gpu_free(void *addr);
/* From byte `bytes` on, a multiple of the page size, it is another allocation, which has to be freed, too. */
void fake_gpu_split(void *addr, uint64_t bytes);
/* The next allocation of this thread gets the address of this one if it is not larger. */
void fake_gpu_free_for_next(void *addr);
/* Virtually mapped memory: parts of `part` bytes side by side, at least `bytes` bytes in all. Each part is an
 * allocation of its own. The runtime describes all of them as one buffer, whose id does not change. `shareable`:
 * file descriptors can stand for the parts. */
void *fake_gpu_map(int device, uint64_t bytes, uint64_t part, bool shareable);
/* The owner unmaps part i, and maps a new allocation there. */
void fake_gpu_remap(void *addr, unsigned i);
/* The owner unmaps all parts. */
void fake_gpu_unmap(void *addr);

/* The table's `alloc` gives at most `bytes` bytes of a device at once; beyond that it fails with DMA_ERR_NOMEM. */
void fake_gpu_room(int device, uint64_t bytes);
/* The most bytes that it has given at once, and the bytes that it has given and not got back. */
uint64_t fake_gpu_most(int device);
uint64_t fake_gpu_given(int device);
/* The same for registered host memory, of all devices. */
uint64_t fake_gpu_pinned_most(void);
uint64_t fake_gpu_pinned(void);
/* Bytes that are still open although their owner has freed them, counted once for each place where they are open. */
uint64_t fake_gpu_kept(void);

/* A copy of the application that has returned. Its bytes arrive late, but not after fake_gpu_arrive. */
void fake_gpu_copy_late(void *to, const void *from, uint64_t bytes);
void fake_gpu_arrive(void);

/* Sets byte i of `written` to 1 when a copy of the runtime writes byte i of [addr, addr + bytes), at this address.
 * NULL ends it. */
#define FAKE_GPU_WATCHES 8
void fake_gpu_watch(const void *addr, uint64_t bytes, uint8_t *written);

/* `function` is a member of the table. How often it was called; lets one call fail with `status`, after `skip` others; lets
 * `times` calls fail. */
unsigned fake_gpu_calls(const char *function);
void fake_gpu_fail(const char *function, unsigned skip, dma_status_t status);
void fake_gpu_fail_often(const char *function, unsigned skip, unsigned times, dma_status_t status);

/* Work that stops the stream until the word at `addr` is at least `value`. Needs a scope. */
dma_status_t fake_gpu_wait32(dma_gpu_stream_t *stream, uint64_t addr, uint32_t value);

/* While a device is held, no work of it begins: its streams are late for as long as the test wants. */
void fake_gpu_hold(int device, bool hold);

/* The streams of a device fall asleep: the next work of each of them is late by this time. */
void fake_gpu_sleep(int device, unsigned us);

/* The clock of all devices moves forward by `ns` at once. */
void fake_gpu_pass(double ns);

/* From now on this thread only releases: a scope that would activate a device is a misuse. */
void fake_gpu_ending(void);

/* The application resets the device: its streams are lost, and only scopes to release objects can be entered. Memory is not lost. */
void fake_gpu_reset(int device);

/* As after a reset of the device, or at the end of the driver: all queries answer "host", and all other calls fail. */
void fake_gpu_shut_down(void);

#endif
