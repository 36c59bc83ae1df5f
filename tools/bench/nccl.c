/*
 * The collectives of NCCL and RCCL: see bench.h. The library is loaded at run time, and so are the functions of CUDA or HIP
 * for streams and graphs. The declarations here are those that all versions since 2.10 have, and the configuration of 2.27,
 * which later versions read.
 *
 * Modes: plain buffers, registered ones, symmetric windows, and symmetric windows with copy engines (zero-CTA); each
 * launched on a stream, and as a graph. A mode that the library does not have is left out, with a remark.
 */
#include <dlfcn.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "tools/bench/bench.h"

enum { PLAIN, REGISTERED, SYMMETRIC, ZERO_CTA, KINDS, MODES = 2 * KINDS };
enum { INT8 = 0, POLICY_ZERO = 2, WINDOW_SYMMETRIC = 1, RELAXED = 2, NON_BLOCKING = 1 };

static const char *const names[MODES] = {"nccl",       "nccl-reg",       "nccl-sym",       "nccl-zero",
                                         "nccl-graph", "nccl-reg-graph", "nccl-sym-graph", "nccl-zero-graph"};

typedef struct nccl_id {
    char internal[128];
} nccl_id_t;

typedef struct nccl_config {
    size_t size;
    unsigned magic, version;
    int blocking, cluster_size, min_ctas, max_ctas;
    const char *net_name;
    int split_share, traffic_class;
    const char *comm_name;
    int collnet, cta_policy, shrink_share, nvls_ctas;
} nccl_config_t;

/* Result, name, parameters. The first ones are required. */
#define NCCL_CALLS(X)                                                                                                  \
    X(int, GetUniqueId, (nccl_id_t *))                                                                                 \
    X(int, CommInitRank, (void **, int, nccl_id_t, int))                                                               \
    X(int, AllGather, (const void *, void *, size_t, int, void *, void *))                                             \
    X(int, GroupStart, (void))                                                                                         \
    X(int, GroupEnd, (void))                                                                                           \
    X(int, Send, (const void *, size_t, int, int, void *, void *))                                                     \
    X(int, Recv, (void *, size_t, int, int, void *, void *))                                                           \
    X(const char *, GetErrorString, (int))                                                                             \
    X(int, CommInitRankConfig, (void **, int, nccl_id_t, int, nccl_config_t *))                                        \
    X(int, MemAlloc, (void **, size_t))                                                                                \
    X(int, CommRegister, (void *, void *, size_t, void **))                                                            \
    X(int, CommWindowRegister, (void *, void *, size_t, void **, int))
enum { NEEDED = 8 };

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
#define MEMBER(result, name, parameters) result(*name) parameters;
        NCCL_CALLS(MEMBER)
#undef MEMBER
        int (*AllToAll)(const void *, void *, size_t, int, void *, void *);
    } call;
    struct {
#define MEMBER(name, parameters, cuda, hip) int(*name) parameters;
        GPU_CALLS(MEMBER)
#undef MEMBER
    } gpu;
    int rank, size;
    void *stream, *exec; /* of the last capture */
    void *comm[KINDS];
    char *send[KINDS], *recv[KINDS];
    bool opened[KINDS];
    char why[256];
} nccl;

static bool good(int result, const char *call)
{
    if (result) {
        snprintf(nccl.why, sizeof(nccl.why), "%s: %s", call,
                 nccl.call.GetErrorString ? nccl.call.GetErrorString(result) : "it has failed");
    }
    return result == 0;
}

static bool well(int error, const char *call)
{
    if (error) {
        snprintf(nccl.why, sizeof(nccl.why), "%s: error %d", call, error);
    }
    return error == 0;
}

/* ---- loading ---- */

static const char *load_nccl(const char *path)
{
    static const char *const symbols[] = {
#define NAME(result, name, parameters) "nccl" #name,
        NCCL_CALLS(NAME)
#undef NAME
    };
    void **const places[] = {
#define PLACE(result, name, parameters) (void **)&nccl.call.name,
        NCCL_CALLS(PLACE)
#undef PLACE
    };
    void *library = dlopen(path, RTLD_NOW | RTLD_GLOBAL), *each;

    if (!library) {
        return dlerror();
    }
    for (size_t i = 0; i < sizeof(symbols) / sizeof(symbols[0]); i++) {
        *places[i] = dlsym(library, symbols[i]);
        if (!*places[i] && i < NEEDED) {
            return "it lacks calls of NCCL";
        }
    }
    each = dlsym(library, "ncclAlltoAll");
    *(void **)&nccl.call.AllToAll = each ? each : dlsym(library, "ncclAllToAll"); /* NCCL's name, RCCL's */
    return NULL;
}

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

/* ---- communicators and buffers ---- */

static bool make_comm(int kind)
{
    /* a member that is not set has this value, or no name */
    nccl_config_t config = {sizeof(config), 0xcafebeef, 22700, INT_MIN, INT_MIN,     INT_MIN, INT_MIN, NULL,
                            INT_MIN,        INT_MIN,    NULL,  INT_MIN, POLICY_ZERO, INT_MIN, INT_MIN};
    nccl_id_t id;
    int right = nccl.rank != 0 || good(nccl.call.GetUniqueId(&id), "ncclGetUniqueId");

    MPI_Bcast(&right, 1, MPI_INT, 0, MPI_COMM_WORLD);
    MPI_Bcast(&id, sizeof(id), MPI_BYTE, 0, MPI_COMM_WORLD);
    if (!right) {
        return false;
    }
    if (kind == ZERO_CTA) {
        return good(nccl.call.CommInitRankConfig(&nccl.comm[kind], nccl.size, id, nccl.rank, &config),
                    "ncclCommInitRankConfig");
    }
    return good(nccl.call.CommInitRank(&nccl.comm[kind], nccl.size, id, nccl.rank), "ncclCommInitRank");
}

/* NULL, or the function that the library lacks. */
static const char *lacks(int kind)
{
    if (kind == PLAIN) {
        return NULL;
    }
    if (!nccl.call.MemAlloc) {
        return "ncclMemAlloc";
    }
    if (kind == REGISTERED) {
        return nccl.call.CommRegister ? NULL : "ncclCommRegister";
    }
    if (!nccl.call.CommWindowRegister) {
        return "ncclCommWindowRegister";
    }
    return nccl.call.CommInitRankConfig ? NULL : "ncclCommInitRankConfig";
}

static bool make_buffer(int kind, char **buffer, size_t bytes)
{
    void *handle;

    if (!good(nccl.call.MemAlloc((void **)buffer, bytes), "ncclMemAlloc")) {
        return false;
    }
    if (kind == REGISTERED) {
        return good(nccl.call.CommRegister(nccl.comm[kind], *buffer, bytes, &handle), "ncclCommRegister");
    }
    return good(nccl.call.CommWindowRegister(nccl.comm[kind], *buffer, bytes, &handle, WINDOW_SYMMETRIC),
                "ncclCommWindowRegister");
}

/* On all ranks, or on none. */
static bool open_kind(const bench_t *b, int kind)
{
    const char *missing = lacks(kind);
    int right;

    if (missing) {
        snprintf(nccl.why, sizeof(nccl.why), "there is no %s", missing);
        return false;
    }
    right = make_comm(kind);
    MPI_Allreduce(MPI_IN_PLACE, &right, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (!right) {
        return false;
    }
    if (kind == PLAIN) {
        nccl.send[kind] = b->send;
        nccl.recv[kind] = b->recv;
    } else {
        right = make_buffer(kind, &nccl.send[kind], b->send_room) && make_buffer(kind, &nccl.recv[kind], b->recv_room);
    }
    MPI_Allreduce(MPI_IN_PLACE, &right, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    return right;
}

const char *nccl_open(const bench_t *b)
{
    const char *why = load_nccl(b->o.nccl);

    why = why ? why : load_gpu();
    if (why || !well(nccl.gpu.stream_create(&nccl.stream, NON_BLOCKING), "a stream")) {
        return why ? why : nccl.why;
    }
    nccl.rank = b->rank;
    nccl.size = b->size;
    for (int kind = 0; kind < KINDS; kind++) {
        nccl.opened[kind] = open_kind(b, kind);
        if (!nccl.opened[kind]) {
            bench_remark(b, "%s is left out: %s", names[kind], nccl.why);
        }
    }
    return nccl.opened[PLAIN] ? NULL : nccl.why;
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
    return nccl.opened[mode % KINDS] && (mode < KINDS || has_graphs());
}

/* ---- calls ---- */

static int exchange(const bench_call_t *call, void *comm)
{
    int bytes = call->count, result = nccl.call.GroupStart();

    for (int r = 0; r < nccl.size && !result; r++) {
        size_t at = (size_t)r * (size_t)bytes;

        result = nccl.call.Send((const char *)call->send + at, (size_t)bytes, INT8, r, comm, nccl.stream);
        result = result ? result : nccl.call.Recv((char *)call->recv + at, (size_t)bytes, INT8, r, comm, nccl.stream);
    }
    return result ? result : nccl.call.GroupEnd();
}

static int enqueue(int mode, const bench_call_t *call)
{
    void *comm = nccl.comm[mode % KINDS];
    size_t bytes = (size_t)call->count;
    bool in_place = call->send == MPI_IN_PLACE;

    if (call->op->to_each) {
        return nccl.call.AllToAll ? nccl.call.AllToAll(call->send, call->recv, bytes, INT8, comm, nccl.stream)
                                  : exchange(call, comm);
    }
    return nccl.call.AllGather(in_place ? (const char *)call->recv + (size_t)nccl.rank * bytes : call->send, call->recv,
                               bytes, INT8, comm, nccl.stream);
}

static bool capture(int mode, const bench_call_t *call)
{
    void *graph;

    if (nccl.exec) {
        (void)nccl.gpu.exec_free(nccl.exec);
        nccl.exec = NULL;
    }
    return well(nccl.gpu.capture_begin(nccl.stream, RELAXED), "the begin of a capture") &&
           good(enqueue(mode, call), names[mode]) && well(nccl.gpu.capture_end(nccl.stream, &graph), "the capture") &&
           well(nccl.gpu.instantiate(&nccl.exec, graph, 0), "a graph") && well(nccl.gpu.graph_free(graph), "a graph");
}

bool nccl_prepare(int mode, bench_call_t *call)
{
    bool right;

    call->send = call->send == MPI_IN_PLACE ? MPI_IN_PLACE : nccl.send[mode % KINDS];
    call->recv = nccl.recv[mode % KINDS];
    /* Once in any case: what NCCL sets up in the first call must not be captured. */
    right = good(enqueue(mode, call), names[mode]) && well(nccl.gpu.stream_wait(nccl.stream), "the stream") &&
            (mode < KINDS || capture(mode, call));
    if (!right) {
        fprintf(stderr, "coll_dma_bench: %s: %s\n", names[mode], nccl.why);
    }
    return right;
}

void nccl_run(int mode, const bench_call_t *call)
{
    bool right = mode < KINDS ? good(enqueue(mode, call), names[mode])
                              : well(nccl.gpu.launch(nccl.exec, nccl.stream), "the launch of a graph");

    if (!right) {
        bench_stop("%s: %s", names[mode], nccl.why);
    }
}

void nccl_wait(int mode)
{
    if (!well(nccl.gpu.stream_wait(nccl.stream), "the stream")) {
        bench_stop("%s: %s", names[mode], nccl.why);
    }
}
