/* Shared by the files of runtime_check. */
#ifndef DMA_TEST_GPU_RUNTIME_CHECK_H
#define DMA_TEST_GPU_RUNTIME_CHECK_H

#include "gpu/runtime.h"

/*
 * Prints one line: whether the condition is true, its subject, and a remark, whose arguments are read after the condition.
 * Counts failures, and returns the condition.
 */
#define check_line(good, ...) (check_condition(good), check_remark(__VA_ARGS__))
void check_condition(bool good);
bool check_remark(const char *what, const char *format, ...) __attribute__((format(printf, 2, 3)));
void check_skip(const char *what, const char *why);

/* A symbol of the vendor's library. NULL, with a line, if it has none. */
void *check_vendor(const char *name);

const char *check_kind_name(dma_gpu_kind_t kind);

/* The kinds of memory that the vendor's allocators can make here, as dma_gpu_classify reports them. */
void check_kinds(const dma_gpu_runtime_t *rt, int device);
/* The same from a thread that has never called the runtime. */
void check_kinds_of_thread(const dma_gpu_runtime_t *rt);

/* What the table answers and does after the application has reset its device. This must be the last check. */
void check_reset(const dma_gpu_runtime_t *rt, int device);

/* Exports memory to a second process, which reads and writes it. `self` is the program to run there. */
void check_ipc(const dma_gpu_runtime_t *rt, const char *self);
int check_ipc_child(const dma_gpu_runtime_t *rt);

#endif
