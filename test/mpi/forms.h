/*
 * A call of one of the operations, in any form, whose result can be checked: for tests of the order of calls, which
 * post here and check there.
 */
#ifndef DMA_TEST_FORMS_H
#define DMA_TEST_FORMS_H

#include <stdbool.h>
#include <string.h>

#include "verify.h"

enum { FORMS_RANKS = 32 };

typedef enum op { ALLGATHER, ALLGATHERV, ALLTOALL, ALLTOALLV, ALLTOALLW, OPS } op_t;

static const char *const op_names[] = {"Allgather", "Allgatherv", "Alltoall", "Alltoallv", "Alltoallw"};

typedef struct call {
    op_t op;
    bool in_place;
    bool spaced; /* a derived datatype: every other int */
    int ints;    /* in a block, or about that many */
    int rank, nranks;
    int salt; /* a number that the data depend on, besides the ranks */
    int scounts[FORMS_RANKS], sdispls[FORMS_RANKS], rcounts[FORMS_RANKS], rdispls[FORMS_RANKS];
    int room; /* ints in each buffer */
    int *send, *recv;
    MPI_Datatype type;
    MPI_Datatype types[FORMS_RANKS]; /* of an all-to-all-w, with displacements in bytes */
    int sbytes[FORMS_RANKS], rbytes[FORMS_RANKS];
    MPI_Request request;
} call_t;

static inline bool forms_has_displs(const call_t *call)
{
    return call->op == ALLGATHERV || call->op == ALLTOALLV || call->op == ALLTOALLW;
}

/* Ints that one rank sends to another. Symmetric, as an all-to-all-v in place requires. */
static inline int forms_block(const call_t *call, int from, int to)
{
    switch (call->op) {
    case ALLGATHERV:
        return call->ints * (1 + from % 3) / 2;
    case ALLTOALLV:
    case ALLTOALLW:
        return call->ints * ((from + to) % 3);
    default:
        return call->ints;
    }
}

static inline int forms_value(const call_t *call, int from, int to, int i)
{
    to = call->op == ALLGATHER || call->op == ALLGATHERV ? 0 : to;
    return (1 + call->salt * 100003 + from * 10007 + to * 1009 + i) & 0x7fffffff;
}

static inline call_t *forms_make(MPI_Comm comm, op_t op, int ints, bool in_place, bool spaced)
{
    call_t *call = calloc(1, sizeof(*call));
    int sroom = 0, rroom = 0;

    *call = (call_t){.op = op, .in_place = in_place, .spaced = spaced, .ints = ints, .type = MPI_INT};
    call->request = MPI_REQUEST_NULL;
    MPI_Comm_rank(comm, &call->rank);
    MPI_Comm_size(comm, &call->nranks);
    for (int r = 0; r < call->nranks; r++) {
        call->scounts[r] = forms_block(call, call->rank, r);
        call->rcounts[r] = forms_block(call, r, call->rank);
        /* a hole after every block, where displacements allow it */
        call->sdispls[r] = sroom;
        call->rdispls[r] = rroom;
        sroom += call->scounts[r] + forms_has_displs(call);
        rroom += call->rcounts[r] + forms_has_displs(call);
    }
    call->room = 2 * (sroom > rroom ? sroom : rroom) + 1;
    call->send = malloc((size_t)call->room * sizeof(int));
    call->recv = malloc((size_t)call->room * sizeof(int));
    if (spaced) {
        MPI_Type_create_resized(MPI_INT, 0, 2 * sizeof(int), &call->type);
        MPI_Type_commit(&call->type);
    }
    for (int r = 0; r < call->nranks; r++) {
        call->types[r] = call->type;
        call->sbytes[r] = (call->sdispls[r] << spaced) * (int)sizeof(int);
        call->rbytes[r] = (call->rdispls[r] << spaced) * (int)sizeof(int);
    }
    return call;
}

static inline void forms_put(const call_t *call, int *buffer, const int *counts, const int *displs, bool out, int only)
{
    for (int r = 0; r < call->nranks; r++) {
        for (int i = 0; i < counts[r] && (only < 0 || only == r); i++) {
            buffer[(displs[r] + i) << call->spaced] =
                out ? forms_value(call, call->rank, r, i) : forms_value(call, r, call->rank, i);
        }
    }
}

/* New data to send, and an empty receive buffer. */
static inline void forms_fill(call_t *call, int salt)
{
    bool gathers = call->op == ALLGATHER || call->op == ALLGATHERV;

    call->salt = salt;
    for (int i = 0; i < call->room; i++) {
        call->send[i] = -2;
        call->recv[i] = -1;
    }
    if (call->in_place) {
        forms_put(call, call->recv, call->rcounts, call->rdispls, true, gathers ? call->rank : -1);
    } else if (gathers) {
        for (int i = 0; i < call->scounts[call->rank]; i++) {
            call->send[i << call->spaced] = forms_value(call, call->rank, 0, i);
        }
    } else {
        forms_put(call, call->send, call->scounts, call->sdispls, true, -1);
    }
}

/* The arguments of the operations. */
#define FORMS_GATHER   send, call->scounts[call->rank], call->type, call->recv, call->ints, call->type
#define FORMS_GATHERV  send, call->scounts[call->rank], call->type, call->recv, call->rcounts, call->rdispls, call->type
#define FORMS_EXCHANGE send, call->ints, call->type, call->recv, call->ints, call->type
#define FORMS_EXCHANGEV                                                                                                \
    send, call->scounts, call->sdispls, call->type, call->recv, call->rcounts, call->rdispls, call->type
#define FORMS_EXCHANGEW                                                                                                \
    send, call->scounts, call->sbytes, call->types, call->recv, call->rcounts, call->rbytes, call->types

static inline int forms_run(call_t *call, MPI_Comm comm)
{
    void *send = call->in_place ? MPI_IN_PLACE : call->send;

    switch (call->op) {
    case ALLGATHER:
        return MPI_Allgather(FORMS_GATHER, comm);
    case ALLGATHERV:
        return MPI_Allgatherv(FORMS_GATHERV, comm);
    case ALLTOALL:
        return MPI_Alltoall(FORMS_EXCHANGE, comm);
    case ALLTOALLW:
        return MPI_Alltoallw(FORMS_EXCHANGEW, comm);
    default:
        return MPI_Alltoallv(FORMS_EXCHANGEV, comm);
    }
}

static inline int forms_post(call_t *call, MPI_Comm comm)
{
    void *send = call->in_place ? MPI_IN_PLACE : call->send;

    switch (call->op) {
    case ALLGATHER:
        return MPI_Iallgather(FORMS_GATHER, comm, &call->request);
    case ALLGATHERV:
        return MPI_Iallgatherv(FORMS_GATHERV, comm, &call->request);
    case ALLTOALL:
        return MPI_Ialltoall(FORMS_EXCHANGE, comm, &call->request);
    case ALLTOALLW:
        return MPI_Ialltoallw(FORMS_EXCHANGEW, comm, &call->request);
    default:
        return MPI_Ialltoallv(FORMS_EXCHANGEV, comm, &call->request);
    }
}

static inline int forms_init(call_t *call, MPI_Comm comm)
{
    void *send = call->in_place ? MPI_IN_PLACE : call->send;

    switch (call->op) {
    case ALLGATHER:
        return PERSISTENT(Allgather)(FORMS_GATHER, comm, MPI_INFO_NULL, &call->request);
    case ALLGATHERV:
        return PERSISTENT(Allgatherv)(FORMS_GATHERV, comm, MPI_INFO_NULL, &call->request);
    case ALLTOALL:
        return PERSISTENT(Alltoall)(FORMS_EXCHANGE, comm, MPI_INFO_NULL, &call->request);
    case ALLTOALLW:
        return PERSISTENT(Alltoallw)(FORMS_EXCHANGEW, comm, MPI_INFO_NULL, &call->request);
    default:
        return PERSISTENT(Alltoallv)(FORMS_EXCHANGEV, comm, MPI_INFO_NULL, &call->request);
    }
}

/* Every int of the receive buffer: the data, and the holes, which nobody may write. */
static inline bool forms_right(const call_t *call)
{
    int *expected = malloc((size_t)call->room * sizeof(int));
    bool right;

    for (int i = 0; i < call->room; i++) {
        expected[i] = -1;
    }
    forms_put(call, expected, call->rcounts, call->rdispls, false, -1);
    right = 0 == memcmp(expected, call->recv, (size_t)call->room * sizeof(int));
    free(expected);
    return right;
}

/* Open MPI keeps the datatype for as long as the call needs it. */
static inline void forms_free_type(call_t *call)
{
    if (MPI_INT != call->type) {
        MPI_Type_free(&call->type);
        call->type = MPI_INT;
    }
}

static inline void forms_free(call_t *call)
{
    forms_free_type(call);
    free(call->send);
    free(call->recv);
    free(call);
}

#endif
