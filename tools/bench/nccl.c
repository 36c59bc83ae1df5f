/*
 * The collectives of NCCL and RCCL: see bench.h, and nccl_library.h for the library. The functions of CUDA or HIP for streams
 * and graphs are loaded at run time.
 *
 * Modes: each kind of buffers, launched on a stream, and as a graph. A mode that the library does not have is left out, with
 * a remark.
 */
#include <dlfcn.h>
#include <stdlib.h>

#include "tools/bench/bench.h"
#include "tools/bench/nccl_library.h"

enum { MODES = 2 * NCCL_KINDS, RELAXED = 2, NON_BLOCKING = 1 };

static const char *const names[MODES] = {"nccl",       "nccl-reg",       "nccl-sym",       "nccl-zero",
                                         "nccl-graph", "nccl-reg-graph", "nccl-sym-graph", "nccl-zero-graph"};

/* Name with CUDA, name with HIP. */
#define GPU_CALLS(X)                                                                                                   \
    X(stream_create, (void **, unsigned), "cuStreamCreate", "hipStreamCreateWithFlags")                                \
    X(stream_wait, (void *), "cuStreamSynchronize", "hipStreamSynchronize")                                            \
    X(capture_begin, (void *, int), "cuStreamBeginCapture_v2", "hipStreamBeginCapture")                                \
    X(capture_end, (void *, void **), "cuStreamEndCapture", "hipStreamEndCapture")                                     \
    X(instantiate, (void **, void *, unsigned long long), "cuGraphInstantiateWithFlags",                               \
      "hipGraphInstantiateWithFlags")                                                                                  \
    X(launch, (void *, void *), "cuGraphLaunch", "hipGraphLaunch")                                                     \
    X(graph_free, (void *), "cuGraphDestroy", "hipGraphDestroy")                                                       \
    X(exec_free, (void *), "cuGraphExecDestroy", "hipGraphExecDestroy")

static struct {
    struct {
#define MEMBER(name, parameters, cuda, hip) int(*name) parameters;
        GPU_CALLS(MEMBER)
#undef MEMBER
    } gpu;
    int rank;
    void *stream, *exec; /* of the last capture */
    nccl_pair_t pairs[NCCL_KINDS];
    bool opened[NCCL_KINDS];
} nccl;

static const char *load_gpu(void)
{
    static const char *const cuda[] = {
#define NAME(name, parameters, in_cuda, in_hip) in_cuda,
        GPU_CALLS(NAME)
#undef NAME
    };
    static const char *const hip[] = {
#define NAME(name, parameters, in_cuda, in_hip) in_hip,
        GPU_CALLS(NAME)
#undef NAME
    };
    void **const places[] = {
#define PLACE(name, parameters, in_cuda, in_hip) (void **)&nccl.gpu.name,
        GPU_CALLS(PLACE)
#undef PLACE
    };
    bool is_cuda = dlsym(RTLD_DEFAULT, "cuInit") != NULL;

    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        *places[i] = dlsym(RTLD_DEFAULT, is_cuda ? cuda[i] : hip[i]);
    }
    return nccl.gpu.stream_create && nccl.gpu.stream_wait ? NULL : "the GPU's runtime has no streams";
}

static bool has_graphs(void)
{
    return nccl.gpu.capture_begin && nccl.gpu.capture_end && nccl.gpu.instantiate && nccl.gpu.launch &&
           nccl.gpu.graph_free && nccl.gpu.exec_free;
}

const char *nccl_open(const bench_t *b)
{
    const char *why = nccl_library_load(b->o.nccl);

    why = why ? why : load_gpu();
    if (why || !nccl_library_well(nccl.gpu.stream_create(&nccl.stream, NON_BLOCKING), "a stream")) {
        return why ? why : nccl_library_why();
    }
    nccl.rank = b->rank;
    nccl.pairs[NCCL_PLAIN] = (nccl_pair_t){.send = b->send, .recv = b->recv};
    for (int kind = 0; kind < NCCL_KINDS; kind++) {
        nccl.opened[kind] = nccl_library_open(kind, &nccl.pairs[kind], b->send_room, b->recv_room);
        if (!nccl.opened[kind]) {
            bench_remark(b, "%s is left out: %s", names[kind], nccl_library_why());
        }
    }
    return nccl.opened[NCCL_PLAIN] ? NULL : nccl_library_why();
}

int nccl_modes(void)
{
    return MODES;
}

const char *nccl_mode_name(int mode)
{
    return names[mode];
}

bool nccl_mode_opened(int mode)
{
    return nccl.opened[mode % NCCL_KINDS] && (mode < NCCL_KINDS || has_graphs());
}

/* ---- calls ---- */

static int enqueue(int mode, const bench_call_t *call)
{
    void *comm = nccl.pairs[mode % NCCL_KINDS].comm;
    size_t bytes = (size_t)call->count;
    bool in_place = call->send == MPI_IN_PLACE;

    if (call->op->to_each) {
        return nccl_library_exchange(call->send, call->recv, bytes, comm, nccl.stream);
    }
    return nccl_library_gather(in_place ? (const char *)call->recv + (size_t)nccl.rank * bytes : call->send, call->recv,
                               bytes, comm, nccl.stream);
}

static bool capture(int mode, const bench_call_t *call)
{
    void *graph;

    if (nccl.exec) {
        (void)nccl.gpu.exec_free(nccl.exec);
        nccl.exec = NULL;
    }
    return nccl_library_well(nccl.gpu.capture_begin(nccl.stream, RELAXED), "the begin of a capture") &&
           nccl_library_good(enqueue(mode, call), names[mode]) &&
           nccl_library_well(nccl.gpu.capture_end(nccl.stream, &graph), "the capture") &&
           nccl_library_well(nccl.gpu.instantiate(&nccl.exec, graph, 0), "a graph") &&
           nccl_library_well(nccl.gpu.graph_free(graph), "a graph");
}

bool nccl_prepare(int mode, bench_call_t *call)
{
    bool right;

    call->send = call->send == MPI_IN_PLACE ? MPI_IN_PLACE : nccl.pairs[mode % NCCL_KINDS].send;
    call->recv = nccl.pairs[mode % NCCL_KINDS].recv;
    /* Once in any case: what NCCL sets up in the first call must not be captured. */
    right = nccl_library_good(enqueue(mode, call), names[mode]) &&
            nccl_library_well(nccl.gpu.stream_wait(nccl.stream), "the stream") &&
            (mode < NCCL_KINDS || capture(mode, call));
    if (!right) {
        fprintf(stderr, "coll_dma_bench: %s: %s\n", names[mode], nccl_library_why());
    }
    return right;
}

void nccl_run(int mode, const bench_call_t *call)
{
    bool right = mode < NCCL_KINDS
                     ? nccl_library_good(enqueue(mode, call), names[mode])
                     : nccl_library_well(nccl.gpu.launch(nccl.exec, nccl.stream), "the launch of a graph");

    if (!right) {
        bench_stop("%s: %s", names[mode], nccl_library_why());
    }
}

void nccl_wait(int mode)
{
    if (!nccl_library_well(nccl.gpu.stream_wait(nccl.stream), "the stream")) {
        bench_stop("%s: %s", names[mode], nccl_library_why());
    }
}
