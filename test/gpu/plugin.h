/*
 * What gpu_bench loads at run time where it was built: rivals' collectives, and work for the compute units. Each is a
 * shared object of its own, because only they need a vendor's headers; a machine without them measures without them.
 */
#ifndef DMA_TEST_GPU_PLUGIN_H
#define DMA_TEST_GPU_PLUGIN_H

#include <stdbool.h>
#include <stddef.h>

/* librival.so. All ranks call all of it in the same order, but for run. */
typedef struct rival {
    int modes;
    const char *(*name)(int mode);
    bool (*graph)(int mode); /* launched as a graph: nothing else may change between two calls */
    /* bcast: from rank 0. NULL, or what is wrong. */
    const char *(*open)(int rank, int nranks, int device, size_t bytes, void (*bcast)(void *, size_t));
    void *(*send)(int mode); /* device memory of `bytes`, to be filled by the caller */
    void *(*recv)(int mode);
    /* The next runs of this mode; false: it cannot. `bytes` of the receive buffer. */
    bool (*prepare)(int mode, bool to_each, bool in_place, size_t bytes);
    void (*run)(int mode); /* complete when it returns */
    void (*close)(void);
} rival_t;
typedef const rival_t *(*rival_get_t)(void);
#define RIVAL_GET "rival_get"

/* libgemm.so: 8192 x 8192 x 8192 products of bf16, one after the other, in a thread of its own. */
typedef struct gemm {
    const char *(*open)(int device); /* NULL, or what is wrong */
    void (*run)(bool on);            /* off: returns when the last product has ended */
    long (*done)(void);              /* products so far */
    void (*close)(void);
} gemm_t;
typedef const gemm_t *(*gemm_get_t)(void);
#define GEMM_GET "gemm_get"

#endif
