/*
 * Breaks MPI_Allgather on purpose, to prove that the sweep notices. Preloaded: LD_PRELOAD=libbreak_shim.so with
 *
 *   DMA_BREAK=MODE[:RANK[:NTH]]   what, on which rank of the world (default 1), in its NTH suitable call (default 5)
 *   modes: data    flips a byte of the received data         before  writes a byte before the buffer
 *          gap     writes a byte in a gap of the type        after   writes a byte after the buffer
 *          send    writes beside the send buffer's data      lost    leaves out the last block
 *          order   swaps two blocks                          error   returns an error
 *          stolen  receives a message of the user            hang    does not return
 *          over    reads 8 bytes too many of the send buffer, in every call
 *          slow    takes 3 s longer; nothing is wrong
 *          none    changes nothing
 *
 *   DMA_BREAK_READ=RANK:NTH       from its NTH call on, process_vm_readv fails on that rank: no test may notice
 */
#include <errno.h>
#include <mpi.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

typedef struct {
    const void *send;
    int send_count;
    MPI_Datatype send_type;
    void *recv;
    int recv_count;
    MPI_Datatype recv_type;
    MPI_Comm comm;
    int size;
} call_t;

static char mode[16] = "none";
static int break_rank = 1, break_call = 5;

/* Sets the bytes of n elements that are data to 1, without a type map: unpacks ones over zeros. */
static unsigned char *data_map(MPI_Datatype type, int n, long *low, long *bytes)
{
    MPI_Aint lb, extent, true_lb, true_extent;
    int size, position = 0;
    MPI_Type_get_extent(type, &lb, &extent);
    MPI_Type_get_true_extent(type, &true_lb, &true_extent);
    MPI_Type_size(type, &size);
    *low = true_lb;
    *bytes = extent * (n - 1) + true_extent;
    unsigned char *map = calloc((size_t)*bytes, 1), *ones = malloc((size_t)size * (size_t)n);
    memset(ones, 1, (size_t)size * (size_t)n);
    MPI_Unpack(ones, size * n, &position, map - true_lb, n, type, MPI_COMM_SELF);
    free(ones);
    return map;
}

/* Flips the last byte of the received data, or of its gaps. */
static int flip(const call_t *c, int want)
{
    long low, bytes, at;
    unsigned char *map = data_map(c->recv_type, c->recv_count * c->size, &low, &bytes);
    for (at = bytes - 1; at >= 0 && map[at] != want; at--) {
    }
    free(map);
    if (at < 0) {
        return 0;
    }
    ((unsigned char *)c->recv)[low + at] ^= 0x40;
    return 1;
}

static int touch(const void *buffer, int count, MPI_Datatype type, int after)
{
    long low, bytes;
    if (count == 0) {
        return 0;
    }
    free(data_map(type, count, &low, &bytes));
    ((unsigned char *)buffer)[after ? low + bytes : low - 1] ^= 0x40;
    return 1;
}

/* Removes the oldest message to this rank from the queue, as an internal receive with a user's tag would. */
static int steal(const call_t *c)
{
    int found = 0;
    MPI_Status status;
    MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, c->comm, &found, &status);
    if (found) {
        int bytes;
        MPI_Get_count(&status, MPI_BYTE, &bytes);
        char *sink = malloc((size_t)bytes + 1);
        MPI_Recv(sink, bytes, MPI_BYTE, status.MPI_SOURCE, status.MPI_TAG, c->comm, MPI_STATUS_IGNORE);
        free(sink);
    }
    return found;
}

/* In every call, because in most buffers it has no effect. */
static int read_over(const call_t *c)
{
    static volatile unsigned char sink;
    if (c->send != MPI_IN_PLACE && c->send_count > 0) {
        long low, bytes;
        free(data_map(c->send_type, c->send_count, &low, &bytes));
        sink = ((const unsigned char *)c->send)[low + bytes + 8];
    }
    (void)sink;
    return 0;
}

static int run(const call_t *c, void *recv)
{
    return PMPI_Allgather(c->send, c->send_count, c->send_type, recv, c->recv_count, c->recv_type, c->comm);
}

/* Runs the call with a copy of the receive buffer, and copies everything back except what the mode leaves out. */
static int run_and_copy(const call_t *c, int order)
{
    long low, bytes;
    MPI_Aint lb, extent;
    unsigned char *map = data_map(c->recv_type, c->recv_count * c->size, &low, &bytes);
    MPI_Type_get_extent(c->recv_type, &lb, &extent);
    unsigned char *copy = malloc((size_t)bytes), *block = (unsigned char *)c->recv + low;
    memcpy(copy, block, (size_t)bytes);
    int code = run(c, copy - low);
    long span = extent * c->recv_count;
    if (order) {
        MPI_Request request;
        for (int i = 0; i < c->size; i++) {
            int to = i < 2 ? 1 - i : i;
            MPI_Irecv((char *)c->recv + to * span, c->recv_count, c->recv_type, 0, 0, MPI_COMM_SELF, &request);
            MPI_Send(copy - low + i * span, c->recv_count, c->recv_type, 0, 0, MPI_COMM_SELF);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
        }
    } else {
        for (int i = 0; i < c->size - 1; i++) {
            MPI_Sendrecv(copy - low + i * span, c->recv_count, c->recv_type, 0, 0, (char *)c->recv + i * span,
                         c->recv_count, c->recv_type, 0, 0, MPI_COMM_SELF, MPI_STATUS_IGNORE);
        }
    }
    free(copy);
    free(map);
    return code;
}

/* Returns 1 if the call was broken. *code is its result in both cases. */
static int run_broken(const call_t *c, int *code)
{
    int in_place = c->send == MPI_IN_PLACE;
    *code = MPI_SUCCESS;
    if (strcmp(mode, "hang") == 0) {
        for (;;) {
            sleep(1);
        }
    }
    if (strcmp(mode, "slow") == 0) {
        sleep(3);
    }
    if (strcmp(mode, "lost") == 0 && !in_place) {
        *code = run_and_copy(c, 0);
        return 1;
    }
    if (strcmp(mode, "order") == 0 && !in_place) {
        *code = run_and_copy(c, 1);
        return 1;
    }
    if (strcmp(mode, "over") == 0) {
        read_over(c);
    }
    int stolen = strcmp(mode, "stolen") == 0 && steal(c);
    *code = run(c, c->recv);
    if (strcmp(mode, "data") == 0) {
        return flip(c, 1);
    }
    if (strcmp(mode, "gap") == 0) {
        return flip(c, 0);
    }
    if (strcmp(mode, "before") == 0 || strcmp(mode, "after") == 0) {
        return touch(c->recv, c->recv_count * c->size, c->recv_type, mode[0] == 'a');
    }
    if (strcmp(mode, "send") == 0) {
        return !in_place && touch(c->send, c->send_count, c->send_type, 1);
    }
    if (strcmp(mode, "slow") == 0) {
        return 1;
    }
    if (strcmp(mode, "error") == 0) {
        *code = MPI_ERR_OTHER;
        return 1;
    }
    return stolen;
}

static void read_mode(void)
{
    const char *text = getenv("DMA_BREAK");
    if (text != NULL && sscanf(text, "%15[a-z]:%d:%d", mode, &break_rank, &break_call) < 1) {
        fprintf(stderr, "break_shim: DMA_BREAK=%s?\n", text);
    }
}

ssize_t process_vm_readv(pid_t pid, const struct iovec *local, unsigned long nlocal, const struct iovec *remote,
                         unsigned long nremote, unsigned long flags)
{
    static int rank = -2, from;
    static atomic_long calls;
    if (rank == -2) {
        const char *text = getenv("DMA_BREAK_READ");
        if (text == NULL || sscanf(text, "%d:%d", &rank, &from) != 2) {
            rank = -1;
        }
    }
    const char *mine = getenv("OMPI_COMM_WORLD_RANK");
    if (rank >= 0 && mine != NULL && atoi(mine) == rank && ++calls >= from) {
        errno = EFAULT;
        return -1;
    }
    return syscall(SYS_process_vm_readv, pid, local, nlocal, remote, nremote, flags);
}

int MPI_Allgather(const void *sendbuf, int sendcount, MPI_Datatype sendtype, void *recvbuf, int recvcount,
                  MPI_Datatype recvtype, MPI_Comm comm)
{
    static int calls = -1, done;
    if (calls < 0) {
        calls = 0;
        read_mode();
    }
    call_t c = {sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm, 0};
    int rank, code;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(comm, &c.size);
    int suitable = !done && rank == break_rank && recvcount > 0 && c.size > 1;
    calls += suitable;
    if (suitable && calls >= break_call && strcmp(mode, "none") != 0) {
        done = run_broken(&c, &code);
        if (done) {
            fprintf(stderr, "break_shim: broke a call: %s\n", mode);
        }
        return code;
    }
    return run(&c, recvbuf);
}
