/*
 * parts_idle thread CASE: how much work the library makes of partitioned requests; 2 ranks or more.
 *
 *   idle       the library's thread looks for nothing while no round needs it, and seldom if it must
 *   unlocked   MPIX_Pready takes no lock, except to wake that thread
 *   unseen     MPI_Finalize completes a round whose start nobody has announced
 *
 * This program replaces some functions by ones that count.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "parts_data.h"

static _Thread_local int locks;
static int looks; /* of the library's thread for starts */

/* Replaces the function of the C library, also for calls in libraries. */
__attribute__((visibility("default"))) int pthread_mutex_lock(pthread_mutex_t *mutex)
{
    static int (*lock)(pthread_mutex_t *);

    if (!lock) {
        *(void **)&lock = dlsym(RTLD_NEXT, "pthread_mutex_lock");
    }
    locks++;
    return lock(mutex);
}

int MPI_Improbe(int source, int tag, MPI_Comm comm, int *flag, MPI_Message *message, MPI_Status *status)
{
    __atomic_add_fetch(&looks, 1, __ATOMIC_SEQ_CST);
    return PMPI_Improbe(source, tag, comm, flag, message, status);
}

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Within a minute there is a tenth of a second with no more than `most` looks for each 5 ms. */
static int rests(int most)
{
    for (int i = 0; i < 600; i++) {
        double begin = now();
        int before = __atomic_load_n(&looks, __ATOMIC_SEQ_CST);

        usleep(100000);
        if (__atomic_load_n(&looks, __ATOMIC_SEQ_CST) - before <= most * (int)((now() - begin) / 0.005 + 1)) {
            return 1;
        }
    }
    return 0;
}

static void do_round(int turn)
{
    fill(turn);
    MPI_Start(&request);
    ready(0, PARTS);
    MUST(MPIX_Wait(&request, MPI_STATUS_IGNORE) == MPI_SUCCESS && is_right(turn, 0, PARTS));
}

static void idle(void)
{
    MPI_Request quiet;
    MPIX_Prequest words;
    int before;

    MUST(init(PARTS, WORDS, &request) == MPI_SUCCESS && rests(0));
    for (int turn = 1; turn < 4; turn++) {
        do_round(turn);
        MUST(rests(0));
    }
    quiet = request;
    MUST(init(PARTS, WORDS, &request) == MPI_SUCCESS);
    do_round(4);
    MPI_Request_free(&quiet);
    MUST(rests(0));
    /* ready before the start: the thread is awake until it has seen that */
    fill(5);
    before = __atomic_load_n(&looks, __ATOMIC_SEQ_CST);
    ready(0, PARTS);
    while (__atomic_load_n(&looks, __ATOMIC_SEQ_CST) < before + 4000) {
        usleep(1000);
    }
    MPI_Start(&request);
    MUST(MPIX_Wait(&request, MPI_STATUS_IGNORE) == MPI_SUCCESS && is_right(5, 0, PARTS) && rests(0));
    /* words that kernels may store to */
    MUST(MPIX_Prequest_create(request, &words) == MPI_SUCCESS && rests(1));
    fill(6);
    MPI_Start(&request);
    for (int p = 0; p < PARTS; p++) {
        __atomic_store_n(&words.ready[p], words.ready_value, __ATOMIC_RELEASE);
    }
    MUST(MPIX_Wait(&request, MPI_STATUS_IGNORE) == MPI_SUCCESS && is_right(6, 0, PARTS) && rests(1));
    MUST(MPIX_Request_free(&request) == MPI_SUCCESS && rests(0));
}

static void unlocked(void)
{
    enum { REQUESTS = 12 };
    MPI_Request others[REQUESTS];

    for (int i = 0; i < REQUESTS; i++) {
        MUST(init(PARTS, WORDS, i == REQUESTS / 2 ? &request : &others[i]) == MPI_SUCCESS);
    }
    for (int turn = 1; turn < 4; turn++) {
        fill(turn);
        MPI_Start(&request);
        ready(0, 1);
        for (int p = 1; p < PARTS; p++) {
            int before = locks, code = MPIX_Pready(p, request);

            MUST(locks == before && code == MPI_SUCCESS);
        }
        MUST(MPIX_Wait(&request, MPI_STATUS_IGNORE) == MPI_SUCCESS && is_right(turn, 0, PARTS));
    }
    for (int i = 0; i < REQUESTS; i++) {
        MPI_Request *r = i == REQUESTS / 2 ? &request : &others[i], former = *r;

        MUST(MPIX_Request_free(r) == MPI_SUCCESS && MPIX_Pready(0, former) == MPI_ERR_REQUEST);
    }
}

static void unseen(void)
{
    MUST(init(PARTS, WORDS, &request) == MPI_SUCCESS && rests(0));
    fill(6);
    MPI_Start(&request);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } cases[] = {{"idle", idle}, {"unlocked", unlocked}, {"unseen", unseen}, {NULL, NULL}};
    int given, i = 0;

    if (argc != 3) {
        return 2;
    }
    MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &given);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MUST(given == MPI_THREAD_MULTIPLE);
    while (cases[i].name && strcmp(cases[i].name, argv[2])) {
        i++;
    }
    MUST(cases[i].name);
    cases[i].run();
    MPI_Finalize();
    MUST(cases[i].run != unseen || is_right(6, 0, PARTS));
    if (rank == 0) {
        printf("cases: %s is right\n", argv[2]);
    }
    return 0;
}
