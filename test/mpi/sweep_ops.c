/* The operations under test, a row for each, and the arguments that MPI gets for each form of a call. */
#include "sweep.h"
#include "verify.h"

const char *const form_names[FORM_KINDS] = {"blocking", "nonblocking", "persistent"};

/* The arguments of the send side. In place they are ignored, so that nonsense must do no harm. */
typedef struct {
    const void *buffer;
    int count;
    const int *counts, *displs;
    MPI_Datatype type;
    const MPI_Datatype *types;
} sent_t;

static sent_t sent(const call_t *c)
{
    if (c->in_place) {
        bool odd = c->odd_ignored;
        return (sent_t){MPI_IN_PLACE,
                        odd ? -1 : 0,
                        odd ? NULL : c->recv.counts,
                        odd ? NULL : c->recv.displs,
                        odd ? MPI_DATATYPE_NULL : MPI_CHAR,
                        odd ? NULL : c->recv.types};
    }
    return (sent_t){c->send.buffer.base, c->send.count,     c->send.counts,
                    c->send.displs,      c->send.type.type, c->send.types};
}

#define CALL(name, iname, ...)                                                                                         \
    (c->form == FORM_BLOCKING      ? MPI_##name(__VA_ARGS__, c->comm->comm)                                            \
     : c->form == FORM_NONBLOCKING ? MPI_##iname(__VA_ARGS__, c->comm->comm, request)                                  \
                                   : PERSISTENT(name)(__VA_ARGS__, c->comm->comm, MPI_INFO_NULL, request))

static int allgather(const call_t *c, MPI_Request *request)
{
    sent_t s = sent(c);
    return CALL(Allgather, Iallgather, s.buffer, s.count, s.type, c->recv.buffer.base, c->recv.count,
                c->recv.type.type);
}

static int allgatherv(const call_t *c, MPI_Request *request)
{
    sent_t s = sent(c);
    return CALL(Allgatherv, Iallgatherv, s.buffer, s.count, s.type, c->recv.buffer.base, c->recv.counts, c->recv.displs,
                c->recv.type.type);
}

static int alltoall(const call_t *c, MPI_Request *request)
{
    sent_t s = sent(c);
    return CALL(Alltoall, Ialltoall, s.buffer, s.count, s.type, c->recv.buffer.base, c->recv.count, c->recv.type.type);
}

static int alltoallv(const call_t *c, MPI_Request *request)
{
    sent_t s = sent(c);
    return CALL(Alltoallv, Ialltoallv, s.buffer, s.counts, s.displs, s.type, c->recv.buffer.base, c->recv.counts,
                c->recv.displs, c->recv.type.type);
}

static int alltoallw(const call_t *c, MPI_Request *request)
{
    sent_t s = sent(c);
    return CALL(Alltoallw, Ialltoallw, s.buffer, s.counts, s.displs, s.types, c->recv.buffer.base, c->recv.counts,
                c->recv.displs, c->recv.types);
}

const op_t ops[] = {
    {"allgather", false, false, false, allgather}, {"allgatherv", false, true, false, allgatherv},
    {"alltoall", true, false, false, alltoall},    {"alltoallv", true, true, false, alltoallv},
    {"alltoallw", true, true, true, alltoallw},
};
const int nops = (int)(sizeof(ops) / sizeof(ops[0]));
