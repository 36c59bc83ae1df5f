/*
 * HIP for test programs: a few calls that are found at run time. So a test of host memory is built and runs without ROCm,
 * and a test of device memory is a program that loads HIP with dlopen. With DMA_TEST_GPU=cuda the same calls are CUDA's (cuda.c).
 *
 * hip_open() makes the table usable. Before, nothing of HIP is loaded. hip_must() ends the job with the name of the call
 * that failed, because these programs test collectives and not HIP.
 */
#ifndef TEST_DEVICE_HIP_H
#define TEST_DEVICE_HIP_H

#include <stdbool.h>
#include <stddef.h>

typedef struct hip_table {
    int (*hipGetDeviceCount)(int *count);
    int (*hipSetDevice)(int device);
    int (*hipMalloc)(void **ptr, size_t bytes);
    int (*hipFree)(void *ptr);
    int (*hipExtMallocWithFlags)(void **ptr, size_t bytes, unsigned flags);
    int (*hipMallocManaged)(void **ptr, size_t bytes, unsigned flags);
    int (*hipHostMalloc)(void **ptr, size_t bytes, unsigned flags);
    int (*hipHostFree)(void *ptr);
    int (*hipHostRegister)(void *ptr, size_t bytes, unsigned flags);
    int (*hipHostUnregister)(void *ptr);
    int (*hipMemcpy)(void *to, const void *from, size_t bytes, int kind);
    int (*hipDeviceSynchronize)(void);
    int (*hipDeviceReset)(void);
    const char *(*hipGetErrorString)(int error);
} hip_table_t;
extern hip_table_t hip;

enum { HIP_COPY_DEFAULT = 4, HIP_FINE_GRAINED = 1, HIP_ATTACH_GLOBAL = 1 };

/* Loads HIP and counts its devices. False, with a line on stderr, if there are none. */
bool hip_open(int *devices);
void hip_must(const char *call, int error);
/* Copies between any kinds of memory. The copy is complete when the function returns. */
void hip_copy(void *to, const void *from, size_t bytes);
void *hip_take(size_t bytes);

/* What our queues on the emulated node have done in this process so far: see test/emu/README.md. */
typedef struct hip_stats {
    long copies, broadcasts, swaps; /* packets that move data */
    long fences, doorbells, polls;
    long conditions; /* packets that skip others, or do not */
    long queues;     /* queues that have moved data or fenced */
    long to_peers;   /* bytes that they have written to other GPUs */
    long packets;    /* all packets except nops */
    long bytes;      /* that they have written */
    long to_host;    /* bytes that all queues have written to host memory, those of the runtime included */
} hip_stats_t;
/* False, with a line on stderr, if this is not the emulated node. */
bool hip_stats(hip_stats_t *stats);

#endif
