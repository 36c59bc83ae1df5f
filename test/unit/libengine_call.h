/*
 * Calls on memory of any kind, for ranks that are threads: the arguments of all operations, and the contents of
 * the receive buffer that must result, byte by byte, gaps included. It also makes jobs in which each rank has a device.
 * The GPU runtime and the engine of these jobs are made of threads.
 *
 * What rank s sends to rank d in call `tag` is a function of these three numbers (data_byte). So are the sizes.
 * Therefore a rank can check what it has received without knowing anything about the others. The arguments do not
 * change from one use to the next, so a call can be repeated or made persistent, with other data.
 */
#ifndef DMA_TEST_LIBENGINE_CALL_H
#define DMA_TEST_LIBENGINE_CALL_H

#include "libengine.h"
#include "libgpu_fake.h"
#include "libthreads.h"

typedef enum call_place {
    PLACE_HOST,
    PLACE_DEVICE,
    PLACE_FINE, /* device memory of which the runtime makes no handle */
    PLACE_AWAY, /* on another device than that of the rank */
    PLACES,
    /* random tests do not draw these: */
    PLACE_MAPPED, /* virtually mapped, in several parts */
    PLACE_PINNED, /* host memory of the runtime */
    PLACE_MANAGED
} call_place_t;

typedef struct call_spec {
    dma_coll_t coll;
    bool in_place;
    bool vector;     /* a derived datatype: on this rank's receive side (always in place), or on both */
    uint64_t sizes;  /* selects the sizes of the blocks; all ranks use the same value */
    size_t elements; /* in a block; where blocks differ, in the largest */
    call_place_t send, recv;
} call_spec_t;

/* Contiguous blocks in device memory. */
static inline call_spec_t call_spec_on_device(int coll, bool in_place, size_t elements)
{
    return (call_spec_t){.coll = (dma_coll_t)coll,
                         .in_place = in_place,
                         .sizes = elements,
                         .elements = elements,
                         .send = PLACE_DEVICE,
                         .recv = PLACE_DEVICE};
}

typedef struct call_buffer {
    char *base; /* of the allocation */
    char *at;   /* where the side begins */
    size_t bytes;
    call_place_t place;
} call_buffer_t;

typedef struct call {
    call_spec_t spec;
    dma_call_t call;
    vector_type_t type;
    call_buffer_t send, recv;
    int send_counts[16], send_displs[16], recv_counts[16], recv_displs[16];
    uint64_t tag;
} call_t;

/* How many calls of the communicator an engine has carried out. */
uint32_t call_runs(const dma_comm_t *comm);

/* A rank's arguments. The rank owns the memory until call_free. */
call_t *call_make(rank_t *r, const call_spec_t *spec);
void call_free(call_t *c);
/* New memory to receive into. `same` address: another allocation at the old address. */
void call_move(rank_t *r, call_t *c, bool same);
/* Writes the data before a use, and checks them after it. */
void call_fill(rank_t *r, call_t *c, uint64_t tag);
void call_verify(rank_t *r, call_t *c);
/* The whole of a blocking call. */
void call_run(rank_t *r, dma_comm_t *comm, call_t *c, uint64_t tag);
/* A blocking call whose result is not checked. */
dma_status_t call_try(rank_t *r, dma_comm_t *comm, call_t *c, uint64_t tag);

/* From now on, the streams of the runtime in new jobs are late by at most this time. */
void call_streams_late(unsigned us);
/* A job in which rank i has device i. The engine has the features of `options`, or all features. */
job_t call_job(int n, void (*body)(rank_t *r), const engine_options_t *options);
/* The same without an engine. Each rank has counters of its own. */
job_t call_job_without_engine(int n, void (*body)(rank_t *r), const void *arg);
/* A counter of this rank's process. */
uint64_t call_counted(const rank_t *r, int which);
/* Runs the job, and checks that nothing is left behind. */
void call_run_job(job_t *job);

/* Does a stream of this rank's device still have work? */
bool call_stream_moves(const rank_t *r, const dma_gpu_runtime_t *rt, void *stream);

#endif
