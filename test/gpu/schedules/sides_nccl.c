/* The sides that call NCCL: see schedules.h. A kind of buffers that the library does not have is left out, with a remark. */
#include <stdio.h>
#include <stdlib.h>

#include "test/gpu/schedules/schedules.h"
#include "tools/bench/nccl_library.h"

static int put(const sched_side_t *side, const sched_call_t *call, void *stream)
{
    int result = 0;

    switch (call->op) {
    case SCHED_GATHER:
        result = nccl_library_gather(call->send, call->recv, call->bytes, side->comm, stream);
        break;
    case SCHED_EXCHANGE:
        result = nccl_library_exchange(call->send, call->recv, call->bytes, side->comm, stream);
        break;
    case SCHED_EXCHANGE_V:
        result = nccl_library_exchange_v(call->send, call->v.send, call->v.send_at, call->recv, call->v.recv,
                                         call->v.recv_at, side->comm, stream);
        break;
    }
    return result;
}

/* One call shows whether there are such calls. Collective. */
static bool prepare(const sched_side_t *side, sched_call_t *call, int parts)
{
    int right = nccl_library_good(put(side, call, sched.comm), side->name);

    (void)parts;
    gpu_must(gpu.synchronize(sched.comm), "the stream has failed");
    MPI_Allreduce(MPI_IN_PLACE, &right, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (!right && !sched.rank) {
        printf("# %s is left out: %s\n", side->name, nccl_library_why());
    }
    return right;
}

static void enqueue(const sched_side_t *side, sched_call_t *call, void *stream)
{
    if (!nccl_library_good(put(side, call, stream), side->name)) {
        fprintf(stderr, "schedules: %s\n", nccl_library_why());
        MPI_Abort(MPI_COMM_WORLD, 3);
    }
}

int sched_open_nccl(sched_side_t *sides, const char *path, char *send, char *recv, size_t send_room, size_t recv_room)
{
    static const struct {
        int kind;
        const char *name;
    } kinds[] = {{NCCL_PLAIN, "nccl"}, {NCCL_SYMMETRIC, "nccl-sym"}, {NCCL_ZERO_CTA, "nccl-zero"}};
    const char *why = nccl_library_load(path);
    int n = 0;

    if (why) {
        if (!sched.rank) {
            printf("# NCCL is left out: %s\n", why);
        }
        return 0;
    }
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        nccl_pair_t pair = {.send = send, .recv = recv};

        if (nccl_library_open(kinds[i].kind, &pair, send_room, recv_room)) {
            sides[n++] = (sched_side_t){.name = kinds[i].name,
                                        .kind = SCHED_STREAM,
                                        .send = pair.send,
                                        .recv = pair.recv,
                                        .comm = pair.comm,
                                        .prepare = prepare,
                                        .enqueue = enqueue};
        } else if (!sched.rank) {
            printf("# %s is left out: %s\n", kinds[i].name, nccl_library_why());
        }
    }
    return n;
}
