/*
 * A rank that comes late: the last one waits before its second all-gather.
 *
 *     late SECONDS [BYTES]    so long
 *     late TEXT [BYTES]       until rank 0 has printed this to stderr. "returned": until the second all-gather of rank 0 has returned
 *
 * The last line is "late: data right" or, on rank 0, the error class that the call returned.
 */
#include <ctype.h>
#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PATIENCE = 120 /* seconds */ };

static char path[] = "/tmp/dma-late-XXXXXX", said[100000];

static int file;

/* What rank 0 prints goes to a file, which the last rank can read. No rank needs its name afterwards. */
static int divert(int rank)
{
    int before = dup(STDERR_FILENO);

    file = rank == 0 ? mkstemp(path) : -1;
    MPI_Bcast(path, sizeof(path), MPI_CHAR, 0, MPI_COMM_WORLD);
    file = rank == 0 ? file : open(path, O_RDONLY);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        unlink(path);
    }
    if (file < 0 || (rank == 0 && dup2(file, STDERR_FILENO) < 0)) {
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    return before;
}

static size_t read_file(void)
{
    ssize_t bytes = pread(file, said, sizeof(said) - 1, 0);

    said[bytes > 0 ? bytes : 0] = 0;
    return strlen(said);
}

static void wait_for(const char *text)
{
    double end = MPI_Wtime() + PATIENCE;

    while ((read_file(), !strstr(said, text)) && MPI_Wtime() < end) {
        usleep(10000);
    }
}

int main(int argc, char **argv)
{
    int rank, nranks, code, class, wrong = 0;
    int bytes = argc > 2 ? atoi(argv[2]) : 8, before = -1;
    const char *text = argc > 1 && isalpha((unsigned char)argv[1][0]) ? argv[1] : NULL;
    char *send, *recv;
    MPI_Comm comm;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &nranks);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    send = malloc((size_t)bytes);
    recv = malloc((size_t)bytes * (size_t)nranks);
    memset(send, rank + 1, (size_t)bytes);

    MPI_Allgather(send, bytes, MPI_BYTE, recv, bytes, MPI_BYTE, comm);
    if (text) {
        before = divert(rank);
    }
    if (rank == nranks - 1 && text) {
        wait_for(text);
    } else if (rank == nranks - 1 && argc > 1) {
        usleep((useconds_t)(atof(argv[1]) * 1e6));
    }
    code = MPI_Allgather(send, bytes, MPI_BYTE, recv, bytes, MPI_BYTE, comm);
    if (text && rank == 0) {
        fprintf(stderr, "late: returned\n");
        dup2(before, STDERR_FILENO);
        fwrite(said, 1, read_file(), stderr);
    }
    for (int r = 0; r < nranks; r++) {
        wrong += recv[(size_t)r * (size_t)bytes] != r + 1 || recv[(size_t)(r + 1) * (size_t)bytes - 1] != r + 1;
    }
    if (0 == rank) {
        MPI_Error_class(code, &class);
        if (MPI_SUCCESS != class) {
            printf("late: error class %d\n", class);
        } else {
            printf("late: data %s\n", wrong ? "WRONG" : "right");
        }
    }
    free(send);
    free(recv);
    /* After an error the peers may be gone, and freeing the communicator would wait for them. */
    MPI_Finalize();
    return wrong && MPI_SUCCESS == code;
}
