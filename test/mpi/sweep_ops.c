/*
 * The operations under test: one row per operation and form. A row that does not complete in start() leaves a request,
 * which the case waits for after all its calls have been started.
 */
#include "sweep.h"

static int count_of(const buffer_t *b)
{
    return b->nblocks > 0 ? (int)b->blocks[0].elements : 0;
}

static int allgather_blocking(const call_t *c, MPI_Request *request)
{
    *request = MPI_REQUEST_NULL;
    if (c->in_place) {
        int count = c->odd_ignored ? -1 : 0;
        MPI_Datatype type = c->odd_ignored ? MPI_DATATYPE_NULL : MPI_CHAR;
        return MPI_Allgather(MPI_IN_PLACE, count, type, c->recv.base, count_of(&c->recv), c->recv_type.type,
                             c->comm->comm);
    }
    return MPI_Allgather(c->send.base, count_of(&c->send), c->send_type.type, c->recv.base, count_of(&c->recv),
                         c->recv_type.type, c->comm->comm);
}

const op_t ops[] = {
    {"allgather", "blocking", false, allgather_blocking},
};
const int nops = sizeof(ops) / sizeof(ops[0]);
