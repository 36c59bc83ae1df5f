/*
 * parts KIND MEMORY LEVEL SEED SEEDS: random partitioned collectives, several at a time.
 *
 *   KIND    thread: threads make partitions ready; hip, cuda: functions in a stream do so, too
 *   MEMORY  host, device
 *   LEVEL   multiple, serialized: what MPI_Init_thread is asked for
 *   SEED    the first seed; for each seed, the program makes requests and runs some rounds of them
 *
 * When a partition is reported as arrived, its bytes must be those of this round, and bytes in gaps of the datatype unchanged.
 * Words must be 0 before a round, and must not change until the next round is complete. Some ranks hold back a partition until
 * all others have arrived: it must not be reported as arrived, and the others must arrive without it.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gpu.h"

enum { LANES = 3, ROUNDS = 3, MOST_PARTS = 24, MOST_RANKS = 16, GAPS = 0xAB, STALE = 0xEE };
enum { WHOLE, GAPPY, TYPES };
enum { BY_CALLS, BY_THREAD, BY_WORDS, BY_STREAM, MAKERS };

typedef struct side {
    unsigned char *memory;
    size_t block; /* bytes of a block in memory */
    int type, parts, count;
} side_t;

typedef struct lane {
    int number, ranks, rank, gathers, in_place, bytes, round, held, maker;
    MPI_Comm comm;
    side_t send, recv;
    MPI_Request request;
    MPIX_Prequest words, last;
    pthread_t thread;
    void *stream;
    unsigned long random;
    int order[MOST_PARTS], made; /* partitions in the order in which this rank makes them ready */
    int seen[MOST_RANKS * MOST_PARTS], nseen;
    int done;
} lane_t;

static lane_t lanes[LANES];
static MPI_Comm comms[2];
static MPI_Datatype types[TYPES];
static int rank, multiple, on_device, nlanes, seed_now;
static unsigned long own, same; /* random numbers: of this rank, and equal on all */

static unsigned next(unsigned long *state, unsigned below)
{
    *state = *state * 6364136223846793005ul + 1442695040888963407ul;
    return (unsigned)(*state >> 33) % below;
}

static void must(int right, const char *what, const lane_t *lane, int at)
{
    if (!right) {
        fprintf(stderr, "rank %d, seed %d, request %d, round %d, maker %d: %s, at %d\n", rank, seed_now, lane->number,
                lane->round, lane->maker, what, at);
        MPI_Abort(MPI_COMM_WORLD, 4);
    }
}

/* ---- data ---- */

/* The offset of data byte i in a block. Elements of the type GAPPY use every second byte. */
static size_t place(const side_t *side, int i)
{
    return side->type == WHOLE ? (size_t)i : 2 * (size_t)i;
}

static unsigned char byte_of(const lane_t *lane, int from, int to, int at)
{
    return (unsigned char)(1 + lane->number * 91 + lane->round * 53 + from * 29 + (lane->gathers ? 0 : to) * 17 +
                           at * 7 + seed_now);
}

/* The host may be unable to write device memory directly. */
static void write_memory(lane_t *lane, void *to, const void *from, size_t bytes)
{
    if (on_device) {
        gpu_copy(to, from, bytes, lane->stream);
        gpu_must(gpu.synchronize(lane->stream), "synchronize");
    } else {
        memcpy(to, from, bytes);
    }
}

static void *take(size_t bytes)
{
    void *memory = NULL;

    if (on_device) {
        gpu_must(gpu.alloc(&memory, bytes + 1), "memory");
    } else {
        memory = malloc(bytes + 1);
    }
    return memory;
}

static void give(void *memory)
{
    if (on_device) {
        gpu_must(gpu.release(memory), "release");
    } else {
        free(memory);
    }
}

static void fill_all(lane_t *lane, side_t *side, int nblocks)
{
    unsigned char *all = malloc((size_t)nblocks * side->block + 1);

    for (size_t i = 0; i < (size_t)nblocks * side->block; i++) {
        all[i] = side->type == GAPPY && i % 2 ? GAPS : STALE;
    }
    write_memory(lane, side->memory, all, (size_t)nblocks * side->block);
    free(all);
}

/* The data of partition p in the block for `to`. */
static void fill_part(lane_t *lane, int p, int to, int block)
{
    const side_t *side = lane->in_place ? &lane->recv : &lane->send;
    int bytes = lane->bytes / lane->send.parts;
    unsigned char *data = malloc(2 * (size_t)bytes + 1);
    size_t begin = (size_t)block * side->block + place(side, p * bytes);

    memset(data, GAPS, 2 * (size_t)bytes);
    for (int i = 0; i < bytes; i++) {
        data[place(side, i)] = byte_of(lane, lane->rank, to, p * bytes + i);
    }
    write_memory(lane, side->memory + begin, data, place(side, bytes));
    free(data);
}

static void fill(lane_t *lane, int p)
{
    if (lane->gathers) {
        fill_part(lane, p, 0, lane->in_place ? lane->rank : 0);
        return;
    }
    for (int to = 0; to < lane->ranks; to++) {
        fill_part(lane, p, to, to);
    }
}

static void check_part(lane_t *lane, int number)
{
    const side_t *side = &lane->recv;
    int from = number / side->parts, p = number % side->parts, bytes = lane->bytes / side->parts;
    size_t begin = (size_t)from * side->block + place(side, p * bytes), length = place(side, bytes);
    unsigned char *data = malloc(length + 1);

    write_memory(lane, data, side->memory + begin, length);
    for (int i = 0; i < bytes; i++) {
        must(data[place(side, i)] == byte_of(lane, from, lane->rank, p * bytes + i), "wrong data", lane, number);
        must(side->type == WHOLE || data[place(side, i) + 1] == GAPS, "a gap has changed", lane, number);
    }
    free(data);
}

/* ---- requests ---- */

static int pick_parts(unsigned long *random)
{
    return (int[]){1, 2, 3, 4, 6, 8, 12, 24}[next(random, 8)];
}

static void set_side(lane_t *lane, side_t *side, int parts)
{
    side->type = (int)next(&same, 3) ? WHOLE : GAPPY;
    side->parts = parts;
    side->count = lane->bytes / parts;
    side->block = place(side, lane->bytes);
}

static void make_lane(lane_t *lane, int number)
{
    int parts, uneven,
        (*make)(const void *, int, int, MPI_Datatype, void *, int, int, MPI_Datatype, MPI_Comm, MPI_Info,
                MPI_Request *);
    void *stream = lane->stream;

    *lane = (lane_t){.number = number, .stream = stream, .comm = comms[next(&same, 2)], .held = -1};
    MPI_Comm_rank(lane->comm, &lane->rank);
    MPI_Comm_size(lane->comm, &lane->ranks);
    lane->gathers = (int)next(&same, 2);
    lane->in_place = next(&same, 4) == 0;
    lane->bytes = 24 * (int[]){0, 1, 2, 40, 700}[next(&same, 5)];
    parts = pick_parts(&same);
    uneven = next(&same, 3) == 0;
    set_side(lane, &lane->send, uneven ? pick_parts(&own) : parts);
    set_side(lane, &lane->recv, uneven ? pick_parts(&own) : parts);
    if (!uneven && parts > 1) {
        lane->held = (int)next(&same, (unsigned)parts);
    }
    lane->send.memory = take((size_t)lane->ranks * lane->send.block);
    lane->recv.memory = take((size_t)lane->ranks * lane->recv.block);
    lane->random = own + (unsigned long)number;
    make = lane->gathers ? MPIX_Pallgather_init : MPIX_Palltoall_init;
    must(make(lane->in_place ? MPI_IN_PLACE : lane->send.memory, lane->send.parts, lane->send.count,
              types[lane->send.type], lane->recv.memory, lane->recv.parts, lane->recv.count, types[lane->recv.type],
              lane->comm, MPI_INFO_NULL, &lane->request) == MPI_SUCCESS,
         "init", lane, 0);
    must(MPIX_Prequest_create(lane->request, &lane->words) == MPI_SUCCESS, "words", lane, 0);
    must(lane->words.narrived == lane->ranks * lane->recv.parts, "number of words", lane, lane->words.narrived);
}

/* ---- who makes partitions ready ---- */

typedef struct order {
    lane_t *lane;
    int part;
} order_t;

static void store_word(void *arg)
{
    order_t *order = arg;

    __atomic_store_n(&order->lane->words.ready[order->part], order->lane->words.ready_value, __ATOMIC_RELEASE);
    free(order);
}

static void make_ready(lane_t *lane, int p)
{
    order_t *order;

    fill(lane, p);
    if (lane->maker == BY_STREAM || lane->maker == BY_WORDS) {
        order = malloc(sizeof(*order));
        *order = (order_t){lane, p};
        if (lane->maker == BY_STREAM) {
            gpu_must(gpu.host_function(lane->stream, store_word, order), "host function");
        } else {
            store_word(order);
        }
    } else {
        must(MPIX_Pready(p, lane->request) == MPI_SUCCESS, "Pready", lane, p);
    }
}

static void make_next(lane_t *lane)
{
    make_ready(lane, lane->order[lane->made++]);
}

/* The number of partitions that are not held back. The last one in the order may be held back. */
static int are_free(const lane_t *lane)
{
    return lane->send.parts - (lane->held >= 0);
}

static void *maker_main(void *arg)
{
    lane_t *lane = arg;

    gpu_enter(); /* its copies need the device of this rank */
    while (lane->made < are_free(lane)) {
        if (next(&lane->random, 6) == 0) {
            usleep(next(&lane->random, 300));
        }
        make_next(lane);
    }
    return NULL;
}

static void shuffle(lane_t *lane)
{
    int n = lane->send.parts;

    for (int i = 0; i < n; i++) {
        lane->order[i] = i;
    }
    for (int i = n - 1; i > 0; i--) {
        int k = (int)next(&own, (unsigned)i + 1), was = lane->order[i];
        lane->order[i] = lane->order[k];
        lane->order[k] = was;
    }
    for (int i = 0; lane->held >= 0 && i < n; i++) {
        if (lane->order[i] == lane->held) {
            lane->order[i] = lane->order[n - 1];
            lane->order[n - 1] = lane->held;
        }
    }
}

/* ---- a round ---- */

static void begin(lane_t *lane)
{
    int blocks = lane->gathers && !lane->in_place ? 1 : lane->ranks;

    for (int i = 0; i < lane->words.nready; i++) {
        must(lane->words.ready[i] == 0, "a word of the next round", lane, i);
    }
    for (int i = 0; i < lane->words.narrived; i++) {
        must(lane->words.arrived[i] == 0, "a word of the next round has come", lane, i);
    }
    fill_all(lane, &lane->recv, lane->ranks);
    if (!lane->in_place) {
        fill_all(lane, &lane->send, blocks);
    }
    memset(lane->seen, 0, sizeof(lane->seen));
    lane->nseen = lane->made = lane->done = 0;
    lane->maker = (int)next(&own, gpu.type == MPIX_QUEUE_THREAD ? BY_STREAM : MAKERS);
    shuffle(lane);
    while (next(&own, 3) == 0 && lane->made < are_free(lane)) {
        make_next(lane); /* before the start */
    }
    must(MPI_Start(&lane->request) == MPI_SUCCESS, "start", lane, 0);
    if (lane->maker == BY_THREAD) {
        must(pthread_create(&lane->thread, NULL, maker_main, lane) == 0, "thread", lane, 0);
    }
}

/* Whether a partition with this number may have arrived. Engines that wait send it on its own, so it may, and its bytes show
 * whether it has. Otherwise it arrives together with the partition of this rank. */
static int may_have_come(const lane_t *lane, int number)
{
    int engines = on_device && gpu.type == MPIX_QUEUE_HIP, source = number / lane->recv.parts;

    return lane->bytes == 0 || lane->made == lane->send.parts || number % lane->recv.parts != lane->held ||
           (engines && source != lane->rank);
}

static void look(lane_t *lane, int number)
{
    int arrived;

    if (lane->seen[number]) {
        return;
    }
    if (next(&own, 2)) {
        must(MPIX_Parrived(lane->request, number, &arrived) == MPI_SUCCESS, "Parrived", lane, number);
    } else {
        arrived = __atomic_load_n(&lane->words.arrived[number], __ATOMIC_ACQUIRE) == lane->words.arrived_value;
    }
    if (arrived) {
        must(may_have_come(lane, number), "arrived before it was sent", lane, number);
        check_part(lane, number);
        lane->seen[number] = 1;
        lane->nseen++;
    }
}

static void check_kept(const lane_t *lane)
{
    for (int i = 0; lane->last.ready && i < lane->last.narrived; i++) {
        must(lane->last.arrived[i] == 1, "the words of the round before are gone", lane, i);
    }
}

static int may_release(const lane_t *lane)
{
    return lane->nseen >= lane->ranks * (lane->recv.parts - 1);
}

/* One random action of the main thread. */
static void move(lane_t *lane)
{
    if (lane->maker != BY_THREAD && lane->made < are_free(lane) && next(&own, 3)) {
        make_next(lane);
    }
    look(lane, (int)next(&own, (unsigned)lane->words.narrived));
    if (lane->made < are_free(lane)) {
        return;
    }
    for (int i = 0; i < lane->words.narrived; i++) {
        look(lane, i);
    }
    if (lane->held >= 0 && lane->made == are_free(lane) && may_release(lane)) {
        check_kept(lane);
        make_next(lane);
    }
}

static void end(lane_t *lane)
{
    int flag = 0;

    if (lane->maker == BY_THREAD) {
        pthread_join(lane->thread, NULL);
    }
    if (multiple && next(&own, 2)) {
        MPI_Wait(&lane->request, MPI_STATUS_IGNORE);
    } else if (next(&own, 2)) {
        must(MPIX_Wait(&lane->request, MPI_STATUS_IGNORE) == MPI_SUCCESS, "wait", lane, 0);
    } else {
        while (!flag) {
            must(MPIX_Test(&lane->request, &flag, MPI_STATUS_IGNORE) == MPI_SUCCESS, "test", lane, 0);
        }
    }
    must(MPIX_Parrived(lane->request, 0, &flag) == MPI_SUCCESS && flag, "nothing is under way", lane, 0);
    for (int i = 0; i < lane->words.narrived; i++) {
        must(lane->words.arrived[i] == 1, "complete, and not arrived", lane, i);
    }
    lane->done = 1;
    lane->last = lane->words;
    must(MPIX_Prequest_next(&lane->words) == MPI_SUCCESS, "words", lane, 0);
    lane->round++;
}

static void run_round(void)
{
    int left = nlanes;

    if (next(&own, 6) == 0) {
        usleep(next(&own, 3000));
    }
    for (int i = 0; i < nlanes; i++) {
        begin(&lanes[i]);
    }
    while (left > 0) {
        lane_t *lane = &lanes[next(&own, (unsigned)nlanes)];
        if (lane->done) {
            continue;
        }
        move(lane);
        if (lane->nseen == lane->words.narrived && lane->made == lane->send.parts) {
            end(lane);
            left--;
        }
    }
}

/* Frees the request in the middle of a round: partitions that are not ready are sent as they are. */
static void free_half_ready(lane_t *lane)
{
    int n;

    begin(lane);
    if (lane->maker == BY_THREAD) {
        pthread_join(lane->thread, NULL);
    } else {
        for (n = (int)next(&own, (unsigned)lane->send.parts + 1); lane->made < n;) {
            make_next(lane);
        }
    }
    for (int i = lane->made; i < lane->send.parts; i++) {
        fill(lane, lane->order[i]);
    }
    if (lane->stream) {
        gpu_must(gpu.synchronize(lane->stream), "synchronize");
    }
    must(MPIX_Request_free(&lane->request) == MPI_SUCCESS && lane->request == MPI_REQUEST_NULL, "free", lane, 0);
    for (int i = 0; i < lane->ranks * lane->recv.parts; i++) {
        check_part(lane, i);
    }
}

static void free_lane(lane_t *lane)
{
    switch (next(&same, 4)) {
    case 0:
        MPI_Request_free(&lane->request);
        break;
    case 1:
        must(MPIX_Request_free(&lane->request) == MPI_SUCCESS, "free", lane, 0);
        break;
    default:
        free_half_ready(lane);
    }
    give(lane->send.memory);
    give(lane->recv.memory);
}

static void run_seed(int seed)
{
    seed_now = seed;
    same = (unsigned long)seed * 7919u;
    own = same + 1000003u * (unsigned long)(rank + 1);
    (void)next(&same, 2);
    (void)next(&own, 2);
    nlanes = 1 + (int)next(&same, LANES);
    for (int i = 0; i < nlanes; i++) {
        make_lane(&lanes[i], i);
    }
    for (int i = 0; i < ROUNDS; i++) {
        run_round();
    }
    for (int i = 0; i < nlanes; i++) {
        free_lane(&lanes[i]);
    }
}

int main(int argc, char **argv)
{
    int given, first, seeds;

    if (argc != 6) {
        return 2;
    }
    multiple = !strcmp(argv[3], "multiple");
    MPI_Init_thread(&argc, &argv, multiple ? MPI_THREAD_MULTIPLE : MPI_THREAD_SERIALIZED, &given);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    gpu_open(argv[1], rank);
    on_device = !strcmp(argv[2], "device");
    MPI_Comm_dup(MPI_COMM_WORLD, &comms[0]);
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &comms[1]);
    types[WHOLE] = MPI_BYTE;
    MPI_Type_create_resized(MPI_BYTE, 0, 2, &types[GAPPY]);
    MPI_Type_commit(&types[GAPPY]);
    for (int i = 0; i < LANES && gpu.type != MPIX_QUEUE_THREAD; i++) {
        gpu_must(gpu.stream_create(&lanes[i].stream, 1), "stream");
    }
    first = atoi(argv[4]);
    seeds = atoi(argv[5]);
    for (int i = 0; i < seeds; i++) {
        run_seed(first + i);
    }
    MPI_Type_free(&types[GAPPY]);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Comm_free(&comms[0]);
    MPI_Comm_free(&comms[1]);
    if (rank == 0) {
        printf("parts: %d seeds, 0 wrong\n", seeds);
    }
    MPI_Finalize();
    return 0;
}
