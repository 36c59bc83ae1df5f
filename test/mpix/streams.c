/*
 * streams cuda LEVEL SEED SEEDS GROUPS: random starts of persistent collectives in device memory, which streams of CUDA make by
 * themselves (mpix/in_stream.h), mixed with starts that the host makes. With the fake CUDA.
 *
 *   LEVEL   multiple, serialized: what MPI_Init_thread is asked for
 *   GROUPS  how many groups of starts each seed has
 *
 * A group is a set of requests, which all ranks start in the same order. A rank decides by itself how it makes a start:
 *
 *      in the stream   copy `source` to `send`; MPIX_Enqueue_start; MPIX_Enqueue_waitall; copy `recv` to `kept`
 *      by the host     MPIX_Queue_wait, if the stream has starts of this request; the same copies in another stream, with
 *                      MPI_Start and MPI_Wait in between
 *
 * No rank waits for its queues between groups, except before a start by the host. So streams are many groups behind the host and
 * behind each other. The requests are all-gathers and all-to-alls with equal and unequal blocks, also empty ones, in place and
 * not, on all ranks and on some. Each start has other bytes. All bytes of all starts are compared, gaps between blocks included.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../include/mpi_names.h"
#include "../device/pvar.h"
#include "gpu.h"

enum { QUEUES = 2, WORKS = 7, MOST_RANKS = 8, GAP = 0xEE, OLD = 0xDD };

/* One side of a request. All counts are bytes. */
typedef struct side {
    int counts[MOST_RANKS], displs[MOST_RANKS];
    size_t bytes;
    unsigned char *memory, *steps; /* of the collective; and for each start: what is sent, or was received */
} side_t;

typedef struct work {
    int number, gathers, uneven, in_place, empty, most;
    int starts, enqueued; /* all, and those in the stream */
    MPI_Comm comm;
    int rank, ranks;
    int queue; /* of this rank */
    side_t send, recv;
    MPI_Request request;
    int has_it; /* the stream */
} work_t;

static work_t works[WORKS];
static MPIX_Queue queues[QUEUES];
static void *streams[QUEUES], *aside;
static MPI_T_pvar_session session;
static MPI_T_pvar_handle made_in_stream, staged;
static int rank, ranks, seed, groups;
static long in_stream, by_host; /* starts */
static unsigned long own, same; /* random numbers: of this rank, and equal on all */

static unsigned draw(unsigned long *state, unsigned below)
{
    *state = *state * 6364136223846793005ul + 1442695040888963407ul;
    return (unsigned)(*state >> 33) % below;
}

static void must(int code, int wanted, const char *what)
{
    if (code != wanted) {
        fprintf(stderr, "rank %d, seed %d: %s: %d, not %d\n", rank, seed, what, code, wanted);
        MPI_Abort(MPI_COMM_WORLD, 4);
    }
}

/* ---- the definition ---- */

static unsigned mix(unsigned a, unsigned b)
{
    unsigned long state = a * 2654435761ul + b;

    return draw(&state, 1u << 30);
}

/* Bytes from one rank to another. In place, what is received replaces what was sent, so both have the same size. */
static int between(const work_t *w, int from, int to)
{
    unsigned pair = (unsigned)(w->gathers ? from : !w->in_place || from < to ? from * 16 + to : to * 16 + from);

    if (w->empty) {
        return 0;
    }
    if (!w->uneven) {
        return w->most;
    }
    pair = mix((unsigned)(seed * WORKS + w->number), pair);
    return pair % 4 == 0 ? 0 : (int)(pair / 4 % (unsigned)(w->most + 1));
}

/* Does a rank send and receive nothing? Then *_init prepares nothing, and the host makes all starts. */
static int has_idle_rank(const work_t *w)
{
    for (int i = 0; i < w->ranks; i++) {
        int bytes = 0;

        for (int k = 0; k < w->ranks; k++) {
            bytes += between(w, i, k) + between(w, k, i);
        }
        if (!bytes) {
            return 1;
        }
    }
    return 0;
}

static unsigned char byte_of(const work_t *w, int start, int from, int to, int at)
{
    return (unsigned char)(1 + w->number * 91 + start * 53 + from * 29 + (w->gathers ? 0 : to * 17) + at * 7 +
                           at / 251);
}

static void lay_out(const work_t *w, side_t *side, int sends)
{
    int at = 0, blocks = sends && w->gathers ? 1 : w->ranks;

    for (int i = 0; i < blocks; i++) {
        side->counts[i] = sends ? between(w, w->rank, i) : between(w, i, w->rank);
        side->displs[i] = at;
        at += side->counts[i] + (w->uneven ? (int)(mix((unsigned)i, (unsigned)w->number) % 3) * 16 : 0);
    }
    side->bytes = (size_t)at + 1;
}

/* What `send` has before a start; in place, what `recv` has. */
static void fill(const work_t *w, int start, unsigned char *to)
{
    const side_t *side = w->in_place ? &w->recv : &w->send;

    memset(to, GAP, side->bytes);
    for (int i = 0; i < (w->gathers && !w->in_place ? 1 : w->ranks); i++) {
        for (int k = 0; k < side->counts[i]; k++) {
            to[side->displs[i] + k] =
                w->gathers && w->in_place && i != w->rank ? OLD : byte_of(w, start, w->rank, i, k);
        }
    }
}

static void expect(const work_t *w, int start, unsigned char *to)
{
    memset(to, GAP, w->recv.bytes);
    for (int i = 0; i < w->ranks; i++) {
        for (int k = 0; k < w->recv.counts[i]; k++) {
            to[w->recv.displs[i] + k] = byte_of(w, start, i, w->rank, k);
        }
    }
}

/* ---- a request ---- */

static unsigned char *take(size_t bytes)
{
    void *memory = NULL;

    gpu_must(gpu.alloc(&memory, bytes), "memory");
    return memory;
}

/* Copies to device memory, or from there. */
static void move(void *to, const void *from, size_t bytes)
{
    gpu_copy(to, from, bytes, aside);
    gpu_must(gpu.synchronize(aside), "synchronize");
}

static void make_request(work_t *w)
{
    const void *send = w->in_place ? MPI_IN_PLACE : w->send.memory;
    side_t *s = &w->send, *r = &w->recv;
    int code;

    if (w->gathers && w->uneven) {
        code = PERSISTENT(Allgatherv)(send, s->counts[0], MPI_BYTE, r->memory, r->counts, r->displs, MPI_BYTE, w->comm,
                                      MPI_INFO_NULL, &w->request);
    } else if (w->gathers) {
        code = PERSISTENT(Allgather)(send, s->counts[0], MPI_BYTE, r->memory, r->counts[0], MPI_BYTE, w->comm,
                                     MPI_INFO_NULL, &w->request);
    } else if (w->uneven) {
        code = PERSISTENT(Alltoallv)(send, s->counts, s->displs, MPI_BYTE, r->memory, r->counts, r->displs, MPI_BYTE,
                                     w->comm, MPI_INFO_NULL, &w->request);
    } else {
        code = PERSISTENT(Alltoall)(send, s->counts[0], MPI_BYTE, r->memory, r->counts[0], MPI_BYTE, w->comm,
                                    MPI_INFO_NULL, &w->request);
    }
    must(code, MPI_SUCCESS, "*_init");
}

/* The first four works have each operation once, the others are random. The last two are of some ranks, in reverse order. */
static void make_work(work_t *w, int number)
{
    int form = number < 4 ? number : (int)draw(&same, 4);
    unsigned char *filler;

    *w = (work_t){.number = number, .gathers = form & 1, .uneven = form & 2};
    w->in_place = (int)draw(&same, 2);
    w->empty = draw(&same, 12) == 0;
    w->most = (int[]){1, 24, 1000, 5000, 60000}[draw(&same, 5)];
    w->queue = (int)draw(&own, QUEUES);
    MPI_Comm_split(MPI_COMM_WORLD, number >= WORKS - 2 ? rank % 2 : 0, number >= WORKS - 2 ? -rank : rank, &w->comm);
    MPI_Comm_rank(w->comm, &w->rank);
    MPI_Comm_size(w->comm, &w->ranks);
    lay_out(w, &w->send, 1);
    lay_out(w, &w->recv, 0);
    w->send.memory = take(w->send.bytes);
    w->recv.memory = take(w->recv.bytes);
    w->send.steps = take((size_t)groups * (w->in_place ? w->recv.bytes : w->send.bytes));
    w->recv.steps = take((size_t)groups * w->recv.bytes);
    filler = malloc(w->recv.bytes);
    memset(filler, GAP, w->recv.bytes);
    move(w->recv.memory, filler, w->recv.bytes);
    free(filler);
    make_request(w);
}

static void make_sources(const work_t *w)
{
    size_t bytes = w->in_place ? w->recv.bytes : w->send.bytes;
    unsigned char *all = malloc((size_t)groups * bytes);

    for (int i = 0; i < groups; i++) {
        fill(w, i, all + (size_t)i * bytes);
    }
    move(w->send.steps, all, (size_t)groups * bytes);
    free(all);
}

static long free_work(work_t *w)
{
    size_t bytes = w->recv.bytes;
    unsigned char *all = malloc((size_t)groups * bytes), *expected = malloc(bytes);
    long wrong = 0;

    move(all, w->recv.steps, (size_t)groups * bytes);
    for (int i = 0; i < w->starts; i++) {
        expect(w, i, expected);
        for (size_t k = 0; k < bytes; k++) {
            if (all[(size_t)i * bytes + k] != expected[k] && wrong++ == 0) {
                fprintf(stderr, "rank %d, seed %d: work %d (%d%d%d), start %d: byte %zu is %d, not %d\n", rank, seed,
                        w->number, w->gathers, w->uneven, w->in_place, i, k, all[(size_t)i * bytes + k], expected[k]);
            }
        }
    }
    free(all);
    free(expected);
    must(MPI_Request_free(&w->request), MPI_SUCCESS, "MPI_Request_free");
    MPI_Comm_free(&w->comm);
    gpu_must(gpu.release(w->send.memory) || gpu.release(w->recv.memory) || gpu.release(w->send.steps) ||
                 gpu.release(w->recv.steps),
             "release");
    return wrong;
}

/* ---- starts ---- */

static void copy_in(const work_t *w, void *stream)
{
    size_t bytes = w->in_place ? w->recv.bytes : w->send.bytes;

    gpu_copy(w->in_place ? w->recv.memory : w->send.memory, w->send.steps + (size_t)w->starts * bytes, bytes, stream);
}

static void copy_out(const work_t *w, void *stream)
{
    gpu_copy(w->recv.steps + (size_t)w->starts * w->recv.bytes, w->recv.memory, w->recv.bytes, stream);
}

static void nap(void *arg)
{
    usleep((unsigned)(size_t)arg);
}

static void be_late(void)
{
    if (draw(&own, 10) == 0) {
        usleep(draw(&own, 3000));
    }
    if (draw(&own, 8) == 0) {
        size_t us = draw(&own, 2000);

        gpu_must(gpu.host_function(streams[draw(&own, QUEUES)], nap, (void *)us), "function");
    }
}

/* Makes the requests inactive that the host will start. */
static void wait_for_queue(int queue)
{
    must(MPIX_Queue_wait(queues[queue]), MPI_SUCCESS, "MPIX_Queue_wait");
    gpu_must(gpu.synchronize(streams[queue]), "synchronize"); /* the copies behind its starts */
    for (int i = 0; i < WORKS; i++) {
        works[i].has_it = works[i].has_it && works[i].queue != queue;
    }
}

static void start_by_host(work_t *w)
{
    copy_in(w, aside);
    gpu_must(gpu.synchronize(aside), "synchronize");
    must(MPI_Start(&w->request), MPI_SUCCESS, "MPI_Start");
    by_host++;
}

static void start_in_stream(work_t *w)
{
    copy_in(w, streams[w->queue]);
    must(draw(&own, 2) ? MPIX_Enqueue_start(queues[w->queue], &w->request)
                       : MPIX_Enqueue_startall(queues[w->queue], 1, &w->request),
         MPI_SUCCESS, "MPIX_Enqueue_start");
    w->has_it = 1;
    w->enqueued++;
    in_stream++;
}

static void end_of_host(work_t *w)
{
    must(MPI_Wait(&w->request, MPI_STATUS_IGNORE), MPI_SUCCESS, "MPI_Wait");
    copy_out(w, aside);
    gpu_must(gpu.synchronize(aside), "synchronize");
    w->starts++;
}

/* All ranks have the same `members`. If the host waits for a start that a stream does not make, ranks must start in the same order. */
static void run_group(int members)
{
    int hosts = draw(&own, 3) ? (int)draw(&own, 1 << WORKS) & (int)draw(&own, 1 << WORKS) : 0;

    hosts &= members;
    for (int i = 0; i < WORKS; i++) {
        if (hosts >> i & 1 && works[i].has_it) {
            wait_for_queue(works[i].queue);
        }
    }
    for (int i = 0; i < WORKS; i++) {
        if (hosts >> i & 1) {
            start_by_host(&works[i]);
        } else if (members >> i & 1) {
            start_in_stream(&works[i]);
        }
    }
    for (int i = 0; i < QUEUES; i++) {
        must(MPIX_Enqueue_waitall(queues[i]), MPI_SUCCESS, "MPIX_Enqueue_waitall");
    }
    for (int i = 0; i < WORKS; i++) {
        if (hosts >> i & 1) {
            end_of_host(&works[i]);
        } else if (members >> i & 1) {
            copy_out(&works[i], streams[works[i].queue]);
            works[i].starts++;
        }
    }
}

/* All starts that can be made so were made so, and none of them went through the host's memory. */
static void check_counters(const long before[])
{
    long made = pvar_value(session, made_in_stream) - before[0], others = 0, of_idle = 0;

    for (int i = 0; i < WORKS; i++) {
        if (has_idle_rank(&works[i])) {
            others += works[i].enqueued;
            of_idle += works[i].starts;
        }
    }
    must((int)made, (int)(in_stream - others), "starts that streams have made");
    must(pvar_value(session, staged) - before[1] <= of_idle, 1, "no call was staged");
}

static long run_seed(void)
{
    long before[] = {pvar_value(session, made_in_stream), pvar_value(session, staged)}, wrong = 0;

    same = mix((unsigned)seed, 5);
    own = same + 1000003u * (unsigned)(rank + 1);
    in_stream = 0;
    for (int i = 0; i < WORKS; i++) {
        make_work(&works[i], i);
        make_sources(&works[i]);
    }
    for (int i = 0; i < QUEUES; i++) {
        gpu_must(gpu.stream_create(&streams[i], 1), "stream");
        must(MPIX_Queue_init(&queues[i], gpu.type, &streams[i]), MPI_SUCCESS, "MPIX_Queue_init");
    }
    for (int i = 0; i < groups; i++) {
        be_late();
        run_group((int)draw(&same, 1 << WORKS) & (int)(draw(&same, 3) ? -1 : 1 << draw(&same, WORKS)));
    }
    for (int i = 0; i < QUEUES; i++) {
        wait_for_queue(i);
        must(MPIX_Queue_free(&queues[i]), MPI_SUCCESS, "MPIX_Queue_free");
        gpu_must(gpu.stream_destroy(streams[i]), "destroy");
    }
    check_counters(before);
    for (int i = 0; i < WORKS; i++) {
        wrong += free_work(&works[i]);
    }
    return wrong;
}

int main(int argc, char **argv)
{
    int last;
    long sums[3] = {0};

    setenv("MPIX_DMA_IN_STREAM", "1", 1);
    gpu_begin_mpi(argc == 6 && !strcmp(argv[2], "multiple"));
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    must(argc, 6, "arguments");
    must(ranks <= MOST_RANKS, 1, "ranks");
    MPI_T_pvar_session_create(&session);
    made_in_stream = pvar_open(session, "coll_dma_calls_in_stream", MPI_T_PVAR_CLASS_COUNTER);
    staged = pvar_open(session, "coll_dma_calls_staged", MPI_T_PVAR_CLASS_COUNTER);
    gpu_open(argv[1], rank);
    gpu_must(gpu.stream_create(&aside, 1), "stream");
    groups = atoi(argv[5]);
    last = atoi(argv[3]) + atoi(argv[4]);
    for (seed = atoi(argv[3]); seed < last; seed++) {
        sums[0] += run_seed();
        sums[1] += in_stream;
    }
    sums[2] = by_host;
    MPI_Allreduce(MPI_IN_PLACE, sums, 3, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0) {
        printf("streams: %ld starts in streams, %ld by the host, %ld wrong\n", sums[1], sums[2], sums[0]);
    }
    MPI_T_pvar_session_free(&session);
    MPI_T_finalize();
    MPI_Finalize();
    return sums[0] != 0;
}
