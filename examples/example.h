/*
 * Shared by the examples: memory on the host or, with --device, on a GPU, the line with which each example ends, and the name
 * of the persistent all-gather in Open MPI 4.1.
 *
 * One program works on AMD and NVIDIA GPUs, and is built without their headers: it opens their libraries at run time. A
 * program that is written for one vendor calls hipMalloc or cudaMalloc instead. Nothing else changes.
 */
#ifndef EXAMPLE_H
#define EXAMPLE_H

#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <mpi-ext.h> /* needs mpi.h before it */
#ifdef OMPI_HAVE_MPI_EXT_PCOLLREQ
#define MPI_Allgather_init MPIX_Allgather_init
#endif

/* The functions of HIP or of CUDA's driver that are used. NULL without --device. */
static struct {
    int (*alloc)(void **address, size_t bytes);
    int (*release)(void *address);
    int (*copy_hip)(void *to, const void *from, size_t bytes, int kind);
    int (*copy_cuda)(void *to, const void *from, size_t bytes);
    int (*wait)(void);
} device;

static int rank, ranks;

/* Ends all ranks if `wrong` is true. */
static void fail_if(int wrong, const char *what)
{
    if (wrong) {
        fprintf(stderr, "rank %d: %s: %d\n", rank, what, wrong);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
}

/* A function of a GPU library. */
static void *call_of(void *library, const char *name)
{
    void *call = dlsym(library, name);

    fail_if(!call, name);
    return call;
}

static int open_cuda(int index)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL), *context;
    int count = 0;

    if (!library || ((int (*)(unsigned))call_of(library, "cuInit"))(0)) {
        return 0;
    }
    ((int (*)(int *))call_of(library, "cuDeviceGetCount"))(&count);
    fail_if(!count, "CUDA sees no GPU");
    /* Devices are numbered, and the numbers serve as their handles. */
    fail_if(((int (*)(void **, int))call_of(library, "cuDevicePrimaryCtxRetain"))(&context, index % count), "context");
    fail_if(((int (*)(void *))call_of(library, "cuCtxSetCurrent"))(context), "cuCtxSetCurrent");
    *(void **)&device.alloc = call_of(library, "cuMemAlloc_v2");
    *(void **)&device.release = call_of(library, "cuMemFree_v2");
    *(void **)&device.copy_cuda = call_of(library, "cuMemcpy");
    *(void **)&device.wait = call_of(library, "cuCtxSynchronize");
    return 1;
}

static int open_hip(int index)
{
    static const char *const names[] = {"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5", "libamdhip64.so"};
    void *library = NULL;
    int count = 0;

    for (int i = 0; i < 4 && !library; i++) {
        library = dlopen(names[i], RTLD_NOW | RTLD_GLOBAL);
    }
    if (!library || ((int (*)(int *))call_of(library, "hipGetDeviceCount"))(&count) || !count) {
        return 0;
    }
    fail_if(((int (*)(int))call_of(library, "hipSetDevice"))(index % count), "hipSetDevice");
    *(void **)&device.alloc = call_of(library, "hipMalloc");
    *(void **)&device.release = call_of(library, "hipFree");
    *(void **)&device.copy_hip = call_of(library, "hipMemcpy");
    *(void **)&device.wait = call_of(library, "hipDeviceSynchronize");
    return 1;
}

/* The level of threads for MPI_Init_thread. An example may define a higher one before it includes this file. */
#ifndef EXAMPLE_THREADS
#define EXAMPLE_THREADS MPI_THREAD_SINGLE
#endif

/* MPI_Init, and with --device the GPU of this rank: the ranks of a node share its GPUs. */
static void example_begin(int argc, char **argv)
{
    MPI_Comm node;
    int index, given;

    MPI_Init_thread(&argc, &argv, EXAMPLE_THREADS, &given);
    fail_if(given < EXAMPLE_THREADS, "this MPI has no such support for threads");
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    MPI_Comm_rank(node, &index);
    MPI_Comm_free(&node);
    if (argc > 1 && !strcmp(argv[1], "--device")) {
        fail_if(!open_cuda(index) && !open_hip(index), "--device: there is no GPU that CUDA or HIP can use");
    } else {
        fail_if(argc > 1, "the only option is --device");
    }
}

/* Buffers for MPI: on the GPU with --device. */
static void *example_alloc(size_t bytes)
{
    void *address = NULL;

    if (device.alloc) {
        fail_if(device.alloc(&address, bytes ? bytes : 1), "no device memory");
    } else {
        address = malloc(bytes ? bytes : 1);
        fail_if(!address, "no memory");
    }
    return address;
}

static void example_free(void *address)
{
    if (device.release) {
        fail_if(device.release(address), "freeing device memory");
    } else {
        free(address);
    }
}

/* Copies to, from and between such buffers. The copy is complete when the function returns, so MPI may use the buffer. */
static void example_copy(void *to, const void *from, size_t bytes)
{
    if (!bytes || !device.alloc) {
        memcpy(to, from, bytes);
        return;
    }
    fail_if(device.copy_hip ? device.copy_hip(to, from, bytes, 4) : device.copy_cuda(to, from, bytes), "copy");
    fail_if(device.wait(), "copy");
}

/* The last line, and the exit status: whether any rank has found an error. Ends MPI. */
static int example_end(const char *what, long checked, long wrong)
{
    long sums[2] = {checked, wrong};

    MPI_Allreduce(MPI_IN_PLACE, sums, 2, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0) {
        printf("%s: %d ranks, %s memory, %ld values checked, %ld wrong\n", what, ranks,
               device.alloc ? "device" : "host", sums[0], sums[1]);
    }
    MPI_Finalize();
    return sums[1] || !sums[0];
}

#endif
