/*
 * One table of GPU runtime calls, in terms of our own.
 *
 * It is filled at run time from the vendor library that the application itself has loaded (libamdhip64 or libcuda), so
 * that one binary serves nodes without a GPU, with AMD's and with NVIDIA's. No vendor header is needed: hip_api.h and
 * cuda_api.h declare what we use of them. Unit tests fill the same table with threads and host memory.
 *
 * Rules for all functions
 * - Outputs are valid only with DMA_OK. DMA_AGAIN: not finished yet. DMA_UNSUPPORTED: this runtime, device or memory cannot
 *   do it: try the next way. DMA_ERR_NOMEM and DMA_ERR_ENGINE are errors; dma_gpu_error says which call failed and how.
 * - Addresses are 64-bit numbers: what the runtime's own calls take. A host address is what the CPU uses.
 * - "Scope": the caller must be between `enter` and `leave` of the device concerned (the stream's, where there is one).
 *   The application's current device or context is put back by `leave`.
 * - While any thread captures a stream, runtimes refuse much of what we call and spoil the capture, unless the calling thread
 *   has said that it is about something else. In scope it has.
 * - Any thread may call. Streams and graphs are not locked here: one thread at a time uses each.
 * - Nothing is ever initialised or loaded on the application's behalf, except that `enter` makes a device's primary
 *   context active: call it only for a device that a query has named, or that a parameter asks for.
 *
 * A pointer marked [may be NULL] is NULL where the runtime lacks the call. All others are always set.
 */
#ifndef DMA_GPU_RUNTIME_H
#define DMA_GPU_RUNTIME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dma/status.h"
#include "gpu/memory.h"
#include "gpu/shape.h"

/* Opaque: the runtime's own stream and event handles, and a graph of ours. */
typedef struct dma_gpu_stream dma_gpu_stream_t;
typedef struct dma_gpu_event dma_gpu_event_t;
typedef struct dma_gpu_graph dma_gpu_graph_t;

#define DMA_GPU_HANDLE_BYTES 64
#define DMA_GPU_MAX_PITCH    INT32_MAX

typedef struct dma_gpu_handle {
    unsigned char bytes[DMA_GPU_HANDLE_BYTES];
} dma_gpu_handle_t;

typedef struct dma_gpu_pci {
    uint32_t domain, bus, device, function;
    bool has_function; /* false: the runtime does not say it, function is 0 */
} dma_gpu_pci_t;

/* What `enter` found and `leave` puts back. */
typedef struct dma_gpu_scope {
    int previous; /* HIP: the device to go back to, or -1 */
    void *pushed; /* CUDA: the context on top of the caller's stack, or NULL */
    int capture;  /* the thread's mode of capturing streams, or -1 */
} dma_gpu_scope_t;

typedef struct dma_gpu_runtime {
    const char *name; /* "hip" or "cuda" ("fake" in unit tests) */
    uint32_t version; /* as the runtime counts: 50221153, 12080 */

    /* Devices. `device` counts as the application's calls do, after HIP_VISIBLE_DEVICES and the like. */
    dma_status_t (*device_count)(int *count); /* DMA_OK with 0: initialised, no device */
    dma_status_t (*device_pci)(int device, dma_gpu_pci_t *pci);
    dma_status_t (*enter)(int device, dma_gpu_scope_t *scope);
    void (*leave)(dma_gpu_scope_t *scope);

    /*
     * What an address is; no scope. Fills everything but exportable and reason; reason may be set where the runtime
     * knows more than the kind says. DMA_OK with DMA_GPU_HOST for memory it does not know, and when it was never
     * initialised, has no context or has been shut down. Use dma_gpu_classify.
     */
    dma_status_t (*query)(uint64_t addr, dma_gpu_memory_t *memory);

    /*
     * How often the application has reset the device, as far as has been seen: whoever has memory, streams or events in it
     * compares [may be NULL: none is ever seen]. What has gone with a reset may be given back as ever: nothing is done then.
     */
    unsigned (*resets)(int device);

    /*
     * IPC; scope. A handle stands for a whole allocation: `ipc_export` takes the base that dma_gpu_classify found
     * exportable, `ipc_open` returns where that base is here, on the device in scope. A process cannot open its own
     * handle. Opening is dear (50 us to 38 ms on an H200): cache. Closing needs the scope it was opened in, and that
     * copies from and to it have ended. DMA_AGAIN: the runtime still holds it, so it stays open; close it again later. A
     * refusal of the runtime is DMA_UNSUPPORTED.
     */
    dma_status_t (*ipc_export)(uint64_t base, dma_gpu_handle_t *handle);
    dma_status_t (*ipc_open)(const dma_gpu_handle_t *handle, uint64_t *base);
    dma_status_t (*ipc_close)(uint64_t base);

    /* Memory; scope. A freed or unregistered range must be quiet: both may wait for everything under way. */
    dma_status_t (*host_register)(void *addr, uint64_t bytes, uint64_t *device_addr);
    dma_status_t (*host_unregister)(void *addr);
    dma_status_t (*alloc)(uint64_t bytes, uint64_t *addr); /* plain device memory */
    dma_status_t (*free)(uint64_t addr);

    /*
     * Copies; scope. Any direction, found by the runtime from the addresses; host memory may be pageable, though then
     * the call may wait. `copy` is complete when it returns and orders itself after nothing: it uses a private stream.
     * The others are done in the stream's order. copy2d moves `height` rows of `width` bytes, `*_pitch` apart; CUDA
     * refuses more than DMA_GPU_MAX_PITCH.
     * copy_batch makes no promise about the order of its copies among each other; none is of 0 bytes.
     */
    dma_status_t (*copy)(uint64_t dst, uint64_t src, uint64_t bytes);
    dma_status_t (*copy_async)(dma_gpu_stream_t *stream, uint64_t dst, uint64_t src, uint64_t bytes);
    dma_status_t (*copy2d_async)(dma_gpu_stream_t *stream, uint64_t dst, uint64_t dst_pitch, uint64_t src,
                                 uint64_t src_pitch, uint64_t width, uint64_t height);
    dma_status_t (*copy_batch)(dma_gpu_stream_t *stream, const uint64_t *dst, const uint64_t *src,
                               const uint64_t *bytes, size_t n);

    /*
     * Streams; scope. They do not synchronise with the default stream. stream_query: DMA_AGAIN while work is left, and an
     * error if the application has reset the device, which takes streams, events and graphs along. On HIP so have all other
     * calls with the stream, once memory from after the reset has been asked for; in CUDA ask before the first submission.
     * default_sync waits for the default stream of the device in scope.
     */
    dma_status_t (*stream_create)(dma_gpu_stream_t **stream);
    dma_status_t (*stream_destroy)(dma_gpu_stream_t *stream);
    dma_status_t (*stream_query)(dma_gpu_stream_t *stream);
    dma_status_t (*stream_sync)(dma_gpu_stream_t *stream);
    dma_status_t (*default_sync)(void);

    /*
     * Stream memory operations; scope. Both [may be NULL]. `addr` is a device address of registered or device memory.
     * The write comes after everything before it on the stream is complete and visible. The wait ends when the word is
     * at least `value`: CUDA compares cyclically, HIP does not, so values stay below 2^31. Danger: while a wait is
     * pending, the application's cudaFree, device syncs and lazy loading of kernels may block behind it, and hardware
     * channels are shared among streams.
     */
    dma_status_t (*write32)(dma_gpu_stream_t *stream, uint64_t addr, uint32_t value);

    /* Events without timing; scope. event_query: DMA_AGAIN until reached, DMA_OK if never recorded. */
    dma_status_t (*event_create)(dma_gpu_event_t **event);
    dma_status_t (*event_destroy)(dma_gpu_event_t *event);
    dma_status_t (*event_record)(dma_gpu_event_t *event, dma_gpu_stream_t *stream);
    dma_status_t (*event_query)(dma_gpu_event_t *event);

    /*
     * A copy as an instantiated graph of one node: cheaper to launch than a plain copy inside one device. All four [may
     * be NULL], together; scope of the device that both addresses are on. graph_update takes other addresses and another
     * size; no launch of the graph may be under way then.
     */
    dma_status_t (*graph_create)(uint64_t dst, uint64_t src, uint64_t bytes, dma_gpu_graph_t **graph);
    dma_status_t (*graph_update)(dma_gpu_graph_t *graph, uint64_t dst, uint64_t src, uint64_t bytes);
    dma_status_t (*graph_launch)(dma_gpu_graph_t *graph, dma_gpu_stream_t *stream);
    void (*graph_destroy)(dma_gpu_graph_t *graph);

    /* Gives back what the table itself holds (contexts, private streams). Nothing of the table is in use any more. */
    void (*release)(void);
} dma_gpu_runtime_t;

/*
 * The table of the runtime that the application has loaded, or NULL. Costs about 12 ns: libraries are looked for only
 * when the number of those ever loaded has changed. A runtime that lacks a call we cannot do without counts as absent,
 * and dma_gpu_error says which. Thread-safe; loads nothing.
 */
const dma_gpu_runtime_t *dma_gpu_runtime_loaded(void);

/* In the stream's order; scope. By copy2d where it takes it, else row by row: rows may be any distance apart, backwards too
 * (a pitch of 2^64 - n). */
dma_status_t dma_gpu_copy_rect(const dma_gpu_runtime_t *rt, dma_gpu_stream_t *stream, const dma_rect_t *rect);

/* What the last call of this thread that failed was and how it failed; "" if none has. Valid until the next one. */
const char *dma_gpu_error(void);

#endif
