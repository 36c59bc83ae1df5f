/*
 * A test program's GPU: it stands in for an application that has loaded and initialised HIP or CUDA and works in memory
 * of one device. Over our own table of runtime calls, so that one program runs on either.
 */
#ifndef DMA_BENCH_DEVICE_H
#define DMA_BENCH_DEVICE_H

#include <stddef.h>

/* Loads the runtime, "cuda" or "hip", or whichever is there for NULL, and takes device `index` modulo their number. NULL,
 * or why it cannot. The calling thread is an application's from then on: the device stays its current one. */
const char *device_open(const char *runtime, int index);

/* Any thread's. What cannot fail in a healthy program ends it. */
void *device_alloc(size_t bytes);
void device_free(void *addr);
void device_copy(void *to, const void *from, size_t bytes); /* any direction; complete when it returns */

typedef struct device_pci {
    unsigned domain, bus, device;
} device_pci_t;

/* Which one device_open has taken, as the runtime counts, and where it is. */
int device_index(void);
device_pci_t device_pci(void);

#endif
