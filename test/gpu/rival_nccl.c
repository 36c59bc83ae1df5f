/*
 * NCCL's collectives for gpu_bench: plain buffers, registered ones, symmetric windows, and symmetric windows with copy
 * engines (zero-CTA), each launched on a stream and as a graph. Built where NCCL 2.28 or later and CUDA are:
 *
 *     nvcc -O2 -shared -Xcompiler -fPIC -I$NCCL/include rival_nccl.c -o librival.so $NCCL/lib/libnccl.so.2
 */
#include <cuda_runtime.h>
#include <nccl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plugin.h"

enum { PLAIN, REGISTERED, SYMMETRIC, ZERO_CTA, KINDS, MODES = 2 * KINDS };

static const char *const names[MODES] = {"nccl plain",   "nccl reg",   "nccl sym",   "nccl zero-cta",
                                         "nccl plain g", "nccl reg g", "nccl sym g", "nccl zero-cta g"};

static struct {
    int rank, n;
    size_t bytes;
    cudaStream_t stream;
    ncclComm_t comm[KINDS];
    char *send[KINDS], *recv[KINDS];
    void *handles[2];
    ncclWindow_t windows[KINDS][2];
    char why[256];
    /* of the last prepare */
    bool to_each, in_place;
    size_t block;
    cudaGraphExec_t graph;
} nccl;

static bool good(ncclResult_t result, const char *call)
{
    if (result != ncclSuccess) {
        snprintf(nccl.why, sizeof(nccl.why), "%s: %s", call, ncclGetErrorString(result));
    }
    return result == ncclSuccess;
}

static bool well(cudaError_t error, const char *call)
{
    if (error != cudaSuccess) {
        snprintf(nccl.why, sizeof(nccl.why), "%s: %s", call, cudaGetErrorString(error));
        (void)cudaGetLastError();
    }
    return error == cudaSuccess;
}

static const char *mode_name(int mode)
{
    return names[mode];
}

static bool mode_graph(int mode)
{
    return mode >= KINDS;
}

static bool make_comm(int kind, void (*bcast)(void *, size_t))
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclUniqueId id;

    if (nccl.rank == 0 && !good(ncclGetUniqueId(&id), "ncclGetUniqueId")) {
        return false;
    }
    bcast(&id, sizeof(id));
    if (kind == ZERO_CTA) {
        config.CTAPolicy = NCCL_CTA_POLICY_ZERO;
    }
    return good(ncclCommInitRankConfig(&nccl.comm[kind], nccl.n, id, nccl.rank, &config), "ncclCommInitRankConfig");
}

static bool make_buffers(int kind)
{
    if (kind == PLAIN) {
        return well(cudaMalloc((void **)&nccl.send[kind], nccl.bytes), "cudaMalloc") &&
               well(cudaMalloc((void **)&nccl.recv[kind], nccl.bytes), "cudaMalloc");
    }
    if (!good(ncclMemAlloc((void **)&nccl.send[kind], nccl.bytes), "ncclMemAlloc") ||
        !good(ncclMemAlloc((void **)&nccl.recv[kind], nccl.bytes), "ncclMemAlloc")) {
        return false;
    }
    if (kind == REGISTERED) {
        return good(ncclCommRegister(nccl.comm[kind], nccl.send[kind], nccl.bytes, &nccl.handles[0]), "register") &&
               good(ncclCommRegister(nccl.comm[kind], nccl.recv[kind], nccl.bytes, &nccl.handles[1]), "register");
    }
    return good(ncclCommWindowRegister(nccl.comm[kind], nccl.send[kind], nccl.bytes, &nccl.windows[kind][0],
                                       NCCL_WIN_COLL_SYMMETRIC),
                "ncclCommWindowRegister") &&
           good(ncclCommWindowRegister(nccl.comm[kind], nccl.recv[kind], nccl.bytes, &nccl.windows[kind][1],
                                       NCCL_WIN_COLL_SYMMETRIC),
                "ncclCommWindowRegister");
}

static const char *open_all(int rank, int n, int device, size_t bytes, void (*bcast)(void *, size_t))
{
    setenv("NCCL_NVLS_ENABLE", "0", 1); /* multicast: not on these machines */
    nccl.rank = rank;
    nccl.n = n;
    nccl.bytes = bytes;
    if (!well(cudaSetDeviceFlags(cudaDeviceScheduleSpin), "cudaSetDeviceFlags")) {
        nccl.why[0] = '\0'; /* the context is there already: as the application has made it */
    }
    if (!well(cudaSetDevice(device), "cudaSetDevice") ||
        !well(cudaStreamCreateWithFlags(&nccl.stream, cudaStreamNonBlocking), "cudaStreamCreate")) {
        return nccl.why;
    }
    for (int kind = 0; kind < KINDS; kind++) {
        if (!make_comm(kind, bcast) || !make_buffers(kind)) {
            return nccl.why;
        }
    }
    return NULL;
}

static void *send_of(int mode)
{
    return nccl.send[mode % KINDS];
}

static void *recv_of(int mode)
{
    return nccl.recv[mode % KINDS];
}

static ncclResult_t launch(int mode)
{
    int kind = mode % KINDS;
    char *send = nccl.send[kind], *recv = nccl.recv[kind];

    if (nccl.to_each) {
        return ncclAlltoAll(send, recv, nccl.block, ncclInt8, nccl.comm[kind], nccl.stream);
    }
    return ncclAllGather(nccl.in_place ? recv + (size_t)nccl.rank * nccl.block : send, recv, nccl.block, ncclInt8,
                         nccl.comm[kind], nccl.stream);
}

static bool prepare(int mode, bool to_each, bool in_place, size_t bytes)
{
    cudaGraph_t graph;

    if (to_each && in_place) {
        return false;
    }
    nccl.to_each = to_each;
    nccl.in_place = in_place;
    nccl.block = bytes / (size_t)nccl.n;
    if (nccl.graph) {
        (void)cudaGraphExecDestroy(nccl.graph);
        nccl.graph = NULL;
    }
    /* once in any case: what NCCL sets up at the first call is not to be captured */
    if (!good(launch(mode), "launch") || !well(cudaStreamSynchronize(nccl.stream), "cudaStreamSynchronize")) {
        fprintf(stderr, "%s: %s\n", names[mode], nccl.why);
        return false;
    }
    if (mode < KINDS) {
        return true;
    }
    if (!well(cudaStreamBeginCapture(nccl.stream, cudaStreamCaptureModeRelaxed), "capture") ||
        !good(launch(mode), "launch") || !well(cudaStreamEndCapture(nccl.stream, &graph), "capture") ||
        !well(cudaGraphInstantiate(&nccl.graph, graph, 0), "cudaGraphInstantiate")) {
        fprintf(stderr, "%s: %s\n", names[mode], nccl.why);
        return false;
    }
    (void)cudaGraphDestroy(graph);
    return well(cudaGraphUpload(nccl.graph, nccl.stream), "cudaGraphUpload") &&
           well(cudaStreamSynchronize(nccl.stream), "cudaStreamSynchronize");
}

static void run(int mode)
{
    bool right = mode < KINDS ? good(launch(mode), "launch") : well(cudaGraphLaunch(nccl.graph, nccl.stream), "launch");

    if (!right || !well(cudaStreamSynchronize(nccl.stream), "cudaStreamSynchronize")) {
        fprintf(stderr, "%s: %s\n", names[mode], nccl.why);
        abort();
    }
}

/* Communicators end with the process: ncclCommDestroy of those with windows has been seen not to return. */
static void close_all(void)
{
    (void)cudaStreamSynchronize(nccl.stream);
}

const rival_t *rival_get(void)
{
    static const rival_t rival = {.modes = MODES,
                                  .name = mode_name,
                                  .graph = mode_graph,
                                  .open = open_all,
                                  .send = send_of,
                                  .recv = recv_of,
                                  .prepare = prepare,
                                  .run = run,
                                  .close = close_all};

    return &rival;
}
