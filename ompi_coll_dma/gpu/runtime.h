/*
 * One table of GPU runtime calls, in types of our own.
 *
 * The table is filled at run time from the vendor library that the application has loaded (libamdhip64 or libcuda). So
 * one binary serves nodes without a GPU, nodes with AMD GPUs and nodes with NVIDIA GPUs. No vendor header is needed:
 * hip/api.h and cuda/api.h declare what is used. Unit tests fill the same table with threads and host memory.
 *
 * Rules for all functions
 * - Outputs are valid only with DMA_OK. DMA_AGAIN: not finished yet. DMA_UNSUPPORTED: this runtime, device or memory
 *   cannot do it, and the caller tries another method. DMA_ERR_NOMEM and DMA_ERR_ENGINE are errors; dma_gpu_error
 *   returns which call failed and how.
 * - Addresses are 64-bit numbers, as the runtime's own calls take them. A host address is the address that the CPU uses.
 * - "Scope" means that the caller must be between `enter` and `leave` for the device concerned (the device of the stream,
 *   if there is one). `leave` restores the application's current device or context.
 * - While any thread captures a stream, runtimes refuse many calls and invalidate the capture, unless the calling
 *   thread has switched to the relaxed capture mode. `enter` switches to it, and `leave` switches back.
 * - Any thread may call. Streams and graphs are not locked here: the callers make sure that one thread at a time uses
 *   each.
 * - Nothing is initialized or loaded on the application's behalf, with one exception: `enter` activates the primary
 *   context of a device. So call it only for a device that a query has returned or that a parameter names. To release
 *   objects, call enter_to_release: the application may have reset the device, and may be about to end.
 * - A reset of a device by the application destroys the objects on it. From its detection on, the device is lost: no scope of it
 *   can be entered, and nobody releases the objects (gpu/reset.h).
 *
 * A pointer marked [may be NULL] is NULL if the runtime lacks the call. All other pointers are always set.
 */
#ifndef DMA_GPU_RUNTIME_H
#define DMA_GPU_RUNTIME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gpu/base.h"
#include "gpu/memory.h"
#include "gpu/shape.h"

/* Opaque handles. */
typedef struct dma_gpu_stream dma_gpu_stream_t;
typedef struct dma_gpu_event dma_gpu_event_t;
typedef struct dma_gpu_graph dma_gpu_graph_t;

#define DMA_GPU_HANDLE_BYTES 64        /* of hipIpcMemHandle_t and CUipcMemHandle */
#define DMA_GPU_MAX_PITCH    INT32_MAX /* bytes; the limit of 2D copies on all known CUDA devices */

typedef struct dma_gpu_handle {
    unsigned char bytes[DMA_GPU_HANDLE_BYTES];
} dma_gpu_handle_t;

/* A part of virtually mapped memory: one physical allocation, or the beginning of one, at one range of addresses. */
typedef struct dma_gpu_mapping {
    uint64_t base, size;
    uint64_t
        id; /* of the physical allocation: no other one of this process ever has it. 0: the runtime has no such id */
    int device;     /* that has the memory */
    bool shareable; /* a file descriptor can stand for the allocation */
} dma_gpu_mapping_t;

typedef struct dma_gpu_pci {
    uint32_t domain, bus, device, function;
    bool has_function; /* false: the runtime does not report the function, which is 0 then */
} dma_gpu_pci_t;

/* What `enter` has found and `leave` restores. */
typedef struct dma_gpu_scope {
    int previous; /* HIP: the device to restore, or -1 */
    void *pushed; /* CUDA: the context that was pushed on the caller's stack, or NULL */
    int capture;  /* the stream capture mode of the thread, or -1 */
} dma_gpu_scope_t;

typedef struct dma_gpu_runtime {
    const char *name; /* "hip" or "cuda" ("fake" in unit tests) */
    uint32_t version; /* in the runtime's own format: 50221153, 12080 */

    /* Devices. `device` is the ordinal that the application uses, after HIP_VISIBLE_DEVICES and similar variables. */
    dma_status_t (*device_count)(int *count); /* DMA_OK with 0: initialized, without a device */
    dma_status_t (*device_pci)(int device, dma_gpu_pci_t *pci);
    /* Do processes that use the device take turns, so that no two of them run at the same time? [may be NULL: no] */
    bool (*takes_turns)(int device);
    dma_status_t (*enter)(int device, dma_gpu_scope_t *scope);
    /* A scope in which objects on the device are queried and released, and nothing else. Detects resets. If the device has
     * no context any more, this fails, and all objects count as destroyed. */
    dma_status_t (*enter_to_release)(int device, dma_gpu_scope_t *scope);
    void (*leave)(dma_gpu_scope_t *scope);

    /*
     * Describes the memory at an address; no scope. Fills everything except `exportable` and `reason`. `reason` may be
     * set if the runtime reports more than the kind. Returns DMA_OK with DMA_GPU_HOST for memory that the runtime does
     * not know, and also if the runtime was never initialized, has no context or has been shut down. Use
     * dma_gpu_classify.
     */
    dma_status_t (*query)(uint64_t addr, dma_gpu_memory_t *memory);

    /*
     * A call is about to use device memory of the application, which a query has described; no scope [may be NULL]. From
     * now on the application's synchronous copies from and to this allocation are complete when they return. Those that
     * have returned before are complete when this returns. Does nothing where the runtime refuses that, and costs one
     * comparison for memory that the thread has used lately.
     */
    void (*adopt)(const dma_gpu_memory_t *memory);

    /*
     * Has a reset of the device by the application been detected [may be NULL: none can be detected]? A reset destroys memory,
     * imports and streams; with CUDA also events and registrations. It is detected when a query finds memory that the thread has
     * not seen before, and in enter_to_release. So it is detected before a call uses new
     * memory, but not by a call that still uses the old. From then on both kinds of scopes fail.
     */
    bool (*is_lost)(int device);

    /*
     * IPC; scope. A handle stands for a whole allocation: `ipc_export` takes the base that dma_gpu_classify has found
     * exportable, `ipc_open` returns the address of that base on the device in scope. A process cannot open its own
     * handle. Opening is expensive (50 us to 38 ms on an H200), so callers cache it. Closing needs the scope in which the
     * handle was opened, and all copies from and to the memory must have ended. DMA_AGAIN: the runtime still holds the
     * memory, it stays open, close it again later. If the runtime refuses a call, the result is DMA_UNSUPPORTED.
     */
    dma_status_t (*ipc_export)(uint64_t base, dma_gpu_handle_t *handle);
    dma_status_t (*ipc_open)(const dma_gpu_handle_t *handle, uint64_t *base);
    dma_status_t (*ipc_close)(uint64_t base);
    /* Does the driver have device memory at this address, whether an allocation of the application is there or not? No scope.
     * [may be NULL: what is exported and freed is never kept] */
    bool (*holds)(uint64_t addr);

    /*
     * Virtually mapped memory, shared by file descriptors [all five may be NULL]. Scope, except for `mapping`. docs and users
     * of gpu/mapped.h see what they are for.
     *
     * `mapping` describes what is mapped at an address; DMA_UNSUPPORTED: nothing, or no memory of this kind. `map_export`
     * opens a file descriptor of the allocation at an address. `reserve` reserves addresses, in which `map_import` maps the
     * allocation of a file descriptor for the device in scope; the descriptor can be closed then. `unmap` gives it all back:
     * the reservation at `base`, and the n mappings that follow each other in it from its beginning.
     */
    dma_status_t (*mapping)(uint64_t addr, dma_gpu_mapping_t *mapping);
    dma_status_t (*map_export)(uint64_t addr, int *fd);
    dma_status_t (*reserve)(uint64_t bytes, uint64_t *base);
    dma_status_t (*map_import)(uint64_t addr, uint64_t bytes, int fd);
    dma_status_t (*unmap)(uint64_t base, uint64_t bytes, const uint64_t *sizes, size_t n);

    /* Memory; scope. No copy may access a range that is freed or unregistered. Both calls may wait for all work that is
     * in progress. Where they would wait for a stream of the application (dma_gpu_begin_blocking), `free` puts off what it has to do,
     * and host_unregister returns DMA_AGAIN: the memory is still registered, and must stay mapped. */
    dma_status_t (*host_register)(void *addr, uint64_t bytes, uint64_t *device_addr);
    dma_status_t (*host_unregister)(void *addr);
    dma_status_t (*alloc)(uint64_t bytes, uint64_t *addr); /* plain device memory */
    dma_status_t (*free)(uint64_t addr);

    /*
     * Copies; scope. Any direction: the runtime finds it from the addresses. Host memory may be pageable, but then the
     * call may block. `copy` is complete when it returns. It uses a private stream and is not ordered after any other
     * work. The other copies are ordered by their stream. copy2d moves `height` rows of `width` bytes, which are
     * `*_pitch` bytes apart; CUDA refuses a pitch above DMA_GPU_MAX_PITCH. copy_batch does not order its copies among
     * each other; none of them has 0 bytes.
     */
    dma_status_t (*copy)(uint64_t dst, uint64_t src, uint64_t bytes);
    dma_status_t (*copy_async)(dma_gpu_stream_t *stream, uint64_t dst, uint64_t src, uint64_t bytes);
    dma_status_t (*copy2d_async)(dma_gpu_stream_t *stream, uint64_t dst, uint64_t dst_pitch, uint64_t src,
                                 uint64_t src_pitch, uint64_t width, uint64_t height);
    dma_status_t (*copy_batch)(dma_gpu_stream_t *stream, const uint64_t *dst, const uint64_t *src,
                               const uint64_t *bytes, size_t n);

    /*
     * Streams; scope. They do not synchronize with the default stream. stream_query returns DMA_AGAIN while work is left,
     * and an error if a reset has destroyed the stream. default_sync waits for the default stream of the device in scope.
     */
    dma_status_t (*stream_create)(dma_gpu_stream_t **stream);
    dma_status_t (*stream_destroy)(dma_gpu_stream_t *stream);
    dma_status_t (*stream_query)(dma_gpu_stream_t *stream);
    dma_status_t (*stream_sync)(dma_gpu_stream_t *stream);
    dma_status_t (*default_sync)(void);

    /*
     * Stream memory operations; scope [may be NULL]. `write32` writes `value` to `addr`, a device address of registered or device
     * memory, after all earlier work on the stream is complete and visible. `write_and_wait32` does that for all words of `writes`,
     * then later work waits until each word of `waits`, in registered memory, is `value` or has gone past it, compared by signed
     * difference. One operation takes less time than several. DMA_UNSUPPORTED: nothing has been submitted.
     *
     * While a stream waits, some calls of the application do not return (cudaFree), and streams that share a hardware channel with
     * it do not move. So no stream of ours waits for a rank. A stream of the application may, and one of ours for it, if nothing that
     * another rank waits for is submitted later by a thread of ours.
     */
    dma_status_t (*write32)(dma_gpu_stream_t *stream, uint64_t addr, uint32_t value);
    dma_status_t (*write_and_wait32)(dma_gpu_stream_t *stream, const uint64_t *writes, size_t nwrites,
                                     const uint64_t *waits, size_t nwaits, uint32_t value);

    /*
     * Streams of the application [both may be NULL]. `stream_adopt` makes a handle of one, in the scope of a device. DMA_UNSUPPORTED:
     * the stream belongs to another device or context. `stream_forget` frees the handle, in any scope; the stream remains.
     */
    dma_status_t (*stream_adopt)(void *native, dma_gpu_stream_t **stream);
    void (*stream_forget)(dma_gpu_stream_t *stream);

    /* Events without timing; scope. event_query returns DMA_AGAIN until the event is reached, and DMA_OK for an event
     * that was never recorded. */
    dma_status_t (*event_create)(dma_gpu_event_t **event);
    dma_status_t (*event_destroy)(dma_gpu_event_t *event);
    dma_status_t (*event_record)(dma_gpu_event_t *event, dma_gpu_stream_t *stream);
    dma_status_t (*event_query)(dma_gpu_event_t *event);
    /* Later work of the stream waits for what the event was recorded behind last [may be NULL]. */
    dma_status_t (*stream_wait_event)(dma_gpu_stream_t *stream, dma_gpu_event_t *event);
    /*
     * Events with timing; scope. Either both are set or both are NULL [may be NULL]. For an event that event_create_timed has
     * made, the members above do the same. event_elapsed: nanoseconds between the last records of two such events of one
     * device, in the order of the arguments; less than 0 if `to` was reached first. DMA_AGAIN: one is not reached yet. The
     * runtime counts in steps of about 500 ns, and in a float of milliseconds.
     */
    dma_status_t (*event_create_timed)(dma_gpu_event_t **event);
    dma_status_t (*event_elapsed)(dma_gpu_event_t *from, dma_gpu_event_t *to, double *ns);

    /*
     * A copy as an instantiated graph of one node; it is cheaper to launch than a plain copy inside one device. Either
     * all four are set or all are NULL [may be NULL]. Scope: the device of both addresses. graph_update changes the
     * addresses and the size; no launch of the graph may be in progress then.
     */
    dma_status_t (*graph_create)(uint64_t dst, uint64_t src, uint64_t bytes, dma_gpu_graph_t **graph);
    dma_status_t (*graph_update)(dma_gpu_graph_t *graph, uint64_t dst, uint64_t src, uint64_t bytes);
    dma_status_t (*graph_launch)(dma_gpu_graph_t *graph, dma_gpu_stream_t *stream);
    void (*graph_destroy)(dma_gpu_graph_t *graph);
} dma_gpu_runtime_t;

/*
 * Returns the table of the runtime that the application has loaded, or NULL. Costs about 12 ns: libraries are searched
 * only when the count of libraries ever loaded has changed. A runtime that lacks a required call counts as absent, and
 * dma_gpu_error names the call. Thread-safe; loads nothing.
 */
const dma_gpu_runtime_t *dma_gpu_runtime_loaded(void);

/* Has the application reset the device, as far as that is known? */
static inline bool dma_gpu_is_lost(const dma_gpu_runtime_t *rt, int device)
{
    return rt->is_lost && rt->is_lost(device);
}

/* Copies a rectangle in stream order; scope. Uses copy2d if copy2d can describe the rectangle, otherwise one copy for
 * each row: rows may be any distance apart, also backwards (a pitch of 2^64 - n). */
dma_status_t dma_gpu_copy_rect(const dma_gpu_runtime_t *rt, dma_gpu_stream_t *stream, const dma_rect_t *rect);

#endif
