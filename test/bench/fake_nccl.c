/*
 * Replaces NCCL where no kernel runs: on the emulated node, and with the library that stands in for CUDA. Its collectives are
 * those of MPI, carried out at once instead of on the stream. It has only what every version of NCCL has, so modes that need
 * more are left out.
 *
 *   DMA_FAKE_NCCL=wrong    the all-gather loses the last byte
 *   DMA_FAKE_NCCL=hang     no call returns
 *   DMA_FAKE_NCCL=stream   carried out in the order of the stream, by cuLaunchHostFunc, where MPI may be called by several threads
 *
 * A function in a stream of CUDA must not call CUDA. So MPI gets the memory of the fake CUDA as memory of the host.
 */
#include <dlfcn.h>
#include <mpi.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct id {
    char internal[128];
} nccl_id_t;

int ncclGetUniqueId(nccl_id_t *id);
int ncclCommInitRank(void **comm, int size, nccl_id_t id, int rank);
int ncclAllGather(const void *send, void *recv, size_t count, int type, void *comm, void *stream);
int ncclGroupStart(void);
int ncclGroupEnd(void);
int ncclSend(const void *send, size_t count, int type, int to, void *comm, void *stream);
int ncclRecv(void *recv, size_t count, int type, int from, void *comm, void *stream);
const char *ncclGetErrorString(int result);

enum { MOST = 128 };

/* An all-gather, or a group of messages. */
typedef struct call {
    const void *send[MOST];
    void *recv[MOST];
    int bytes[MOST], peer[MOST], n; /* n 0: the all-gather */
} call_t;

static MPI_Comm world = MPI_COMM_NULL;
static call_t group;
static void *group_stream;

/* Where the processor reaches the memory. */
static void *place(const void *memory)
{
    void *(*host_address)(unsigned long addr);

    *(void **)&host_address = dlsym(RTLD_DEFAULT, "fake_host_address");
    return memory && memory != MPI_IN_PLACE && host_address ? host_address((unsigned long)memory) : (void *)memory;
}

static void carry_out(void *arg)
{
    call_t *c = arg;
    MPI_Request requests[MOST];

    if (!c->n) {
        PMPI_Allgather(place(c->send[0]), c->bytes[0], MPI_BYTE, place(c->recv[0]), c->bytes[0], MPI_BYTE, world);
    }
    for (int i = 0; i < c->n; i++) {
        if (c->send[i]) {
            MPI_Isend(place(c->send[i]), c->bytes[i], MPI_BYTE, c->peer[i], 0, world, &requests[i]);
        } else {
            MPI_Irecv(place(c->recv[i]), c->bytes[i], MPI_BYTE, c->peer[i], 0, world, &requests[i]);
        }
    }
    MPI_Waitall(c->n, requests, MPI_STATUSES_IGNORE);
    free(c);
}

static int put(const call_t *what, void *stream)
{
    const char *mode = getenv("DMA_FAKE_NCCL");
    int (*launch)(void *stream, void (*function)(void *arg), void *arg);
    call_t *c = malloc(sizeof(*c));

    while (mode && !strcmp(mode, "hang")) {
        pause();
    }
    *c = *what;
    if (!mode || strcmp(mode, "stream")) {
        carry_out(c);
        return 0;
    }
    *(void **)&launch = dlsym(RTLD_DEFAULT, "cuLaunchHostFunc");
    return launch ? launch(stream, carry_out, c) : 1;
}

int ncclGetUniqueId(nccl_id_t *id)
{
    memset(id, 7, sizeof(*id));
    return 0;
}

/* All ranks must have received the number that rank 0 has made. */
int ncclCommInitRank(void **comm, int size, nccl_id_t id, int rank)
{
    int ranks, own;

    MPI_Comm_dup(MPI_COMM_WORLD, &world);
    MPI_Comm_size(world, &ranks);
    MPI_Comm_rank(world, &own);
    *comm = &world;
    return !(ranks == size && own == rank && id.internal[127] == 7);
}

int ncclAllGather(const void *send, void *recv, size_t count, int type, void *comm, void *stream)
{
    const char *mode = getenv("DMA_FAKE_NCCL");
    int rank, bytes = (int)count - (mode && !strcmp(mode, "wrong"));

    (void)type;
    MPI_Comm_rank(*(MPI_Comm *)comm, &rank);
    if (send == (char *)recv + (size_t)rank * count) {
        send = MPI_IN_PLACE;
    }
    return put(&(call_t){.send = {send}, .recv = {recv}, .bytes = {bytes}}, stream);
}

int ncclGroupStart(void)
{
    group.n = 0;
    return 0;
}

int ncclGroupEnd(void)
{
    return group.n ? put(&group, group_stream) : 0;
}

static int add(const void *send, void *recv, size_t count, int peer, void *stream)
{
    group.send[group.n] = send;
    group.recv[group.n] = recv;
    group.bytes[group.n] = (int)count;
    group.peer[group.n++] = peer;
    group_stream = stream;
    return 0;
}

int ncclSend(const void *send, size_t count, int type, int to, void *comm, void *stream)
{
    (void)type, (void)comm;
    return add(send, NULL, count, to, stream);
}

int ncclRecv(void *recv, size_t count, int type, int from, void *comm, void *stream)
{
    (void)type, (void)comm;
    return add(NULL, recv, count, from, stream);
}

const char *ncclGetErrorString(int result)
{
    return result ? "wrong" : "right";
}
