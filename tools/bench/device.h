/*
 * The GPU of a test program. The program behaves like an application that has loaded and initialised HIP or CUDA and works
 * in memory of one device. It uses our own table of runtime calls, so that one program runs on either.
 */
#ifndef DMA_BENCH_DEVICE_H
#define DMA_BENCH_DEVICE_H

#include <stdbool.h>
#include <stddef.h>

/* Loads the runtime, "cuda" or "hip", or for NULL whichever is installed, and takes device `index` modulo their number.
 * Returns NULL, or why it cannot. From then on the calling thread is an application's: the device stays its current one. */
const char *device_open(const char *runtime, int index);

/* For any thread. Calls that cannot fail in a healthy program end it if they fail. */
void *device_alloc(size_t bytes);
void device_free(void *addr);
void device_copy(void *to, const void *from, size_t bytes); /* in any direction; complete when it returns */

typedef struct device_pci {
    unsigned domain, bus, device;
} device_pci_t;

bool device_is_cuda(void);

/* The device that device_open has taken, in the numbering of the runtime, and its PCI address. */
int device_index(void);
device_pci_t device_pci(void);

#endif
