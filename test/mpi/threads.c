/*
 * MPI_THREAD_MULTIPLE: threads use different communicators at the same time, from their first collective on, while another
 * thread moves messages.
 *
 *     threads [THREADS [CALLS [tool]]]
 *
 * tool: MPI_T is initialised, too, with MPI_THREAD_SINGLE, as tools do, and other threads make progress for the requests of one. In Open
 * MPI 4.1 and 5.0 MPI_T changes ompi_mpi_thread_multiple, so only one thread may make blocking calls of Open MPI's own.
 */
#include <pthread.h>
#include <stdatomic.h>

#include "forms.h"

enum { MAX_THREADS = 16, ROUNDS = 5, BURST = 8, PER_CALL = 4 };

static int rank, nranks, calls = 300;
static pthread_barrier_t start;
static atomic_int ended;

typedef struct worker {
    pthread_t thread;
    MPI_Comm comm;
    void (*run)(struct worker *worker);
    long wrong;
} worker_t;

static void collectives(worker_t *worker)
{
    for (int call = 0; call < calls; call++) {
        int ints = 1 << call % 12, *all = malloc((size_t)ints * (size_t)nranks * sizeof(int));
        int *mine = all + (size_t)rank * (size_t)ints;

        for (int i = 0; i < ints; i++) {
            mine[i] = call + rank;
        }
        MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, all, ints, MPI_INT, worker->comm);
        for (int r = 0; r < nranks; r++) {
            worker->wrong +=
                all[(size_t)r * (size_t)ints] != call + r || all[(size_t)(r + 1) * (size_t)ints - 1] != call + r;
        }
        free(all);
    }
}

/* Requests that the progress of any thread may complete. */
static void nonblocking(worker_t *worker)
{
    call_t *posted[BURST];
    MPI_Request requests[BURST];

    for (int call = 0; call < calls / PER_CALL; call++) {
        for (int i = 0; i < BURST; i++) {
            posted[i] =
                forms_make(worker->comm, (op_t)((call + i) % OPS), 1 << (call + i) % 10, i % 3 == 0, i % 4 == 1);
            forms_fill(posted[i], call + i);
            forms_post(posted[i], worker->comm);
            requests[i] = posted[i]->request;
            forms_free_type(posted[i]);
        }
        MPI_Waitall(BURST, requests, MPI_STATUSES_IGNORE);
        for (int i = 0; i < BURST; i++) {
            worker->wrong += !forms_right(posted[i]);
            forms_free(posted[i]);
        }
    }
}

static void persistent(worker_t *worker)
{
    call_t *made[OPS];

    for (int i = 0; i < OPS; i++) {
        made[i] = forms_make(worker->comm, (op_t)i, 50, false, i == ALLTOALL);
        forms_init(made[i], worker->comm);
    }
    for (int call = 0; call < calls / PER_CALL; call++) {
        for (int i = 0; i < OPS; i++) {
            forms_fill(made[i], call + i);
            MPI_Start(&made[i]->request);
        }
        for (int i = 0; i < OPS; i++) {
            MPI_Wait(&made[i]->request, MPI_STATUS_IGNORE);
            worker->wrong += !forms_right(made[i]);
        }
    }
    for (int i = 0; i < OPS; i++) {
        MPI_Request_free(&made[i]->request);
        forms_free(made[i]);
    }
}

static void messages(worker_t *worker)
{
    int left = (rank + nranks - 1) % nranks, right = (rank + 1) % nranks;

    for (int call = 0; call < calls; call++) {
        int out = call, in = -1;

        MPI_Sendrecv(&out, 1, MPI_INT, right, 3, &in, 1, MPI_INT, left, 3, worker->comm, MPI_STATUS_IGNORE);
        worker->wrong += in != call;
    }
}

/* Until the first worker has ended. */
static void advance(worker_t *worker)
{
    int flag;

    while (!atomic_load(&ended)) {
        MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, worker->comm, &flag, MPI_STATUS_IGNORE);
    }
}

static void *run(void *argument)
{
    worker_t *worker = argument;

    pthread_barrier_wait(&start);
    worker->run(worker);
    atomic_store(&ended, 1);
    return NULL;
}

int main(int argc, char **argv)
{
    static void (*const kinds[])(worker_t *) = {collectives, nonblocking, messages, persistent};
    int nthreads = argc > 1 ? atoi(argv[1]) : 4, provided, outcome;
    worker_t workers[MAX_THREADS];

    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &nranks);
    calls = argc > 2 ? atoi(argv[2]) : calls;
    if (provided < MPI_THREAD_MULTIPLE || nthreads < 1 || nthreads > MAX_THREADS) {
        fprintf(stderr, "threads: cannot run %d threads\n", nthreads);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    if (argc > 3) {
        MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
    }
    pthread_barrier_init(&start, NULL, (unsigned)nthreads);
    for (int round = 0; round < ROUNDS; round++) {
        for (int t = 0; t < nthreads; t++) {
            workers[t] = (worker_t){.run = argc > 3 ? t == 0 ? nonblocking : advance : kinds[t % 4]};
            MPI_Comm_dup(MPI_COMM_WORLD, &workers[t].comm);
        }
        atomic_store(&ended, 0);
        for (int t = 0; t < nthreads; t++) {
            pthread_create(&workers[t].thread, NULL, run, &workers[t]);
        }
        for (int t = 0; t < nthreads; t++) {
            pthread_join(workers[t].thread, NULL);
            VERIFY(workers[t].wrong == 0);
            MPI_Comm_free(&workers[t].comm);
        }
    }
    pthread_barrier_destroy(&start);

    if (argc > 3) {
        MPI_T_finalize();
    }
    outcome = verify_summary("threads", MPI_COMM_WORLD);
    MPI_Finalize();
    return outcome;
}
