/*
 * A power manager. In a collective that takes long the cores wait for DMA engines, or copy as fast as memory allows. So it
 * lowers their highest clock, or the cap of their power, until the call has ended (power.h). It measures windows with and without
 * that; the answer may be that nothing is saved.
 *
 *     mpirun -n 2 --mca coll dma ./power [-b BYTES] [-t MICROSECONDS] [-p PERCENT] [-s SECONDS] [-f FOLDER]
 *
 * BYTES of a block; calls that are predicted to take MICROSECONDS at least; PERCENT of the clock or cap; SECONDS of a window;
 * FOLDER instead of /sys. Where a file must not be written, it only counts how often it would have done so.
 *
 * Calls tell of themselves by events of MPI_T, with Open MPI 6.0. Older ones have none: there this program calls the listeners
 * itself, and predicts that a call takes as long as the last one.
 */
#include "power.h"

#include <mpi.h>
#include <stdlib.h>

static const char *folder = "/sys";
static double seconds = 3;
static size_t bytes = 4 << 20;
static int rank, manages, percent = 60;

#if MPI_VERSION >= 4
/* The elements of both events, in their order. */
typedef struct call {
    unsigned long long communicator, sequence, bytes, predicted_ns, ns;
    int operation, form, variant, status;
} call_t;

static void at_event(MPI_T_event_instance event, MPI_T_event_registration handle, MPI_T_cb_safety safety, void *begins)
{
    call_t call;

    (void)handle, (void)safety;
    MPI_T_event_copy(event, &call);
    call.sequence += call.communicator << 40;
    begins ? call_begins(call.sequence, (double)call.predicted_ns / 1e3) : call_ends(call.sequence);
}

static void listen_to(const char *name, void *begins)
{
    MPI_T_event_registration handle;
    int index;

    if (MPI_T_event_get_index(name, &index) || MPI_T_event_handle_alloc(index, NULL, MPI_INFO_NULL, &handle) ||
        MPI_T_event_register_callback(handle, MPI_T_CB_REQUIRE_THREAD_SAFE, MPI_INFO_NULL, begins, at_event)) {
        fprintf(stderr, "power: there is no event %s\n", name);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}
#endif

/* Calls for so many seconds; prints what they took. */
static void window(const char *name, char *mine, char *all)
{
    double joules = read_joules(folder), start = MPI_Wtime(), last = 0;
    int calls = 0;

    lowered = 0;
    for (int more = 1; more; calls++) {
        double begun = MPI_Wtime();

        if (MPI_VERSION < 4 && manages) {
            call_begins((unsigned)calls + 1, last * 1e6);
        }
        MPI_Allgather(mine, (int)bytes, MPI_BYTE, all, (int)bytes, MPI_BYTE, MPI_COMM_WORLD);
        if (MPI_VERSION < 4 && manages) {
            call_ends((unsigned)calls + 1);
        }
        last = MPI_Wtime() - begun;
        more = MPI_Wtime() - start < seconds;
        MPI_Bcast(&more, 1, MPI_INT, 0, MPI_COMM_WORLD);
    }
    if (manages) {
        double used = read_joules(folder) - joules;

        printf("power: rank %d, %s: %d calls of %.1f us, %d times lowered, ", rank, name, calls,
               (MPI_Wtime() - start) / calls * 1e6, lowered);
        printf(joules < 0 || used < 0 ? "joules cannot be read\n" : "%.3f joules for each\n", used / calls);
    }
}

int main(int argc, char **argv)
{
    const char *local = getenv("OMPI_COMM_WORLD_LOCAL_RANK"); /* one rank of each node manages */
    int ranks, provided;
    char *memory;
    pthread_t thread;

    for (int option; (option = getopt(argc, argv, "b:t:p:s:f:")) != -1;) {
        bytes = option == 'b' ? strtoul(optarg, NULL, 10) : bytes;
        threshold_us = option == 't' ? atof(optarg) : threshold_us;
        percent = option == 'p' ? atoi(optarg) : percent;
        seconds = option == 's' ? atof(optarg) : seconds;
        folder = option == 'f' ? optarg : folder;
    }
    manages = !local || !atoi(local);
    if (manages) {
        find_caps(folder, "devices/system/cpu/cpufreq/policy*/scaling_max_freq", percent);
        find_caps(folder, "class/powercap/intel-rapl:[0-9]/constraint_0_power_limit_uw", percent);
        fputs(ncaps ? "" : "power: there is neither a clock nor a cap to lower\n", stdout);
        guard_caps(); /* before MPI has threads and memory that a child must not have */
        sem_init(&changed, 0, 0);
    }
    MPI_Init(&argc, &argv);
    MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    memory = calloc((size_t)ranks + 1, bytes);
    if (manages) {
        pthread_create(&thread, NULL, manage_caps, NULL);
#if MPI_VERSION >= 4
        listen_to("ompi.coll_dma_call_begin", &manages);
        listen_to("ompi.coll_dma_call_end", NULL);
#endif
    }
    for (int i = 0; i < 4; i++) {
        enabled = i % 2;
        window(enabled ? "with" : "without", memory, memory + bytes);
    }
    MPI_T_finalize();
    MPI_Finalize();
    return 0;
}
