/*
 * Processes that exchange messages over ucx_tl, for its tests. They are forked before UCX starts, and exchange addresses
 * through memory that they share.
 *
 * The body of a test runs in every process, and reports errors with must(), which ends the process. procs_run waits for all
 * of them, kills those that are left after the given time, and returns how many did not end as they should.
 */
#ifndef DMA_TEST_UCX_PROCS_H
#define DMA_TEST_UCX_PROCS_H

#include <stdatomic.h>
#include <stdint.h>
#include <sys/types.h>

#include "internal.h"

#define PROCS_MAX   4
#define PROCS_COMMS 16 /* communicators of each owner that all have joined; owners are below PROCS_MAX */

typedef struct procs_shared {
    _Atomic int arrived[16]; /* of each barrier */
    _Atomic int flag[8];     /* for the test */
    pid_t pid[PROCS_MAX];
    size_t bytes[PROCS_MAX];
    char address[PROCS_MAX][DMA_NET_ADDRESS_MAX];
} procs_shared_t;

typedef struct proc {
    int rank, n;
    int barriers; /* passed */
    procs_shared_t *shared;
    dma_ucx_t *net;
    dma_ucx_peer_t *peers[PROCS_MAX];
    uint64_t random;
    const void *arg;
    double patience, turned; /* proc_patience */
} proc_t;

typedef struct procs_spec {
    int n;
    const char *tls;      /* UCX_TLS */
    double keepalive;     /* 0: the default */
    unsigned killed;      /* a bit for each rank that must end by SIGKILL */
    double seconds;       /* for the whole test, on a machine that is not busy */
    bool strangers;       /* peers are not created; the body calls proc_create_peer */
    void (*before)(void); /* in the parent, before any process is forked */
    const void *arg;
} procs_spec_t;

/* How many processes did not end as they should. */
int procs_run(const procs_spec_t *spec, void (*body)(proc_t *));
/* Runs them until all end as they should, at most so many times. */
int procs_run_often(int times, const procs_spec_t *spec, void (*body)(proc_t *));

void proc_must(proc_t *p, int line, bool good, const char *format, ...) __attribute__((format(printf, 4, 5)));
#define must(p, good, ...) proc_must(p, __LINE__, good, __VA_ARGS__)

double proc_now(void);
uint64_t proc_random(proc_t *p, uint64_t below);
/* Without progress of the network in between. */
void proc_barrier(proc_t *p);
/* Creates the net and names the peers. The body is called with both. */
void proc_open(proc_t *p, const procs_spec_t *spec);
void proc_close(proc_t *p);
void proc_create_peer(proc_t *p, int rank);
/* Whether this process has a peer of that rank. */
bool proc_knows(const proc_t *p, int rank);
dma_status_t proc_peer_status(const proc_t *p, int rank);
/* Peers that have failed. Those that have said goodbye have not. */
int proc_failures(const proc_t *p);
/* Connects without a message. */
dma_status_t proc_connect(proc_t *p, int rank);
/* The TCP connections of this process. */
int proc_connections(void);
/* From now on the kernel drops what arrives on them, or stops doing so. */
void proc_make_deaf(bool deaf);
/* Requests that are not complete. */
unsigned proc_requests(const proc_t *p);
/* Progress, and a pause if nothing has moved for a long time: others may wait for the processor, and most of a fault is
 * waiting. */
void proc_turn(proc_t *p);
/* A clock for limits. It runs while this process makes progress, and stands still while the process waits for a
 * processor. */
double proc_patience(proc_t *p);
/* Progress until the request has ended, or until `seconds` of this clock are over: DMA_AGAIN. */
dma_status_t proc_wait(proc_t *p, dma_ucx_req_t **req, double seconds);

void proc_fill(void *buffer, size_t bytes, uint64_t seed);
bool proc_right(const void *buffer, size_t bytes, uint64_t seed);

#endif
