/*
 * Work for the compute units beside the measured calls: a shared object that coll_dma_bench --load opens. It is separate
 * because only it needs a vendor's headers.
 */
#ifndef DMA_BENCH_LOAD_H
#define DMA_BENCH_LOAD_H

#include <stdbool.h>

/* All products are equal. They are made one after the other, in a thread of its own. */
typedef struct load {
    const char *(*open)(int device); /* NULL, or what is wrong */
    void (*run)(bool on);            /* off: returns when the last product has ended */
    long (*done)(void);              /* products so far */
    void (*close)(void);
} load_t;
typedef const load_t *(*load_get_t)(void);
#define LOAD_GET "load_get"

#endif
