/*
 * collective [fork | hold SECONDS | die | free]: collectives in device memory on the emulated node or on a real one, with
 * verified data: all-gathers and all-to-alls of several sizes, in place and out of place, and a persistent all-gather that is
 * started several times.
 *
 * fork: between calls, each rank forks a child that exits at once and runs exit handlers. The collectives must not be
 * disturbed. hold: while the persistent all-gather is armed for its next start, no rank calls MPI for SECONDS. die: while it is
 * armed, every process is killed. free: before each of many calls, the buffers are freed and allocated again, mostly at the
 * same addresses.
 */
#define __HIP_PLATFORM_AMD__ 1
#include "../mpi/verify.h"

#include <hip/hip_runtime_api.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { STARTS = 6, LARGEST = 100003 };

static int rank, ranks;

static void expect(bool holds, const char *what, int line)
{
    if (!holds) {
        printf("collective: rank %d: line %d: %s\n", rank, line, what);
        fflush(stdout);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

#define EXPECT(condition) expect(condition, #condition, __LINE__)
#define HIP(call)         expect((call) == hipSuccess, #call, __LINE__)

/* Byte i of the block from one rank to another. */
static char byte(int from, int to, int salt, size_t i)
{
    return (char)(from * 31 + to * 7 + salt * 13 + (int)(i % 251));
}

static void fill(char *device, int block, int to, int salt, size_t bytes)
{
    char *host = malloc(bytes);
    EXPECT(host);
    for (size_t i = 0; i < bytes; i++)
        host[i] = byte(rank, to, salt, i);
    HIP(hipMemcpy(device + (size_t)block * bytes, host, bytes, hipMemcpyHostToDevice));
    free(host);
}

static void check(const char *device, bool to_all, int salt, size_t bytes)
{
    char *host = malloc(bytes * (size_t)ranks);
    EXPECT(host);
    HIP(hipMemcpy(host, device, bytes * (size_t)ranks, hipMemcpyDeviceToHost));
    for (int from = 0; from < ranks; from++)
        for (size_t i = 0; i < bytes; i++) {
            char got = host[(size_t)from * bytes + i], wanted = byte(from, to_all ? rank : 0, salt, i);
            if (got != wanted)
                printf("collective: rank %d: byte %zu of %zu from rank %d, salt %d: %d, not %d\n", rank, i, bytes, from,
                       salt, got, wanted);
            EXPECT(got == wanted);
        }
    free(host);
}

static void once(bool to_all, bool in_place, size_t bytes, char *send, char *recv)
{
    int n = (int)bytes, salt = n % 97;
    char *from = in_place ? recv : send;
    HIP(hipMemset(recv, 0x55, bytes * (size_t)ranks));
    for (int to = 0; to_all && to < ranks; to++)
        fill(from, to, to, salt, bytes);
    if (!to_all)
        fill(from, in_place ? rank : 0, 0, salt, bytes);
    HIP(hipDeviceSynchronize());
    from = in_place ? MPI_IN_PLACE : send;
    EXPECT((to_all ? MPI_Alltoall(from, n, MPI_BYTE, recv, n, MPI_BYTE, MPI_COMM_WORLD)
                   : MPI_Allgather(from, n, MPI_BYTE, recv, n, MPI_BYTE, MPI_COMM_WORLD)) == MPI_SUCCESS);
    check(recv, to_all, salt, bytes);
}

static void free_and_allocate(void)
{
    static const size_t sizes[] = {LARGEST, 100, 3 << 20};
    char *send, *recv;
    for (int call = 0; call < 40; call++) {
        size_t bytes = sizes[call / 4 % 3];
        HIP(hipMalloc((void **)&send, bytes * (size_t)ranks));
        HIP(hipMalloc((void **)&recv, bytes * (size_t)ranks));
        once(true, call & 1, bytes, send, recv);
        MPI_Barrier(MPI_COMM_WORLD);
        HIP(hipFree(send));
        HIP(hipFree(recv));
    }
}

static void have_a_child(void)
{
    int status;
    pid_t pid = fork();
    EXPECT(pid >= 0);
    if (pid == 0)
        exit(0);
    EXPECT(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* The mode: what happens between two starts. */
static struct {
    bool children, die;
    unsigned hold;
} between;

static void idle(bool last)
{
    if (between.children)
        have_a_child();
    if (last && between.die)
        raise(SIGKILL);
    if (last && between.hold) {
        printf("collective: rank %d holds\n", rank);
        fflush(stdout);
        sleep(between.hold);
    }
}

static void again_and_again(char *send, char *recv)
{
    enum { BYTES = 4096 };
    MPI_Request request;
    EXPECT(PERSISTENT(Allgather)(send, BYTES, MPI_BYTE, recv, BYTES, MPI_BYTE, MPI_COMM_WORLD, MPI_INFO_NULL,
                                 &request) == MPI_SUCCESS);
    for (int salt = 0; salt < STARTS; salt++) {
        fill(send, 0, 0, salt, BYTES);
        HIP(hipMemset(recv, 0x55, (size_t)BYTES * (size_t)ranks));
        HIP(hipDeviceSynchronize());
        EXPECT(MPI_Start(&request) == MPI_SUCCESS);
        EXPECT(MPI_Wait(&request, MPI_STATUS_IGNORE) == MPI_SUCCESS);
        check(recv, false, salt, BYTES);
        idle(salt == STARTS - 2);
    }
    EXPECT(MPI_Request_free(&request) == MPI_SUCCESS);
}

int main(int argc, char **argv)
{
    static const size_t sizes[] = {4, 100, 4096, LARGEST};
    const char *mode = argc > 1 ? argv[1] : "";
    char *send, *recv;
    int devices;
    between.children = strcmp(mode, "fork") == 0;
    between.die = strcmp(mode, "die") == 0;
    between.hold = strcmp(mode, "hold") == 0 && argc > 2 ? (unsigned)atoi(argv[2]) : 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    HIP(hipGetDeviceCount(&devices));
    HIP(hipSetDevice(rank % devices));
    HIP(hipMalloc((void **)&send, (size_t)LARGEST * (size_t)ranks));
    HIP(hipMalloc((void **)&recv, (size_t)LARGEST * (size_t)ranks));
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (int form = 0; form < 4; form++)
            once(form & 1, form & 2, sizes[i], send, recv);
    again_and_again(send, recv);
    idle(false);
    HIP(hipFree(send));
    HIP(hipFree(recv));
    if (strcmp(mode, "free") == 0)
        free_and_allocate();
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        printf("collective: data right\n");
    MPI_Finalize();
    return 0;
}
