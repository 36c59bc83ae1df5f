/*
 * A GPU runtime made of threads and host memory, so that what is built over the table of gpu/runtime.h can be tested
 * without a GPU.
 *
 * Every device is a thread. It runs the work of its streams, each in order, in a random interleaving, and after random
 * delays; the copies of a batch in any order. Device memory is a memfd: an IPC handle opened again is another address of
 * the same bytes, and one that was freed or closed is gone, so that use after it faults. A device opens nothing that lies
 * where it has freed memory of the owner open, as CUDA does not.
 *
 * It is strict where the real ones are forgiving or crash: a call out of scope, a handle asked for memory that is not
 * plain, a copy that leaves its allocation or touches memory of a device that was freed, a stream destroyed with a wait
 * pending: the program aborts with a line that says so.
 */
#ifndef DMA_TEST_LIBGPU_FAKE_H
#define DMA_TEST_LIBGPU_FAKE_H

#include "gpu/runtime.h"

typedef struct fake_gpu_options {
    int devices;      /* 1 .. FAKE_GPU_MAX_DEVICES */
    uint64_t seed;    /* of the interleavings and delays */
    unsigned late_us; /* at most this long before each piece of work; 0: as fast as it can */
} fake_gpu_options_t;

#define FAKE_GPU_MAX_DEVICES 8

/* One at a time. Entries of the table may be set to NULL by the test. Stopping checks that nothing is left behind. */
dma_gpu_runtime_t *fake_gpu_start(const fake_gpu_options_t *options);
void fake_gpu_stop(void);
/* Host memory may still be registered then, and memory of others open: for queues that have not come to their ends. */
void fake_gpu_may_stay(void);

/* Memory of any kind but DMA_GPU_HOST, on a device (host kinds: of the node). */
void *fake_gpu_alloc(dma_gpu_kind_t kind, int device, uint64_t bytes);
void fake_gpu_free(void *addr);
/* The next allocation of this thread, no larger, gets its address. */
void fake_gpu_free_for_next(void *addr);
/* Virtually mapped memory: parts of `part` bytes side by side, at least `bytes` bytes of them, each an allocation of its own.
 * The runtime describes all of it as one buffer, whose id stays. `shareable`: file descriptors can stand for the parts. */
void *fake_gpu_map(int device, uint64_t bytes, uint64_t part, bool shareable);
/* The owner unmaps part i, and maps a new allocation there. */
void fake_gpu_remap(void *addr, unsigned i);
/* It unmaps all. */
void fake_gpu_unmap(void *addr);

/* What the table's `alloc` gives to a device: at most `bytes` bytes at once, before it fails with DMA_ERR_NOMEM. */
void fake_gpu_room(int device, uint64_t bytes);
/* The most that it has given at once; and what it has given and not got back. */
uint64_t fake_gpu_most(int device);
uint64_t fake_gpu_given(int device);
/* The same of host memory that is registered, whichever device has registered it. */
uint64_t fake_gpu_pinned_most(void);
uint64_t fake_gpu_pinned(void);
/* Bytes that are open somewhere, in as many places as they are, though their owner has freed them. */
uint64_t fake_gpu_kept(void);

/* A copy of the application, which has returned: its bytes come late, at the latest with fake_gpu_arrive. */
void fake_gpu_copy_late(void *to, const void *from, uint64_t bytes);
void fake_gpu_arrive(void);

/* Byte i of `written` becomes 1 when a copy of the runtime writes byte i of [addr, addr + bytes), at this address. NULL: no
 * longer. */
#define FAKE_GPU_WATCHES 8
void fake_gpu_watch(const void *addr, uint64_t bytes, uint8_t *written);

/* `function` is a member of the table: how often it was called; that it fails once, or `times` times, with `status`, after
 * `skip` calls. */
unsigned fake_gpu_calls(const char *function);
void fake_gpu_fail(const char *function, unsigned skip, dma_status_t status);
void fake_gpu_fail_often(const char *function, unsigned skip, unsigned times, dma_status_t status);

/* Work that holds the stream up until the word at `addr` is at least `value`; scope. */
dma_status_t fake_gpu_wait32(dma_gpu_stream_t *stream, uint64_t addr, uint32_t value);

/* No work of this device is begun while it is held: streams are late for as long as the test likes. */
void fake_gpu_hold(int device, bool hold);

/* This thread only releases from now on: a scope that would activate a device is misuse. */
void fake_gpu_ending(void);

/* The application resets the device: its streams are lost. Memory stays. */
void fake_gpu_reset(int device);

/* As after a reset of the device or the end of the driver: all queries answer "host", all other calls fail. */
void fake_gpu_shut_down(void);

#endif
