/*
 * The host: shared memory, cores, limits. See info.h.
 *
 * Two children do what two ranks do in set-up: each tries to read the other's memory, and both measure the cost of copies
 * between them. They are siblings, as ranks are: a security module may let a process read its children, and nobody else.
 */
#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "dma/clock.h"
#include "node/arena.h"
#include "node/cross.h"
#include "tools/info/info.h"

#define PAIR_SECONDS 5.0 /* for what takes some milliseconds */
#define BLOCK_BYTES  (64u << 10)

/* ---- two processes ---- */

typedef struct pair {
    _Alignas(4096) char region[2][DMA_MEASURE_BYTES];
    _Atomic int ready[2], done[2];
    _Atomic pid_t pid[2];
    uint64_t value[2];
    bool cross[2], measures;
    cpu_set_t set; /* that the two may use */
    dma_measured_t measured[2];
} pair_t;

static uint64_t probe; /* of a child: in memory that the other child does not share */

static bool wait_for(_Atomic int *flag)
{
    double until = dma_now() + PAIR_SECONDS;

    while (!atomic_load_explicit(flag, memory_order_acquire)) {
        if (dma_now() > until) {
            return false;
        }
        sched_yield();
    }
    return true;
}

static void be_child(pair_t *pair, int me)
{
    int other = 1 - me;
    pid_t pid;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)sched_setaffinity(0, sizeof(pair->set), &pair->set); /* a rank may be bound to one of them */
    probe = pair->value[me];
    dma_measure_write(pair->region[me]);
    atomic_store(&pair->pid[me], getpid());
    atomic_store_explicit(&pair->ready[me], 1, memory_order_release);
    if (!wait_for(&pair->ready[other])) {
        _exit(1);
    }
    pid = atomic_load(&pair->pid[other]);
    pair->cross[me] = dma_cross_probe(pid, (uint64_t)(uintptr_t)&probe, pair->value[other]);
    pair->measured[me] =
        dma_measure_read(pair->region[other], pair->cross[me] ? pid : 0, (uint64_t)(uintptr_t)pair->region[other]);
    dma_measure_set_read(pair->region[me]);
    pair->measured[me].push = pair->measures ? dma_measure_rewrite(pair->region[me], pair->region[other]) : 0;
    atomic_store_explicit(&pair->done[me], 1, memory_order_release);
    _exit(wait_for(&pair->done[other]) ? 0 : 1); /* the other child reads its memory until then */
}

static bool run_pair(pair_t *pair)
{
    bool done = true;
    pid_t pids[2];

    for (int i = 0; i < 2; i++) {
        pair->value[i] = dma_random64();
    }
    fflush(NULL);
    for (int i = 0; i < 2; i++) {
        pids[i] = fork();
        if (pids[i] == 0) {
            be_child(pair, i);
        }
    }
    for (int i = 0; i < 2; i++) {
        int status = 1;

        done = pids[i] > 0 && waitpid(pids[i], &status, 0) == pids[i] && status == 0 && done;
    }
    return done;
}

static void try_pair(info_host_t *host)
{
    pair_t *pair = mmap(NULL, sizeof(*pair), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    if (pair == MAP_FAILED) {
        snprintf(host->cross_why, sizeof(host->cross_why), "mmap: %s", strerror(errno));
        return;
    }
    pair->measures = host->usable > 1;
    for (size_t i = 0; i < CPU_SETSIZE; i++) {
        if (host->cores.cpus[i / 64] >> i % 64 & 1) {
            CPU_SET(i, &pair->set);
        }
    }
    if (!run_pair(pair)) {
        snprintf(host->cross_why, sizeof(host->cross_why), "two processes that try it do not end");
    } else {
        host->cross = pair->cross[0] && pair->cross[1];
        memcpy(host->measured, pair->measured, sizeof(host->measured));
    }
    munmap(pair, sizeof(*pair));
}

/* ---- what the kernel says ---- */

static bool read_line(const char *path, char *line, size_t room)
{
    FILE *file = fopen(path, "re");
    bool got = file && fgets(line, (int)room, file);

    if (file) {
        fclose(file);
    }
    line[got ? strcspn(line, "\n") : 0] = '\0';
    return got;
}

static void explain_cross(info_host_t *host)
{
    char scope[16];

    if (host->cross || host->cross_why[0]) {
        return;
    }
    if (read_line("/proc/sys/kernel/yama/ptrace_scope", scope, sizeof(scope)) && strcmp(scope, "0") != 0) {
        snprintf(host->cross_why, sizeof(host->cross_why), "%s (/proc/sys/kernel/yama/ptrace_scope is %s)",
                 dma_reason_text(DMA_REASON_cross_refused), scope);
    } else {
        snprintf(host->cross_why, sizeof(host->cross_why), "%s", dma_reason_text(DMA_REASON_cross_refused));
    }
}

static uint64_t limit_of(__rlimit_resource_t resource)
{
    struct rlimit limit;

    return getrlimit(resource, &limit) || limit.rlim_cur == RLIM_INFINITY ? UINT64_MAX : limit.rlim_cur;
}

static uint64_t memory_limit(void)
{
    static const char *const files[] = {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"};
    uint64_t limit = UINT64_MAX;
    char line[32];

    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]) && limit == UINT64_MAX; i++) {
        if (read_line(files[i], line, sizeof(line)) && line[0] >= '0' && line[0] <= '9') {
            limit = strtoull(line, NULL, 10);
        }
    }
    return limit < UINT64_C(1) << 60 ? limit : UINT64_MAX; /* the kernel's number for none */
}

/* The chosen word of "always [madvise] never". */
static void read_huge(char *word, size_t room)
{
    char line[128], *begin, *end;

    snprintf(word, room, "unknown");
    if (read_line("/sys/kernel/mm/transparent_hugepage/shmem_enabled", line, sizeof(line)) &&
        (begin = strchr(line, '[')) && (end = strchr(begin, ']'))) {
        snprintf(word, room, "%.*s", (int)(end - begin) - 1, begin + 1);
    }
}

/* ---- shared memory ---- */

/* As dma_proc_arena makes it, and a block in it, because pages are allocated then. */
static void try_arena(info_host_t *host, const dma_params_t *params)
{
    const char *what = "malloc";
    dma_arena_t *arena;

    if (!params->arena_bytes) {
        host->memfd_reason = DMA_REASON_arena_limit;
    } else if (dma_arena_create(DMA_ARENA_MEMFD, params->arena_bytes, NULL, &arena, &what) != DMA_OK) {
        host->memfd_reason = DMA_REASON_arena_system;
        snprintf(host->memfd_why, sizeof(host->memfd_why), "%s: %s", what, strerror(errno));
        return;
    } else {
        host->arena_bytes = dma_arena_bytes(arena);
        host->memfd_reason = dma_arena_alloc(arena, BLOCK_BYTES, 0, 0) ? DMA_REASON_NONE : DMA_REASON_arena_limit;
        dma_arena_destroy(arena);
    }
    host->memfd = !host->memfd_reason;
    snprintf(host->memfd_why, sizeof(host->memfd_why), "%s",
             params->arena_bytes ? dma_reason_text(host->memfd_reason) : "its limit is 0");
}

static void count_processors(info_host_t *host)
{
    host->online = host->cores.online;
    host->usable = 0;
    for (unsigned i = 0; i < CPU_SETSIZE / 64; i++) {
        host->usable += (uint32_t)__builtin_popcountll(host->cores.cpus[i]);
    }
}

void info_host_find(info_host_t *host, const dma_params_t *params)
{
    dma_cores_count(&host->cores, params);
    count_processors(host);
    try_arena(host, params);
    try_pair(host);
    explain_cross(host);
    read_huge(host->huge, sizeof(host->huge));
    host->memory_limit = memory_limit();
    host->descriptors = limit_of(RLIMIT_NOFILE);
    host->file_bytes = limit_of(RLIMIT_FSIZE);
    host->locked_bytes = limit_of(RLIMIT_MEMLOCK);
    host->address_bytes = limit_of(RLIMIT_AS);
}

void info_host_measure(info_host_t *host)
{
    count_processors(host);
    try_pair(host);
}
