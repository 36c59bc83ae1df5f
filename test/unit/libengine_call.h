/*
 * Calls on memory of any kind, for ranks that are threads: arguments of all four operations, with what must be in the
 * receive buffer afterwards, byte for byte, gaps included. And jobs whose ranks have a device each, of the runtime and the
 * engine that are made of threads.
 *
 * What rank s sends to rank d in call `tag` is a function of the three (data_byte), and so are the bytes: a rank needs to
 * know nothing of the others to check what it has got. Arguments stay what they are from one use to the next, so that a
 * call can be repeated, or made persistent, with other data.
 */
#ifndef DMA_TEST_LIBENGINE_CALL_H
#define DMA_TEST_LIBENGINE_CALL_H

#include "libengine.h"
#include "libgpu_fake.h"
#include "libthreads.h"

typedef enum call_place {
    PLACE_HOST,
    PLACE_DEVICE,
    PLACE_FINE, /* device memory that has no handle */
    PLACE_AWAY, /* on another device than the rank's own */
    PLACES,
    /* not drawn by random tests: */
    PLACE_MAPPED, /* virtually mapped, in several parts */
    PLACE_PINNED, /* host memory of the runtime */
    PLACE_MANAGED
} call_place_t;

typedef struct call_spec {
    dma_coll_t coll;
    bool in_place;
    bool vector;     /* a derived datatype, on this rank's receive side (in place) or on both */
    uint64_t sizes;  /* which bytes: equal on all ranks, since they follow from it */
    size_t elements; /* of a block; at most, where blocks differ */
    call_place_t send, recv;
} call_spec_t;

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

/* How many calls of the communicator an engine has done. */
uint32_t call_runs(const dma_comm_t *comm);

/* A rank's arguments; the memory is the rank's until call_free. */
call_t *call_make(rank_t *r, const call_spec_t *spec);
void call_free(call_t *c);
/* New memory to receive in; `same` address: another allocation where the old one was. */
void call_move(rank_t *r, call_t *c, bool same);
/* The data of a use: before it, and behind it. */
void call_fill(rank_t *r, call_t *c, uint64_t tag);
void call_verify(rank_t *r, call_t *c);
/* All of it, blocking. */
void call_run(rank_t *r, dma_comm_t *comm, call_t *c, uint64_t tag);
/* Blocking, without looking at what comes out. */
dma_status_t call_try(rank_t *r, dma_comm_t *comm, call_t *c, uint64_t tag);

/* Streams of the runtime are late by at most so much, in jobs that are made from now on. */
void call_streams_late(unsigned us);
/* A job whose rank i has device i; the engine by `options`, or with everything that an engine may have. */
job_t call_job(int n, void (*body)(rank_t *r), const engine_options_t *options);
/* Runs it and looks that nothing is left behind. */
void call_run_job(job_t *job);

#endif
