/*
 * The vendors' libraries for unit tests: those of test/gpu/fake_*.c. These functions replace an application that loads
 * one of them.
 */
#ifndef DMA_TEST_LIBVENDOR_H
#define DMA_TEST_LIBVENDOR_H

#include "../gpu/fake_driver.h"
#include "gpu/runtime.h"

/* Loads a library, and finds the driver in it that a test controls. `vendor_is_loading` is true meanwhile, for
 * tests that replace dlopen. */
extern _Thread_local bool vendor_is_loading;
void *vendor_load(const char *name, fake_driver_t **driver);
/* Loads a copy of it whose file has another name. */
void vendor_load_copy(const char *name, const char *copy);

/* Loads the libraries of a vendor, and finds the table that is made from them. */
const dma_gpu_runtime_t *vendor_cuda(fake_driver_t **driver);
const dma_gpu_runtime_t *vendor_hip(fake_driver_t **driver, int version);

/* The call of that name, as the application uses it. */
void *vendor_call(const char *library, const char *name);

#endif
