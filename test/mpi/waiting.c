/*
 * waiting CALLS [BYTES [child]]: after this number of all-gathers on a communicator, all ranks except the last wait for the
 * last rank in the next one, until the last rank receives SIGUSR1. With 0 they wait in the set-up. state.sh looks at the job
 * in between. Every rank prints its process number. Rank 0 ends with "data right". With `child`, rank 0 forks a child before
 * the last call, which lives until rank 0 ends.
 */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

static volatile sig_atomic_t released;

static void on_signal(int number)
{
    (void)number;
    released = 1;
}

static void fork_child(void)
{
    if (fork() == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;) {
            pause();
        }
    }
}

static void wait_for_signal(void)
{
    while (!released) {
        usleep(10000);
    }
}

int main(int argc, char **argv)
{
    int rank, size, wrong = 0;

    MPI_Init(&argc, &argv);
    signal(SIGUSR1, on_signal);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int calls = argc > 1 ? atoi(argv[1]) : 3;
    size_t bytes = argc > 2 ? (size_t)atol(argv[2]) : 64;
    char *send = malloc(bytes), *recv = malloc(bytes * (size_t)size);
    printf("rank %d pid %d\n", rank, (int)getpid());
    fflush(stdout);
    for (int call = 0; call <= calls; call++) {
        if (call == calls && rank == size - 1) {
            wait_for_signal();
        }
        if (call == calls && rank == 0 && argc > 3) {
            fork_child();
        }
        memset(send, 16 * call + rank, bytes);
        MPI_Allgather(send, (int)bytes, MPI_BYTE, recv, (int)bytes, MPI_BYTE, MPI_COMM_WORLD);
        for (size_t i = 0; i < bytes * (size_t)size; i++) {
            wrong += recv[i] != (char)(16 * call + (int)(i / bytes));
        }
    }
    MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0) {
        printf("data %s\n", wrong ? "WRONG" : "right");
    }
    free(send);
    free(recv);
    MPI_Finalize();
    return wrong != 0;
}
