/*
 * rounds KIND MEMORY LEVEL STREAM SEED STEPS: random rounds over several queues, communicators and requests.
 *
 *   KIND    thread, hip, cuda: the type of the queues
 *   MEMORY  host, device
 *   LEVEL   multiple, serialized: what MPI_Init_thread is asked for
 *   STREAM  free: streams are created as non-blocking; blocking: they are not; shared: as free, beside so many others that they
 *           share queues of the device. The host waits for all streams except those of `free`, and for none if they make the
 *           starts themselves (MPIX_DMA_IN_STREAM); then all ranks use the queues in the same order
 *
 * Each queue has a communicator and two requests of it. A step is
 *
 *      fill `send`; start an all-to-all from `send` into `middle`; wait; start an all-gather from `middle` into `recv`; wait;
 *      keep `recv`
 *
 * The bytes show every wrong order: a start before the fill, the second start before the first wait, the copy before the second
 * wait. Block k of `middle` on rank r is what rank k has sent to r; `recv` has `middle` of all ranks. The expected bytes are
 * computed from this. Ranks are late at random. They use the queues in different orders where that is allowed.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../include/mpi_names.h"
#include "gpu.h"

enum { QUEUES = 3, OTHERS = 40 };

typedef struct fill {
    struct lane *lane;
    int step;
    unsigned nap_us;
} fill_t;

typedef struct lane {
    MPI_Comm comm;
    int number, rank, ranks, bytes;
    size_t middle_bytes, recv_bytes;
    unsigned char *send, *middle, *recv; /* buffers of the collectives */
    unsigned char *source, *kept;        /* what every step sends and receives, in memory that the stream can copy */
    MPI_Request requests[2];
    MPIX_Queue queue;
    void *stream;
    fill_t *fills;
} lane_t;

static lane_t lanes[QUEUES];
static int rank, steps, in_stream, on_device, any_order, waits;
static unsigned long own, same; /* random numbers: of this rank, and equal on all */

static unsigned next(unsigned long *state, unsigned below)
{
    *state = *state * 6364136223846793005ul + 1442695040888963407ul;
    return (unsigned)(*state >> 33) % below;
}

static unsigned char byte_of(const lane_t *lane, int step, int from, int to, int at)
{
    return (unsigned char)(1 + lane->number * 91 + step * 53 + from * 29 + to * 17 + at * 7);
}

static void must(int code, int wanted, const char *what)
{
    if (code != wanted) {
        fprintf(stderr, "rank %d: %s: %d, not %d\n", rank, what, code, wanted);
        MPI_Abort(MPI_COMM_WORLD, 4);
    }
}

static void *take(size_t bytes)
{
    void *memory = NULL;

    if (on_device) {
        gpu_must(gpu.alloc(&memory, bytes), "memory");
    } else {
        memory = malloc(bytes);
    }
    return memory;
}

static void make_lane(lane_t *lane, int number)
{
    MPI_Comm_split(MPI_COMM_WORLD, number == 2 ? rank % 2 : 0, number == 1 ? -rank : rank, &lane->comm);
    MPI_Comm_rank(lane->comm, &lane->rank);
    MPI_Comm_size(lane->comm, &lane->ranks);
    lane->number = number;
    lane->bytes = (int[]){1, 24, 1000, 40000}[next(&same, 4)];
    lane->middle_bytes = (size_t)lane->ranks * (size_t)lane->bytes;
    lane->recv_bytes = (size_t)lane->ranks * lane->middle_bytes;
    lane->send = take(lane->middle_bytes);
    lane->middle = take(lane->middle_bytes);
    lane->recv = take(lane->recv_bytes);
    lane->source = take((size_t)steps * lane->middle_bytes);
    lane->kept = take((size_t)steps * lane->recv_bytes);
    lane->fills = calloc((size_t)steps, sizeof(*lane->fills));
    must(PERSISTENT(Alltoall)(lane->send, lane->bytes, MPI_BYTE, lane->middle, lane->bytes, MPI_BYTE, lane->comm,
                              MPI_INFO_NULL, &lane->requests[0]),
         MPI_SUCCESS, "MPI_Alltoall_init");
    must(PERSISTENT(Allgather)(lane->middle, (int)lane->middle_bytes, MPI_BYTE, lane->recv, (int)lane->middle_bytes,
                               MPI_BYTE, lane->comm, MPI_INFO_NULL, &lane->requests[1]),
         MPI_SUCCESS, "MPI_Allgather_init");
    for (int i = 0; i < 2; i++) {
        must(MPIX_Match(&lane->requests[i], MPI_STATUS_IGNORE), MPI_SUCCESS, "MPIX_Match");
    }
}

static void fill_source(const lane_t *lane, unsigned char *to, int step)
{
    for (int peer = 0; peer < lane->ranks; peer++) {
        for (int i = 0; i < lane->bytes; i++) {
            *to++ = byte_of(lane, step, lane->rank, peer, i);
        }
    }
}

static void make_sources(const lane_t *lane)
{
    unsigned char *all = malloc((size_t)steps * lane->middle_bytes);

    for (int step = 0; step < steps; step++) {
        fill_source(lane, all + (size_t)step * lane->middle_bytes, step);
    }
    if (on_device) {
        gpu_copy(lane->source, all, (size_t)steps * lane->middle_bytes, lane->stream);
        gpu_must(gpu.synchronize(lane->stream), "sources");
    } else {
        memcpy(lane->source, all, (size_t)steps * lane->middle_bytes);
    }
    free(all);
}

/* ---- a step ---- */

/* Replaces a kernel that takes some time. */
static void nap(void *arg)
{
    usleep(((const fill_t *)arg)->nap_us);
}

static void fill(void *arg)
{
    const fill_t *f = arg;
    const lane_t *lane = f->lane;

    usleep(f->nap_us);
    memcpy(lane->send, lane->source + (size_t)f->step * lane->middle_bytes, lane->middle_bytes);
}

static void keep(void *arg)
{
    const fill_t *f = arg;
    const lane_t *lane = f->lane;

    memcpy(lane->kept + (size_t)f->step * lane->recv_bytes, lane->recv, lane->recv_bytes);
    memset(lane->send, 0xEE, lane->middle_bytes);
    memset(lane->middle, 0xEE, lane->middle_bytes);
    memset(lane->recv, 0xEE, lane->recv_bytes);
}

static void produce(lane_t *lane, int step)
{
    fill_t *f = &lane->fills[step];

    *f = (fill_t){lane, step, next(&own, 3) ? 0 : next(&own, 2000)};
    if (!in_stream) {
        fill(f);
    } else if (!on_device) {
        gpu_must(gpu.host_function(lane->stream, fill, f), "host function");
    } else {
        if (f->nap_us) {
            gpu_must(gpu.host_function(lane->stream, nap, f), "host function");
        }
        gpu_copy(lane->send, lane->source + (size_t)step * lane->middle_bytes, lane->middle_bytes, lane->stream);
    }
}

static void consume(lane_t *lane, int step)
{
    if (!in_stream) {
        must(MPIX_Queue_wait(lane->queue), MPI_SUCCESS, "MPIX_Queue_wait");
        keep(&lane->fills[step]);
    } else if (!on_device) {
        gpu_must(gpu.host_function(lane->stream, keep, &lane->fills[step]), "host function");
    } else {
        gpu_copy(lane->kept + (size_t)step * lane->recv_bytes, lane->recv, lane->recv_bytes, lane->stream);
    }
}

static void enqueue(lane_t *lane)
{
    must(MPIX_Enqueue_start(lane->queue, &lane->requests[0]), MPI_SUCCESS, "MPIX_Enqueue_start");
    must(MPIX_Enqueue_waitall(lane->queue), MPI_SUCCESS, "MPIX_Enqueue_waitall");
    must(MPIX_Enqueue_startall(lane->queue, 1, &lane->requests[1]), MPI_SUCCESS, "MPIX_Enqueue_startall");
    must(MPIX_Enqueue_waitall(lane->queue), MPI_SUCCESS, "MPIX_Enqueue_waitall");
}

/* Without a stream, `under_way` steps are consumed later, so that collectives of several queues are under way. */
static void run(void)
{
    int at[QUEUES] = {0}, under_way[QUEUES] = {0}, left = QUEUES * steps;

    while (left > 0) {
        int i = (int)next(any_order ? &own : &same, QUEUES);
        lane_t *lane = &lanes[i];

        if (at[i] == steps) {
            continue;
        }
        if (under_way[i] && !in_stream) {
            consume(lane, at[i] - 1);
        }
        produce(lane, at[i]);
        enqueue(lane);
        if (in_stream) {
            consume(lane, at[i]);
        }
        under_way[i] = 1;
        at[i]++;
        left--;
        if (next(&own, 8) == 0) {
            usleep(next(&own, 3000));
        }
        if (next(&same, 10) == 0) {
            MPI_Barrier(MPI_COMM_WORLD);
        }
    }
    for (int i = 0; i < QUEUES && !in_stream; i++) {
        consume(&lanes[i], steps - 1);
    }
}

/* Uses each new stream, because the runtime assigns a queue of the device at the first use. */
static void make_other_streams(void)
{
    for (int i = 0; i < OTHERS; i++) {
        void *stream, *memory = take(1);

        gpu_must(gpu.stream_create(&stream, 1), "stream");
        if (on_device) {
            gpu_copy(memory, memory, 1, stream);
            gpu_must(gpu.synchronize(stream), "synchronize");
        }
    }
}

static long count_wrong(const lane_t *lane)
{
    size_t bytes = (size_t)steps * lane->recv_bytes;
    unsigned char *all = malloc(bytes), *at = all;
    long wrong = 0;

    if (on_device) {
        gpu_copy(all, lane->kept, bytes, lane->stream);
        gpu_must(gpu.synchronize(lane->stream), "results");
    } else {
        memcpy(all, lane->kept, bytes);
    }
    for (int step = 0; step < steps; step++) {
        for (int to = 0; to < lane->ranks; to++) {
            for (int from = 0; from < lane->ranks; from++) {
                for (int i = 0; i < lane->bytes; i++) {
                    wrong += *at++ != byte_of(lane, step, from, to, i);
                }
            }
        }
    }
    free(all);
    return wrong;
}

/* How often the host has waited for the streams of the queues. coll/dma waits for streams of its own. */
static int synchronizations(void)
{
    int n = 0;

    for (int i = 0; gpu.fake_synchronizations && i < QUEUES; i++) {
        n += gpu.fake_synchronizations(lanes[i].stream);
    }
    return n;
}

/* Makes the queues twice, so that the second ones use the words of the first ones. */
static long round_of_steps(unsigned flags)
{
    long wrong = 0;

    for (int i = 0; i < QUEUES; i++) {
        if (in_stream) {
            gpu_must(gpu.stream_create(&lanes[i].stream, flags), "stream");
        }
        must(MPIX_Queue_init(&lanes[i].queue, gpu.type, &lanes[i].stream), MPI_SUCCESS, "MPIX_Queue_init");
        make_sources(&lanes[i]);
    }
    int before = synchronizations();
    run();
    for (int i = 0; i < QUEUES; i++) {
        must(MPIX_Queue_wait(lanes[i].queue), MPI_SUCCESS, "MPIX_Queue_wait");
    }
    if (gpu.fake_synchronizations) {
        int made = synchronizations() - before;
        if (waits ? made == 0 : made != 0) {
            fprintf(stderr, "rank %d: the host has waited for streams %d times\n", rank, made);
            MPI_Abort(MPI_COMM_WORLD, 5);
        }
    }
    for (int i = 0; i < QUEUES; i++) {
        if (in_stream) {
            gpu_must(gpu.synchronize(lanes[i].stream), "synchronize");
        }
        wrong += count_wrong(&lanes[i]);
        must(MPIX_Queue_free(&lanes[i].queue), MPI_SUCCESS, "MPIX_Queue_free");
        if (in_stream) {
            gpu_must(gpu.stream_destroy(lanes[i].stream), "destroy");
        }
    }
    return wrong;
}

int main(int argc, char **argv)
{
    int multiple = argc == 7 && !strcmp(argv[3], "multiple"), blocking = argc == 7 && !strcmp(argv[4], "blocking"),
        shared = argc == 7 && !strcmp(argv[4], "shared"), given;
    long wrong = 0;

    MPI_Init_thread(&argc, &argv, multiple ? MPI_THREAD_MULTIPLE : MPI_THREAD_SERIALIZED, &given);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    must(argc, 7, "arguments");
    must(given, multiple ? MPI_THREAD_MULTIPLE : MPI_THREAD_SERIALIZED, "thread level");
    gpu_open(argv[1], rank);
    in_stream = gpu.type != MPIX_QUEUE_THREAD;
    on_device = !strcmp(argv[2], "device");
    any_order = in_stream && multiple && !blocking && !shared && !getenv("MPIX_DMA_IN_STREAM");
    waits = in_stream && !any_order && (blocking || !getenv("MPIX_DMA_IN_STREAM"));
    same = strtoul(argv[5], NULL, 10);
    own = same + 1000003u * (unsigned)(rank + 1);
    steps = atoi(argv[6]);
    if (shared) {
        make_other_streams();
    }
    for (int i = 0; i < QUEUES; i++) {
        make_lane(&lanes[i], i);
    }
    for (int i = 0; i < 2; i++) {
        wrong += round_of_steps(blocking ? 0 : 1);
    }
    for (int i = 0; i < QUEUES; i++) {
        MPI_Request_free(&lanes[i].requests[0]);
        MPI_Request_free(&lanes[i].requests[1]);
        MPI_Comm_free(&lanes[i].comm);
    }
    MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0) {
        printf("rounds: %d steps in %d queues, %ld wrong\n", 2 * steps, QUEUES, wrong);
    }
    MPI_Finalize();
    return wrong != 0;
}
