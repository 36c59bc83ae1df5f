/*
 * The info key with which a user prefers or excludes collective components on one communicator.
 *
 *     prefer VALUE    makes a communicator named "preference" with it, and uses it
 */
#include "verify.h"

int main(int argc, char **argv)
{
    int rank, nranks, send[2], recv[64], outcome;
    MPI_Comm comm;
    MPI_Info info;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &nranks);
    MPI_Info_create(&info);
    MPI_Info_set(info, "ompi_comm_coll_preference", argc > 1 ? argv[1] : "");
    MPI_Comm_dup_with_info(MPI_COMM_WORLD, info, &comm);
    MPI_Comm_set_name(comm, "preference");
    MPI_Info_free(&info);

    send[0] = rank;
    send[1] = -rank;
    for (int call = 0; call < 3; call++) {
        MPI_Allgather(send, 2, MPI_INT, recv, 2, MPI_INT, comm);
        for (int r = 0; r < nranks; r++) {
            VERIFY(recv[2 * r] == r && recv[2 * r + 1] == -r);
        }
    }
    MPI_Comm_free(&comm);

    outcome = verify_summary("prefer", MPI_COMM_WORLD);
    MPI_Finalize();
    return outcome;
}
