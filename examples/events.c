/*
 * Prints what coll/dma reports about each call by events of MPI_T (MPI 4; Open MPI 6.0): a table of predicted and real times by
 * operation and variant, and the cost of listening. A power manager would lower the clock of the cores at the begin of a
 * long call, and raise it at its end: the two listeners are the places where it would do so. Exits with 77 if MPI has no
 * events, and with 1 if events are missing or wrong.
 *
 *     mpirun -n 2 --mca coll dma ./events
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#if MPI_VERSION >= 4
enum { CALLS = 20, VARIANTS = 32, OPERATIONS = 4 };

/* The elements of both events, in their order. */
typedef struct call {
    unsigned long long communicator, sequence, bytes, predicted_ns, ns;
    int operation, form, variant, status;
} call_t;

static struct {
    int calls;
    double predicted_us, us;
} table[OPERATIONS][VARIANTS];
static int begun;

/* Runs inside of coll/dma. It calls only MPI_T_event_copy and MPI_T_event_read. */
static void at_begin(MPI_T_event_instance event, MPI_T_event_registration handle, MPI_T_cb_safety safety, void *arg)
{
    (void)event, (void)handle, (void)safety, (void)arg;
    begun++;
}

static void at_end(MPI_T_event_instance event, MPI_T_event_registration handle, MPI_T_cb_safety safety, void *arg)
{
    call_t call;

    (void)handle, (void)safety, (void)arg;
    MPI_T_event_copy(event, &call);
    if (call.variant >= 0 && call.variant < VARIANTS && call.operation < OPERATIONS) {
        table[call.operation][call.variant].calls++;
        table[call.operation][call.variant].predicted_us += (double)call.predicted_ns / 1e3;
        table[call.operation][call.variant].us += (double)call.ns / 1e3;
    }
}

/* Open MPI and the standard differ in whether this type is a pointer. */
typedef void listener_t(MPI_T_event_instance event, MPI_T_event_registration handle, MPI_T_cb_safety safety, void *arg);

static MPI_T_event_registration listen_to(const char *name, listener_t *listener)
{
    MPI_T_event_registration handle;
    int index;

    if (MPI_T_event_get_index(name, &index) != MPI_SUCCESS ||
        MPI_T_event_handle_alloc(index, NULL, MPI_INFO_NULL, &handle) != MPI_SUCCESS ||
        MPI_T_event_register_callback(handle, MPI_T_CB_REQUIRE_THREAD_SAFE, MPI_INFO_NULL, NULL, listener) !=
            MPI_SUCCESS) {
        fprintf(stderr, "there is no event %s\n", name);
        exit(1);
    }
    return handle;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* An all-gather of 8 bytes with and without listeners, in turn. Microseconds, medians over the rounds. */
static void measure(int rank)
{
    enum { ROUNDS = 41, LOOP = 2000 };
    static double us[2][ROUNDS];
    static char mine[8], all[8192];

    for (int i = 0; i < 2 * ROUNDS; i++) {
        MPI_T_event_registration begins, ends;
        double start;

        if (i % 2) {
            begins = listen_to("ompi.coll_dma_call_begin", at_begin);
            ends = listen_to("ompi.coll_dma_call_end", at_end);
        }
        MPI_Barrier(MPI_COMM_WORLD);
        start = MPI_Wtime();
        for (int k = 0; k < LOOP; k++) {
            MPI_Allgather(mine, 8, MPI_BYTE, all, 8, MPI_BYTE, MPI_COMM_WORLD);
        }
        us[i % 2][i / 2] = (MPI_Wtime() - start) * 1e6 / LOOP;
        if (i % 2) {
            MPI_T_event_handle_free(begins, NULL, NULL);
            MPI_T_event_handle_free(ends, NULL, NULL);
        }
    }
    for (int k = 0; k < 2; k++) {
        qsort(us[k], ROUNDS, sizeof(us[k][0]), compare);
    }
    if (rank == 0) {
        printf("all-gather of 8 bytes: %.3f us without listeners, %.3f us with both\n", us[0][ROUNDS / 2],
               us[1][ROUNDS / 2]);
    }
}

int main(int argc, char **argv)
{
    static char mine[1 << 20], all[4 << 20];
    MPI_T_event_registration begins, ends;
    int provided, rank, ranks, ended = 0, right;

    MPI_Init(&argc, &argv);
    MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    begins = listen_to("ompi.coll_dma_call_begin", at_begin);
    ends = listen_to("ompi.coll_dma_call_end", at_end);
    for (int i = 0; i < CALLS && ranks <= 4; i++) {
        MPI_Allgather(mine, 8, MPI_BYTE, all, 8, MPI_BYTE, MPI_COMM_WORLD);
        MPI_Allgather(mine, sizeof mine, MPI_BYTE, all, sizeof mine, MPI_BYTE, MPI_COMM_WORLD);
    }
    MPI_T_event_handle_free(begins, NULL, NULL);
    MPI_T_event_handle_free(ends, NULL, NULL);
    for (int c = 0; c < OPERATIONS; c++) {
        for (int v = 0; v < VARIANTS; v++) {
            ended += table[c][v].calls;
            if (table[c][v].calls && rank == 0) {
                printf("operation %d, variant %2d: %4d calls, predicted %9.2f us, took %9.2f us\n", c, v,
                       table[c][v].calls, table[c][v].predicted_us / table[c][v].calls,
                       table[c][v].us / table[c][v].calls);
            }
        }
    }
    right = begun == 2 * CALLS && ended == 2 * CALLS;
    if (right) {
        measure(rank);
    }
    MPI_T_finalize();
    MPI_Finalize();
    return !right;
}
#else
int main(void)
{
    puts("this Open MPI has no events of MPI_T");
    return 77;
}
#endif
