/*
 * syscalls [CALLS [BYTES]]: a warm all-gather makes no system call and allocates nothing (default: 10000 calls of 64 bytes).
 * syscalls first: over several nodes, what the first all-gather of a process does, apart from messages. Its ranks are connected.
 *
 * Each rank forks a tracer that counts the system calls of the rank's main thread between two marks, with ptrace; strace is
 * not needed. Counting functions replace malloc and its relatives. A rank whose peer has lost its core runs opal_progress,
 * which may yield or poll, or asks whether others use its own core, and sleeps (ompi_coll_dma/node/pause.h). So the calls are
 * made in sections. A section counts if at most one call in a hundred has waited like this on any rank. A section with more
 * was disturbed by other processes, and is repeated with fewer calls, because short sections are disturbed seldom. Any other
 * system call or allocation in a section without such waits is an error. Rank 0 ends with "N passed, N failed". Exit status
 * 77: tracing is not permitted here.
 */
#include "count_malloc.h"

#include <errno.h>
#include <malloc.h>
#include <mpi.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { NUMBERS = 1024, LONGEST = 2500, SHORTEST = 250, MOST_DISTURBED = 2000, MARK = SYS_getppid, OF_MESSAGES = 4 };
/* PTRACE_O_TRACESYSGOOD tells a stop at a system call from a signal. */
enum { SYSCALL_STOP = SIGTRAP | 0x80 };

typedef struct {
    atomic_int attached; /* 1 tracing, -1 not permitted */
    atomic_int counted;
    long by_number[NUMBERS];
} shared_t;

typedef struct {
    long system_calls, waiting, allocations;
    char names[200]; /* numbers of the calls that count as errors */
} section_t;

static int rank, size, bytes = 64;
static long calls = 10000;
static int section = LONGEST; /* calls in one, on all ranks */
static bool messages;         /* calls that move messages do not count */
static char *send_buffer, *recv_buffer;

/* Counts between the two marks. A call stops twice, at its entry and at its exit. */
static void trace(pid_t pid, shared_t *shared)
{
    int status, marks = 0;
    if (ptrace(PTRACE_SEIZE, pid, NULL, (void *)PTRACE_O_TRACESYSGOOD) != 0 ||
        ptrace(PTRACE_INTERRUPT, pid, NULL, NULL) != 0 || waitpid(pid, &status, __WALL) != pid) {
        atomic_store(&shared->attached, -1);
        _exit(0);
    }
    atomic_store(&shared->attached, 1);
    for (long signal = 0; ptrace(PTRACE_SYSCALL, pid, NULL, (void *)signal) == 0;) {
        if (waitpid(pid, &status, __WALL) != pid || !WIFSTOPPED(status)) {
            break;
        }
        signal = 0;
        if (WSTOPSIG(status) != SYSCALL_STOP) {
            signal = status >> 16 ? 0 : WSTOPSIG(status); /* an event of ptrace, or a signal to forward */
            continue;
        }
        struct __ptrace_syscall_info info;
        ptrace(PTRACE_GET_SYSCALL_INFO, pid, sizeof(info), &info);
        if (info.op != PTRACE_SYSCALL_INFO_ENTRY) {
            continue;
        }
        if (info.entry.nr == MARK && ++marks == 2) {
            break;
        }
        if (info.entry.nr != MARK && marks == 1 && info.entry.nr < NUMBERS) {
            shared->by_number[info.entry.nr]++;
        }
    }
    ptrace(PTRACE_DETACH, pid, NULL, NULL);
    atomic_store(&shared->counted, 1);
    _exit(0);
}

static void work(void)
{
    for (int i = 0; i < section; i++) {
        MPI_Allgather(send_buffer, bytes, MPI_BYTE, recv_buffer, bytes, MPI_BYTE, MPI_COMM_WORLD);
    }
}

static void work_once(void)
{
    MPI_Allgather(send_buffer, bytes, MPI_BYTE, recv_buffer, bytes, MPI_BYTE, MPI_COMM_WORLD);
}

/* Two messages between any two ranks: the second one shows that the first has arrived. */
static void connect_all(void)
{
    for (int r = 1; r < 2 * size; r++) {
        int to = (rank + r) % size, from = (rank + 2 * size - r) % size;
        char mine = 0, theirs;
        MPI_Sendrecv(&mine, 1, MPI_CHAR, to, 0, &theirs, 1, MPI_CHAR, from, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
}

/* Proves that the counters count. */
static void noisy_work(void)
{
    for (int i = 0; i < 3; i++) {
        syscall(SYS_getuid);
        char *volatile memory = strdup("made by a library");
        free(memory);
    }
}

static bool is_waiting(long number)
{
    switch (number) {
    case SYS_sched_yield:
    case SYS_getrusage:
    case SYS_clock_nanosleep:
    case SYS_epoll_wait:
    case SYS_epoll_pwait:
    case SYS_poll:
    case SYS_ppoll:
        return true;
    case SYS_read:
    case SYS_readv:
    case SYS_recvfrom:
    case SYS_recvmsg:
    case SYS_sendmsg:
    case SYS_sendto:
    case SYS_write:
    case SYS_writev:
        return messages;
    default:
        return false;
    }
}

static void sum_up(const shared_t *shared, section_t *s)
{
    for (long i = 0; i < NUMBERS; i++) {
        if (is_waiting(i)) {
            s->waiting += shared->by_number[i];
        } else if (shared->by_number[i] > 0) {
            s->system_calls += shared->by_number[i];
            size_t used = strlen(s->names);
            snprintf(s->names + used, sizeof(s->names) - used, " #%ld x %ld", i, shared->by_number[i]);
        }
    }
}

/* False if tracing is not permitted. */
static bool measure(section_t *s, void (*run)(void))
{
    *s = (section_t){0};
    shared_t *shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t self = getpid(), tracer = fork();
    if (tracer == 0) {
        while (atomic_load(&shared->attached) != 2) { /* until the rank has allowed it */
            usleep(100);
        }
        trace(self, shared);
    }
    prctl(PR_SET_PTRACER, tracer, 0, 0, 0);
    atomic_store(&shared->attached, 2);
    while (atomic_load(&shared->attached) == 2) {
        usleep(100);
    }
    bool traced = atomic_load(&shared->attached) == 1;
    MPI_Barrier(MPI_COMM_WORLD);
    if (traced) {
        syscall(MARK);
        long before = malloc_calls();
        run();
        s->allocations = malloc_calls() - before;
        syscall(MARK);
        while (!atomic_load(&shared->counted)) {
            usleep(100);
        }
        sum_up(shared, s);
    }
    waitpid(tracer, NULL, 0);
    munmap(shared, sizeof(*shared));
    MPI_Barrier(MPI_COMM_WORLD);
    return traced;
}

/* Before all other processes, if that is permitted: then no other process disturbs a section. */
static void be_first(void)
{
    (void)sched_setscheduler(0, SCHED_RR | SCHED_RESET_ON_FORK, &(struct sched_param){.sched_priority = 1});
}

static bool all(bool mine)
{
    int value = mine;
    MPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_INT, MPI_LAND, MPI_COMM_WORLD);
    return value;
}

/*
 * coll/dma describes the process for coll_dma_state, in 7 system calls, and makes 6 objects for it and for the communicator.
 * The heap must not grow or shrink meanwhile: whether an object crosses its end depends on what others, messages among them,
 * have allocated and freed.
 */
static int first(void)
{
    section_t s = {0};
    bool traced, few;

    mallopt(M_MMAP_THRESHOLD, 4 << 20);
    mallopt(M_TRIM_THRESHOLD, 64 << 20);
    void *volatile grown = malloc(2 << 20);
    free(grown);
    messages = true;
    send_buffer = calloc((size_t)bytes, 1);
    recv_buffer = calloc((size_t)bytes, (size_t)size);
    connect_all();
    traced = all(measure(&s, work_once));
    few = all(s.system_calls <= 7 && s.allocations <= 6 + OF_MESSAGES);
    if (traced && (!few || rank == 0)) {
        printf("first: rank %d: %ld system calls%s, %ld allocations: %s\n", rank, s.system_calls, s.names,
               s.allocations, few ? "few" : "too many on a rank");
    } else if (!traced && rank == 0) {
        puts("first: tracing a process is not permitted here");
    }
    return traced && !few;
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc > 1 && strcmp(argv[1], "first") == 0) {
        int outcome = first();
        MPI_Finalize();
        return outcome;
    }
    calls = argc > 1 ? atol(argv[1]) : calls;
    bytes = argc > 2 ? atoi(argv[2]) : bytes;
    send_buffer = calloc((size_t)bytes, 1);
    recv_buffer = calloc((size_t)bytes, (size_t)size);
    work(); /* warms up */

    section_t s;
    bool traced = all(measure(&s, noisy_work));
    if (!traced) {
        if (rank == 0) {
            printf("skipped: tracing a process is not permitted here\n");
        }
        MPI_Finalize();
        return 77;
    }
    bool counts = all(s.system_calls == 3 && s.allocations == 6);
    long clean_calls = 0;
    int disturbed = 0;
    bool allowed = true;
    be_first();
    while (clean_calls < calls && allowed && disturbed < MOST_DISTURBED) {
        measure(&s, work);
        bool nothing = s.system_calls == 0 && s.allocations == 0;
        allowed = all(nothing || s.waiting > 0);
        if (all(nothing && s.waiting <= section / 100)) {
            clean_calls += section;
        } else {
            disturbed++;
            section = section / 2 > SHORTEST ? section / 2 : SHORTEST;
        }
    }
    bool clean = clean_calls >= calls;
    if (!clean) {
        printf("rank %d, %d all-gathers of %d bytes: %ld system calls%s, %ld allocations, %ld waits\n", rank, section,
               bytes, s.system_calls, s.names, s.allocations, s.waiting);
        fflush(stdout);
    }
    if (rank == 0) {
        printf("%d sections were disturbed\n", disturbed);
        printf("%d passed, %d failed\n", counts + clean, !counts + !clean);
    }
    MPI_Finalize();
    return !(counts && clean);
}
