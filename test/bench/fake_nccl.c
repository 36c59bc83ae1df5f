/*
 * Replaces NCCL on the emulated node, where no kernel runs. Its collectives are those of MPI, carried out at once instead of
 * on the stream. It has only what every version of NCCL has, so modes that need more are left out.
 *
 *   DMA_FAKE_NCCL=wrong   the all-gather loses the last byte
 */
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

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

static MPI_Comm world = MPI_COMM_NULL;
static MPI_Request requests[128];
static int nrequests;

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

    (void)type, (void)stream;
    MPI_Comm_rank(*(MPI_Comm *)comm, &rank);
    if (send == (char *)recv + (size_t)rank * count) {
        send = MPI_IN_PLACE;
    }
    return PMPI_Allgather(send, bytes, MPI_BYTE, recv, bytes, MPI_BYTE, *(MPI_Comm *)comm);
}

int ncclGroupStart(void)
{
    nrequests = 0;
    return 0;
}

int ncclGroupEnd(void)
{
    return MPI_Waitall(nrequests, requests, MPI_STATUSES_IGNORE);
}

int ncclSend(const void *send, size_t count, int type, int to, void *comm, void *stream)
{
    (void)type, (void)stream;
    return MPI_Isend(send, (int)count, MPI_BYTE, to, 0, *(MPI_Comm *)comm, &requests[nrequests++]);
}

int ncclRecv(void *recv, size_t count, int type, int from, void *comm, void *stream)
{
    (void)type, (void)stream;
    return MPI_Irecv(recv, (int)count, MPI_BYTE, from, 0, *(MPI_Comm *)comm, &requests[nrequests++]);
}

const char *ncclGetErrorString(int result)
{
    return result ? "wrong" : "right";
}
