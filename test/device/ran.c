/*
 * Which variant carries out a collective: prints a line "OPERATION BYTES VARIANT" for each call, by the counters
 * coll_dma_variant_*. The suite info compares it with what coll_dma_info predicts.
 *
 *   mpirun -n N ran host|device allgather|alltoall out|in|persistent BYTES...        persistent: out of place
 */
#include "../mpi/verify.h"
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hip.h"

enum { MOST = 64 };

static MPI_T_pvar_session session;
static MPI_T_pvar_handle handles[MOST];
static char names[MOST][128];
static int nhandles;

static void open_counters(void)
{
    static const char prefix[] = "coll_dma_variant_";
    int provided, n;

    MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
    MPI_T_pvar_session_create(&session);
    MPI_T_pvar_get_num(&n);
    for (int i = 0; i < n && nhandles < MOST; i++) {
        int length = sizeof(names[0]), help = 0, level, class, bind, readonly, continuous, atomic, count;
        MPI_Datatype type;
        MPI_T_enum values;

        MPI_T_pvar_get_info(i, names[nhandles], &length, &level, &class, &type, &values, NULL, &help, &bind, &readonly,
                            &continuous, &atomic);
        if (!strncmp(names[nhandles], prefix, strlen(prefix)) && bind == MPI_T_BIND_NO_OBJECT) {
            memmove(names[nhandles], names[nhandles] + strlen(prefix), strlen(names[nhandles]) - strlen(prefix) + 1);
            MPI_T_pvar_handle_alloc(session, i, NULL, &handles[nhandles++], &count);
        }
    }
}

static void read_counters(unsigned long long values[MOST])
{
    for (int i = 0; i < nhandles; i++) {
        values[i] = 0;
        MPI_T_pvar_read(session, handles[i], &values[i]);
    }
}

static void call(const char *operation, void *send, void *recv, int bytes)
{
    if (!strcmp(operation, "allgather")) {
        MPI_Allgather(send, bytes, MPI_BYTE, recv, bytes, MPI_BYTE, MPI_COMM_WORLD);
    } else {
        MPI_Alltoall(send, bytes, MPI_BYTE, recv, bytes, MPI_BYTE, MPI_COMM_WORLD);
    }
}

static void start(const char *operation, void *send, void *recv, int bytes)
{
    MPI_Request request;

    if (!strcmp(operation, "allgather")) {
        PERSISTENT(Allgather)(send, bytes, MPI_BYTE, recv, bytes, MPI_BYTE, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
    } else {
        PERSISTENT(Alltoall)(send, bytes, MPI_BYTE, recv, bytes, MPI_BYTE, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
    }
    MPI_Start(&request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Request_free(&request);
}

int main(int argc, char **argv)
{
    int rank, size, devices = 0, largest = 0;
    char *send, *recv;
    bool device;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    device = argc > 4 && !strcmp(argv[1], "device");
    if (argc < 5 || (device && !hip_open(&devices))) {
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    if (device) {
        hip_must("hipSetDevice", hip.hipSetDevice(rank % devices));
    }
    for (int i = 4; i < argc; i++) {
        largest = atoi(argv[i]) > largest ? atoi(argv[i]) : largest;
    }
    send = device ? hip_take((size_t)largest * (size_t)size) : malloc((size_t)largest * (size_t)size);
    recv = device ? hip_take((size_t)largest * (size_t)size) : malloc((size_t)largest * (size_t)size);
    open_counters();
    for (int i = 4; i < argc; i++) {
        unsigned long long before[MOST], after[MOST];

        read_counters(before);
        if (!strcmp(argv[3], "persistent")) {
            start(argv[2], send, recv, atoi(argv[i]));
        } else {
            call(argv[2], strcmp(argv[3], "in") ? send : MPI_IN_PLACE, recv, atoi(argv[i]));
        }
        read_counters(after);
        for (int v = 0; v < nhandles && rank == 0; v++) {
            if (after[v] != before[v]) {
                printf("%s %s %s\n", argv[2], argv[i], names[v]);
            }
        }
    }
    for (int i = 0; i < nhandles; i++) {
        MPI_T_pvar_handle_free(session, &handles[i]);
    }
    MPI_T_pvar_session_free(&session);
    MPI_T_finalize();
    MPI_Finalize();
    return 0;
}
