/* See procs.h. */
#include "procs.h"

#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <linux/filter.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../unit/libunit.h"

#define BUSY_TURNS   1000 /* times without a move before a pause */
#define MOST_GAP     0.05 /* the most seconds between two turns that count */
#define BUSY_MACHINE 10   /* a job may take this many times as long there */
#define UCX_DEFECT   66   /* the status of a rank that has met it */
#define ATTEMPTS     3
#define MOST_FILES   1024

double proc_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void proc_must(proc_t *p, int line, bool good, const char *format, ...)
{
    char text[1024];
    va_list args;

    if (good) {
        return;
    }
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    fprintf(stderr, "rank %d, line %d: %s\n", p->rank, line, text); /* one write: lines of several ranks must not mix */
    _exit(1);
}

static bool is_connection(int fd)
{
    struct tcp_info info;
    socklen_t bytes = sizeof(info);

    return !getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &bytes) && info.tcpi_state == TCP_ESTABLISHED;
}

int proc_connections(void)
{
    int n = 0;

    for (int fd = 0; fd < MOST_FILES; fd++) {
        n += is_connection(fd);
    }
    return n;
}

void proc_make_deaf(bool deaf)
{
    struct sock_filter drop = BPF_STMT(BPF_RET | BPF_K, 0);
    struct sock_fprog program = {.len = 1, .filter = &drop};

    for (int fd = 0; fd < MOST_FILES; fd++) {
        if (is_connection(fd)) {
            setsockopt(fd, SOL_SOCKET, deaf ? SO_ATTACH_FILTER : SO_DETACH_FILTER, &program, sizeof(program));
        }
    }
}

static uint64_t mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return x ^ (x >> 31);
}

uint64_t proc_random(proc_t *p, uint64_t below)
{
    p->random += 0x9e3779b97f4a7c15ull;
    return mix(p->random) % below;
}

void proc_barrier(proc_t *p)
{
    _Atomic int *arrived = &p->shared->arrived[p->barriers++ % 16];

    atomic_fetch_add(arrived, 1);
    while (atomic_load(arrived) < p->n) {
        usleep(200);
    }
}

dma_status_t proc_peer_status(const proc_t *p, int rank)
{
    return atomic_load(&p->peers[rank]->status);
}

int proc_failures(const proc_t *p)
{
    int failures = 0;

    for (int r = 0; r < p->n; r++) {
        failures += proc_peer_status(p, r) != DMA_OK && !dma_ucx_peer_closed(p->peers[r]);
    }
    return failures;
}

dma_status_t proc_connect(proc_t *p, int rank)
{
    dma_status_t status;

    pthread_mutex_lock(&p->net->lock);
    status = dma_ucx_peer_connect(p->peers[rank]);
    pthread_mutex_unlock(&p->net->lock);
    return status;
}

unsigned proc_requests(const proc_t *p)
{
    unsigned requests = 0;

    for (const dma_ucx_slab_t *slab = p->net->slabs; slab; slab = slab->next) {
        for (int i = 0; i < DMA_UCX_SLAB; i++) {
            requests += slab->reqs[i].peer && !atomic_load(&slab->reqs[i].completed);
        }
    }
    for (const dma_ucx_req_t *req = p->net->free; req; req = req->next) {
        requests -= req->peer && !atomic_load(&req->completed); /* could not be posted */
    }
    return requests;
}

static void on_report(dma_report_t level, const char *topic, const char *text)
{
    (void)level;
    fprintf(stderr, "%s: %s\n", topic, text);
}

static const dma_host_t host = {.report = on_report};

static uint64_t key_of(int rank)
{
    return 0xabcdef0000000000ull + (uint64_t)rank;
}

void proc_create_peer(proc_t *p, int rank)
{
    dma_status_t status =
        dma_ucx_peer_create(p->net, key_of(rank), p->shared->address[rank], p->shared->bytes[rank], &p->peers[rank]);

    must(p, status == DMA_OK, "no peer: %s", dma_status_name(status));
}

bool proc_knows(const proc_t *p, int rank)
{
    bool known;

    pthread_mutex_lock(&p->net->lock);
    known = dma_ucx_peer_find(p->net, key_of(rank));
    pthread_mutex_unlock(&p->net->lock);
    return known;
}

void proc_open(proc_t *p, const procs_spec_t *spec)
{
    dma_ucx_config_t config = {.key = key_of(p->rank),
                               .keepalive_seconds = spec->keepalive ? spec->keepalive : 15,
                               .processes = 1,
                               .local_processes = 1,
                               .host = &host};
    dma_status_t status;
    const void *address;

    status = dma_ucx_create(&config, &p->net);
    must(p, status == DMA_OK, "no net: %s", dma_status_name(status));
    address = dma_ucx_get_address(p->net, &p->shared->bytes[p->rank]);
    must(p, p->shared->bytes[p->rank] <= DMA_NET_ADDRESS_MAX, "%zu bytes of address", p->shared->bytes[p->rank]);
    for (uint32_t i = 0; i < PROCS_COMMS * PROCS_MAX; i++) {
        must(p, dma_ucx_comm_register(p->net, i / PROCS_MAX, i % PROCS_MAX) == DMA_OK, "not joined");
    }
    memcpy(p->shared->address[p->rank], address, p->shared->bytes[p->rank]);
    proc_barrier(p);
    for (int r = 0; r < p->n && !spec->strangers; r++) {
        proc_create_peer(p, r);
    }
}

void proc_close(proc_t *p)
{
    double start = proc_now();

    dma_ucx_destroy(p->net);
    p->net = NULL;
    /* with what UCX itself needs on a busy machine */
    must(p, proc_now() - start < 2 * DMA_UCX_DESTROY_SECONDS + 10, "closing took %.1f s", proc_now() - start);
}

void proc_turn(proc_t *p)
{
    static _Thread_local unsigned idle;

    idle = dma_ucx_progress(p->net) ? 0 : idle + 1;
    if (idle > BUSY_TURNS) {
        usleep(100);
    } else if (idle) {
        sched_yield();
    }
}

double proc_patience(proc_t *p)
{
    double now = proc_now(), gap = now - p->turned;

    p->turned = now;
    p->patience += gap < MOST_GAP ? gap : MOST_GAP;
    return p->patience;
}

dma_status_t proc_wait(proc_t *p, dma_ucx_req_t **req, double seconds)
{
    double end = proc_patience(p) + seconds;
    dma_status_t status;

    while ((status = dma_ucx_test(p->net, req)) == DMA_AGAIN && proc_patience(p) < end) {
        proc_turn(p);
    }
    return status;
}

void proc_fill(void *buffer, size_t bytes, uint64_t seed)
{
    uint64_t word = mix(seed + 1);

    for (size_t i = 0; i < bytes; i += 8, word += 0x9e3779b97f4a7c15ull) {
        memcpy((char *)buffer + i, &word, bytes - i < 8 ? bytes - i : 8);
    }
}

bool proc_right(const void *buffer, size_t bytes, uint64_t seed)
{
    uint64_t word = mix(seed + 1);

    for (size_t i = 0; i < bytes; i += 8, word += 0x9e3779b97f4a7c15ull) {
        if (memcmp((const char *)buffer + i, &word, bytes - i < 8 ? bytes - i : 8)) {
            return false;
        }
    }
    return true;
}

/*
 * UCX 1.13 ends the process if a peer goes away just when a connection to it is being made: "Assertion
 * `wireup_ep->pending_count == 0' failed", in ucp_worker_discard_uct_ep. We cannot prevent that, so the job is tried again.
 * Every other abort counts.
 */
static void on_abort(int number)
{
    void *frames[32];
    int n = backtrace(frames, 32);
    Dl_info at;

    (void)number;
    for (int i = 0; i < n; i++) {
        if (dladdr(frames[i], &at) && at.dli_sname && !strcmp(at.dli_sname, "ucp_worker_discard_uct_ep")) {
            _exit(UCX_DEFECT);
        }
    }
    signal(SIGABRT, SIG_DFL);
    raise(SIGABRT);
}

static void run_child(const procs_spec_t *spec, procs_shared_t *shared, int rank, void (*body)(proc_t *))
{
    proc_t p = {.rank = rank, .n = spec->n, .shared = shared, .arg = spec->arg};

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    signal(SIGABRT, on_abort);
    p.random = unit_seed() * 1000 + (uint64_t)rank;
    shared->pid[rank] = getpid();
    setenv("UCX_TLS", spec->tls, 1);
    setenv("UCX_NET_DEVICES", "lo", 1);
    if (strstr(spec->tls, "posix")) {
        /* Otherwise UCX does not use shared memory where a peer's death must be noticed. */
        setenv("UCX_POSIX_ERROR_HANDLING", "y", 1);
        setenv("UCX_SYSV_ERROR_HANDLING", "y", 1);
    }
    proc_open(&p, spec);
    body(&p);
    if (p.net) {
        proc_close(&p);
    }
    /* Not _exit, because leaks must be found at the end. */
    exit(0);
}

static bool as_expected(const procs_spec_t *spec, int rank, int status)
{
    return spec->killed >> rank & 1 ? WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL
                                    : WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static int run_once(const procs_spec_t *spec, void (*body)(proc_t *), bool *defect)
{
    procs_shared_t *shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t pids[PROCS_MAX];
    double end = proc_now() + BUSY_MACHINE * spec->seconds;
    int bad = 0, left = spec->n, status;

    if (shared == MAP_FAILED) {
        return -1;
    }
    fflush(NULL);
    for (int r = 0; r < spec->n; r++) {
        if (!(pids[r] = fork())) {
            run_child(spec, shared, r, body);
        }
    }
    for (bool late = false; left;) {
        late = late || proc_now() > end;
        for (int r = 0; r < spec->n; r++) {
            if (pids[r] && late) {
                fprintf(stderr, "rank %d hangs\n", r);
                kill(pids[r], SIGKILL);
            }
            if (pids[r] && waitpid(pids[r], &status, late ? 0 : WNOHANG) == pids[r]) {
                pids[r] = 0;
                left--;
                *defect |= WIFEXITED(status) && WEXITSTATUS(status) == UCX_DEFECT;
                if (late || !as_expected(spec, r, status)) {
                    fprintf(stderr, "rank %d ended with status %#x\n", r, status);
                    bad++;
                }
            }
        }
        usleep(1000);
    }
    munmap(shared, sizeof(*shared));
    return bad;
}

int procs_run(const procs_spec_t *spec, void (*body)(proc_t *))
{
    int bad = 1;
    bool defect = true;

    for (int i = 0; i < ATTEMPTS && bad && defect; i++) {
        defect = false;
        bad = run_once(spec, body, &defect);
        if (bad && defect) {
            fprintf(stderr, "once more: an assertion of UCX has failed\n");
        }
    }
    return bad;
}

int procs_run_often(int times, const procs_spec_t *spec, void (*body)(proc_t *))
{
    int wrong = 1;

    for (int i = 0; i < times && wrong; i++) {
        wrong = procs_run(spec, body);
    }
    return wrong;
}
