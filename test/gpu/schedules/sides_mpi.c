/* The sides that call MPI: see schedules.h. */
#include <stdio.h>
#include <stdlib.h>

#include "include/mpi_names.h"
#include "test/gpu/schedules/schedules.h"

static struct {
    MPIX_Queue compute, comm;
} queues;

static void must(int code, const char *what)
{
    gpu_must(code != MPI_SUCCESS, what);
}

void sched_run(sched_call_t *call)
{
    int code = MPI_ERR_ARG, n = (int)call->bytes;

    switch (call->op) {
    case SCHED_GATHER:
        code = MPI_Allgather(call->send, n, MPI_BYTE, call->recv, n, MPI_BYTE, MPI_COMM_WORLD);
        break;
    case SCHED_EXCHANGE:
        code = MPI_Alltoall(call->send, n, MPI_BYTE, call->recv, n, MPI_BYTE, MPI_COMM_WORLD);
        break;
    case SCHED_EXCHANGE_V:
        code = MPI_Alltoallv(call->send, call->v.send, call->v.send_at, MPI_BYTE, call->recv, call->v.recv,
                             call->v.recv_at, MPI_BYTE, MPI_COMM_WORLD);
        break;
    }
    must(code, "a collective");
}

void sched_start(sched_call_t *call)
{
    must(MPI_Start(&call->request), "start");
}

void sched_wait(sched_call_t *call)
{
    must(MPI_Wait(&call->request, MPI_STATUS_IGNORE), "wait");
}

void sched_free(sched_call_t *call)
{
    if (call->request && call->request != MPI_REQUEST_NULL) {
        must(MPIX_Request_free(&call->request), "free");
    }
}

static bool prepare(const sched_side_t *side, sched_call_t *call, int parts)
{
    int code = MPI_ERR_ARG, n = (int)call->bytes;

    (void)side, (void)parts;
    switch (call->op) {
    case SCHED_GATHER:
        code = PERSISTENT(Allgather)(call->send, n, MPI_BYTE, call->recv, n, MPI_BYTE, MPI_COMM_WORLD, MPI_INFO_NULL,
                                     &call->request);
        break;
    case SCHED_EXCHANGE:
        code = PERSISTENT(Alltoall)(call->send, n, MPI_BYTE, call->recv, n, MPI_BYTE, MPI_COMM_WORLD, MPI_INFO_NULL,
                                    &call->request);
        break;
    case SCHED_EXCHANGE_V:
        code = PERSISTENT(Alltoallv)(call->send, call->v.send, call->v.send_at, MPI_BYTE, call->recv, call->v.recv,
                                     call->v.recv_at, MPI_BYTE, MPI_COMM_WORLD, MPI_INFO_NULL, &call->request);
        break;
    }
    must(code, "init");
    return true;
}

static bool prepare_parted(const sched_side_t *side, sched_call_t *call, int parts)
{
    int n = (int)call->bytes;

    (void)side;
    must(call->op == SCHED_GATHER ? MPIX_Pallgather_init(call->send, parts, n, MPI_BYTE, call->recv, parts, n, MPI_BYTE,
                                                         MPI_COMM_WORLD, MPI_INFO_NULL, &call->request)
                                  : MPIX_Palltoall_init(call->send, parts, n, MPI_BYTE, call->recv, parts, n, MPI_BYTE,
                                                        MPI_COMM_WORLD, MPI_INFO_NULL, &call->request),
         "init of partitions");
    return true;
}

static bool prepare_queued(const sched_side_t *side, sched_call_t *call, int parts)
{
    prepare(side, call, parts);
    must(MPIX_Match(&call->request, MPI_STATUS_IGNORE), "match");
    return true;
}

static void enqueue(const sched_side_t *side, sched_call_t *call, void *stream)
{
    MPIX_Queue queue = stream == sched.compute ? queues.compute : queues.comm;

    (void)side;
    must(MPIX_Enqueue_start(queue, &call->request), "start in a queue");
    must(MPIX_Enqueue_waitall(queue), "waitall in a queue");
}

static void settle(void)
{
    must(MPIX_Queue_wait(queues.compute), "a collective in a queue");
    must(MPIX_Queue_wait(queues.comm), "a collective in a queue");
}

int sched_open_mpi(sched_side_t *sides, char *send, char *recv)
{
    must(MPIX_Queue_init(&queues.compute, gpu.type, &sched.compute), "queue");
    must(MPIX_Queue_init(&queues.comm, gpu.type, &sched.comm), "queue");
    sides[0] = (sched_side_t){.name = "mpi", .kind = SCHED_HOST, .send = send, .recv = recv, .prepare = prepare};
    sides[1] = (sched_side_t){.name = "queue",
                              .kind = SCHED_STREAM,
                              .send = send,
                              .recv = recv,
                              .prepare = prepare_queued,
                              .enqueue = enqueue,
                              .settle = settle};
    sides[2] = (sched_side_t){
        .name = "partitions", .kind = SCHED_PARTED, .send = send, .recv = recv, .prepare = prepare_parted};
    return 3;
}
