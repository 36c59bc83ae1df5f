/* The calls of MPI: see bench.h. */
#include <string.h>

#include "include/mpi_names.h"
#include "tools/bench/bench.h"

const bench_operation_t bench_operations[BENCH_OPERATIONS] = {
    {"allgather", "Allgather", BENCH_BLOCKING, false, false},
    {"allgatherv", "Allgatherv", BENCH_BLOCKING, false, true},
    {"alltoall", "All-to-All Personalized Exchange", BENCH_BLOCKING, true, false},
    {"alltoallv", "All-to-Allv Personalized Exchange", BENCH_BLOCKING, true, true},
    {"iallgather", "Non-blocking Allgather", BENCH_NONBLOCKING, false, false},
    {"iallgatherv", "Non-blocking Allgatherv", BENCH_NONBLOCKING, false, true},
    {"ialltoall", "Non-blocking All-to-All", BENCH_NONBLOCKING, true, false},
    {"ialltoallv", "Non-blocking All-to-Allv Personalized Exchange", BENCH_NONBLOCKING, true, true},
    {"allgather_persistent", "Allgather Persistent", BENCH_PERSISTENT, false, false},
    {"allgatherv_persistent", "Allgatherv Persistent", BENCH_PERSISTENT, false, true},
    {"alltoall_persistent", "All-to-All Personalized Exchange Persistent", BENCH_PERSISTENT, true, false},
    {"alltoallv_persistent", "All-to-Allv Personalized Exchange Persistent", BENCH_PERSISTENT, true, true},
    {"allgather_queue", "Allgather Queue", BENCH_QUEUE, false, false},
    {"allgatherv_queue", "Allgatherv Queue", BENCH_QUEUE, false, true},
    {"alltoall_queue", "All-to-All Personalized Exchange Queue", BENCH_QUEUE, true, false},
    {"alltoallv_queue", "All-to-Allv Personalized Exchange Queue", BENCH_QUEUE, true, true},
};

const bench_operation_t *bench_operation_find(const char *name)
{
    name += strncmp(name, "osu_", 4) ? 0 : 4;
    for (int i = 0; i < BENCH_OPERATIONS; i++) {
        if (!strcmp(bench_operations[i].name, name)) {
            return &bench_operations[i];
        }
    }
    return NULL;
}

static int run_blocking(const bench_call_t *c)
{
    if (c->op->to_each) {
        return c->op->v ? MPI_Alltoallv(c->send, c->send_counts, c->send_displs, c->type, c->recv, c->recv_counts,
                                        c->recv_displs, c->type, c->comm)
                        : MPI_Alltoall(c->send, c->count, c->type, c->recv, c->count, c->type, c->comm);
    }
    return c->op->v
               ? MPI_Allgatherv(c->send, c->count, c->type, c->recv, c->recv_counts, c->recv_displs, c->type, c->comm)
               : MPI_Allgather(c->send, c->count, c->type, c->recv, c->count, c->type, c->comm);
}

static int start_nonblocking(bench_call_t *c)
{
    if (c->op->to_each) {
        return c->op->v ? MPI_Ialltoallv(c->send, c->send_counts, c->send_displs, c->type, c->recv, c->recv_counts,
                                         c->recv_displs, c->type, c->comm, &c->request)
                        : MPI_Ialltoall(c->send, c->count, c->type, c->recv, c->count, c->type, c->comm, &c->request);
    }
    return c->op->v ? MPI_Iallgatherv(c->send, c->count, c->type, c->recv, c->recv_counts, c->recv_displs, c->type,
                                      c->comm, &c->request)
                    : MPI_Iallgather(c->send, c->count, c->type, c->recv, c->count, c->type, c->comm, &c->request);
}

static int init_to_each(bench_call_t *c)
{
    if (c->op->v) {
        return PERSISTENT(Alltoallv)(c->send, c->send_counts, c->send_displs, c->type, c->recv, c->recv_counts,
                                     c->recv_displs, c->type, c->comm, MPI_INFO_NULL, &c->request);
    }
    return PERSISTENT(Alltoall)(c->send, c->count, c->type, c->recv, c->count, c->type, c->comm, MPI_INFO_NULL,
                                &c->request);
}

static int init_gather(bench_call_t *c)
{
    if (c->op->v) {
        return PERSISTENT(Allgatherv)(c->send, c->count, c->type, c->recv, c->recv_counts, c->recv_displs, c->type,
                                      c->comm, MPI_INFO_NULL, &c->request);
    }
    return PERSISTENT(Allgather)(c->send, c->count, c->type, c->recv, c->count, c->type, c->comm, MPI_INFO_NULL,
                                 &c->request);
}

bool bench_has_queue(const bench_options_t *o)
{
    for (int i = 0; i < o->noperations; i++) {
        if (o->operations[i]->form == BENCH_QUEUE) {
            return true;
        }
    }
    return false;
}

bool bench_is_persistent(const bench_operation_t *op)
{
    return op->form == BENCH_PERSISTENT || op->form == BENCH_QUEUE;
}

int bench_call_init(bench_call_t *call)
{
    return call->op->to_each ? init_to_each(call) : init_gather(call);
}

int bench_call_start(bench_call_t *call)
{
    return call->op->form == BENCH_PERSISTENT ? MPI_Start(&call->request) : start_nonblocking(call);
}

int bench_call_run(bench_call_t *call)
{
    int code;

    if (call->op->form == BENCH_BLOCKING) {
        return run_blocking(call);
    }
    if (call->op->form == BENCH_QUEUE) {
        return queue_run(call);
    }
    code = bench_call_start(call);
    return code == MPI_SUCCESS ? MPI_Wait(&call->request, MPI_STATUS_IGNORE) : code;
}
