/* See nccl_library.h. */
#include "tools/bench/nccl_library.h"

#include <dlfcn.h>
#include <limits.h>
#include <mpi.h>
#include <stdio.h>

enum { INT8 = 0, POLICY_ZERO = 2, WINDOW_SYMMETRIC = 1 };

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

static struct {
#define MEMBER(result, name, parameters) result(*name) parameters;
    NCCL_CALLS(MEMBER)
#undef MEMBER
    int (*AllToAll)(const void *, void *, size_t, int, void *, void *);
    int rank, size;
    char why[256];
} nccl;

bool nccl_library_good(int result, const char *call)
{
    if (result) {
        snprintf(nccl.why, sizeof(nccl.why), "%s: %s", call,
                 nccl.GetErrorString ? nccl.GetErrorString(result) : "it has failed");
    }
    return result == 0;
}

bool nccl_library_well(int error, const char *call)
{
    if (error) {
        snprintf(nccl.why, sizeof(nccl.why), "%s: error %d", call, error);
    }
    return error == 0;
}

const char *nccl_library_why(void)
{
    return nccl.why;
}

const char *nccl_library_load(const char *path)
{
    static const char *const symbols[] = {
#define NAME(result, name, parameters) "nccl" #name,
        NCCL_CALLS(NAME)
#undef NAME
    };
    void **const places[] = {
#define PLACE(result, name, parameters) (void **)&nccl.name,
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
    *(void **)&nccl.AllToAll = each ? each : dlsym(library, "ncclAllToAll"); /* NCCL's name, RCCL's */
    MPI_Comm_rank(MPI_COMM_WORLD, &nccl.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &nccl.size);
    return NULL;
}

/* ---- communicators and buffers ---- */

static bool make_comm(int kind, void **comm)
{
    /* a member that is not set has this value, or no name */
    nccl_config_t config = {sizeof(config), 0xcafebeef, 22700, INT_MIN, INT_MIN,     INT_MIN, INT_MIN, NULL,
                            INT_MIN,        INT_MIN,    NULL,  INT_MIN, POLICY_ZERO, INT_MIN, INT_MIN};
    nccl_id_t id;
    int right = nccl.rank != 0 || nccl_library_good(nccl.GetUniqueId(&id), "ncclGetUniqueId");

    MPI_Bcast(&right, 1, MPI_INT, 0, MPI_COMM_WORLD);
    MPI_Bcast(&id, sizeof(id), MPI_BYTE, 0, MPI_COMM_WORLD);
    if (!right) {
        return false;
    }
    if (kind == NCCL_ZERO_CTA) {
        return nccl_library_good(nccl.CommInitRankConfig(comm, nccl.size, id, nccl.rank, &config),
                                 "ncclCommInitRankConfig");
    }
    return nccl_library_good(nccl.CommInitRank(comm, nccl.size, id, nccl.rank), "ncclCommInitRank");
}

/* NULL, or the function that the library lacks. */
static const char *lacks(int kind)
{
    if (kind == NCCL_PLAIN) {
        return NULL;
    }
    if (!nccl.MemAlloc) {
        return "ncclMemAlloc";
    }
    if (kind == NCCL_REGISTERED) {
        return nccl.CommRegister ? NULL : "ncclCommRegister";
    }
    if (!nccl.CommWindowRegister) {
        return "ncclCommWindowRegister";
    }
    return nccl.CommInitRankConfig ? NULL : "ncclCommInitRankConfig";
}

static bool make_buffer(int kind, void *comm, char **buffer, size_t bytes)
{
    void *handle;

    if (!nccl_library_good(nccl.MemAlloc((void **)buffer, bytes), "ncclMemAlloc")) {
        return false;
    }
    if (kind == NCCL_REGISTERED) {
        return nccl_library_good(nccl.CommRegister(comm, *buffer, bytes, &handle), "ncclCommRegister");
    }
    return nccl_library_good(nccl.CommWindowRegister(comm, *buffer, bytes, &handle, WINDOW_SYMMETRIC),
                             "ncclCommWindowRegister");
}

bool nccl_library_open(int kind, nccl_pair_t *pair, size_t send_room, size_t recv_room)
{
    const char *missing = lacks(kind);
    int right;

    if (missing) {
        snprintf(nccl.why, sizeof(nccl.why), "there is no %s", missing);
        return false;
    }
    right = make_comm(kind, &pair->comm);
    MPI_Allreduce(MPI_IN_PLACE, &right, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (!right) {
        return false;
    }
    if (kind != NCCL_PLAIN) {
        right = make_buffer(kind, pair->comm, &pair->send, send_room) &&
                make_buffer(kind, pair->comm, &pair->recv, recv_room);
    }
    MPI_Allreduce(MPI_IN_PLACE, &right, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    return right;
}

/* ---- calls ---- */

int nccl_library_gather(const void *send, void *recv, size_t bytes, void *comm, void *stream)
{
    return nccl.AllGather(send, recv, bytes, INT8, comm, stream);
}

int nccl_library_exchange(const void *send, void *recv, size_t bytes, void *comm, void *stream)
{
    int result;

    if (nccl.AllToAll) {
        return nccl.AllToAll(send, recv, bytes, INT8, comm, stream);
    }
    result = nccl.GroupStart();
    for (int r = 0; r < nccl.size && !result; r++) {
        size_t at = (size_t)r * bytes;

        result = nccl.Send((const char *)send + at, bytes, INT8, r, comm, stream);
        result = result ? result : nccl.Recv((char *)recv + at, bytes, INT8, r, comm, stream);
    }
    return result ? result : nccl.GroupEnd();
}

int nccl_library_exchange_v(const char *send, const int *send_counts, const int *send_at, char *recv,
                            const int *recv_counts, const int *recv_at, void *comm, void *stream)
{
    int result = nccl.GroupStart();

    for (int r = 0; r < nccl.size && !result; r++) {
        if (send_counts[r]) {
            result = nccl.Send(send + send_at[r], (size_t)send_counts[r], INT8, r, comm, stream);
        }
        if (recv_counts[r] && !result) {
            result = nccl.Recv(recv + recv_at[r], (size_t)recv_counts[r], INT8, r, comm, stream);
        }
    }
    return result ? result : nccl.GroupEnd();
}
