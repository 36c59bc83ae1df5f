/*
 * Shared by the files of the library that replaces libcuda.so.1 in jobs.
 *
 *     fake_cuda.c          what tests ask and tell it; versions, devices, contexts
 *     fake_cuda_memory.c   device memory, its addresses, page-locked memory of the host, IPC
 *     fake_cuda_query.c    answers about addresses; synchronous copies
 *     fake_cuda_stream.c   streams and what they carry out
 *     fake_cuda_work.c     copies, writes, waits, functions, events
 *     fake_cuda_kernel.c   kernels
 *     fake_cuda_graph.c    graphs of one copy
 *
 * There are two locks. The driver lock is held by calls that put work into streams, and by calls that free memory, which keep
 * it while they wait for streams. The lock of memory guards the lists of memory. Who holds both has taken the driver lock first.
 */
#ifndef DMA_TEST_MPIX_FAKE_CUDA_H
#define DMA_TEST_MPIX_FAKE_CUDA_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gpu/cuda/api.h"

struct CUfunc_st;

enum {
    FAKE_DEVICES = 4,
    FAKE_INVALID = 1,
    FAKE_BAD_HANDLE = 400,
    FAKE_REGISTERED = 712,
    FAKE_NOT_REGISTERED = 713,
    FAKE_ALREADY_MAPPED = 208,
    FAKE_FAULT = 700,
    FAKE_MAPPED = 3, /* the flags portable and mapped */
};

/* ---- fake_cuda.c ---- */

typedef struct CUctx_st {
    int device;
    unsigned held;
} fake_context_t;

/* What tests have asked for, and what has happened. */
typedef struct fake_state {
    int refused;     /* 1: memory operations of streams; 2: mapped host memory */
    long writes;     /* words that streams have written */
    bool unordered;  /* streams do not wait for events */
    int connections; /* that streams share; 0: each has one of its own */
} fake_state_t;
extern fake_state_t fake_state;

/* Can the calling thread make this call? *device: that of its context. */
cuda_error_t fake_enter(int *device);
bool fake_is_initialized(void);
void fake_lock_driver(void);
void fake_unlock_driver(void);
/* A line on stderr about a call that CUDA would refuse, or not survive; returns the error. */
cuda_error_t fake_complain(cuda_error_t error, const char *call, const char *what, uint64_t addr);
/* Random numbers of the calling thread, below `below`. */
unsigned fake_random(unsigned below);
/* Lets others run, now and then for long. */
void fake_dawdle(void);
uint64_t fake_nanoseconds(void);

/* ---- fake_cuda_memory.c ---- */

typedef enum fake_kind { FAKE_ALLOCATED, FAKE_IMPORTED, FAKE_PINNED, FAKE_HOST_REGISTERED } fake_kind_t;

/* An allocation, or a piece of host memory that devices can use. */
typedef struct fake_range {
    struct fake_range *next;
    fake_kind_t kind;
    uint64_t base, size, id;
    int device;
    unsigned opened;          /* how often, if it is imported */
    bool waits;               /* SYNC_MEMOPS */
    struct fake_block *block; /* where it is, unless in host memory */
} fake_range_t;

/* A copy of the range around an address. False: there is none. */
bool fake_find(uint64_t addr, fake_range_t *range);
bool fake_set_waits(uint64_t addr);
/* Is the address one of devices, of live memory or not? */
bool fake_is_device_address(uint64_t addr);
/* May a stream read and write these bytes? Host memory may be pageable. */
bool fake_may_copy(uint64_t addr, size_t bytes);
/* May a stream write or wait for the word? */
bool fake_may_signal(uint64_t addr);
/* Frees all memory of a device, and what is pinned or registered for it. */
void fake_free_all(int device);

/* ---- fake_cuda_stream.c ---- */

typedef struct fake_piece {
    uint64_t to, from;
    size_t bytes;
} fake_piece_t;

typedef struct fake_work {
    struct fake_work *next;
    void (*run)(struct fake_work *work);
    struct CUstream_st *stream;
    void (*function)(void *arg);
    void *arg;
    uint64_t value;
    unsigned flags;
    size_t n;
    fake_piece_t pieces[];
} fake_work_t;

/* Never freed, so that calls with a stream that was destroyed are noticed. Counts are of works. */
typedef struct CUstream_st {
    struct CUstream_st *next;
    struct fake_connection *connection;
    struct CUctx_st *context;
    unsigned flags;
    uint64_t submitted, completed;
    int synchronizations;
    bool broken, destroyed;
} fake_stream_t;

/* Work with room for n pieces. */
fake_work_t *fake_work_make(void (*run)(fake_work_t *work), size_t n);
/* Puts work into a stream, which frees it. NULL: the default stream of the current context. */
cuda_error_t fake_submit(fake_stream_t *stream, fake_work_t *work, const char *call);
/* A stream begins and ends to wait for a value. */
void fake_waiting(const fake_stream_t *stream, int change);
bool fake_stops_waiting(const fake_stream_t *stream);
/* With the driver lock: waits until all work of the device is done; until no stream of the device waits for a value. */
void fake_wait_until_idle(int device);
void fake_wait_for_waiting(int device);
cuda_error_t fake_check_stream(const fake_stream_t *stream, const char *call);

/* ---- calls that the component does not make ---- */

#define FAKE_MORE_CALLS(X)                                                                                             \
    X(cuInit, unsigned flags)                                                                                          \
    X(cuDeviceGetName, char *name, int bytes, cuda_device_t device)                                                    \
    X(cuDeviceCanAccessPeer, int *can, cuda_device_t device, cuda_device_t peer)                                       \
    X(cuCtxSetCurrent, struct CUctx_st *context)                                                                       \
    X(cuCtxSynchronize, void)                                                                                          \
    X(cuDevicePrimaryCtxReset_v2, cuda_device_t device)                                                                \
    X(cuCtxEnablePeerAccess, struct CUctx_st *peer, unsigned flags)                                                    \
    X(cuPointerGetAttribute, void *data, cuda_enum_t attribute, cuda_addr_t ptr)                                       \
    X(cuMemGetInfo_v2, size_t *available, size_t *total)                                                               \
    X(cuMemHostAlloc, void **memory, size_t bytes, unsigned flags)                                                     \
    X(cuMemFreeHost, void *memory)                                                                                     \
    X(cuMemcpy, cuda_addr_t to, cuda_addr_t from, size_t bytes)                                                        \
    X(cuMemcpyHtoD_v2, cuda_addr_t to, const void *from, size_t bytes)                                                 \
    X(cuMemcpyDtoH_v2, void *to, cuda_addr_t from, size_t bytes)                                                       \
    X(cuMemcpyDtoD_v2, cuda_addr_t to, cuda_addr_t from, size_t bytes)                                                 \
    X(cuMemsetD8_v2, cuda_addr_t to, unsigned char value, size_t bytes)                                                \
    X(cuStreamGetFlags, struct CUstream_st *stream, unsigned *flags)                                                   \
    X(cuStreamWaitValue32_v2, struct CUstream_st *stream, cuda_addr_t word, uint32_t value, unsigned flags)            \
    X(cuEventSynchronize, struct CUevent_st *event)                                                                    \
    X(cuLaunchKernel, struct CUfunc_st *kernel, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,   \
      unsigned block_y, unsigned block_z, unsigned shared, struct CUstream_st *stream, void **arguments, void **extra) \
    X(cuLaunchHostFunc, struct CUstream_st *stream, void (*function)(void *arg), void *arg)

#pragma GCC visibility push(default)
#define FAKE_DECLARE_ROW(name, symbol, required, ...) cuda_error_t symbol(__VA_ARGS__);
#define FAKE_DECLARE_MORE(symbol, ...)                cuda_error_t symbol(__VA_ARGS__);
CUDA_CALLS(FAKE_DECLARE_ROW)
FAKE_MORE_CALLS(FAKE_DECLARE_MORE)

/* For tests. Where the processor can reach memory: an alias of device memory, or the host memory itself. */
void *fake_host_address(uint64_t addr);
/* Words that streams have written. */
long fake_writes(void);
/* Calls of cuStreamSynchronize for this stream. NULL: for all. */
int fake_synchronizations(const struct CUstream_st *stream);
void fake_break(struct CUstream_st *stream);
void fake_refuse(int refuse);
#pragma GCC visibility pop

#endif
